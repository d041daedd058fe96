//! The driver `vm`: a stock Linux kernel under QEMU, on warped time, with the real IPVS and conntrack.
//!
//! Idle time passes in no time: QEMU jumps to the guest's next timer. Client, node and pods are network
//! namespaces of one guest, whose only process is this program. What the guest does is the scenario's steps
//! on real sockets; what it saw is summed up as the simulator's runs are.
//! Read first: `protocol.rs` (what is asked and answered), `qemu.rs` (one boot), `guest/engine.rs`.
#![allow(unsafe_code, reason = "fork, and a namespace of one thread's own; each with its reason")]

mod cpio;
mod elf;
pub mod guest;
mod image;
mod kernel;
mod lane;
mod modules;
pub mod parity;
mod protocol;
mod qemu;
mod report;

use std::{
    io,
    path::{Path as FilePath, PathBuf},
    time::Duration,
};

pub use self::kernel::{Kernel, prepare};
use self::protocol::{Job, Line};
use crate::{
    path::Path,
    result::KernelResult,
    run::{self, Run, RunError, RunOptions},
    scenario::Scenario,
};

/// More than any boot takes on a busy machine; what is longer hangs.
const LIMIT: Duration = Duration::from_secs(600);

/// Why the guest gave no result.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// The scenario's path cannot be decided.
    #[error(transparent)]
    Path(#[from] RunError),
    /// No kernel has such a middlebox.
    #[error("profile {profile:?} is no Linux kernel's: --driver vm runs {known}")]
    NoSuchKernel {
        /// Which.
        profile: &'static str,
        /// The others.
        known: String,
    },
    /// Only x86-64 has been tried.
    #[error("--driver vm runs on x86-64 only")]
    Architecture,
    /// No QEMU.
    #[error(
        "qemu-system-x86_64 not found: install it (Debian, Ubuntu: apt install qemu-system-x86)"
    )]
    NoQemu,
    /// No kernel to boot.
    #[error(
        "no kernel to boot: this host's own cannot be read or has no ip_vs; \
         `stillopen lab vm prepare` fetches Debian's, or name a folder with --kernel DIR"
    )]
    NoKernel,
    /// The folder has none.
    #[error(
        "no kernel in {}: a folder as a package unpacks is needed, with boot/vmlinuz-VERSION and \
         lib/modules/VERSION", .0.display()
    )]
    NoKernelIn(PathBuf),
    /// Neither of the variables is set.
    #[error("no place for a cache: set XDG_CACHE_HOME or HOME")]
    NoCache,
    /// apt does not know it.
    #[error(
        "apt-get knows no package {0}: `apt-get update` may help; elsewhere than on Debian unpack a kernel \
         package and name the folder with --kernel DIR"
    )]
    NoPackage(&'static str),
    /// A module of the set-up.
    #[error("module {name} not found below {}: a kernel with IPVS is needed", folder.display())]
    NoModule {
        /// Which.
        name: String,
        /// Where.
        folder: PathBuf,
    },
    /// This program's own library.
    #[error("library {name}, which {} needs, not found", program.display())]
    NoLibrary {
        /// Which.
        name: String,
        /// Whose.
        program: PathBuf,
    },
    /// Not a program of this machine.
    #[error("{} is no 64-bit program", .0.display())]
    NotElf(PathBuf),
    /// A program failed.
    #[error("{name}: {cause}")]
    Tool {
        /// Which.
        name: String,
        /// How.
        cause: String,
    },
    /// A file.
    #[error("can't {operation} {}: {source}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// With what.
        path: PathBuf,
        /// How it failed.
        source: io::Error,
    },
    /// The guest failed.
    #[error("the guest failed: {what}; its console log is {}", log.display())]
    Guest {
        /// What it said.
        what: String,
        /// The log, kept.
        log: PathBuf,
    },
    /// Host and guest do not understand each other.
    #[error("what the guest wrote makes no sense: {0}")]
    Protocol(String),
}

impl VmError {
    fn io(operation: &'static str, path: &FilePath) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { operation, path, source }
    }
}

/// Runs a scenario's timeline on `kernel`.
///
/// # Errors
/// The path is no kernel's, or the guest fails.
pub fn run(scenario: &Scenario, options: &RunOptions, kernel: &Kernel) -> Result<Run, VmError> {
    let options = RunOptions { hz: Some(kernel.hz), ..options.clone() };
    let path = Path::decide(scenario, &options)?;
    let lane = lane::lane(0, scenario, &path, &options)?;
    let watch = scenario.watch.unwrap_or_default().0;
    let job = Job { lanes: vec![lane], watch_ms: millis(watch), ..Job::default() };
    let boot = qemu::boot(kernel, &job, LIMIT)?;
    let mut result = run::blank(scenario, &path, &options);
    result.driver = "vm";
    result.virtual_s = watch.as_secs_f64();
    result.wall_s = Some(boot.wall.as_secs_f64());
    result.kernel = Some(kernel_result(kernel, &boot));
    report::observed(&job.lanes[0], &path, &boot.lines).sum_up(scenario, &mut result);
    run::hold(scenario, &options, &path, &mut result);
    Ok(Run { result, job_log: String::new(), agent_log: String::new() })
}

fn kernel_result(kernel: &Kernel, boot: &qemu::Boot) -> KernelResult {
    let (mut booted, mut ready, mut started, mut done) = (0, 0, 0, 0);
    let mut timeouts = None;
    for line in &boot.lines {
        match line {
            Line::Booted { at_ms } => booted = *at_ms,
            Line::Timeouts { seconds, .. } => timeouts = timeouts.or(Some(*seconds)),
            Line::Ready { at_ms, start_ms, .. } => (ready, started) = (*at_ms, *start_ms),
            Line::Done { at_ms } => done = *at_ms,
            _ => {}
        }
    }
    let between = |from: u64, to: u64| Duration::from_millis(to.saturating_sub(from)).as_secs_f64();
    KernelResult {
        version: kernel.version.clone(),
        ipvs_timeouts_s: timeouts,
        boot_s: between(0, booted),
        set_up_s: between(booted, ready),
        scenario_s: between(started, done),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
