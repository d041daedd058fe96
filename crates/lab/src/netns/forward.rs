//! The path: takes packets from one side's device, asks the middlebox, and hands them to the other's, after
//! as much delay and loss as was asked for.
//!
//! One thread, which waits for packets, for the middlebox's next deadline, for the next delayed packet, or to be
//! told to stop.
#![allow(clippy::disallowed_methods, reason = "real packets come in real time")]

use std::{
    collections::VecDeque,
    fs::File,
    io,
    net::SocketAddr,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    time::{Duration, Instant, SystemTime},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    noted::{Noted, Notes},
    port::{self, Port},
    record::{Record, Way},
};
use crate::{
    exec::{NextProbe, Tally},
    middlebox::{Carried, Fate, Middlebox, Output, Side, TcpState, Timeouts, View, flag},
    netlink::sockets::Sockets,
    random::Random,
};

/// After so many packets it looks for what else there is to do.
const TURN: usize = 128;

/// What the path does besides forgetting.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Weather {
    /// How long a packet is under way, each way.
    pub(super) delay: Duration,
    /// The share of packets that is lost, from 0 to 1, before the middlebox sees them.
    pub(super) loss: f64,
    /// What is lost follows from this.
    pub(super) seed: u64,
}

pub(super) struct Forwarder {
    middlebox: Middlebox,
    /// Of the client's side and of the server's, as [`Side`] has them.
    ports: [Port; 2],
    /// The client's.
    sockets: Sockets,
    weather: Weather,
    random: Random,
    /// What is on its way to each side, in the order of its arrival there.
    under_way: [VecDeque<(Duration, Vec<u8>)>; 2],
    began: Instant,
    tally: Tally,
    record: Option<Record>,
    /// What is noted of each connection, where somebody asked for it.
    notes: Option<Notes>,
    /// The middlebox's own, which is behind while packets wait that came before.
    clock: Duration,
}

/// What came of it.
pub(super) struct Forwarded {
    pub(super) tally: Tally,
    pub(super) took: Duration,
    pub(super) record: Option<Record>,
}

impl Forwarder {
    pub(super) fn new(
        middlebox: Middlebox,
        ports: [Port; 2],
        sockets: Sockets,
        weather: Weather,
        record: Option<File>,
    ) -> io::Result<Self> {
        let record = record.map(|file| Record::begin(file, since_1970()));
        let record = record.transpose()?;
        let random = Random::new(weather.seed, &[]);
        Ok(Self {
            middlebox,
            ports,
            sockets,
            weather,
            random,
            under_way: Default::default(),
            began: Instant::now(),
            tally: Tally::default(),
            record,
            notes: None,
            clock: Duration::ZERO,
        })
    }

    /// Begins to note what becomes of the connections to `vip`.
    pub(super) fn note(&mut self, vip: SocketAddr) {
        self.notes = Some(Notes::new(vip));
    }

    /// What has been noted since the last time.
    pub(super) fn noted(&mut self) -> Vec<Noted> {
        self.notes.as_mut().map(Notes::take).unwrap_or_default()
    }

    /// Changes the path's timeouts; an idle connection keeps the timer that it has.
    pub(super) fn set_timeouts(&mut self, timeouts: &Timeouts) {
        self.middlebox.set_timeouts(timeouts);
    }

    /// Forwards until `stop` can be read from; says what came of it.
    pub(super) fn run(mut self, stop: &OwnedFd) -> io::Result<Forwarded> {
        while !self.turn(&[stop.as_fd()], None)?.contains(&true) {}
        let took = self.now();
        Ok(Forwarded { tally: self.tally, took, record: self.record })
    }

    /// Since it began. The middlebox is told of packets by their arrival.
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits until there is something to forward, one of `others` can be read from, or it is `until`; forwards.
    /// Says which of `others` can be.
    pub(super) fn turn(
        &mut self,
        others: &[BorrowedFd<'_>],
        until: Option<Duration>,
    ) -> io::Result<Vec<bool>> {
        let now = self.now();
        let more = self.ports.iter().any(|port| port.came().is_some()).then_some(now);
        let deadlines = self.under_way.iter().filter_map(|queue| Some(queue.front()?.0));
        let deadlines = deadlines.chain(self.middlebox.poll_timeout());
        let wait = deadlines.chain(until).chain(more).min().map(|due| due.saturating_sub(now));
        // Waits that are too long for the kernel's type are for ever.
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        let ready = PollFlags::IN;
        let mut fds = self.ports.each_ref().map(|port| PollFd::new(port, ready)).to_vec();
        fds.extend(others.iter().map(|&other| PollFd::from_borrowed_fd(other, ready)));
        match poll(&mut fds, wait.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = fds.iter().skip(self.ports.len()).map(|fd| !fd.revents().is_empty()).collect();
        self.take_turn();
        self.deliver(self.now());
        Ok(ready)
    }

    /// Hands packets to the middlebox in the order and at the time of their arrival, and what is due by then: where
    /// this machine let the forwarder wait, the path has not. Takes no more than a turn's.
    fn take_turn(&mut self) {
        let (now, clock) = (self.now(), since_1970());
        // What comes to a side that had nothing came after `now`.
        let mut empty = [false; 2];
        for _ in 0..TURN {
            for (port, empty) in self.ports.iter_mut().zip(&mut empty) {
                *empty = *empty || !port.look();
            }
            let [client, server] = self.ports.each_ref().map(Port::came);
            let (from, came) = match (client, server) {
                (None, None) => return self.time_out(now),
                (Some(client), Some(server)) if server < client => (Side::Server, server),
                (Some(client), _) => (Side::Client, client),
                (None, Some(server)) => (Side::Server, server),
            };
            let at = if came > clock {
                // It came meanwhile, which may be long; not later than now, whatever the clock was set to.
                (now + came.saturating_sub(clock)).min(self.now())
            } else {
                now.saturating_sub(clock.saturating_sub(came))
            };
            let Some((mut frame, length)) = self.ports[from as usize].take() else { continue };
            if let Some(frame) = frame.get_mut(..length) {
                self.clock = self.clock.max(at);
                self.packet(now, from, frame);
            }
            self.ports[from as usize].give_back(frame);
        }
    }

    fn time_out(&mut self, now: Duration) {
        self.clock = self.clock.max(now);
        self.middlebox.handle_timeout(self.clock);
        self.take_output(now);
    }

    fn packet(&mut self, now: Duration, from: Side, frame: &mut [u8]) {
        let partial = port::needs_checksum(frame);
        let Some(packet) = port::packet(frame) else { return };
        let Ok(mut view) = View::parse(packet) else {
            self.tally.counts.packets.dropped += 1;
            return;
        };
        if let Some(record) = &self.record {
            record.packet(now, from, Way::In, packet, partial);
        }
        if self.weather.loss > 0.0 && self.random.unit() < self.weather.loss {
            self.tally.counts.packets.lost += 1;
            return;
        }
        view.partial = partial;
        let segment = match view.carried {
            Carried::Tcp(segment) => Some(segment),
            _ => None,
        };
        let notes = self.notes.as_ref();
        let before = notes.and_then(|notes| notes.before(&self.middlebox, self.clock, from, &view));
        let fate = self.middlebox.handle_view(self.clock, from, packet, &view);
        self.take_output(now);
        if let (Some(notes), Some(before), Some(segment)) = (&mut self.notes, before, &segment) {
            notes.crossed(before, segment, &fate);
        }
        let delivered = matches!(fate, Fate::Forward { known: true });
        if let Some(segment) = segment {
            let (source, destination) = (view.from(&segment).into(), view.to(&segment).into());
            let syn = segment.has(flag::SYN) && !segment.has(flag::ACK);
            if from == Side::Client && syn && delivered {
                self.tally.opened(source, destination, segment.seq);
            }
            if segment.payload > 0 && !delivered {
                self.tally.undelivered(from, source, destination);
            }
        }
        match fate {
            Fate::Forward { .. } => {
                match from {
                    Side::Client => self.tally.counts.packets.to_server += 1,
                    Side::Server => self.tally.counts.packets.to_client += 1,
                }
                self.send(now, from.other(), frame);
            }
            Fate::Drop(_) => self.tally.counts.packets.dropped += 1,
            Fate::Answer(answer) => self.own(now, from, &answer),
        }
    }

    /// Does what the middlebox says on its own.
    fn take_output(&mut self, now: Duration) {
        while let Some(output) = self.middlebox.poll_output() {
            if let Some(notes) = &mut self.notes {
                notes.output(&output);
            }
            match output {
                Output::Packet { to, packet } => self.own(now, to, &packet),
                Output::Forgot { flow, last, at, state, .. } if is_open(state) => {
                    let probe = self.sockets.next_probe(flow.client, flow.vip);
                    let probe = probe.map(|probe| NextProbe {
                        at: now + probe.due,
                        is_first: probe.is_first && state == TcpState::Established,
                    });
                    self.tally.forgot(flow, last, at, probe);
                }
                Output::Forgot { .. } => {}
            }
        }
    }

    /// Sends a packet that the middlebox made.
    fn own(&mut self, now: Duration, to: Side, packet: &[u8]) {
        let reset = View::parse(packet)
            .is_ok_and(|view| matches!(view.carried, Carried::Tcp(s) if s.has(flag::RST)));
        self.tally.counts.resets += u32::from(reset);
        self.send(now, to, &port::framed(packet));
    }

    fn send(&mut self, now: Duration, to: Side, frame: &[u8]) {
        if self.weather.delay.is_zero() {
            self.hand_over(now, to, frame);
        } else {
            self.under_way[to as usize].push_back((now + self.weather.delay, frame.to_vec()));
        }
    }

    /// Hands over what has arrived by now.
    fn deliver(&mut self, now: Duration) {
        for side in [Side::Client, Side::Server] {
            while let Some((_, frame)) =
                self.under_way[side as usize].pop_front_if(|(due, _)| *due <= now)
            {
                self.hand_over(now, side, &frame);
            }
        }
    }

    fn hand_over(&self, now: Duration, to: Side, frame: &[u8]) {
        if let (Some(record), Some(packet)) = (&self.record, frame.get(port::HEAD..)) {
            record.packet(now, to, Way::Out, packet, port::needs_checksum(frame));
        }
        self.ports[to as usize].send(frame);
    }
}

/// The clock of arrivals and records.
fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Whether an end would still expect something of it.
fn is_open(state: TcpState) -> bool {
    matches!(state, TcpState::Established | TcpState::FinWait | TcpState::CloseWait)
}
