//! The half of `cargo xtask bench remedy` that is about `stillopen run`: what its program's sockets cost.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};

use crate::sh;

const SOURCE: &str = include_str!("sockets.c");

/// The shortest time of so many runs counts: whatever else the machine does only makes them longer.
const RUNS: u32 = 15;

/// What the program does, how often in one run, and how much of its speed must be left.
const WORK: [Work; 3] = [
    Work { what: "sockets", times: 10_000, least: None },
    Work { what: "connections", times: 8_000, least: Some((0.5, 0.7)) },
    Work { what: "requests", times: 40_000, least: Some((0.97, 0.99)) },
];

/// More than the same socket without, at most, µs.
const MOST_PER_SOCKET_US: f64 = 60.0;

struct Work {
    what: &'static str,
    times: u32,
    /// The bound, and the goal.
    least: Option<(f64, f64)>,
}

/// Measures each alone and under `run`, in turns, and prints what is left; whether the bounds are kept.
pub(super) fn run(stillopen: &Path) -> Result<bool> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let source = folder.path().join("sockets.c");
    std::fs::write(&source, SOURCE).context("write sockets.c")?;
    let program = folder.path().join("sockets");
    sh::run(Command::new("cc").args(["-O2", "-o"]).args([&program, &source]))?;
    let mut kept = true;
    for work in &WORK {
        let (alone, under) = measured(work, &program, stillopen)?;
        let each = 1e6 / f64::from(work.times);
        let (bare, with) = (alone * each, under * each);
        print!("{:<11}  {bare:8.2} µs alone  {with:8.2} µs under run  ", work.what);
        let good = match work.least {
            None => {
                let more = with - bare;
                print!("{more:.1} µs more, at most {MOST_PER_SOCKET_US}");
                more <= MOST_PER_SOCKET_US
            }
            Some((least, goal)) => {
                let left = alone / under;
                print!("{left:.3} of the speed, at least {least}, goal {goal}");
                left >= least
            }
        };
        println!("{}", if good { "" } else { "  MISSED" });
        kept &= good;
    }
    Ok(kept)
}

/// The shortest times, seconds.
fn measured(work: &Work, program: &Path, stillopen: &Path) -> Result<(f64, f64)> {
    let server = Server::start(work, program)?;
    let words = [work.what.to_owned(), work.times.to_string(), server.port.clone()];
    let seconds = |command: &mut Command| -> Result<f64> {
        let said = sh::output(command.args(&words))?;
        said.trim().parse().with_context(|| format!("sockets said {said:?}"))
    };
    let (mut alone, mut under) = (f64::MAX, f64::MAX);
    for _ in 0..RUNS {
        alone = alone.min(seconds(&mut Command::new(program))?);
        under = under.min(seconds(Command::new(stillopen).args(["run", "--"]).arg(program))?);
    }
    Ok((alone, under))
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
