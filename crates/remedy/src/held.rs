//! A copy of another program's socket, and whether that program has it still.
//!
//! A copy holds up the end of a socket that its program closes. So whoever waits with one looks at every turn, and lets
//! go of what is closed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{fs::fstat, process::Pid};
use stillopen_collect::{Handle, Holder, holders_of};

/// A copy of another program's socket.
#[derive(Debug)]
pub struct Held {
    socket: OwnedFd,
    /// Through whom it was had, or who has it still.
    of: Handle,
}

impl Held {
    pub(crate) fn new(socket: OwnedFd, of: Handle) -> Self {
        Self { socket, of }
    }

    /// What other holders are found by.
    fn inode(&self) -> Option<u32> {
        fstat(&self.socket).ok().and_then(|file| file.st_ino.try_into().ok())
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// One process after another; the last one stays at hand.
#[derive(Debug, Default)]
pub(crate) struct LastHolder(Option<Holder>);

impl LastHolder {
    pub(crate) fn of(&mut self, pid: u32) -> &mut Holder {
        let last = self.0.take().filter(|holder| holder.pid() == pid);
        self.0.insert(last.unwrap_or_else(|| Holder::new(pid)))
    }
}

/// Looks whether copies' programs have them still.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    last: LastHolder,
    /// Another process of this run that has copies.
    ours: Option<u32>,
}

impl Watch {
    /// Beside a second process that has copies, too.
    pub(crate) fn beside(second: Pid) -> Self {
        let ours = u32::try_from(second.as_raw_pid()).ok();
        Self { ours, ..Self::default() }
    }

    /// Those of `held`, each with what it is called here, that no program has any more. What another one has still is
    /// looked for there from now on. Where that can't be seen, a program is taken to have it.
    ///
    /// The end of the connection may have been why: what the socket itself tells is to be looked at again.
    pub(crate) fn closed<'a, Name>(
        &mut self,
        held: impl Iterator<Item = (Name, &'a mut Held)>,
    ) -> Vec<Name> {
        let gone: Vec<_> = held.filter(|(_, held)| self.is_gone(held.of)).collect();
        if gone.is_empty() {
            return Vec::new();
        }
        let inodes: Vec<u32> = gone.iter().filter_map(|(_, held)| held.inode()).collect();
        let holders = holders_of(&inodes);
        let here = std::process::id();
        let is_other = |(pid, _): &&(u32, u32)| *pid != here && Some(*pid) != self.ours;
        let other = |inode| holders.get(&inode)?.iter().find(is_other);
        let closed = gone.into_iter().filter_map(|(name, held)| {
            let Some(&(pid, fd)) = held.inode().and_then(other) else { return Some(name) };
            held.of = Handle { pid, fd, ..held.of };
            None
        });
        closed.collect()
    }

    /// Whether no program has it any more, as for [`closed`](Self::closed).
    pub(crate) fn is_closed(&mut self, held: &mut Held) -> bool {
        !self.closed(std::iter::once(((), held))).is_empty()
    }

    fn is_gone(&mut self, Handle { pid, fd, cookie, .. }: Handle) -> bool {
        matches!(self.last.of(pid).duplicate(fd, cookie), Ok(None))
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test beside this one may be starting a process")]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        os::fd::AsRawFd as _,
        time::{Duration, Instant},
    };

    use rustix::{io::dup2, net::sockopt};

    use super::*;
    use crate::Rescuer;

    /// A connection of this very process, with a copy of its client's end.
    fn held(listener: &TcpListener) -> (OwnedFd, Held) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let handle = Handle {
            pid: std::process::id(),
            fd: client.as_raw_fd().try_into().unwrap(),
            cookie: sockopt::socket_cookie(&client).unwrap(),
            inode: 0,
        };
        (client.into(), Rescuer::default().socket(handle).unwrap())
    }

    #[test]
    fn what_is_closed_or_has_another_sockets_number_is_told_from_what_is_still_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut watch = Watch::default();
        let ((open, mut a), (closed, mut b), (mut replaced, mut c)) =
            (held(&listener), held(&listener), held(&listener));
        let mut look = || watch.closed([("a", &mut a), ("b", &mut b), ("c", &mut c)].into_iter());
        assert_eq!(look(), [""; 0]);
        // Other numbers of it in this process are copies, too.
        let _copy = closed.try_clone().unwrap();
        drop(closed);
        dup2(&open, &mut replaced).unwrap();
        // A process that is being started has copies until it runs its own program.
        let deadline = Instant::now() + Duration::from_secs(20);
        while look() != ["b", "c"] {
            assert!(Instant::now() < deadline, "two are closed");
            std::thread::yield_now();
        }
    }
}
