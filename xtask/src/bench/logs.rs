//! `cargo xtask bench logs`: what joining two large logs costs, against `wc -l` and DuckDB.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use serde::Deserialize;
use stillopen_lab::log::{ClientSaw, Event, Record, Service};

use super::measure::{self, Bound, Cost, judged, megabytes};
use crate::{
    sh,
    tools::{self, PYTHON, VENV},
};

/// `cargo xtask bench logs`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many requests the logs have; 5,000,000 are 3 GB.
    #[arg(long, default_value_t = 5_000_000, value_parser = clap::value_parser!(u32).range(1000..=50_000_000))]
    requests: u32,
    /// How often to measure each; the best counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

const LOGS: &str = "stillopen logs --json";
const WC: &str = "wc -l";
const DUCKDB: &str = "DuckDB, the same join";
const BOUNDS: [Bound; 2] = [
    Bound { of: LOGS, to: DUCKDB, most: 1.0 / 5.0, goal: 1.0 / 8.0 },
    Bound { of: LOGS, to: WC, most: 4.0, goal: 2.5 },
];
/// Peak memory for each request.
const BYTES_MOST: u64 = 80;

/// The version that the bounds were set against.
const DUCKDB_PACKAGE: &str = "duckdb==2.0.1";
const DUCKDB_SCRIPT: &str = include_str!("logs.py");

/// Makes the command of one of the works that are compared.
type Work<'a> = Box<dyn Fn() -> Command + 'a>;

pub(crate) fn run(args: &Args) -> Result<()> {
    tools::require(&[PYTHON, VENV])?;
    let packages = ["--package", "stillopen", "--package", "xtask"];
    sh::run(sh::cargo().args(["build", "--release", "--locked"]).args(packages))?;
    let target = sh::target_dir()?;
    let folder = target.join("bench-logs");
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let python = duckdb(&folder)?;
    let script = folder.join("logs.py");
    fs::write(&script, DUCKDB_SCRIPT).with_context(|| format!("write {}", script.display()))?;
    let logs = folder.join(args.requests.to_string());
    if !logs.join("server.log").exists() {
        // In a release build: a debug one takes minutes.
        let mut write = Command::new(target.join("release/xtask"));
        sh::run(write.arg("bench-write-logs").arg(args.requests.to_string()).arg(&logs))?;
    }
    let (client, server) = (logs.join("client.log"), logs.join("server.log"));
    let stillopen = target.join("release/stillopen");
    let works: [(&str, Work<'_>); 3] = [
        (WC, Box::new(|| command("wc", &[Path::new("-l"), &client, &server]))),
        (LOGS, Box::new(|| logs_json(&stillopen, &client, &server))),
        (DUCKDB, Box::new(|| command(&python, &[&script, &client, &server]))),
    ];
    ensure_same_answer(&works[1].1(), &works[2].1())?;
    let mut costs: Vec<(&str, Vec<Cost>)> =
        works.iter().map(|(name, _)| (*name, Vec::new())).collect();
    for round in 1..=args.rounds {
        for ((name, work), (_, costs)) in works.iter().zip(&mut costs) {
            eprintln!("round {round} of {}: {name}", args.rounds);
            // Status 1 of logs: answers were lost.
            costs.push(measure::run(&mut work(), 1)?);
        }
    }
    let bytes = fs::metadata(&client)?.len() + fs::metadata(&server)?.len();
    report(&costs, bytes, args)
}

fn command(program: impl AsRef<std::ffi::OsStr>, args: &[&Path]) -> Command {
    let mut command = Command::new(program);
    command.args(args);
    command
}

fn logs_json(stillopen: &Path, client: &Path, server: &Path) -> Command {
    let mut logs = Command::new(stillopen);
    logs.args(["logs", "--json", "--client"]).arg(client).arg("--server").arg(server);
    logs
}

/// A Python that has DuckDB, in a folder of its own.
fn duckdb(folder: &Path) -> Result<PathBuf> {
    let venv = folder.join("venv");
    let python = venv.join("bin/python");
    if !python.exists() {
        sh::run(Command::new(PYTHON.program).args(["-m", "venv"]).arg(&venv))?;
    }
    let install =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", DUCKDB_PACKAGE];
    sh::run(Command::new(&python).args(install))?;
    Ok(python)
}

/// What both have to say of the same logs.
#[derive(Debug, PartialEq, Deserialize)]
struct Answer {
    matched: u64,
    received: u64,
    lost: u64,
}

fn ensure_same_answer(logs: &Command, duckdb: &Command) -> Result<()> {
    let answer = |command: &Command| -> Result<Answer> {
        let mut again = Command::new(command.get_program());
        let output = again.args(command.get_args()).output().context("run it")?;
        serde_json::from_slice(&output.stdout).with_context(|| {
            format!("output of {}: {}", sh::shown(command), String::from_utf8_lossy(&output.stderr))
        })
    };
    let (ours, theirs) = (answer(logs)?, answer(duckdb)?);
    ensure!(ours == theirs, "the answers differ: {ours:?} {theirs:?}");
    println!("both say: {ours:?}");
    Ok(())
}

fn report(costs: &[(&str, Vec<Cost>)], bytes: u64, args: &Args) -> Result<()> {
    let best = |name: &str| {
        let costs = costs.iter().find(|(of, _)| *of == name).map(|(_, costs)| costs);
        costs.and_then(|costs| costs.iter().map(|cost| cost.cpu).min()).unwrap_or_default()
    };
    let peak = |costs: &[Cost]| costs.iter().map(|cost| cost.peak).max().unwrap_or(0);
    println!(
        "{} requests, {:.2} GB of JSON lines, best of {} (worst)",
        args.requests,
        megabytes(bytes) / 1e3,
        args.rounds
    );
    println!("{:<22} {:>7} {:>9} {:>8}", "", "CPU s", "", "peak MB");
    for (name, costs) in costs {
        let worst = costs.iter().map(|cost| cost.cpu).max().unwrap_or(Duration::ZERO);
        println!(
            "{name:<22} {:>7.2} {:>9} {:>8.1}",
            best(name).as_secs_f64(),
            format!("({:.2})", worst.as_secs_f64()),
            megabytes(peak(costs))
        );
    }
    println!();
    let mut missed = Vec::new();
    for bound in &BOUNDS {
        let name = format!("{} / {}", bound.of, bound.to);
        let ratio = best(bound.of).as_secs_f64() / best(bound.to).as_secs_f64();
        let word = judged(ratio, bound.most, bound.goal);
        println!("{name}: {ratio:.3}, at most {:.3}, goal {:.3}: {word}", bound.most, bound.goal);
        if ratio > bound.most {
            missed.push(name);
        }
    }
    let of_logs = costs.iter().find(|(name, _)| *name == LOGS).map_or(0, |(_, costs)| peak(costs));
    let each = of_logs / u64::from(args.requests);
    let met = each <= BYTES_MOST;
    let word = if met { "met" } else { "missed" };
    println!("peak memory of {LOGS}: {each} bytes a request, at most {BYTES_MOST}: {word}");
    if !met {
        missed.push("peak memory".into());
    }
    if missed.is_empty() { Ok(()) } else { bail!("missed: {}", missed.join(", ")) }
}

/// Requests a second.
const RATE: u64 = 50;
/// The entry forgets after this, and up to so much later, in milliseconds.
const FORGETS_MS: u64 = 900_000;
const LATE_MS: u64 = 16_384;
/// The client's own timer.
const TIMER_MS: u64 = 3_600_000;

/// `cargo xtask bench-write-logs`: the logs of so many requests, in the records of the lab's two programs, each
/// in the order of its times.
pub(crate) fn write(requests: u32, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    let open = |name: &str| -> Result<BufWriter<File>> {
        let path = folder.join(name);
        let file = File::create(&path).with_context(|| format!("write {}", path.display()))?;
        Ok(BufWriter::with_capacity(1 << 20, file))
    };
    // The server's gets its name last: it is what says that both are whole.
    let (mut client, mut server) = (open("client.log")?, open("server.part")?);
    let start: Timestamp = "2026-03-02T09:00:00Z".parse()?;
    let mut random = 2457_u64;
    let mut pending: BinaryHeap<Reverse<(u64, u32, u8)>> = BinaryHeap::new();
    let mut requests_so_far = 0;
    let mut timings: std::collections::HashMap<u32, Timing> = std::collections::HashMap::new();
    loop {
        let next_asked = u64::from(requests_so_far) * 1000 / RATE;
        let due = pending.peek().is_some_and(|Reverse((at, ..))| *at <= next_asked);
        if requests_so_far < requests && !due {
            let timing = Timing::draw(next_asked, &mut random);
            for (step, at) in timing.steps().into_iter().enumerate() {
                pending.push(Reverse((at, requests_so_far, u8::try_from(step)?)));
            }
            timings.insert(requests_so_far, timing);
            requests_so_far += 1;
            continue;
        }
        let Some(Reverse((at, request, step))) = pending.pop() else { break };
        let timing = &timings[&request];
        let ts = start + jiff::SignedDuration::from_millis(i64::try_from(at)?);
        let record = timing.record(ts, request, step);
        let to = if record.service == Service::Job { &mut client } else { &mut server };
        writeln!(to, "{}", record.line())?;
        if step == 4 {
            timings.remove(&request);
        }
    }
    client.flush()?;
    server.flush()?;
    fs::rename(folder.join("server.part"), folder.join("server.log"))?;
    Ok(())
}

/// When one request does what, in milliseconds.
struct Timing {
    asked: u64,
    queued: u64,
    silent: u64,
    lost: bool,
}

impl Timing {
    fn draw(asked: u64, random: &mut u64) -> Self {
        let mut below = |most: u64| {
            *random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (*random >> 33) % most
        };
        let queued = if below(4) == 0 { below(60_000) } else { 0 };
        // One in a hundred takes longer than the entry lives.
        let silent =
            queued + if below(100) == 0 { 880_000 + below(600_000) } else { 1000 + below(600_000) };
        let lost = silent > FORGETS_MS + below(LATE_MS);
        Self { asked, queued, silent, lost }
    }

    fn steps(&self) -> [u64; 5] {
        let received = self.asked + 2;
        let sent = received + self.silent;
        let end = if self.lost { self.asked + TIMER_MS } else { sent + 3 };
        [self.asked, received, received + self.queued, sent, end]
    }

    fn record(&self, ts: Timestamp, request: u32, step: u8) -> Record {
        let id = format!("extract-{request:07}");
        let record = |service, event| Record::new(ts, service, event, &id, 1);
        let s = |ms: u64| Some(Duration::from_millis(ms));
        match step {
            0 => record(Service::Job, Event::Sent),
            1 => record(Service::Agent, Event::Received),
            2 => Record { queued_s: s(self.queued), ..record(Service::Agent, Event::Started) },
            3 => Record {
                queued_s: s(self.queued),
                took_s: s(self.silent - self.queued),
                status: Some(200),
                issues: Some(12),
                ..record(Service::Agent, Event::Sent)
            },
            _ if self.lost => Record {
                silent_s: s(TIMER_MS),
                client_saw: Some(ClientSaw::OwnTimer),
                ..record(Service::Job, Event::Lost)
            },
            _ => Record {
                silent_s: s(self.silent + 5),
                status: Some(200),
                client_saw: Some(ClientSaw::Answer),
                ..record(Service::Job, Event::Received)
            },
        }
    }
}
