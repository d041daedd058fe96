//! The second process of a question: it puts the options back that the first one can't.
#![allow(unsafe_code, reason = "fork, with its reason")]

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
};

use rustix::{
    io::{Errno, read, write},
    pipe::{PipeFlags, pipe_with},
    process::{Pid, WaitOptions, setsid, waitpid},
};

use super::{Asked, BATCH};
use crate::{options::put_back_unless_changed, signals};

/// A process that puts the sockets' options back as soon as this one lets go, however it ends.
pub(super) struct Guard {
    let_go: OwnedFd,
    pid: Pid,
}

impl Guard {
    /// It has a copy of each socket that is being asked, as this process has.
    pub(super) fn start(asked: &[Asked]) -> io::Result<Self> {
        let (until, let_go) = pipe_with(PipeFlags::CLOEXEC)?;
        // The child is born with all signals blocked: one that ends this process does not end it, too.
        let mask = signals::block_all();
        // SAFETY: what the child does until it ends are system calls on descriptors and memory that exist
        // already; it allocates nothing and takes no lock, so no other thread of this process matters.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(let_go);
            let status = i32::from(guard(asked, &until).is_err());
            // SAFETY: it ends this process, and runs nothing that the parent registered.
            unsafe { libc::_exit(status) }
        }
        let error = io::Error::last_os_error();
        signals::restore(&mask);
        match Pid::from_raw(child).filter(|_| child > 0) {
            Some(pid) => Ok(Self { let_go, pid }),
            None => Err(error),
        }
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// This one's options have been put back: it can be closed there, too.
    pub(super) fn settled(&self, number: u8) {
        // Where the other process is gone, nothing more is to be done either.
        let _ = write(&self.let_go, &[number]);
    }

    pub(super) fn put_back(self) -> io::Result<()> {
        drop(self.let_go);
        let ended = rustix::io::retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty()))?;
        match ended.and_then(|(_, status)| status.exit_status()) {
            Some(0) => Ok(()),
            _ => Err(io::Error::other("the sockets' options could not all be put back")),
        }
    }
}

/// The second process: what it is told is settled it closes, and puts the rest back at the end. It allocates
/// nothing.
fn guard(asked: &[Asked], until: &OwnedFd) -> Result<(), Errno> {
    // A terminal's hang-up is for its session.
    let _ = setsid();
    let mut settled = [false; BATCH];
    let mut number = [0_u8; 1];
    loop {
        match read(until, &mut number) {
            Ok(0) => break,
            Ok(_) => {
                let number = usize::from(number[0]);
                if let (Some(settled), Some(one)) = (settled.get_mut(number), asked.get(number))
                    && let Some(open) = &one.open
                {
                    *settled = true;
                    // SAFETY: this process never drops its copy of the list, so nobody closes it again.
                    unsafe { libc::close(open.socket.as_fd().as_raw_fd()) };
                }
            }
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    let mut result = Ok(());
    for (one, settled) in asked.iter().zip(settled) {
        if let (false, Some(open)) = (settled, &one.open) {
            result = put_back_unless_changed(&open.socket, open.before).and(result);
        }
    }
    result
}
