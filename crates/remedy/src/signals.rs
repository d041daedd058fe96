//! Signals that a child is not to have.
#![allow(unsafe_code, reason = "signal masks, which no safe library has")]

use std::{mem::MaybeUninit, ptr};

/// Blocks all signals of this thread, and gives what was blocked before.
pub(crate) fn block_all() -> libc::sigset_t {
    let mut old = MaybeUninit::uninit();
    // SAFETY: both sets are written by the calls before they are read.
    unsafe {
        let mut all = MaybeUninit::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr());
        old.assume_init()
    }
}

/// Blocks what `mask` has, and nothing else.
pub(crate) fn restore(mask: &libc::sigset_t) {
    // SAFETY: the set is valid, and where the old one is not wanted a null pointer is allowed.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, mask, ptr::null_mut()) };
}
