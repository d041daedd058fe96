//! How the supervisor comes to be, so that the program does not notice it.
//!
//! It is a grandchild of this process whose own parent ends at once: then it is a child of process 1, or of the
//! nearest subreaper, which wait for whatever they are given. Where that would be this process, and so the program
//! (`adopts_orphans`), it is a child without an exit signal instead: only a wait with `__WALL` sees it, but such a
//! wait does, and should it be killed, the program is told.
#![allow(unsafe_code, reason = "clone and the ends of its processes; each with its reason")]

use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd, RawFd};

use rustix::{
    fs::{Mode, OFlags, open, readlink},
    io::{self, Errno},
    process::{
        Pid, Signal, WaitOptions, chdir, child_subreaper, getpid, kill_process, setsid, waitpid,
    },
};
use stillopen_model::KeepaliveValues;

use super::{Report, handover, inherited, requester::Own, supervisor};
use crate::signals;

/// A child without an exit signal is waited for only so; rustix has no name for it.
const WITHOUT_SIGNAL: WaitOptions = WaitOptions::from_bits_retain(libc::__WALL.cast_unsigned());

/// Ends the supervisor when it is dropped, as long as [`Self::stays`] has not been called.
pub(super) struct Supervisor {
    /// `None`: it is nobody's child here. It ends by itself as soon as the other end of its socket is closed.
    child: Option<Pid>,
}

impl Supervisor {
    /// # Errors
    /// Those of clone(2).
    pub(super) fn start(
        control: &OwnedFd,
        values: KeepaliveValues,
        report: Option<Report>,
    ) -> io::Result<Self> {
        let adopts_orphans = adopts_orphans();
        let supervisor = || end(i32::from(serve(control, values, report).is_err()));
        let mask = signals::block_all();
        let started = match copy() {
            Ok(None) if adopts_orphans => supervisor(),
            Ok(None) => match copy() {
                Ok(None) => supervisor(),
                Ok(Some(_)) => end(0),
                Err(errno) => end(errno.raw_os_error()),
            },
            Ok(Some(child)) if adopts_orphans => Ok(Self { child: Some(child) }),
            Ok(Some(parent)) => wait_for(parent).map(|()| Self { child: None }),
            Err(errno) => Err(errno),
        };
        signals::restore(&mask);
        started
    }

    /// It ends when nobody is under the filter.
    pub(super) fn stays(mut self) {
        self.child = None;
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // Nothing was given to it: it does nothing that could be interrupted.
        if let Some(child) = self.child {
            let _ = kill_process(child, Signal::KILL);
            let _ = waitpid(Some(child), WITHOUT_SIGNAL);
        }
    }
}

/// Whether a process whose parent has ended becomes this one's child (`find_new_reaper`, `kernel/exit.c`). It is
/// for ever: execve(2) changes neither.
fn adopts_orphans() -> bool {
    getpid() == Pid::INIT || child_subreaper().is_ok_and(|subreaper| subreaper.is_some())
}

/// Whether this process's children are in the pid namespace that it is in itself. The first one in another is its
/// process 1, whose end ends all others.
pub(super) fn children_share_pid_namespace() -> bool {
    let of = |name: &str| readlink(format!("/proc/self/ns/{name}"), Vec::new());
    // Without a process 1 the namespace is not shown.
    matches!((of("pid"), of("pid_for_children")), (Ok(own), Ok(theirs)) if own == theirs)
}

/// A copy of this process, so that it may do what this process may, and with no signal for its end. `None`: this is
/// the copy.
fn copy() -> io::Result<Option<Pid>> {
    // SAFETY: without flags it is fork(2), of a process that has no other thread. The lowest byte is the signal of
    // its end: none.
    let pid = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    let error = std::io::Error::last_os_error();
    match libc::pid_t::try_from(pid) {
        Ok(0) => Ok(None),
        Ok(pid @ 1..) => Ok(Pid::from_raw(pid)),
        _ => Err(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN)),
    }
}

/// The supervisor's parent: its status is what clone(2) said. Error numbers fit.
fn wait_for(parent: Pid) -> io::Result<()> {
    let ended = io::retry_on_intr(|| waitpid(Some(parent), WITHOUT_SIGNAL))?;
    match ended.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        Some(errno) => Err(Errno::from_raw_os_error(errno)),
        None => Err(Errno::CHILD),
    }
}

fn end(status: i32) -> ! {
    // SAFETY: it ends this process, without what the one that it is a copy of left to be done at its end.
    unsafe { libc::_exit(status) }
}

/// In the child: lets go of everything that is the program's, and answers.
fn serve(control: &OwnedFd, values: KeepaliveValues, report: Option<Report>) -> io::Result<()> {
    let keep = [Some(control.as_raw_fd()), report.is_some().then_some(libc::STDERR_FILENO)];
    let own = let_go(&keep).and_then(|()| Own::read());
    match own {
        Ok(mut own) => {
            handover::say_ready(control, Ok(()))?;
            supervisor::live(control, &mut own, values, report)
        }
        Err(errno) => handover::say_ready(control, Err(errno)),
    }
}

/// Leaves the terminal, the working folder and all descriptors but `keep`. All signals are blocked already.
fn let_go(keep: &[Option<RawFd>]) -> io::Result<()> {
    setsid()?;
    chdir("/")?;
    for number in inherited::descriptors()? {
        if !keep.contains(&Some(number)) {
            // SAFETY: nothing that this process still does uses it; one that is closed already is EBADF.
            unsafe { libc::close(number) };
        }
    }
    // So that no socket gets the number of standard error.
    while let Ok(null) = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        if null.as_raw_fd() > libc::STDERR_FILENO {
            break;
        }
        let _ = null.into_raw_fd();
    }
    Ok(())
}
