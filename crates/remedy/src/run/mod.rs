//! Starts a program with keepalive on, whatever it is written in: a seccomp supervisor makes its TCP sockets.
//!
//! This process becomes the program, so that its process id, its signals, its terminal and its exit status are
//! the program's own. The supervisor is no child of its where that can be had, and in a session of its own: the
//! program's wait does not see it, no terminal's signal reaches it, and it ends when nobody is under the filter any
//! more.
//!
//! Read first: `filter.rs` (what it is asked), then `supervisor.rs` (what it answers) and `requester.rs` (whom
//! it leaves alone). `child.rs` has how it is started, `seccomp.rs` the system calls, `handover.rs` what passes
//! between the two, `found.rs` what the program must find as this process did.
#![allow(unsafe_code, reason = "execvp, with its reason")]

mod child;
mod counts;
mod filter;
mod found;
mod handover;
mod information;
mod inherited;
mod requester;
mod seccomp;
mod supervisor;

use std::{
    ffi::{CString, NulError, OsString},
    io::ErrorKind,
    os::{fd::OwnedFd, unix::ffi::OsStringExt as _},
    ptr,
};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
    process::{Resource, Rlimit, getrlimit, setrlimit},
    thread::set_no_new_privs,
};
use stillopen_model::KeepaliveValues;

use child::{Supervisor, children_share_pid_namespace};
pub use counts::{Counts, Why};
use handover::Inherited;

/// What the supervisor writes to standard error once everybody has ended.
pub type Report = Box<dyn FnOnce(&Counts) -> String>;

/// Why a program can't be started under a supervisor.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Of two filters only one can notify.
    #[error(
        "somebody answers system calls of this process already: a `stillopen run` around this one, or \
         a container's runtime"
    )]
    Nested,
    /// By a seccomp profile or a security module.
    #[error("a seccomp profile or a security module forbids it: {operation}: {errno}")]
    Forbidden {
        /// The system call.
        operation: &'static str,
        /// What it said.
        errno: Errno,
    },
    /// Or a profile that says so.
    #[error(
        "this kernel can't notify of system calls: that takes Linux 5.19 or later, on x86-64 or aarch64"
    )]
    Kernel,
    /// The supervisor looks there before it gives a socket to a process.
    #[error("/proc does not show this process: {0}")]
    Proc(Errno),
    /// A copy of this process would lack them.
    #[error("this process has {0} threads and not one")]
    Threads(usize),
    /// The supervisor would be process 1 there, or in a namespace that it can't look out of.
    #[error(
        "the children of this process are in another pid namespace than itself; `unshare --pid` takes \
         `--fork`"
    )]
    PidNamespace,
    /// Something else failed.
    #[error("{operation}: {errno}")]
    System {
        /// What.
        operation: &'static str,
        /// Why.
        errno: Errno,
    },
    /// This process is under the filter, and nobody answers: it must not start anything.
    #[error("the supervisor ended before the program was started: {0}")]
    SupervisorGone(Errno),
}

impl Refused {
    /// Whether the program can still be started without.
    #[must_use]
    pub fn leaves_as_it_was(&self) -> bool {
        !matches!(self, Self::SupervisorGone(_))
    }

    fn by(operation: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| match errno {
            Errno::PERM | Errno::ACCESS => Self::Forbidden { operation, errno },
            errno => Self::System { operation, errno },
        }
    }
}

/// A supervisor at work: this process, and what it starts, is under its filter.
#[derive(Debug)]
pub struct Supervised {
    control: OwnedFd,
    _files: Files,
}

/// Puts this process under a supervisor that gives it TCP sockets with keepalive on, and arms those that a
/// program would inherit from it. With `report` the supervisor keeps standard error open.
///
/// # Errors
/// It can't be had, and why.
pub fn supervise(values: KeepaliveValues, report: Option<Report>) -> Result<Supervised, Refused> {
    let threads = std::fs::read_dir("/proc/self/task").map_err(|_| Refused::Proc(Errno::NOENT))?;
    match threads.count() {
        1 => {}
        threads => return Err(Refused::Threads(threads)),
    }
    if !children_share_pid_namespace() {
        return Err(Refused::PidNamespace);
    }
    seccomp::available().map_err(not_available)?;
    let files = Files::as_many_as_allowed();
    let kind = (AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let (control, theirs) =
        socketpair(kind.0, kind.1, kind.2, None).map_err(Refused::by("socketpair"))?;
    let supervisor = Supervisor::start(&theirs, values, report).map_err(Refused::by("clone"))?;
    // So that its end is seen.
    drop(theirs);
    handover::wait_until_ready(&control).map_err(|errno| match errno {
        Errno::PIPE => Refused::System { operation: "start the supervisor", errno },
        errno => Refused::Proc(errno),
    })?;
    let listener = match seccomp::install() {
        // Who has CAP_SYS_ADMIN needs none; it is not set where it can be done without.
        Err(Errno::ACCESS) => set_no_new_privs(true).and_then(|()| seccomp::install()),
        installed => installed,
    };
    let listener = listener.map_err(not_available)?;
    supervisor.stays();
    let inherited = arm_inherited(values);
    handover::give(&control, &listener, Inherited::of(&inherited))
        .map_err(Refused::SupervisorGone)?;
    Ok(Supervised { control, _files: files })
}

/// Turns keepalive on for the TCP sockets that a program would inherit from this process: also where it can't
/// be supervised.
#[must_use]
pub fn arm_inherited(values: KeepaliveValues) -> Counts {
    // Without /proc nothing is known of them; a supervisor was refused for it.
    inherited::arm(values).unwrap_or_default()
}

fn not_available(errno: Errno) -> Refused {
    match errno {
        Errno::BUSY => Refused::Nested,
        // No such system call, no such operation, no such flag.
        Errno::NOSYS | Errno::INVAL => Refused::Kernel,
        errno => Refused::by("seccomp")(errno),
    }
}

/// A program that could not be executed.
#[derive(Debug, thiserror::Error)]
pub enum NotExecuted {
    /// There is none of that name.
    #[error("{0}")]
    NotFound(Errno),
    /// It is there.
    #[error("{0}")]
    NotExecutable(Errno),
    /// One of its words has a byte that none can have.
    #[error("{0}")]
    Nul(#[from] NulError),
}

/// Makes this process the program: its name, looked for in `PATH`, and its arguments. Returns only where that
/// fails. Signals, limits and standard streams are as this process was started with them.
#[must_use]
pub fn become_program(command: Vec<OsString>, supervised: Option<Supervised>) -> NotExecuted {
    let control = supervised.map(|supervised| supervised.control);
    let failed = execute(command);
    if let Some(control) = control {
        handover::say_not_executed(&control);
    }
    failed
}

fn execute(command: Vec<OsString>) -> NotExecuted {
    let words = command.into_iter().map(|word| CString::new(word.into_vec()));
    let words: Vec<CString> = match words.collect::<Result<_, _>>() {
        Ok(words) => words,
        Err(error) => return error.into(),
    };
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(ptr::null());
    let Some(name) = words.first() else { return NotExecuted::NotFound(Errno::INVAL) };
    let _as_found = found::as_found();
    // SAFETY: the pointers are to strings that end with a zero and outlive the call, the last is null.
    unsafe { libc::execvp(name.as_ptr(), pointers.as_ptr()) };
    let error = std::io::Error::last_os_error();
    let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
    match error.kind() {
        ErrorKind::NotFound => NotExecuted::NotFound(errno),
        _ => NotExecuted::NotExecutable(errno),
    }
}

/// The soft limit of open files is the hard one, until this is dropped.
#[derive(Debug)]
struct Files(Option<Rlimit>);

impl Files {
    fn as_many_as_allowed() -> Self {
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: limit.maximum, ..limit };
        Self(setrlimit(Resource::Nofile, raised).is_ok().then_some(limit))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if let Some(limit) = self.0.take() {
            let _ = setrlimit(Resource::Nofile, limit);
        }
    }
}
