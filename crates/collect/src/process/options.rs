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

    pub(crate) fn pid(&self) -> u32 {
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
        match self.duplicate(fd, cookie).map(|socket| socket.map(SocketOptions::read).transpose()) {
            Ok(Ok(options)) => options,
            // Closed, or the process ended, in mid-read.
            Ok(Err(_)) | Err(Errno::BADF | Errno::SRCH | Errno::NOTSOCK) => None,
            // PERM: not permitted. NOSYS: before Linux 5.6, or a seccomp filter.
            Err(_) => {
                self.refused = true;
                None
            }
        }
    }

    /// A descriptor of this process for the socket that is `fd` there; `None`: that number is another
    /// socket's by now, by `cookie` (`SO_COOKIE`). The other process notices nothing.
    ///
    /// # Errors
    /// Those of `pidfd_open(2)` and `pidfd_getfd(2)`: `EPERM` where ptrace(2) would not be permitted, `ESRCH` and
    /// `EBADF` where process or descriptor are gone, `ENOSYS` before Linux 5.6.
    pub fn duplicate(&mut self, fd: u32, cookie: u64) -> io::Result<Option<OwnedFd>> {
        let socket = self.copy(fd)?;
        // The number may have been given to another socket since the list was read.
        Ok((sockopt::socket_cookie(&socket)? == cookie).then_some(socket))
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
