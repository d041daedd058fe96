//! Is it still open? One keepalive probe of the kernel's on a quiet connection, up to three times.
//!
//! The options that make the kernel send exactly one are the program's own afterwards: a second process puts
//! them back when this one is done with them, or has died.
#![allow(unsafe_code, reason = "fork: the second process, with its reason")]
#![allow(clippy::disallowed_methods, reason = "a probe's answer is waited for in real time")]

use std::{
    io,
    os::fd::OwnedFd,
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::{
    io::{Errno, read},
    net::sockopt,
    pipe::{PipeFlags, pipe_with},
    process::{Pid, WaitOptions, setsid, waitpid},
};
use stillopen_collect::SocketOptions;

use crate::{
    Refusal,
    socket::{has_data_in_flight, has_ended, tcp_info},
    undo::put_back,
};

/// How many sockets are asked at once: each is a descriptor of this process.
pub const BATCH: usize = 128;

/// How often one is asked.
const TRIES: u32 = 3;
/// For how long one is waited for after each.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the sockets are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(5);

/// `MAX_TCP_KEEPINTVL` (`include/net/tcp.h`): after one probe, none follows by itself.
const LONGEST_INTERVAL: Duration = Duration::from_secs(32_767);
/// `MAX_TCP_KEEPCNT`: no number of lost probes ends the connection.
const MOST_PROBES: u32 = 127;
/// The shortest `TCP_KEEPIDLE`: quiet for longer, it probes at once.
const SHORTEST_IDLE: Duration = Duration::from_secs(1);

/// What an asked connection did.
#[derive(Debug)]
pub enum Answer {
    /// The peer is there, and so is the path.
    Answers {
        /// How many probes it took; 0: a packet came within the last second.
        probes: u32,
    },
    /// Three probes got no answer.
    NoAnswer,
    /// A probe drew a reset: the connection has ended.
    Reset,
    /// Data is in flight: keepalive does not run, and the data asks already. It was left alone.
    InFlight,
    /// It is not established. It was left alone.
    NotEstablished,
    /// It could not be asked.
    Refused(Refusal),
}

/// `TCP_ESTABLISHED` (`include/net/tcp_states.h`)
const ESTABLISHED: u8 = 1;

/// Asks [`BATCH`] sockets at most, all at the same time: three seconds at the longest.
///
/// # Errors
/// No second process could be started. Nothing has been changed then.
pub fn ask(sockets: Vec<OwnedFd>) -> io::Result<Vec<Answer>> {
    let mut asked: Vec<Asked> = sockets.into_iter().map(Asked::new).collect();
    let changed = asked.iter().filter(|one| one.answer.is_none());
    if changed.clone().next().is_none() {
        return Ok(asked.into_iter().map(Asked::answer).collect());
    }
    let guard = Guard::start(&asked)?;
    for one in asked.iter_mut().filter(|one| one.answer.is_none()) {
        if let Err(errno) = one.prepare() {
            one.answer = Some(Answer::Refused(Refusal::Options(errno.into())));
        }
    }
    for probes in 1..=TRIES {
        for one in asked.iter_mut().filter(|one| one.answer.is_none()) {
            if let Err(errno) = sockopt::set_tcp_keepidle(&one.socket, SHORTEST_IDLE) {
                one.answer = Some(Answer::Refused(Refusal::Options(errno.into())));
            }
        }
        let start = Instant::now();
        while start.elapsed() < PATIENCE && asked.iter().any(|one| one.answer.is_none()) {
            sleep(LOOK);
            for one in asked.iter_mut().filter(|one| one.answer.is_none()) {
                one.look(start, probes);
            }
        }
    }
    guard.put_back()?;
    Ok(asked.into_iter().map(Asked::answer).collect())
}

/// One socket, being asked.
struct Asked {
    socket: OwnedFd,
    /// `None`: it could not be read, and is not changed.
    before: Option<SocketOptions>,
    answer: Option<Answer>,
}

impl Asked {
    fn new(socket: OwnedFd) -> Self {
        let before = SocketOptions::read(&socket);
        let answer = match (without_a_probe(&socket), &before) {
            (Err(cause), _) => Some(Answer::Refused(Refusal::Options(cause))),
            (_, Err(errno)) => Some(Answer::Refused(Refusal::Options((*errno).into()))),
            (Ok(answer), Ok(_)) => answer,
        };
        Self { socket, before: before.ok(), answer }
    }

    /// One probe and no second one by itself, whatever becomes of it.
    fn prepare(&self) -> Result<(), Errno> {
        sockopt::set_tcp_user_timeout(&self.socket, 0)?;
        sockopt::set_tcp_keepintvl(&self.socket, LONGEST_INTERVAL)?;
        sockopt::set_tcp_keepcnt(&self.socket, MOST_PROBES)?;
        sockopt::set_socket_keepalive(&self.socket, true)
    }

    fn look(&mut self, asked_at: Instant, probes: u32) {
        match tcp_info(&self.socket) {
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

    fn answer(self) -> Answer {
        self.answer.unwrap_or(Answer::NoAnswer)
    }
}

/// What needs no probe to be told.
fn without_a_probe(socket: &OwnedFd) -> io::Result<Option<Answer>> {
    let info = tcp_info(socket)?;
    let counters = &info.counters;
    Ok(if has_ended(&info) {
        Some(Answer::Reset)
    } else if info.state != ESTABLISHED {
        Some(Answer::NotEstablished)
    } else if has_data_in_flight(socket)? {
        Some(Answer::InFlight)
    } else if counters.last_ack_recv.min(counters.last_data_recv).get() < SHORTEST_IDLE {
        Some(Answer::Answers { probes: 0 })
    } else {
        None
    })
}

/// A process that puts the sockets' options back as soon as this one lets go, however it ends.
struct Guard {
    let_go: OwnedFd,
    pid: Pid,
}

impl Guard {
    fn start(asked: &[Asked]) -> io::Result<Self> {
        let (until, let_go) = pipe_with(PipeFlags::CLOEXEC)?;
        // SAFETY: what the child does until it ends are system calls on descriptors and memory that exist
        // already; it allocates nothing and takes no lock, so no other thread of this process matters.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(let_go);
                // A terminal's Ctrl-C reaches its session only.
                let _ = setsid();
                while matches!(read(&until, &mut [0_u8; 1]), Err(Errno::INTR)) {}
                let mut status = 0;
                for one in asked {
                    if let (None, Some(before)) = (&one.answer, one.before)
                        && put_back(&one.socket, before).is_err()
                    {
                        status = 1;
                    }
                }
                // SAFETY: it ends this process, and runs nothing that the parent registered.
                unsafe { libc::_exit(status) }
            }
            child => {
                let pid = Pid::from_raw(child).ok_or_else(io::Error::last_os_error)?;
                Ok(Self { let_go, pid })
            }
        }
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
