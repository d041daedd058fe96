//! The driver `vm`: a stock Linux kernel under QEMU, on warped time, with the real IPVS and conntrack.
//!
//! Idle time passes in no time: QEMU jumps to the guest's next timer. Client, node and pods are network
//! namespaces of one guest, whose only process is this program. What the guest does is the scenario's steps
//! on real sockets; what it saw is summed up as the simulator's runs are.
//! Read first: `protocol.rs` (what is asked and answered), `qemu.rs` (one boot), `guest/engine.rs`.
#![allow(unsafe_code, reason = "fork, and a namespace of one thread's own; each with its reason")]

mod count;
mod cpio;
mod elf;
mod exec;
pub mod guest;
mod image;
mod incident;
mod kernel;
mod lane;
mod modules;
mod needs;
mod on_node;
mod pack;
pub mod parity;
mod protocol;
mod qemu;
mod report;

use std::{
    ffi::OsString,
    io,
    path::{Path as FilePath, PathBuf},
    time::Duration,
};

use stillopen_model::KeepaliveValues;

pub use self::exec::{ExecOptions, Executed, Wrote, exec};
pub use self::kernel::{Kernel, prepare};
pub use self::on_node::OnNode;
use self::protocol::{Job, Line};
use crate::{
    exec::ServerError,
    path::{Addresses, Path},
    result::KernelResult,
    run::{self, Run, RunError, RunOptions},
    scenario::Scenario,
};

/// What a run is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The kernel boots.
    Boots,
    /// The scenario or the client runs, for so long on the guest's clock.
    Runs(Duration),
}

impl Phase {
    /// What begins with a line of the guest.
    fn of(line: &Line) -> Option<Self> {
        match line {
            Line::Ready { .. } => Some(Self::Runs(Duration::ZERO)),
            Line::Clock { at_ms } => Some(Self::Runs(Duration::from_millis(*at_ms))),
            _ => None,
        }
    }
}

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
    /// A program of Debian's packages is missing.
    #[error(
        "there is no {0} here: elsewhere than on Debian unpack a kernel package and name the folder with --kernel DIR"
    )]
    NoTool(String),
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
    /// A command that would never run.
    #[error(
        "`{command}` is to run on the node after {after}, when the scenario is over: it ends after {end}"
    )]
    AfterTheEnd {
        /// Which.
        command: String,
        /// When.
        after: String,
        /// And that.
        end: String,
    },
    /// No such program.
    #[error("can't run {}: {why}", name.display())]
    NoCommand {
        /// As it was asked for.
        name: OsString,
        /// What is known of it.
        why: String,
    },
    /// It is there and is no program.
    #[error("can't run {}: {why}", name.display())]
    NotExecutable {
        /// As it was asked for.
        name: OsString,
        /// What it is.
        why: String,
    },
    /// A script's first line.
    #[error("can't run {}: its first line asks for {interpreter:?}: {why}", script.display())]
    NoInterpreter {
        /// Which.
        script: PathBuf,
        /// As it stands there.
        interpreter: OsString,
        /// What is known of that.
        why: String,
    },
    /// Nobody serves the client.
    #[error("{why}{}", includes(.missed))]
    Server {
        /// Why.
        why: ServerError,
        /// Files of this host that the server may have missed.
        missed: Vec<PathBuf>,
    },
    /// It does not run there.
    #[error(
        "the command can't be started in the guest: {0}. Name what it needs beside its own files with \
         --include PATH"
    )]
    NotStarted(String),
    /// No such file, or no file.
    #[error("--include {}: {why}", path.display())]
    BadInclude {
        /// Which.
        path: PathBuf,
        /// What is known of it.
        why: String,
    },
    /// More than fits.
    #[error(
        "what the command needs is more than the guest's image may have ({most}); the largest: {largest}. \
         {advice}"
    )]
    TooLarge {
        /// What is allowed.
        most: String,
        /// What takes the most.
        largest: String,
        /// How there could be less.
        advice: &'static str,
    },
    /// Recorded of other connections.
    #[error(
        "the kernel was recorded with another set of connections: the model or the scenarios have changed; \
         record it anew with `stillopen lab vm parity --record FILE`"
    )]
    OtherSet,
    /// Host and guest do not understand each other.
    #[error("what the guest wrote makes no sense: {0}")]
    Protocol(String),
}

impl VmError {
    /// The exit status of `lab exec`, as env has it: 127 for a command that is not there (or a script's interpreter),
    /// 126 for one that does not start, 2 for arguments that no run can have, else 125.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Self::NoCommand { .. } | Self::NoInterpreter { .. } => 127,
            Self::NotExecutable { .. } | Self::NotStarted(_) => 126,
            Self::BadInclude { .. } | Self::NoSuchKernel { .. } | Self::NoKernelIn(_) => 2,
            _ => 125,
        }
    }

    fn io(operation: &'static str, path: &FilePath) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { operation, path, source }
    }
}

/// What to name with `--include`.
fn includes(missed: &[PathBuf]) -> String {
    let each = missed.iter().map(|path| {
        let path = path.display();
        format!("; {path} is not in the guest, if the server needs it: --include {path}")
    });
    each.collect()
}

/// Runs a scenario on `kernel`, and beside it, in the same boot, the same with the keepalive that cures it.
/// Meanwhile the commands of `on_node` are run on the node of the first of both, and told of in the order of their
/// times; `tell` is told what it is at.
///
/// # Errors
/// The path is no kernel's, a command comes after the scenario's end, or the guest fails.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions,
    cure: Option<KeepaliveValues>,
    kernel: &Kernel,
    on_node: &[OnNode],
    tell: impl Fn(Phase),
) -> Result<(Run, Option<Run>), VmError> {
    let options = RunOptions { hz: Some(kernel.hz), ..options.clone() };
    let cured = cure.map(|values| RunOptions { keepalive: Some(values), ..options.clone() });
    let arms: Vec<RunOptions> = std::iter::once(options).chain(cured).collect();
    let mut job = job();
    let mut paths = Vec::new();
    for (number, options) in (0..).zip(&arms) {
        let path = Path::decide(scenario, options)?;
        let mut lane = lane::lane(number, scenario, &path, options)?;
        lane.programs =
            scenario.incident.as_ref().map(|asked| incident::programs(asked, scenario, options));
        job.lanes.push(lane);
        paths.push(path);
    }
    let watch = scenario.watch.unwrap_or_default().0;
    job.watch_ms = scenario.incident.as_ref().map_or(millis(watch), incident::longest_ms);
    let mut on_node = on_node.to_vec();
    on_node.sort_by_key(|command| command.at);
    job.processes = on_node::processes(&on_node, 0, job.watch_ms)?;
    job.tells_time = true;
    tell(Phase::Boots);
    let each = |line: Line| {
        Phase::of(&line).into_iter().for_each(&tell);
        Some(line)
    };
    let boot = qemu::boot(kernel, &job, None, LIMIT, each, || false)?;
    let mut runs = Vec::new();
    for ((options, path), lane) in arms.iter().zip(&paths).zip(&job.lanes) {
        let mut result = run::blank(scenario, path, options);
        result.driver = "vm";
        result.wall_s = Some(boot.walls.ended.as_secs_f64());
        result.kernel = Some(kernel_result(kernel, lane.number, &boot));
        result.path.vip = Addresses::new(lane.number, lane.v6, lane.backends).vip.to_string();
        let mut run = Run { result, job_log: String::new(), agent_log: String::new() };
        if let Some(asked) = &scenario.incident {
            incident::sum_up(asked, (lane, path), &boot.lines, &mut run)?;
        } else {
            run.result.virtual_s = watch.as_secs_f64();
            report::observed(lane, path, &boot.lines).sum_up(scenario, &mut run.result);
        }
        run::hold(scenario, options, path, &mut run.result);
        runs.push(run);
    }
    let mut runs = runs.into_iter();
    let mut asked = runs.next().ok_or_else(|| VmError::Protocol("no lane".into()))?;
    if let Some(kernel) = &mut asked.result.kernel {
        kernel.on_node = on_node::results(&on_node, &boot.lines);
    }
    Ok((asked, runs.next()))
}

/// A job with nothing to do, on any Monday.
fn job() -> Job {
    Job { date: "2026-03-02T09:00:00".into(), ..Job::default() }
}

fn kernel_result(kernel: &Kernel, number: u8, boot: &qemu::Boot) -> KernelResult {
    let (mut booted, mut ready, mut started, mut done) = (0, 0, 0, 0);
    let mut timeouts = None;
    let walls = boot.walls;
    for line in &boot.lines {
        match line {
            Line::Booted { at_ms } => booted = *at_ms,
            Line::Timeouts { lane, seconds } if *lane == number => timeouts = Some(*seconds),
            Line::Ready { at_ms, start_ms, .. } => (ready, started) = (*at_ms, *start_ms),
            Line::Done { at_ms } => done = *at_ms,
            _ => {}
        }
    }
    let between = |from: u64, to: u64| Duration::from_millis(to.saturating_sub(from)).as_secs_f64();
    KernelResult {
        version: kernel.version.clone(),
        ipvs_timeouts_s: timeouts,
        virtual_s: [between(0, booted), between(booted, ready), between(started, done)],
        wall_s: [
            walls.booted.as_secs_f64(),
            walls.ready.saturating_sub(walls.booted).as_secs_f64(),
            walls.ended.saturating_sub(walls.ready).as_secs_f64(),
        ],
        on_node: Vec::new(),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
