//! TCP sockets that a program will find open when it starts.
#![allow(
    unsafe_code,
    reason = "descriptors that this process has by inheritance have no owner in Rust"
)]

use std::os::fd::{BorrowedFd, RawFd};

use rustix::{
    fs::{Dir, Mode, OFlags, open},
    io::{self, FdFlags, fcntl_getfd},
    net::{SocketType, ipproto, sockopt},
};
use stillopen_model::KeepaliveValues;

use super::counts::{Counts, Why};
use crate::turn_on;

/// Turns keepalive on for every TCP socket of this process that outlives execve(2), listeners too.
///
/// # Errors
/// The list of its descriptors can't be read.
pub(super) fn arm(values: KeepaliveValues) -> io::Result<Counts> {
    let mut counts = Counts::default();
    for number in descriptors()? {
        // SAFETY: this thread is the process's only one, and closes nothing meanwhile. One that is closed all the
        // same, as that of the list itself, is EBADF.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let stays = fcntl_getfd(descriptor).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC));
        if !stays || !is_tcp(descriptor) {
            continue;
        }
        match turn_on(descriptor, values) {
            Ok(()) => counts.inherited += 1,
            Err(errno) => counts.leave_alone(Why::Refused("setsockopt", errno.raw_os_error())),
        }
    }
    Ok(counts)
}

/// A raw socket has a protocol, too.
fn is_tcp(descriptor: BorrowedFd<'_>) -> bool {
    let protocol = sockopt::socket_protocol(descriptor).ok().flatten();
    matches!(protocol, Some(ipproto::TCP | ipproto::MPTCP))
        && sockopt::socket_type(descriptor) == Ok(SocketType::STREAM)
}

/// The numbers of this process's open descriptors; the one that they are read from may be among them.
///
/// # Errors
/// `/proc/self/fd` can't be read.
pub(super) fn descriptors() -> io::Result<Vec<RawFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut entries = Dir::read_from(open("/proc/self/fd", flags, Mode::empty())?)?;
    let mut numbers = Vec::new();
    while let Some(entry) = entries.read() {
        numbers
            .extend(entry?.file_name().to_str().ok().and_then(|name| name.parse::<RawFd>().ok()));
    }
    Ok(numbers)
}
