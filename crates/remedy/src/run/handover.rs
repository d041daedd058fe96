//! What passes between the process that becomes the program and its supervisor.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::{
    io::{self, Errno},
    net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, send, sendmsg},
};

use super::counts::{Counts, Why};

/// How many inherited sockets were armed, and for how many the kernel refused it, and why the last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Inherited {
    armed: u64,
    refused: u64,
    errno: i32,
}

impl Inherited {
    pub(super) const BYTES: usize = 20;

    pub(super) fn of(counts: &Counts) -> Self {
        let refused = counts.left_alone.values().sum();
        let errno = counts.left_alone.keys().find_map(|why| match why {
            Why::Refused(_, errno) => Some(*errno),
            _ => None,
        });
        Self { armed: counts.inherited, refused, errno: errno.unwrap_or_default() }
    }

    pub(super) fn counts(self) -> Counts {
        let mut counts = Counts { inherited: self.armed, ..Counts::default() };
        if self.refused > 0 {
            counts.left_alone.insert(Why::Refused("setsockopt", self.errno), self.refused);
        }
        counts
    }

    fn bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.armed.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.refused.to_ne_bytes());
        bytes[16..].copy_from_slice(&self.errno.to_ne_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let word = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
        let errno = bytes[16..].try_into().map_or(0, i32::from_ne_bytes);
        Self { armed: word(0), refused: word(8), errno }
    }
}

/// The supervisor is ready, or why it never will be.
pub(super) fn say_ready(control: &OwnedFd, ready: io::Result<()>) -> io::Result<()> {
    let errno = ready.err().map_or(0, Errno::raw_os_error);
    send(control, &errno.to_ne_bytes(), SendFlags::NOSIGNAL).map(drop)
}

/// Waits for [`say_ready`].
///
/// # Errors
/// What it says; `EPIPE` where the supervisor ended without a word.
pub(super) fn wait_until_ready(control: &OwnedFd) -> io::Result<()> {
    let mut errno = [0; 4];
    let (read, _) = rustix::io::retry_on_intr(|| recv(control, &mut errno, RecvFlags::empty()))?;
    match (read, i32::from_ne_bytes(errno)) {
        (4, 0) => Ok(()),
        (4, errno) => Err(Errno::from_raw_os_error(errno)),
        _ => Err(Errno::PIPE),
    }
}

/// Gives the supervisor the listener.
pub(super) fn give(control: &OwnedFd, listener: &OwnedFd, inherited: Inherited) -> io::Result<()> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [listener.as_fd()];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(Errno::NOBUFS);
    }
    let bytes = inherited.bytes();
    let buffers = [std::io::IoSlice::new(&bytes)];
    sendmsg(control, &buffers, &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}

/// Tells the supervisor that the program was not executed.
pub(super) fn say_not_executed(control: &OwnedFd) {
    let _ = send(control, &[1], SendFlags::NOSIGNAL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_pass_unchanged() {
        let mut counts = Counts { inherited: 3, ..Counts::default() };
        assert_eq!(Inherited::from_bytes(Inherited::of(&counts).bytes()).counts(), counts);
        counts.left_alone.insert(Why::Refused("setsockopt", 95), 2);
        assert_eq!(Inherited::from_bytes(Inherited::of(&counts).bytes()).counts(), counts);
    }
}
