//! Another process's sockets: duplicates of them, and the options that only those show.

use std::os::fd::{AsFd, OwnedFd};

use rustix::{
    io::{self, Errno},
    net::{ipproto, sockopt},
    process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open},
};
use stillopen_model::{Keepalive, KeepaliveTimes, Millis};

/// What only `getsockopt` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SocketOptions {
    /// `SO_KEEPALIVE` and its three values, all of them known.
    pub keepalive: Keepalive,
    /// `TCP_USER_TIMEOUT`; zero: not set.
    #[serde(rename = "user_timeout_s")]
    pub user_timeout: Millis,
}

impl SocketOptions {
    /// Reads them.
    ///
    /// # Errors
    /// Those of getsockopt(2): it is no TCP socket.
    pub fn read(socket: impl AsFd) -> io::Result<Self> {
        let times = KeepaliveTimes {
            idle: Some(sockopt::tcp_keepidle(&socket)?.into()),
            interval: Some(sockopt::tcp_keepintvl(&socket)?.into()),
            count: Some(sockopt::tcp_keepcnt(&socket)?),
        };
        let keepalive = if sockopt::socket_keepalive(&socket)? {
            Keepalive::On(times)
        } else {
            Keepalive::Off(times)
        };
        let user_timeout = Millis::new(sockopt::tcp_user_timeout(&socket)?);
        Ok(Self { keepalive, user_timeout })
    }
}

/// The sockets of one process.
#[derive(Debug)]
pub struct Holder {
    pid: u32,
    pidfd: Option<OwnedFd>,
    /// It was refused once: every other of its sockets would be, too.
    refused: bool,
}

impl Holder {
    /// Nothing is opened yet.
    #[must_use]
    pub fn new(pid: u32) -> Self {
        Self { pid, pidfd: None, refused: false }
    }

    /// Whose they are.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the kernel refused them.
    pub(crate) fn refused(&self) -> bool {
        self.refused
    }

    /// The options of the socket `fd` of this process, if it still is the one with `cookie`.
    pub(crate) fn options(&mut self, fd: u32, cookie: u64) -> Option<SocketOptions> {
        if self.refused {
            return None;
        }
        let Ok(socket) = self.duplicate(fd, cookie) else {
            // PERM: not permitted. NOSYS: before Linux 5.6, or a seccomp filter.
            self.refused = true;
            return None;
        };
        SocketOptions::read(socket?).ok()
    }

    /// A descriptor of this process for the socket that is `fd` there. `None`: it has been closed there or the process
    /// has ended, also where nobody has waited for it, and that number may be another file's by now (`cookie` is the
    /// socket's `SO_COOKIE`). The other process notices nothing.
    ///
    /// # Errors
    /// Those of `pidfd_open(2)` and `pidfd_getfd(2)`: `EPERM` where ptrace(2) would not be permitted, `ENOSYS` before
    /// Linux 5.6.
    pub fn duplicate(&mut self, fd: u32, cookie: u64) -> io::Result<Option<OwnedFd>> {
        let found = self.copy(fd).and_then(|file| Ok((sockopt::socket_cookie(&file)?, file)));
        match found {
            Ok((found, socket)) => Ok((found == cookie).then_some(socket)),
            Err(Errno::BADF | Errno::SRCH | Errno::NOTSOCK) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Whether `fd` is an MPTCP socket: its subflows have other cookies.
    pub fn is_mptcp(&mut self, fd: u32) -> bool {
        let protocol = self.copy(fd).and_then(|socket| sockopt::socket_protocol(&socket));
        protocol == Ok(Some(ipproto::MPTCP))
    }

    fn copy(&mut self, fd: u32) -> io::Result<OwnedFd> {
        let pidfd = if let Some(pidfd) = &self.pidfd {
            pidfd
        } else {
            let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
            let pidfd = pidfd_open(pid.ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
            self.pidfd.insert(pidfd)
        };
        let fd = i32::try_from(fd).map_err(|_| Errno::BADF)?;
        pidfd_getfd(pidfd, fd, PidfdGetfdFlags::empty())
    }
}
