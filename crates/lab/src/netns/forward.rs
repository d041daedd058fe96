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
    os::fd::OwnedFd,
    time::{Duration, Instant, SystemTime},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    port::{self, Port},
    record::{Record, Way},
    sockets::Sockets,
};
use crate::{
    exec::Tally,
    middlebox::{Carried, Fate, Middlebox, Output, Side, TcpState, View, flag},
    random::Random,
};

/// After so many packets of one side the other has its turn.
const TURN: usize = 64;

/// What the path does besides forgetting.
#[derive(Debug, Clone, Copy, PartialEq)]
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
        let since_1970 = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let record = record.map(|file| Record::begin(file, since_1970().unwrap_or_default()));
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
        })
    }

    /// Forwards until `stop` can be read from; says what came of it.
    pub(super) fn run(mut self, stop: &OwnedFd) -> io::Result<Forwarded> {
        let mut frame = vec![0; port::MOST];
        loop {
            let now = self.began.elapsed();
            self.middlebox.handle_timeout(now);
            self.take_output(now);
            self.deliver(now);
            let deadlines = self.under_way.iter().filter_map(|queue| Some(queue.front()?.0));
            let deadline = deadlines.chain(self.middlebox.poll_timeout()).min();
            let wait = deadline.map(|deadline| deadline.saturating_sub(now));
            // Waits that are too long for the kernel's type are for ever.
            let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
            let [client, server] = &self.ports;
            let ready = PollFlags::IN;
            let mut fds = [client, server].map(|port| PollFd::new(port, ready)).to_vec();
            fds.push(PollFd::new(stop, ready));
            match poll(&mut fds, wait.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let [client, server, stopped] =
                [0, 1, 2].map(|number: usize| !fds[number].revents().is_empty());
            drop(fds);
            let mut more = [client, server];
            while more != [false, false] {
                for side in [Side::Client, Side::Server] {
                    more[side as usize] = more[side as usize] && self.turn(side, &mut frame);
                }
                self.deliver(self.began.elapsed());
            }
            if stopped {
                let took = self.began.elapsed();
                return Ok(Forwarded { tally: self.tally, took, record: self.record });
            }
        }
    }

    /// Takes some packets of one side; returns whether there may be more.
    fn turn(&mut self, from: Side, frame: &mut [u8]) -> bool {
        let now = self.began.elapsed();
        for _ in 0..TURN {
            let Some(length) = self.ports[from as usize].receive(frame) else { return false };
            if let Some(frame) = frame.get_mut(..length) {
                self.packet(now, from, frame);
            }
        }
        true
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
        let fate = self.middlebox.handle_view(now, from, packet, &view);
        self.take_output(now);
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
            match output {
                Output::Packet { to, packet } => self.own(now, to, &packet),
                Output::Forgot { flow, last, at, state, .. } if is_open(state) => {
                    let due = self.sockets.next_probe(flow.client, flow.vip);
                    self.tally.forgot(flow, last, at, due.map(|due| now + due));
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

/// Whether an end would still expect something of it.
fn is_open(state: TcpState) -> bool {
    matches!(state, TcpState::Established | TcpState::FinWait | TcpState::CloseWait)
}
