//! What Rust's runtime changes before `main`, as this process was given it: a program that it becomes gets that.
//!
//! The runtime ignores `SIGPIPE`, and opens `/dev/null` for each standard stream that is closed
//! (`library/std/src/sys/pal/unix/mod.rs`). Afterwards nothing tells what was there; so it is read before, as one of
//! the constructors that the C library calls ahead of `main`.
#![allow(unsafe_code, reason = "a constructor, and signal dispositions, which no safe library has")]

use std::{
    mem::MaybeUninit,
    os::fd::BorrowedFd,
    ptr,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use rustix::io::{FdFlags, fcntl_setfd};

static IGNORED_SIGPIPE: AtomicBool = AtomicBool::new(false);
/// Standard input, output and error, by their number.
static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

// SAFETY: the section is a list of pointers to such functions (System V ABI, "Initialization and Termination
// Functions"). This one needs nothing that Rust's runtime sets up.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = read;

extern "C" fn read() {
    // SAFETY: the C library is ready before it calls constructors. With null nothing is set, and the old action is
    // read only where the call has written it. A number that is no descriptor is EBADF.
    unsafe {
        let mut action = MaybeUninit::<libc::sigaction>::uninit();
        if libc::sigaction(libc::SIGPIPE, ptr::null(), action.as_mut_ptr()) == 0 {
            let ignored = action.assume_init().sa_sigaction == libc::SIG_IGN;
            IGNORED_SIGPIPE.store(ignored, Relaxed);
        }
        for (number, closed) in (0..).zip(&CLOSED) {
            closed.store(libc::fcntl(number, libc::F_GETFD) == -1, Relaxed);
        }
    }
}

/// Until it is dropped, a program that this process becomes finds what this process found.
pub(super) struct AsFound(());

pub(super) fn as_found() -> AsFound {
    if !IGNORED_SIGPIPE.load(Relaxed) {
        set_sigpipe(libc::SIG_DFL);
    }
    for (number, closed) in (0..).zip(&CLOSED) {
        if closed.load(Relaxed) {
            // SAFETY: the runtime has opened it, and nothing closes a standard stream.
            let stream = unsafe { BorrowedFd::borrow_raw(number) };
            // The one failure is that it is closed again, which is what this is for.
            let _ = fcntl_setfd(stream, FdFlags::CLOEXEC);
        }
    }
    AsFound(())
}

impl Drop for AsFound {
    fn drop(&mut self) {
        // Whoever does not read what is said of a failure does not change its exit status.
        set_sigpipe(libc::SIG_IGN);
    }
}

fn set_sigpipe(action: libc::sighandler_t) {
    // SAFETY: the actions are the kernel's own, and no code of this program.
    unsafe { libc::signal(libc::SIGPIPE, action) };
}
