//! What the probe met that goes out at once where keepalive is turned on on a connection that has been quiet for longer.
#![allow(clippy::disallowed_methods, reason = "a probe's answer is waited for in real time")]

use std::{
    io,
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{
    Held,
    held::Watch,
    socket::{has_ended, tcp_info},
};

/// For how long all of them together are waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often they are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(5);

/// What it met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstProbe {
    /// The path and the peer are there.
    Answered,
    /// Nothing yet, and the connection is open.
    NoAnswerYet,
    /// The connection has ended: by a reset, or by a keepalive that gives up within these seconds.
    Ended,
    /// Nothing, and its program closed the connection meanwhile.
    Closed,
}

impl FirstProbe {
    /// The word of the JSON output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::NoAnswerYet => "no_answer_yet",
            Self::Ended => "ended",
            Self::Closed => "closed",
        }
    }
}

/// A connection whose first probe goes out now.
#[derive(Debug)]
pub struct Probed {
    socket: Held,
    heard: Duration,
    since: Instant,
}

impl Probed {
    /// `socket` was probed a moment ago, when its peer had last been heard `heard` ago: a second at the least.
    #[must_use]
    pub fn new(socket: Held, heard: Duration) -> Self {
        Self { socket, heard, since: Instant::now() }
    }

    /// A socket that can't be read stays what it was: nothing is known of an answer.
    fn look(&self) -> FirstProbe {
        self.read().unwrap_or(FirstProbe::NoAnswerYet)
    }

    fn read(&self) -> io::Result<FirstProbe> {
        let info = tcp_info(&self.socket)?;
        let heard = info.counters.last_ack_recv.min(info.counters.last_data_recv).get();
        Ok(if has_ended(&info) {
            FirstProbe::Ended
        } else if heard < self.since.elapsed() + self.heard / 2 {
            // Half of it is for the moment from the probe to `since`, and for the kernel's ticks.
            FirstProbe::Answered
        } else {
            FirstProbe::NoAnswerYet
        })
    }
}

/// What each met, two seconds after the last was probed at the latest. A copy is closed as soon as that is known, or
/// its program has closed the socket.
#[must_use]
pub fn first_probes(probed: Vec<Probed>) -> Vec<FirstProbe> {
    let until = probed.iter().map(|one| one.since + PATIENCE).max();
    let mut met = vec![FirstProbe::NoAnswerYet; probed.len()];
    let mut watch = Watch::default();
    let mut open: Vec<(usize, Probed)> = probed.into_iter().enumerate().collect();
    loop {
        open.retain(|(at, one)| {
            met[*at] = one.look();
            met[*at] == FirstProbe::NoAnswerYet
        });
        let closed = watch.closed(open.iter_mut().map(|(at, one)| (*at, &mut one.socket)));
        open.retain(|(at, one)| {
            let is_closed = closed.binary_search(at).is_ok();
            if is_closed {
                met[*at] = match one.look() {
                    FirstProbe::NoAnswerYet => FirstProbe::Closed,
                    it => it,
                };
            }
            !is_closed
        });
        if open.is_empty() || until.is_none_or(|until| Instant::now() >= until) {
            return met;
        }
        sleep(LOOK);
    }
}
