//! Why a socket of another process could not be had, and what would allow it.

use std::{fs, io};

use rustix::{io::Errno, process::geteuid};

/// A connection could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// No process that this one sees holds it.
    #[error(
        "the process that holds it is not seen from here: run as root, on the host and not in a container"
    )]
    NoOwner,
    /// The connection has ended, or the process no longer holds it.
    #[error("it is gone: process {pid} no longer holds it")]
    Gone {
        /// Which process held it.
        pid: u32,
    },
    /// ptrace(2) would not be permitted.
    #[error("process {pid} does not let its sockets be had ({cause}): {allow}")]
    NotPermitted {
        /// Whose.
        pid: u32,
        /// What the kernel said.
        cause: io::Error,
        /// What would allow it.
        allow: String,
    },
    /// It does not answer, and has a `TCP_USER_TIMEOUT`: the first probe that is lost would end it.
    #[error("three probes got no answer, and with its TCP_USER_TIMEOUT the next one would end it")]
    NoAnswer,
    /// Its own keepalive is on, and one probe that is lost would end it.
    #[error(
        "its TCP_USER_TIMEOUT ends it at the first probe that is lost, and its keepalive is on already: \
         that is for its program to change"
    )]
    UserTimeout,
    /// Probes are outstanding, as many as the new count would allow in all.
    #[error(
        "{0} probes in a row have got no answer: keepalive with that count would end it at once"
    )]
    Outstanding(u8),
    /// Another run has its options in hand.
    #[error(
        "its keepalive is 1/32767/127: another `stillopen ask` is at work on it, or was killed together \
         with its second process"
    )]
    BeingAsked,
    /// Keepalive of an MPTCP connection is its program's to set.
    #[error("it is part of an MPTCP connection, which can't be had from outside")]
    Mptcp,
    /// It was to be ended, and is alive.
    #[error(
        "it ANSWERS a probe, so it is alive and was left alone: the limit may not be on its path"
    )]
    Alive,
    /// It was to be ended, and whether it is dead can't be confirmed.
    #[error("whether it is dead can't be confirmed: {0}")]
    Unconfirmed(Box<Refusal>),
    /// It was reset while it was asked.
    #[error("a probe drew a reset, which ended it: the path had forgotten it")]
    Reset,
    /// A socket option could not be set.
    #[error("its options can't be set: {0}")]
    Options(io::Error),
    /// The kernel would not end it, and keepalive does not run while data is in flight.
    #[error(
        "ending it at once needs CAP_NET_ADMIN in its network namespace (sudo), since data is in flight"
    )]
    InFlight,
    /// It was given keepalive 1/1/3 and still is there.
    #[error("it has not ended within {0} s")]
    StillThere(u64),
    /// The kernel refused.
    #[error("the kernel would not end it: {0}")]
    Kernel(String),
}

impl Refusal {
    /// Why `pidfd_open(2)` or `pidfd_getfd(2)` on process `pid` failed.
    pub(crate) fn of(pid: u32, errno: Errno) -> Self {
        let allow = match errno {
            Errno::PERM | Errno::ACCESS => what_permits(pid),
            Errno::NOSYS => {
                "Linux 5.6, and no seccomp profile that forbids pidfd_getfd, are needed".to_owned()
            }
            Errno::MFILE | Errno::NFILE => "raise the limit of open files (ulimit -n)".to_owned(),
            _ => "run as root".to_owned(),
        };
        Self::NotPermitted { pid, cause: errno.into(), allow }
    }
}

/// What is in the way of a process of this user's (`ptrace_may_access`, `kernel/ptrace.c`; Yama).
fn what_permits(pid: u32) -> String {
    let owner = fs::metadata(format!("/proc/{pid}")).ok().map(|it| {
        use std::os::unix::fs::MetadataExt as _;
        it.uid()
    });
    let me = geteuid().as_raw();
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    match (owner, scope.as_deref().map(str::trim)) {
        _ if me == 0 => "root here lacks CAP_SYS_PTRACE over it: run in the host's first user \
                         namespace, or give the container SYS_PTRACE"
            .to_owned(),
        (Some(uid), _) if uid != me => format!("it runs as user {uid}: run as root"),
        (_, Ok(scope @ ("1" | "2" | "3"))) => {
            format!("kernel.yama.ptrace_scope is {scope}: run as root")
        }
        _ => "it is not dumpable, or in another container: run as root".to_owned(),
    }
}
