//! Signals that a terminal or a supervisor sends to this process and means for the client.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd},
    ptr,
};

use rustix::{io::read, process::Signal};

/// Those that end a program or ask it something. Stopping (Ctrl-Z) is left to the kernel: it stops all.
const MEANT: [libc::c_int; 6] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2];

/// The signals of this thread while a client runs. Dropped, it is as it was before.
pub(super) struct Signals {
    /// Where they are read, if they are taken from this process.
    taken: Option<OwnedFd>,
    before: libc::sigset_t,
}

impl Signals {
    /// Those that this thread lets in stay as they are.
    pub(super) fn untouched() -> Self {
        Self { taken: None, before: change(None) }
    }

    /// Takes them, so that they can be handed on.
    pub(super) fn take() -> io::Result<Self> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: the set is initialised before it is used; the descriptor is new and nobody else's.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in MEANT {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            let set = set.assume_init();
            let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            let taken = Some(OwnedFd::from_raw_fd(fd));
            Ok(Self { taken, before: change(Some((libc::SIG_BLOCK, &set))) })
        }
    }

    /// What a program is to be started with.
    pub(super) fn before(&self) -> libc::sigset_t {
        self.before
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.taken.as_ref().map(AsFd::as_fd)
    }

    /// The next one that has come, and whether to hand it on. What keys of the terminal send has come to the
    /// client too; its hang-up goes to the first process of the session alone, which may be this one.
    pub(super) fn next(&self) -> Option<(Signal, bool)> {
        let mut bytes = [0; size_of::<libc::signalfd_siginfo>()];
        let got = read(self.taken.as_ref()?, &mut bytes).ok()?;
        let word = |at: usize| Some(i32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        // ssi_signo, ssi_errno, ssi_code
        let (number, code) = (word(0)?, word(8)?);
        let signal = Signal::from_named_raw(number)?;
        let hand_on = signal == Signal::HUP || code != libc::SI_KERNEL;
        (got == bytes.len()).then_some((signal, hand_on))
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        if self.taken.is_some() {
            change(Some((libc::SIG_SETMASK, &self.before)));
        }
    }
}

/// Changes this thread's mask; returns what it was.
fn change(how: Option<(libc::c_int, &libc::sigset_t)>) -> libc::sigset_t {
    let mut before = MaybeUninit::uninit();
    let (how, set) =
        how.map_or((libc::SIG_BLOCK, ptr::null()), |(how, set)| (how, ptr::from_ref(set)));
    // SAFETY: the set is null or valid, and the kernel writes the old one.
    unsafe {
        libc::pthread_sigmask(how, set, before.as_mut_ptr());
        before.assume_init()
    }
}
