//! What the kernel tells of a thread by its pidfd, in one call: `PIDFD_GET_INFO` of `linux/pidfd.h`, from Linux
//! 6.13.
#![allow(unsafe_code, reason = "no safe binding has this ioctl")]

use std::os::fd::OwnedFd;

use rustix::{
    io::{self, Errno},
    ioctl::{Updater, ioctl, opcode},
    process::{Pid, PidfdFlags, pidfd_open},
};

/// What a new socket belongs to: `fsuid` and `fsgid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct User {
    pub(super) user: u32,
    pub(super) group: u32,
}

/// Of a thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Information {
    pub(super) user: User,
    /// Of version 2; `None`: the kernel has none.
    pub(super) cgroup: Option<u64>,
}

/// `struct pidfd_info` as Linux 6.13 has it; a later one fills a shorter structure, too.
#[repr(C)]
#[derive(Default)]
struct Info {
    /// What is asked for; then, what was told.
    mask: u64,
    cgroup: u64,
    _ids: [u32; 3],
    /// Real, effective and saved user and group.
    _credentials: [u32; 6],
    user: u32,
    group: u32,
    _exit_code: u32,
}

/// `PIDFD_INFO_CREDS`
const CREDENTIALS: u64 = 1 << 1;
/// `PIDFD_INFO_CGROUPID`
const CGROUP: u64 = 1 << 2;

/// `PIDFD_THREAD`, from Linux 6.9: one thread, and not the process that it leads.
const THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL.cast_unsigned());

/// Of a thread, as this process's pid namespace numbers it.
///
/// # Errors
/// `EINVAL` before Linux 6.9; `ESRCH`: there is none.
pub(super) fn pidfd(thread: u32) -> io::Result<OwnedFd> {
    let thread = i32::try_from(thread).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    pidfd_open(thread, THREAD)
}

/// # Errors
/// `ENOTTY` or `EINVAL` before Linux 6.13; `ESRCH`: it has ended.
pub(super) fn information(pidfd: &OwnedFd) -> io::Result<Information> {
    const GET_INFO: u32 = opcode::read_write::<Info>(0xFF, 11);
    let mut info = Info { mask: CREDENTIALS | CGROUP, ..Info::default() };
    // SAFETY: of an Info of the size that is in the number the kernel reads and writes so many bytes.
    unsafe { ioctl(pidfd, Updater::<GET_INFO, _>::new(&mut info))? };
    if info.mask & CREDENTIALS == 0 {
        return Err(Errno::INVAL);
    }
    let user = User { user: info.user, group: info.group };
    Ok(Information { user, cgroup: (info.mask & CGROUP != 0).then_some(info.cgroup) })
}
