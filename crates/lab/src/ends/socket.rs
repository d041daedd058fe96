//! One real socket of a scripted connection: what its program does and what it sees.

use std::net::SocketAddr;

use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, bind, connect,
        listen, recv, send, shutdown, socket_with, sockopt,
    },
};

use super::Keepalive;

/// Enough for every connection that connects at once.
const BACKLOG: i32 = 1024;
/// One write for all but the longest: an error that comes meanwhile is the next call's.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// What a program sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    Data(usize),
    Eof,
    Error(Errno),
}

#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    /// Bytes that did not fit the send buffer yet.
    pending: usize,
    /// There is nothing more to read.
    ended: bool,
    /// Its program has been told of an error.
    told: bool,
}

impl Socket {
    /// Begins to connect `fd`, a new TCP socket that does not block.
    pub(crate) fn connect(
        fd: OwnedFd,
        from: SocketAddr,
        to: SocketAddr,
        keepalive: Option<Keepalive>,
    ) -> Result<Self, Errno> {
        let socket = Self::of(fd);
        bind(&socket.fd, &from)?;
        socket.set_keepalive(keepalive)?;
        match connect(&socket.fd, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error),
        }
    }

    /// One that was accepted.
    pub(crate) fn of(fd: OwnedFd) -> Self {
        // It is a TCP socket: each of these is known to it.
        let _ = sockopt::set_tcp_nodelay(&fd, true);
        Self { fd, pending: 0, ended: false, told: false }
    }

    pub(crate) fn set_keepalive(&self, values: Option<Keepalive>) -> Result<(), Errno> {
        set_keepalive(&self.fd, values)
    }

    pub(crate) fn send(&mut self, bytes: usize) -> Result<(), Errno> {
        self.pending += bytes;
        let sent = self.flush();
        if let Err(error) = sent {
            self.pending = 0;
            // The program knows; EPIPE may be of its own shutdown.
            let own = error == Errno::PIPE;
            (self.ended, self.told) = (self.ended || !own, self.told || !own);
        }
        sent
    }

    /// Sends what waits, as far as it fits.
    pub(crate) fn flush(&mut self) -> Result<(), Errno> {
        while self.pending > 0 {
            match send(&self.fd, &ZEROS[..self.pending.min(ZEROS.len())], SendFlags::NOSIGNAL) {
                Ok(sent) => self.pending -= sent,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(crate) fn shutdown(&self) {
        // One that has failed has nothing to shut down.
        let _ = shutdown(&self.fd, Shutdown::Write);
    }

    /// Whether its program has been told of an error.
    pub(crate) fn has_failed(&self) -> bool {
        self.told
    }

    /// Whether some of what it sends has had no room yet.
    pub(crate) fn has_pending(&self) -> bool {
        self.pending > 0
    }

    /// All that there is to see now.
    pub(super) fn look(&mut self) -> Vec<Seen> {
        let (mut seen, mut buffer) = (Vec::new(), [0; 16 * 1024]);
        if self.ended && self.told {
            return seen;
        }
        while !self.ended {
            match recv(&self.fd, &mut buffer, RecvFlags::empty()) {
                Ok((0, _)) => {
                    self.ended = true;
                    seen.push(Seen::Eof);
                }
                Ok((bytes, _)) => match seen.last_mut() {
                    Some(Seen::Data(before)) => *before += bytes,
                    _ => seen.push(Seen::Data(bytes)),
                },
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => {
                    (self.ended, self.told) = (true, true);
                    seen.push(Seen::Error(error));
                }
            }
        }
        // After the peer's end, recv says nothing of an error any more. It is said once.
        if !self.told
            && let Ok(Err(error)) = sockopt::socket_error(&self.fd)
        {
            (self.ended, self.told) = (true, true);
            seen.push(Seen::Error(error));
        }
        seen
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Makes a new TCP socket a listener; what it accepts inherits its keepalive.
pub(crate) fn listen_on(
    fd: &OwnedFd,
    at: SocketAddr,
    keepalive: Option<Keepalive>,
) -> Result<(), Errno> {
    sockopt::set_socket_reuseaddr(fd, true)?;
    bind(fd, &at)?;
    set_keepalive(fd, keepalive)?;
    listen(fd, BACKLOG)
}

/// A new TCP socket of this thread's namespace, for an address of this family; it does not block.
pub(crate) fn tcp(of: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if of.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
}

/// Off first: on a socket that has it on, other values would count from the last packet and not from now.
fn set_keepalive(fd: &OwnedFd, values: Option<Keepalive>) -> Result<(), Errno> {
    let seconds = |seconds: u32| std::time::Duration::from_secs(seconds.into());
    sockopt::set_socket_keepalive(fd, false)?;
    let Some([idle, interval, count]) = values else { return Ok(()) };
    sockopt::set_tcp_keepidle(fd, seconds(idle))?;
    sockopt::set_tcp_keepintvl(fd, seconds(interval))?;
    sockopt::set_tcp_keepcnt(fd, count)?;
    sockopt::set_socket_keepalive(fd, true)
}
