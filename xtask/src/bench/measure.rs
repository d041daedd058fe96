//! CPU and memory of one program's run.

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
