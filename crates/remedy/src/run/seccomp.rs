//! The system calls of seccomp user notification (`seccomp_unotify(2)`).
#![allow(
    unsafe_code,
    reason = "no safe binding has seccomp(2) and its ioctls; each with its reason"
)]

use std::{
    mem::MaybeUninit,
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
    ptr,
};

use libc::{
    SECCOMP_FILTER_FLAG_NEW_LISTENER, SECCOMP_FILTER_FLAG_SPEC_ALLOW,
    SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, SECCOMP_GET_NOTIF_SIZES, SECCOMP_SET_MODE_FILTER,
    SECCOMP_USER_NOTIF_FLAG_CONTINUE, SYS_seccomp, c_long, c_uint, c_ulong, c_void, seccomp_notif,
    seccomp_notif_addfd, seccomp_notif_resp, seccomp_notif_sizes, sock_fprog,
};
use rustix::io::{self, Errno};

use super::filter;

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP` of `linux/seccomp.h`: whoever waits runs next on the same processor.
const SYNC_WAKE_UP: c_ulong = 1;

/// Puts this thread, and what it starts, under [`filter::program`]; calls that it asks about wait at the
/// listener. `WAIT_KILLABLE_RECV`: once one is received only death takes it back, so nothing leaks. `SPEC_ALLOW`:
/// this is no sandbox, so the processor need not be slowed down for it as some kernels do.
///
/// # Errors
/// Those of seccomp(2): `EACCES` without `no_new_privs` and `CAP_SYS_ADMIN`, `EBUSY` under another listener,
/// `EINVAL` before Linux 5.19.
pub(super) fn install() -> io::Result<OwnedFd> {
    let mut program = filter::program().ok_or(Errno::NOSYS)?;
    let length = program.len().try_into().map_err(|_| Errno::INVAL)?;
    let program = sock_fprog { len: length, filter: program.as_mut_ptr() };
    let flags = SECCOMP_FILTER_FLAG_NEW_LISTENER
        | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
        | SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    let listener = seccomp(SECCOMP_SET_MODE_FILTER, flags, (&raw const program).cast())?;
    let listener = listener.try_into().map_err(|_| Errno::OVERFLOW)?;
    // SAFETY: with NEW_LISTENER, seccomp returns a new descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(listener) })
}

/// Whether this kernel can notify, in messages that this program has room for.
///
/// # Errors
/// It can't, or something on the way forbids to ask.
pub(super) fn available() -> io::Result<()> {
    let mut sizes =
        seccomp_notif_sizes { seccomp_notif: 0, seccomp_notif_resp: 0, seccomp_data: 0 };
    seccomp(SECCOMP_GET_NOTIF_SIZES, 0, (&raw mut sizes).cast())?;
    let fits = usize::from(sizes.seccomp_notif) <= size_of::<Room<seccomp_notif>>()
        && usize::from(sizes.seccomp_notif_resp) <= size_of::<Room<seccomp_notif_resp>>();
    if fits { Ok(()) } else { Err(Errno::NOSYS) }
}

fn seccomp(operation: c_uint, flags: c_ulong, args: *const c_void) -> io::Result<c_long> {
    // SAFETY: both callers pass what the operation takes: a program that outlives the call, and a place for the
    // sizes.
    done(unsafe { libc::syscall(SYS_seccomp, operation, flags, args) })
}

/// A structure with room behind it: a later kernel may know a longer one.
#[repr(C)]
struct Room<T> {
    known: T,
    more: [u64; 16],
}

/// One call that waits for its answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    id: u64,
    /// The thread, as this process's pid namespace numbers it; 0 where it has no number there.
    pub(super) thread: u32,
    /// The arguments of socket(2).
    pub(super) args: [i32; 3],
}

/// The listener of a filter.
pub(super) struct Listener<'a>(pub(super) BorrowedFd<'a>);

impl Listener<'_> {
    /// Has a thread that waits for its answer run at once when it gets it. Before Linux 6.6 nothing happens.
    pub(super) fn wake_at_once(&self) {
        // SAFETY: the argument is a number.
        unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP)
        };
    }

    /// The next call.
    ///
    /// # Errors
    /// `ENOENT`: it was there, and its thread has been interrupted or killed since.
    pub(super) fn receive(&self) -> io::Result<Call> {
        // SAFETY: numbers, for which zero is valid; the kernel demands zeros.
        let mut room: Room<seccomp_notif> = unsafe { MaybeUninit::zeroed().assume_init() };
        let at = &raw mut room;
        // SAFETY: the kernel writes one seccomp_notif of its own size, which `available` has compared.
        done(unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, at).into()
        })?;
        let seccomp_notif { id, pid, data, .. } = room.known;
        let [domain, r#type, protocol, ..] = data.args;
        // The kernel reads the low words.
        #[expect(clippy::cast_possible_truncation, reason = "that is what the kernel does")]
        let args = [domain, r#type, protocol].map(|arg| arg as i32);
        Ok(Call { id, thread: pid, args })
    }

    /// Whether the thread still waits: its number in /proc is then its own.
    pub(super) fn still_waits(&self, call: Call) -> bool {
        let id = &raw const call.id;
        // SAFETY: the kernel reads one u64.
        done(unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, id).into()
        })
        .is_ok()
    }

    /// Puts `socket` into the caller's table, and gives its number there. The caller goes on waiting.
    ///
    /// # Errors
    /// `EMFILE`: its table is full; `ENOENT`: it is gone; what a security module says.
    pub(super) fn put(
        &self,
        call: Call,
        socket: BorrowedFd<'_>,
        close_on_exec: bool,
    ) -> io::Result<u32> {
        let addfd = seccomp_notif_addfd {
            id: call.id,
            flags: 0,
            srcfd: socket.as_raw_fd().cast_unsigned(),
            newfd: 0,
            newfd_flags: if close_on_exec { libc::O_CLOEXEC.cast_unsigned() } else { 0 },
        };
        let at = &raw const addfd;
        // SAFETY: the kernel reads one seccomp_notif_addfd, whose size is in the request's number.
        let number = done(unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, at).into()
        })?;
        number.try_into().map_err(|_| Errno::OVERFLOW)
    }

    /// Ends the call with `result`.
    pub(super) fn answer(&self, call: Call, result: Result<u32, Errno>) {
        let (val, error) = match result {
            Ok(number) => (number.into(), 0),
            Err(errno) => (0, -errno.raw_os_error()),
        };
        self.send(seccomp_notif_resp { id: call.id, val, error, flags: 0 });
    }

    /// Leaves the call to the kernel. Its arguments are numbers in registers: nobody can exchange them.
    pub(super) fn leave_alone(&self, call: Call) {
        let flags = u32::try_from(SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or_default();
        self.send(seccomp_notif_resp { id: call.id, val: 0, error: 0, flags });
    }

    /// The only failure is that the thread is gone: nobody is left to be answered.
    fn send(&self, answer: seccomp_notif_resp) {
        let mut room = Room { known: answer, more: [0; 16] };
        let at = ptr::from_mut(&mut room);
        // SAFETY: the kernel reads one seccomp_notif_resp of its own size, which `available` has compared.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, at) };
    }
}

/// A system call's return value.
fn done(returned: c_long) -> io::Result<c_long> {
    if returned == -1 {
        let errno = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&errno).unwrap_or(Errno::IO));
    }
    Ok(returned)
}
