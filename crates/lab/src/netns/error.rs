//! Why a run in network namespaces did not happen, and what would help.

use std::{ffi::OsStr, fs, io, path::PathBuf};

use rustix::io::Errno;

use super::init::Step;
use crate::{exec::ServerError, netlink::links::LinkError};

/// Why there was no run.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// No such kind of middlebox.
    #[error("profile {profile:?} is not one of: {known}")]
    Profile {
        /// The name.
        profile: String,
        /// Those that there are.
        known: String,
    },
    /// A program's name or argument has a NUL in it, or there is none.
    #[error("the command is empty or has a NUL byte in it")]
    Command,
    /// The kernel refused the namespaces.
    #[error("can't make namespaces without root: {cause}{}", hint(.cause))]
    Namespaces {
        /// How.
        cause: io::Error,
    },
    /// The new user namespace has no rights.
    #[error("can't {operation} in the new namespaces: {cause}{}", hint(.cause))]
    Inside {
        /// What was tried.
        operation: &'static str,
        /// How it failed.
        cause: io::Error,
    },
    /// Packet sockets.
    #[error("can't open a packet socket in the new namespace: {cause}{}", packet_hint(.cause))]
    PacketSocket {
        /// How it failed.
        cause: io::Error,
    },
    /// Devices.
    #[error("can't {what}{}", device_hint(.cause))]
    Link {
        /// What was tried, with what, and how it failed.
        what: String,
        /// The error alone.
        cause: io::Error,
    },
    /// A system call of the forwarder, or of the set-up.
    #[error("can't {operation}: {cause}{}", limit_hint(.cause))]
    System {
        /// What was tried.
        operation: &'static str,
        /// How it failed.
        cause: io::Error,
    },
    /// The file of `--record`.
    #[error("can't write {}: {cause}", file.display())]
    Record {
        /// Which.
        file: PathBuf,
        /// How it failed.
        cause: io::Error,
    },
    /// Nobody serves the client.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The client can't be executed.
    #[error("can't run {}: {}", command.display(), why_not_run(.command, .cause))]
    NotExecuted {
        /// Its first word.
        command: std::ffi::OsString,
        /// Why.
        cause: io::Error,
    },
    /// A signal came before the client ran.
    #[error("ended by signal {0} before the client was started")]
    Interrupted(u8),
    /// Process 1 of the namespaces is gone.
    #[error("the namespaces' first process was ended by somebody")]
    Gone,
}

impl NetnsError {
    /// The exit status of `env` and shells for it: 127 for a command that is not there, 126 for one that can't be
    /// executed, 128 and its number for a signal, 125 for what is this program's own.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Self::NotExecuted { cause, .. } if cause.kind() == io::ErrorKind::NotFound => 127,
            Self::NotExecuted { .. } => 126,
            Self::Interrupted(signal) => 128_u8.saturating_add(*signal),
            _ => 125,
        }
    }

    pub(super) fn system(operation: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self::System { operation, cause: errno.into() }
    }

    pub(super) fn step(step: Option<Step>, errno: Errno) -> Self {
        let cause = errno.into();
        let operation = match step {
            Some(Step::PacketSocket) => return Self::PacketSocket { cause },
            Some(Step::Netlink) => "open rtnetlink",
            Some(Step::SockDiag) => "open sock_diag (CONFIG_INET_DIAG)",
            Some(Step::Unshare) => "make a network namespace",
            Some(Step::OpenNamespace) => "open /proc/self/ns/net",
            Some(Step::Socket) => "open a TCP socket",
            Some(Step::Mount) => "make mounts private",
            Some(Step::Fork) | None => "start a process",
        };
        Self::Inside { operation, cause }
    }
}

impl From<LinkError> for NetnsError {
    fn from(error: LinkError) -> Self {
        Self::Link { what: error.to_string(), cause: error.source }
    }
}

/// A name without a slash is looked for in `PATH` alone.
fn why_not_run(command: &OsStr, cause: &io::Error) -> String {
    let by_path = !command.as_encoded_bytes().contains(&b'/');
    match cause.kind() {
        io::ErrorKind::NotFound if by_path => "it is not in PATH".into(),
        _ => cause.to_string(),
    }
}

/// What forbids namespaces to ordinary users here, as far as the kernel tells.
fn hint(cause: &io::Error) -> String {
    let limit = limit_hint(cause);
    if !limit.is_empty() {
        return limit.into();
    }
    let setting = |path: &str| {
        let text = fs::read_to_string(format!("/proc/sys/{path}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    if setting("kernel/unprivileged_userns_clone") == Some(0) {
        return " (sysctl kernel.unprivileged_userns_clone is 0: `sysctl kernel.unprivileged_userns_clone=1` \
                as root allows them)"
            .into();
    }
    for kind in ["user", "net", "pid", "mnt"] {
        if setting(&format!("user/max_{kind}_namespaces")) == Some(0) {
            return format!(
                " (sysctl user.max_{kind}_namespaces is 0: `sysctl user.max_{kind}_namespaces=1000` as root \
                 allows them)"
            );
        }
    }
    if setting("kernel/apparmor_restrict_unprivileged_userns") == Some(1) {
        return " (sysctl kernel.apparmor_restrict_unprivileged_userns is 1: AppArmor forbids them but to \
                programs with a profile that says `userns`; `sysctl \
                kernel.apparmor_restrict_unprivileged_userns=0` as root allows them)"
            .into();
    }
    match Errno::from_io_error(cause) {
        Some(Errno::NOSPC | Errno::USERS) => {
            " (a limit of the sysctls user.max_*_namespaces is reached)".into()
        }
        Some(Errno::INVAL) => " (a kernel with CONFIG_USER_NS is needed)".into(),
        Some(Errno::PERM | Errno::ACCESS | Errno::NOSYS) => {
            " (a container's seccomp profile or capabilities may forbid user namespaces)".into()
        }
        Some(Errno::NOENT) => " (is /proc mounted here? it is needed)".into(),
        _ => String::new(),
    }
}

/// Where a limit is reached: which.
fn limit_hint(cause: &io::Error) -> &'static str {
    match Errno::from_io_error(cause) {
        Some(Errno::MFILE) => " (the limit of open files is reached: `ulimit -n`)",
        Some(Errno::NFILE) => " (this host's limit of open files is reached: sysctl fs.file-max)",
        // Of clone(2): nothing else here that may be tried again later.
        Some(Errno::AGAIN) => {
            " (a limit of processes and threads is reached: `ulimit -u`, or the cgroup's pids.max)"
        }
        _ => "",
    }
}

fn packet_hint(cause: &io::Error) -> &'static str {
    match Errno::from_io_error(cause) {
        Some(Errno::AFNOSUPPORT | Errno::PERM | Errno::ACCESS | Errno::NOSYS) => {
            ": the path needs AF_PACKET (CONFIG_PACKET; some containers' seccomp profiles forbid it)"
        }
        _ => limit_hint(cause),
    }
}

fn device_hint(cause: &io::Error) -> &'static str {
    match Errno::from_io_error(cause) {
        Some(Errno::OPNOTSUPP | Errno::NODEV) => " (a kernel with veth is needed: CONFIG_VETH)",
        Some(Errno::PERM) => " (the new user namespace has no rights: does AppArmor restrict it?)",
        _ => limit_hint(cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_reached_is_named_and_nothing_else() {
        let packets = |errno: Errno| NetnsError::PacketSocket { cause: errno.into() }.to_string();
        assert!(packets(Errno::AFNOSUPPORT).contains("CONFIG_PACKET"));
        let many = packets(Errno::MFILE);
        assert!(many.contains("`ulimit -n`") && !many.contains("CONFIG_PACKET"), "{many}");
        let namespaces = NetnsError::Namespaces { cause: Errno::AGAIN.into() }.to_string();
        assert!(namespaces.contains("`ulimit -u`"), "{namespaces}");
    }
}
