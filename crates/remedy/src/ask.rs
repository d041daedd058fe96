//! Is it still open? One keepalive probe of the kernel's on a quiet connection, up to three times.
//!
//! The options that make the kernel send exactly one are the program's own afterwards: a second process puts
//! them back when this one is done with them, or has died.
#![allow(unsafe_code, reason = "fork: the second process, with its reason")]
#![allow(clippy::disallowed_methods, reason = "a probe's answer is waited for in real time")]

use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd},
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::{
    io::{Errno, read, write},
    net::sockopt,
    pipe::{PipeFlags, pipe_with},
    process::{Pid, Resource, Rlimit, WaitOptions, getrlimit, setrlimit, setsid, waitpid},
};
use stillopen_collect::SocketOptions;
use stillopen_model::{Keepalive, KeepaliveTimes, KeepaliveValues};

use crate::{
    Refusal,
    options::put_back_unless_changed,
    signals,
    socket::{has_data_in_flight, has_ended, tcp_info},
};

/// How many sockets are asked at once: each is a descriptor of this process.
pub const BATCH: usize = 128;

/// How often one is asked.
const TRIES: u32 = 3;
/// For how long one is waited for after each.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the sockets are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(5);

/// What a socket has while it is asked, with `TCP_USER_TIMEOUT` 0. Quiet for a second, it probes at once; after one
/// probe none follows by itself (`MAX_TCP_KEEPINTVL`), and no number of lost ones ends it (`MAX_TCP_KEEPCNT`,
/// `include/net/tcp.h`).
pub(crate) const ASKING: KeepaliveValues = KeepaliveValues {
    idle: Duration::from_secs(1),
    interval: Duration::from_secs(32_767),
    count: 127,
};

/// What a question may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stakes {
    /// Whatever comes of it, the connection lives on as long as it would have. Lost probes stay counted until
    /// something answers, and the socket's own keepalive counts on from there: so it is asked less often than its
    /// count allows, and not at all where it has a `TCP_USER_TIMEOUT`.
    Harmless,
    /// What does not answer is ended anyway.
    Last,
}

/// What an asked connection did.
#[derive(Debug)]
pub enum Answer {
    /// The peer is there, and so is the path.
    Answers {
        /// How many probes it took; 0: a packet came within the last second.
        probes: u32,
    },
    /// So many probes, one a second, got no answer.
    NoAnswer {
        /// How many.
        probes: u32,
    },
    /// A probe drew a reset: the connection has ended.
    Reset,
    /// Data is in flight: keepalive does not run, and the data asks already. It was left alone.
    InFlight,
    /// It is not established. It was left alone.
    NotEstablished,
    /// Its own keepalive asks, and one more probe that is lost might end it. It was left alone.
    OwnKeepalive,
    /// It could not be asked.
    Refused(Refusal),
}

/// `TCP_ESTABLISHED` (`include/net/tcp_states.h`)
const ESTABLISHED: u8 = 1;

/// Asks [`BATCH`] sockets at most, all at the same time: three seconds at the longest. A socket is let go as soon
/// as it has answered.
///
/// # Errors
/// No second process could be started: nothing has been changed then. Or not every option could be put back.
pub fn ask(sockets: Vec<OwnedFd>, stakes: Stakes) -> io::Result<Vec<Answer>> {
    let mut asked: Vec<Asked> =
        sockets.into_iter().map(|socket| Asked::new(socket, stakes)).collect();
    if asked.iter().all(|one| one.answer.is_some()) {
        return Ok(asked.into_iter().map(Asked::answer).collect());
    }
    let guard = Guard::start(&asked)?;
    let is_open = |one: &&mut (u8, &mut Asked)| one.1.answer.is_none();
    for (number, one) in (0..).zip(&mut asked) {
        if one.answer.is_none()
            && let Err(errno) = one.prepare()
        {
            one.answer = Some(Answer::Refused(Refusal::Options(errno.into())));
            guard.settled(number);
        }
    }
    for probes in 1..=TRIES {
        for one in asked.iter_mut().filter(|one| one.answer.is_none() && probes <= one.tries) {
            one.probe();
        }
        let start = Instant::now();
        while start.elapsed() < PATIENCE && asked.iter().any(|one| one.answer.is_none()) {
            sleep(LOOK);
            let mut open: Vec<(u8, &mut Asked)> = (0..).zip(&mut asked).collect();
            for (number, one) in open.iter_mut().filter(is_open) {
                one.look(start, probes.min(one.tries));
                if one.answer.is_some() {
                    one.let_go();
                    guard.settled(*number);
                }
            }
        }
    }
    guard.put_back()?;
    Ok(asked.into_iter().map(Asked::answer).collect())
}

/// How many sockets can be asked at once: [`BATCH`], or fewer where the limit of open files is small. The soft
/// limit of this process becomes the hard one.
#[must_use]
pub fn batch_size() -> usize {
    open_at_once().min(BATCH)
}

/// How many sockets this process can have open at once. The soft limit of open files becomes the hard one.
#[must_use]
pub fn open_at_once() -> usize {
    /// Standard streams, a process, a pipe, a list of files, and some to spare.
    const OTHERS: u64 = 12;
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let files = if raised.is_ok() { limit.maximum } else { limit.current };
    let room = files.map_or(u64::MAX, |files| files.saturating_sub(OTHERS));
    usize::try_from(room).unwrap_or(usize::MAX).max(2)
}

/// Whether another run asks this socket now.
pub(crate) fn is_being_asked(options: &SocketOptions) -> bool {
    options.keepalive.on_values() == Some(ASKING) && options.user_timeout.get().is_zero()
}

/// One socket, being asked.
struct Asked {
    /// `None`: it was let go.
    socket: Option<OwnedFd>,
    /// `None`: it could not be read, and is not changed.
    before: Option<SocketOptions>,
    /// How many probes it may be sent.
    tries: u32,
    answer: Option<Answer>,
}

impl Asked {
    fn new(socket: OwnedFd, stakes: Stakes) -> Self {
        match Self::before(&socket, stakes) {
            Ok((before, tries, answer)) => {
                Self { socket: Some(socket), before: Some(before), tries, answer }
            }
            Err(cause) => {
                let answer = Some(Answer::Refused(Refusal::Options(cause)));
                Self { socket: Some(socket), before: None, tries: 0, answer }
            }
        }
    }

    /// Its options, how often it may be asked, and what needs no probe to be told.
    fn before(
        socket: &OwnedFd,
        stakes: Stakes,
    ) -> io::Result<(SocketOptions, u32, Option<Answer>)> {
        let before = SocketOptions::read(socket)?;
        let info = tcp_info(socket)?;
        let counters = &info.counters;
        let tries = match (stakes, before.keepalive) {
            (Stakes::Harmless, Keepalive::On(KeepaliveTimes { count: Some(count), .. })) => {
                let by_count = count.saturating_sub(1 + u32::from(info.probes));
                if before.user_timeout.get().is_zero() { by_count.min(TRIES) } else { 0 }
            }
            _ => TRIES,
        };
        let answer = if has_ended(&info) {
            Some(Answer::Reset)
        } else if info.state != ESTABLISHED {
            Some(Answer::NotEstablished)
        } else if is_being_asked(&before) {
            Some(Answer::Refused(Refusal::BeingAsked))
        } else if counters.last_ack_recv.min(counters.last_data_recv).get() < ASKING.idle {
            Some(Answer::Answers { probes: 0 })
        } else if has_data_in_flight(socket)? {
            Some(Answer::InFlight)
        } else if tries == 0 {
            Some(Answer::OwnKeepalive)
        } else {
            None
        };
        Ok((before, tries, answer))
    }

    /// From now on one probe, and no second one by itself, whatever becomes of it.
    fn prepare(&self) -> Result<(), Errno> {
        let Some(socket) = &self.socket else { return Ok(()) };
        sockopt::set_tcp_user_timeout(socket, 0)?;
        sockopt::set_tcp_keepintvl(socket, ASKING.interval)?;
        sockopt::set_tcp_keepcnt(socket, ASKING.count)?;
        sockopt::set_socket_keepalive(socket, true)
    }

    fn probe(&mut self) {
        let Some(socket) = &self.socket else { return };
        if let Err(errno) = sockopt::set_tcp_keepidle(socket, ASKING.idle) {
            self.answer = Some(Answer::Refused(Refusal::Options(errno.into())));
        }
    }

    fn look(&mut self, asked_at: Instant, probes: u32) {
        let Some(socket) = &self.socket else { return };
        match tcp_info(socket) {
            Ok(info) if has_ended(&info) => self.answer = Some(Answer::Reset),
            Ok(info) => {
                let heard = info.counters.last_ack_recv.min(info.counters.last_data_recv).get();
                if heard < asked_at.elapsed() {
                    self.answer = Some(Answer::Answers { probes });
                }
            }
            Err(cause) => self.answer = Some(Answer::Refused(Refusal::Options(cause))),
        }
    }

    /// Puts its options back and closes this descriptor, which holds up the end of a socket that its program
    /// closes.
    fn let_go(&mut self) {
        if let (Some(socket), Some(before)) = (self.socket.take(), self.before)
            && let Err(errno) = put_back_unless_changed(&socket, before)
        {
            self.answer = Some(Answer::Refused(Refusal::Options(errno.into())));
        }
    }

    fn answer(self) -> Answer {
        self.answer.unwrap_or(Answer::NoAnswer { probes: self.tries })
    }
}

/// A process that puts the sockets' options back as soon as this one lets go, however it ends.
struct Guard {
    let_go: OwnedFd,
    pid: Pid,
}

impl Guard {
    fn start(asked: &[Asked]) -> io::Result<Self> {
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

    /// This one's options have been put back: it can be closed there, too.
    fn settled(&self, number: u8) {
        // Where the other process is gone, nothing more is to be done either.
        let _ = write(&self.let_go, &[number]);
    }

    fn put_back(self) -> io::Result<()> {
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
                    && let Some(socket) = &one.socket
                {
                    *settled = true;
                    // SAFETY: this process never drops its copy of the list, so nobody closes it again.
                    unsafe { libc::close(socket.as_raw_fd()) };
                }
            }
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    let mut result = Ok(());
    for (one, settled) in asked.iter().zip(settled) {
        if let (false, None, Some(before), Some(socket)) =
            (settled, &one.answer, one.before, &one.socket)
        {
            result = put_back_unless_changed(socket, before).and(result);
        }
    }
    result
}
