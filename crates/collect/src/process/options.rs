//! The socket options of another process's socket, read on a duplicate of it.

use std::os::fd::OwnedFd;

use rustix::{
    io::{self, Errno},
    net::sockopt,
    process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open},
};
use stillopen_model::{Keepalive, KeepaliveTimes, Millis};

/// What only `getsockopt` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    pub keepalive: Keepalive,
    pub user_timeout: Millis,
}

/// The sockets of one process.
pub(crate) struct Holder {
    pid: u32,
    pidfd: Option<OwnedFd>,
    /// It was refused once: every other of its sockets would be, too.
    refused: bool,
}

impl Holder {
    pub(crate) fn new(pid: u32) -> Self {
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
    pub(crate) fn options(&mut self, fd: u32, cookie: u64) -> Option<Options> {
        if self.refused {
            return None;
        }
        match self.read(fd, cookie) {
            Ok(options) => options,
            // Closed, or the process ended, in mid-read.
            Err(Errno::BADF | Errno::SRCH | Errno::NOTSOCK) => None,
            // PERM: not permitted. NOSYS: before Linux 5.6, or a seccomp filter.
            Err(_) => {
                self.refused = true;
                None
            }
        }
    }

    fn read(&mut self, fd: u32, cookie: u64) -> io::Result<Option<Options>> {
        let pidfd = if let Some(pidfd) = &self.pidfd {
            pidfd
        } else {
            let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
            let pidfd = pidfd_open(pid.ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
            self.pidfd.insert(pidfd)
        };
        let fd = i32::try_from(fd).map_err(|_| Errno::BADF)?;
        let socket = pidfd_getfd(pidfd, fd, PidfdGetfdFlags::empty())?;
        // The number may have been given to another socket since the list was read.
        if sockopt::socket_cookie(&socket)? != cookie {
            return Ok(None);
        }
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
        Ok(Some(Options { keepalive, user_timeout }))
    }
}
