//! CPU and memory of one program's run, and what a ratio of two is held to.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use wait4::Wait4 as _;

use crate::sh;

/// What a run took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// User and system time.
    pub cpu: Duration,
    /// Peak memory, bytes. Never less than this process had when it started the run: the kernel counts
    /// from before `execve`.
    pub peak: u64,
}

/// Runs it with its output thrown away; a status up to `most` is a success.
pub(super) fn run(command: &mut Command, most: i32) -> Result<Cost> {
    let shown = sh::shown(command);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("run {shown}"))?;
    let end = child.wait4().with_context(|| format!("wait for {shown}"))?;
    match end.status.code() {
        Some(code) if code <= most => {}
        _ => bail!("{shown}: {}", end.status),
    }
    Ok(Cost { cpu: end.rusage.utime + end.rusage.stime, peak: end.rusage.maxrss })
}

/// The bounds of a ratio.
pub(super) struct Bound {
    pub of: &'static str,
    pub to: &'static str,
    /// Above this it is a failure.
    pub most: f64,
    pub goal: f64,
}

/// How a ratio keeps to its bounds.
pub(super) fn judged(ratio: f64, most: f64, goal: f64) -> &'static str {
    if ratio <= goal {
        "goal met"
    } else if ratio <= most {
        "met, goal missed"
    } else {
        "missed"
    }
}

#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub(super) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
