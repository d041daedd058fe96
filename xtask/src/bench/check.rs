//! `cargo xtask bench check`: what the list, the verdicts and the owners cost.

use std::{
    io::BufReader,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, de::IgnoredAny};

use super::{
    measure::{self, Bound, Cost, judged, megabytes},
    network::Network,
};
use crate::{
    sh,
    tools::{self, IP, NSENTER, SS, UNSHARE},
};

/// `ss` looks each socket up in a list that it builds: beyond this it takes minutes.
const SS_MOST: u32 = 200_000;

/// `cargo xtask bench check`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many connections to open.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: u32,
    /// How often to measure each; the best counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

const FLOOR: &str = "bare dump with INFO";
const LIST: &str = "check --no-owners";
const FULL: &str = "check --json, owners";
const SS_ALL: &str = "ss -tnoip";
const BOUNDS: [Bound; 2] = [
    Bound { of: LIST, to: FLOOR, most: 1.3, goal: 1.15 },
    Bound { of: FULL, to: SS_ALL, most: 1.0 / 7.0, goal: 1.0 / 30.0 },
];
/// Peak memory for each connection, of the list.
const BYTES_MOST: u64 = 400;

pub(crate) fn run(args: &Args) -> Result<()> {
    if !sh::is_root() {
        bail!("bench check makes network namespaces: run it as root");
    }
    tools::require(&[IP, SS, UNSHARE, NSENTER])?;
    let Built { stillopen, xtask } = build()?;
    let mut network = Network::new(args.connections)?;
    let pid = network.client_pid().to_string();
    let check = |options: &[&str]| {
        let mut check = Command::new(&stillopen);
        check.args(["check", "--netns", &pid, "--limit", "900s"]).args(options);
        check
    };
    let empty = measure::run(&mut check(&["--no-owners"]), 1)?;
    network.open()?;
    let seen = connections_of(&mut check(&["--no-owners", "--json"]))?;
    if seen != args.connections as usize {
        bail!("check sees {seen} connections instead of {}", args.connections);
    }

    let mut works: Vec<Work> = vec![
        Work::new(FLOOR, Box::new(|| drain(&xtask, &pid))),
        Work::new(LIST, Box::new(|| check(&["--no-owners"]))),
        Work::new(FULL, Box::new(|| check(&["--json"]))),
    ];
    if args.connections <= SS_MOST {
        works.push(Work::new(
            SS_ALL,
            Box::new(|| {
                let mut ss = network.nsenter("ss");
                ss.arg("-tnoip");
                ss
            }),
        ));
    }
    for round in 1..=args.rounds {
        for work in &mut works {
            eprintln!("round {round} of {}: {}", args.rounds, work.name);
            work.measure()?;
        }
    }
    report(&works, empty, args)
}

/// A command that is measured, and its costs so far.
struct Work<'a> {
    name: &'static str,
    command: Box<dyn Fn() -> Command + 'a>,
    costs: Vec<Cost>,
}

impl<'a> Work<'a> {
    fn new(name: &'static str, command: Box<dyn Fn() -> Command + 'a>) -> Self {
        Self { name, command, costs: Vec::new() }
    }

    fn measure(&mut self) -> Result<()> {
        // Status 1 of check: something is at risk.
        self.costs.push(measure::run(&mut (self.command)(), 1)?);
        Ok(())
    }

    fn best(&self) -> Duration {
        self.costs.iter().map(|cost| cost.cpu).min().unwrap_or_default()
    }

    fn worst(&self) -> Duration {
        self.costs.iter().map(|cost| cost.cpu).max().unwrap_or_default()
    }

    fn peak(&self) -> u64 {
        self.costs.iter().map(|cost| cost.peak).max().unwrap_or_default()
    }
}

fn report(works: &[Work<'_>], empty: Cost, args: &Args) -> Result<()> {
    let find = |name: &str| works.iter().find(|work| work.name == name);
    let seconds = |name: &str| find(name).map(|work| work.best().as_secs_f64());
    println!("{} connections, best of {} (worst)", args.connections, args.rounds);
    println!("{:<22} {:>7} {:>9} {:>8} {:>8}", "", "CPU s", "", "µs each", "peak MB");
    for work in works {
        println!(
            "{:<22} {:>7.3} {:>9} {:>8.2} {:>8.1}",
            work.name,
            work.best().as_secs_f64(),
            format!("({:.3})", work.worst().as_secs_f64()),
            work.best().as_secs_f64() * 1e6 / f64::from(args.connections),
            megabytes(work.peak()),
        );
    }
    println!();
    let mut missed = Vec::new();
    for bound in &BOUNDS {
        let name = format!("{} / {}", bound.of, bound.to);
        let (Some(of), Some(to)) = (seconds(bound.of), seconds(bound.to)) else {
            println!("{name}: not measured above {SS_MOST} connections");
            continue;
        };
        let ratio = of / to;
        let word = judged(ratio, bound.most, bound.goal);
        println!("{name}: {ratio:.3}, at most {:.3}, goal {:.3}: {word}", bound.most, bound.goal);
        if ratio > bound.most {
            missed.push(name);
        }
    }
    let (peak, connections) = (find(LIST).map_or(0, Work::peak), u64::from(args.connections));
    let each = peak / connections;
    println!(
        "peak memory of {LIST}: {each} bytes each with everything, at most {BYTES_MOST}: {}",
        if each <= BYTES_MOST { "met" } else { "missed" }
    );
    println!(
        "    {} bytes each above a run without connections ({:.1} MB, which may be the benchmark's own)",
        peak.saturating_sub(empty.peak) / connections,
        megabytes(empty.peak)
    );
    if each > BYTES_MOST {
        missed.push("peak memory".into());
    }
    if !missed.is_empty() {
        bail!("missed: {}", missed.join(", "));
    }
    Ok(())
}

/// What is measured, and the floor, built alike.
pub(super) struct Built {
    pub(super) stillopen: PathBuf,
    /// This program: the running one may be a debug build.
    pub(super) xtask: PathBuf,
}

pub(super) fn build() -> Result<Built> {
    let packages = ["--package", "stillopen", "--package", "xtask"];
    sh::run(sh::cargo().args(["build", "--release", "--locked"]).args(packages))?;
    let release = sh::target_dir()?.join("release");
    Ok(Built { stillopen: release.join("stillopen"), xtask: release.join("xtask") })
}

fn drain(xtask: &Path, pid: &str) -> Command {
    let mut drain = Command::new(xtask);
    drain.args(["bench-drain", pid]);
    drain
}

/// How many connections `check --json` lists.
fn connections_of(check: &mut Command) -> Result<usize> {
    #[derive(Deserialize)]
    struct Report {
        connections: Vec<IgnoredAny>,
    }
    let shown = sh::shown(check);
    let mut child = check.stdout(Stdio::piped()).spawn().with_context(|| format!("run {shown}"))?;
    let output = child.stdout.take().context("no pipe")?;
    let report: Report = serde_json::from_reader(BufReader::new(output))
        .with_context(|| format!("output of {shown}"))?;
    child.wait()?;
    Ok(report.connections.len())
}
