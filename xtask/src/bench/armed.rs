//! The half of `cargo xtask bench remedy` that is about `stillopen run`: what its program's sockets cost.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};

use super::measure::judged;
use crate::sh;

const SOURCE: &str = include_str!("sockets.c");

/// Each is measured so often, alone and under `run` in turns: many short runs, of which the medians are compared. The
/// shortest are shown, and no measure where a server takes part: how soon the two processes find each other on the
/// processors is luck, and the best of it differs by a half from one series to the next.
const ROUNDS: u32 = 100;

/// What the program does, how often in one run, and what it may cost.
const WORK: [Work; 3] = [
    Work { what: "sockets", times: 500, bound: Bound::MoreMicroseconds(60.0) },
    Work { what: "connections", times: 400, bound: Bound::Speed { least: 0.5, goal: 0.7 } },
    Work { what: "requests", times: 4_000, bound: Bound::Speed { least: 0.97, goal: 0.99 } },
];

struct Work {
    what: &'static str,
    times: u32,
    bound: Bound,
}

enum Bound {
    /// Than alone, for each, at most.
    MoreMicroseconds(f64),
    /// How much of it is left.
    Speed { least: f64, goal: f64 },
}

/// Measures each alone and under `run`, and prints what it costs and whether that is within its bound; whether
/// all are.
pub(super) fn run(stillopen: &Path) -> Result<bool> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let source = folder.path().join("sockets.c");
    std::fs::write(&source, SOURCE).context("write sockets.c")?;
    let program = folder.path().join("sockets");
    sh::run(Command::new("cc").args(["-O2", "-o"]).args([&program, &source]))?;
    println!(
        "run, {ROUNDS} rounds alone and under it in turns: the median (the shortest); {}",
        load()
    );
    let mut kept = true;
    for work in &WORK {
        eprintln!("{}", work.what);
        let (alone, under) = measured(work, &program, stillopen)?;
        kept &= print(work, alone, under);
    }
    Ok(kept)
}

/// What else the machine does.
fn load() -> String {
    let average = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    format!("load {} on {processors} processors", average.split(' ').next().unwrap_or_default())
}

/// One line; whether the bound is kept by the medians.
fn print(work: &Work, alone: Times, under: Times) -> bool {
    let each = 1e6 / f64::from(work.times);
    let shown =
        |times: Times| format!("{:7.2} {:7.2} µs", times.shortest * each, times.median * each);
    print!("{:<11} alone {}, under run {}: ", work.what, shown(alone), shown(under));
    let (kept, judged) = match work.bound {
        Bound::MoreMicroseconds(most) => {
            let more = (under.median - alone.median) * each;
            print!("{more:.1} µs more, at most {most}: ");
            (more <= most, if more <= most { "met" } else { "missed" })
        }
        Bound::Speed { least, goal } => {
            let left = alone.median / under.median;
            print!("{left:.3} of the speed, at least {least}, goal {goal}: ");
            (left >= least, judged(1.0 / left, 1.0 / least, 1.0 / goal))
        }
    };
    println!("{judged}");
    kept
}

/// Seconds.
#[derive(Clone, Copy)]
struct Times {
    shortest: f64,
    median: f64,
}

impl Times {
    fn of(mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        Self { shortest: seconds[0], median: seconds[seconds.len() / 2] }
    }
}

/// Alone, and under `run`.
fn measured(work: &Work, program: &Path, stillopen: &Path) -> Result<(Times, Times)> {
    let server = Server::start(work, program)?;
    let words = [work.what.to_owned(), work.times.to_string(), server.port.clone()];
    let seconds = |command: &mut Command| -> Result<f64> {
        let said = sh::output(command.args(&words))?;
        said.trim().parse().with_context(|| format!("sockets said {said:?}"))
    };
    let (mut alone, mut under) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        alone.push(seconds(&mut Command::new(program))?);
        under.push(seconds(Command::new(stillopen).args(["run", "--"]).arg(program))?);
    }
    Ok((Times::of(alone), Times::of(under)))
}

/// Whom the program connects to: as with a real client it is not under `run`.
struct Server {
    process: Child,
    port: String,
}

impl Server {
    fn start(work: &Work, program: &Path) -> Result<Self> {
        let mut serve = Command::new(program);
        serve.args(["serve", work.what]).stdout(Stdio::piped());
        let process = serve.spawn().context("start the server")?;
        let mut server = Self { process, port: String::new() };
        let said = server.process.stdout.take().context("no pipe")?;
        BufReader::new(said).read_line(&mut server.port).context("read the server's port")?;
        server.port = server.port.trim().to_owned();
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
