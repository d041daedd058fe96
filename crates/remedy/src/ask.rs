//! Is it still open? One keepalive probe of the kernel's on a quiet connection, up to three times.
//!
//! The options that make the kernel send exactly one are the program's own afterwards: a second process puts
//! them back when this one is done with them, or has died.
#![allow(clippy::disallowed_methods, reason = "a probe's answer is waited for in real time")]

mod guard;

use std::{
    io,
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    net::sockopt,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use stillopen_collect::SocketOptions;
use stillopen_model::{Keepalive, KeepaliveTimes, KeepaliveValues};

use self::guard::Guard;
use crate::{
    Held, Refusal,
    held::Watch,
    options::put_back_unless_changed,
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
    /// Nothing came, and its program closed it meanwhile.
    Closed,
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
/// as it has answered, or its program has closed it.
///
/// # Errors
/// No second process could be started: nothing has been changed then. Or not every option could be put back.
pub fn ask(sockets: Vec<Held>, stakes: Stakes) -> io::Result<Vec<Answer>> {
    let mut asked: Vec<Asked> =
        sockets.into_iter().map(|socket| Asked::new(socket, stakes)).collect();
    if asked.iter().all(|one| one.answer.is_some()) {
        return Ok(asked.into_iter().map(Asked::answer).collect());
    }
    let guard = Guard::start(&asked)?;
    let mut watch = Watch::beside(guard.pid());
    for one in &mut asked {
        one.meanwhile(Open::prepare);
    }
    for probes in 1..=TRIES {
        for one in &mut asked {
            one.meanwhile(|open| if probes <= open.tries { open.probe() } else { None });
        }
        let start = Instant::now();
        settle(&mut asked, &guard);
        while start.elapsed() < PATIENCE && asked.iter().any(|one| one.answer.is_none()) {
            sleep(LOOK);
            look(&mut asked, &mut watch, start, probes);
            settle(&mut asked, &guard);
        }
    }
    guard.put_back()?;
    Ok(asked.into_iter().map(Asked::answer).collect())
}

/// What has become of each since `asked_at`, when it was sent its last probe.
fn look(asked: &mut [Asked], watch: &mut Watch, asked_at: Instant, probes: u32) {
    for one in asked.iter_mut() {
        one.meanwhile(|open| open.look(asked_at, probes));
    }
    let waiting = asked.iter_mut().enumerate();
    let held = waiting.filter_map(|(at, one)| Some((at, &mut one.waiting()?.socket)));
    for at in watch.closed(held) {
        asked[at].meanwhile(|open| open.look(asked_at, probes).or(Some(Answer::Closed)));
    }
}

/// Lets go of those whose answer is known, here and in the second process.
fn settle(asked: &mut [Asked], guard: &Guard) {
    for (number, one) in (0..).zip(asked) {
        if one.let_go() {
            guard.settled(number);
        }
    }
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

/// One that is to be asked.
struct Asked {
    /// `None`: it was let go, or there is no need to ask.
    open: Option<Open>,
    /// `None`: it is not known yet.
    answer: Option<Answer>,
}

/// A socket, being asked.
struct Open {
    socket: Held,
    before: SocketOptions,
    /// How many probes it may be sent.
    tries: u32,
}

impl Asked {
    /// What is not to be asked is let go at once: others may be waited for.
    fn new(socket: Held, stakes: Stakes) -> Self {
        match needed(&socket, stakes) {
            Ok(Ok((before, tries))) => {
                Self { open: Some(Open { socket, before, tries }), answer: None }
            }
            Ok(Err(answer)) => Self { open: None, answer: Some(answer) },
            Err(cause) => {
                Self { open: None, answer: Some(Answer::Refused(Refusal::Options(cause))) }
            }
        }
    }

    /// One that is being asked, and has not answered yet.
    fn waiting(&mut self) -> Option<&mut Open> {
        self.open.as_mut().filter(|_| self.answer.is_none())
    }

    /// Calls `act` on it while it has no answer; what that gives is its answer.
    fn meanwhile(&mut self, act: impl FnOnce(&Open) -> Option<Answer>) {
        if let Some(open) = self.waiting() {
            self.answer = act(open);
        }
    }

    /// Puts the options back and closes this copy, where the answer is known; whether it did so now.
    fn let_go(&mut self) -> bool {
        let Some(open) = self.open.take_if(|_| self.answer.is_some()) else { return false };
        if let Err(errno) = put_back_unless_changed(&open.socket, open.before) {
            self.answer = Some(cannot_be_set(errno));
        }
        true
    }

    fn answer(self) -> Answer {
        let probes = self.open.map_or(0, |open| open.tries);
        self.answer.unwrap_or(Answer::NoAnswer { probes })
    }
}

/// Its options and how often it may be asked, or what needs no probe to be told.
fn needed(socket: &Held, stakes: Stakes) -> io::Result<Result<(SocketOptions, u32), Answer>> {
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
    Ok(if has_ended(&info) {
        Err(Answer::Reset)
    } else if info.state != ESTABLISHED {
        Err(Answer::NotEstablished)
    } else if is_being_asked(&before) {
        Err(Answer::Refused(Refusal::BeingAsked))
    } else if counters.last_ack_recv.min(counters.last_data_recv).get() < ASKING.idle {
        Err(Answer::Answers { probes: 0 })
    } else if has_data_in_flight(socket)? {
        Err(Answer::InFlight)
    } else if tries == 0 {
        Err(Answer::OwnKeepalive)
    } else {
        Ok((before, tries))
    })
}

impl Open {
    /// From now on one probe, and no second one by itself, whatever becomes of it.
    fn prepare(&self) -> Option<Answer> {
        let Self { socket, .. } = self;
        sockopt::set_tcp_user_timeout(socket, 0)
            .and_then(|()| sockopt::set_tcp_keepintvl(socket, ASKING.interval))
            .and_then(|()| sockopt::set_tcp_keepcnt(socket, ASKING.count))
            .and_then(|()| sockopt::set_socket_keepalive(socket, true))
            .err()
            .map(cannot_be_set)
    }

    fn probe(&self) -> Option<Answer> {
        sockopt::set_tcp_keepidle(&self.socket, ASKING.idle).err().map(cannot_be_set)
    }

    fn look(&self, asked_at: Instant, probes: u32) -> Option<Answer> {
        let probes = probes.min(self.tries);
        match tcp_info(&self.socket) {
            Ok(info) if has_ended(&info) => Some(Answer::Reset),
            Ok(info) => {
                let heard = info.counters.last_ack_recv.min(info.counters.last_data_recv).get();
                (heard < asked_at.elapsed()).then_some(Answer::Answers { probes })
            }
            Err(cause) => Some(Answer::Refused(Refusal::Options(cause))),
        }
    }
}

fn cannot_be_set(errno: Errno) -> Answer {
    Answer::Refused(Refusal::Options(errno.into()))
}
