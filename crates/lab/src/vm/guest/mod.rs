//! The guest's side: this program as process 1 of a kernel that has nothing else.
//!
//! Read first: `engine.rs`, what it does; `links.rs` and `tables.rs` make the network before.

mod engine;
mod entries;
mod links;
mod packets;
mod processes;
mod programs;
mod served;
mod tables;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    time::Duration,
};

use rustix::{
    mount::{MountFlags, mount},
    system::{RebootCommand, finit_module, reboot},
    time::{ClockId, clock_gettime},
};

use super::protocol::{Job, Line};

/// Where results go: the second serial port.
const RESULTS: &str = "/dev/ttyS1";

/// What a step of the set-up or the run came to, with what was tried.
type Done<T> = Result<T, String>;

/// Runs as process 1 of the guest: never returns where it is that.
///
/// # Errors
/// It is not process 1.
pub fn main() -> io::Result<()> {
    if std::process::id() != 1 {
        return Err(io::Error::other("this is the guest's part: process 1 of a guest starts it"));
    }
    let mut lines = Vec::new();
    let end = run(&mut lines).unwrap_or_else(|what| Line::Failed { what });
    lines.push(end);
    if let Err(error) = write(&lines) {
        eprintln!("stillopen: write {RESULTS}: {error}");
    }
    rustix::fs::sync();
    // The guest was started with -no-reboot: this ends it.
    Err(reboot(RebootCommand::Restart).err().map_or(io::ErrorKind::Other.into(), io::Error::from))
}

fn run(lines: &mut Vec<Line>) -> Done<Line> {
    for (what, at, kind) in
        [("proc", "/proc", "proc"), ("sysfs", "/sys", "sysfs"), ("dev", "/dev", "devtmpfs")]
    {
        mount(what, at, kind, MountFlags::empty(), None).map_err(failed("mount", at))?;
    }
    at_once(Line::Booted { at_ms: millis(now()) })?;
    let text = fs::read("/job.json").map_err(failed("read", "/job.json"))?;
    let job: Job = serde_json::from_slice(&text).map_err(failed("read", "/job.json"))?;
    for name in &job.modules {
        let path = format!("/modules/{name}.ko");
        let file = File::open(&path).map_err(failed("open", &path))?;
        finit_module(&file, c"", 0).map_err(failed("load module", name))?;
    }
    // A restart of the kernel would otherwise be needed for the modules' memory.
    let _ = fs::remove_dir_all("/modules");
    engine::run(&job, lines)?;
    Ok(Line::Done { at_ms: millis(now()) })
}

fn write(lines: &[Line]) -> io::Result<()> {
    let mut text = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
    }
    let mut port = OpenOptions::new().write(true).open(RESULTS)?;
    // Closing it waits until its own buffer is empty.
    port.write_all(&text)
}

/// Writes one line while the host waits: how long each part takes it is its to measure.
fn at_once(line: Line) -> Done<()> {
    write(&[line]).map_err(failed("write", RESULTS))
}

/// Says what was tried with what, and how it failed.
fn failed<E: std::fmt::Display>(what: &str, with: &str) -> impl FnOnce(E) -> String {
    let what = format!("{what} {with}");
    move |error| format!("{what}: {error}")
}

/// Since the guest's boot.
fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
