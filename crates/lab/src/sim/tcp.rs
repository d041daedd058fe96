//! One TCP socket as Linux behaves: what it sends, when its timers fire, and what its program sees.
//!
//! No I/O and no clock: `now` is an argument, packets to send are drained by the world. Each behaviour names
//! the kernel function that it imitates. What is left out: congestion control, SACK, delayed ACKs, windows;
//! the simulated network neither loses nor reorders, only the middlebox drops.
//! Read first: RFC 9293 §3.3.2 (states), then `net/ipv4/tcp_timer.c`.

use std::{collections::VecDeque, time::Duration};

use serde::{Deserialize, Serialize};
use stillopen_model::KeepaliveValues;

use crate::middlebox::{Draft, End, ExpiryRule, Segment, flag};

/// `TCP_RTO_MIN` (`include/net/tcp.h`), and with a short path the first timeout: 200 ms and the path's own.
const RTO: Duration = Duration::from_millis(204);
/// `TCP_RTO_MAX`.
const RTO_MAX: Duration = Duration::from_secs(120);
/// `TCP_TIMEOUT_INIT`: the first timeout of a SYN.
const SYN_RTO: Duration = Duration::from_secs(1);
/// `net.ipv4.tcp_syn_retries`.
const SYN_RETRIES: u32 = 6;
/// `net.ipv4.tcp_retries2`.
const RETRIES2: u32 = 15;
/// `tcp_orphan_retries()` for a socket that its program has closed.
const ORPHAN_RETRIES: u32 = 8;
/// `TCP_FIN_TIMEOUT` and `TCP_TIMEWAIT_LEN`.
const FIN_TIMEOUT: Duration = Duration::from_secs(60);
/// What fits a segment on Ethernet, in IPv6 too.
const MSS: usize = 1440;

/// An error as the program gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Errno {
    /// A reset came.
    #[serde(rename = "ECONNRESET")]
    ConnReset,
    /// The connection is gone and its error has been reported, or it was reset after the peer's FIN.
    #[serde(rename = "EPIPE")]
    Pipe,
    /// Nobody answered.
    #[serde(rename = "ETIMEDOUT")]
    TimedOut,
    /// Nobody listens, or the path said so.
    #[serde(rename = "ECONNREFUSED")]
    ConnRefused,
}

impl Errno {
    /// Its name in `errno.h`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ConnReset => "ECONNRESET",
            Self::Pipe => "EPIPE",
            Self::TimedOut => "ETIMEDOUT",
            Self::ConnRefused => "ECONNREFUSED",
        }
    }
}

/// What a program sees that waits on its socket (a reader, or an event loop).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The connection is open.
    Open,
    /// This many bytes came.
    Data(usize),
    /// The peer has closed its direction: `recv` returns 0.
    Eof,
    /// `recv` returns -1.
    Error(Errno),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    SynSent,
    SynRecv,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
    Closed,
}

/// The deadlines of a socket, by which its array is indexed.
#[derive(Debug, Clone, Copy)]
enum Timer {
    /// `icsk_retransmit_timer`: a SYN, data or a FIN is not acknowledged.
    Retransmit,
    /// `sk_timer`: keepalive.
    Keepalive,
    /// `sk_timer` after close: `FIN_WAIT2` and `TIME_WAIT` end.
    Linger,
}

/// A segment that is not acknowledged.
#[derive(Debug, Clone, Copy)]
struct Unacked {
    seq: u32,
    payload: usize,
    flags: u8,
}

impl Unacked {
    fn end(&self) -> u32 {
        let control = u32::from(self.flags & (flag::SYN | flag::FIN) != 0);
        self.seq.wrapping_add(u32::try_from(self.payload).unwrap_or(u32::MAX)).wrapping_add(control)
    }
}

#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) local: End,
    pub(crate) peer: End,
    pub(crate) state: State,
    /// Keepalive probes sent so far.
    pub(crate) probes: u32,
    v6: bool,
    wheel: ExpiryRule,
    snd_una: u32,
    snd_nxt: u32,
    rcv_nxt: u32,
    unacked: VecDeque<Unacked>,
    /// When the oldest unacknowledged segment was first sent (`retrans_stamp`).
    first_sent: Duration,
    /// Retransmission timeouts in a row (`icsk_retransmits`).
    retransmits: u32,
    /// Whether the tail loss probe has been sent.
    probed_tail: bool,
    keepalive: Option<KeepaliveValues>,
    probes_out: u32,
    last_received: Duration,
    timers: [Option<Duration>; 3],
    /// `sk_err_soft`: an ICMP error that is reported when the kernel gives up.
    soft_error: Option<Errno>,
    /// The program has closed it and sees nothing any more.
    orphan: bool,
    out: Vec<Draft>,
    seen: Vec<Seen>,
}

/// `a` is before `b` (`before()` in `include/net/tcp.h`).
fn before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) > u32::MAX / 2
}

/// What a new socket is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) local: End,
    pub(crate) peer: End,
    pub(crate) v6: bool,
    pub(crate) hz: u32,
    pub(crate) isn: u32,
    pub(crate) keepalive: Option<KeepaliveValues>,
}

impl Socket {
    /// `connect(2)`.
    pub(crate) fn connect(now: Duration, origin: Origin) -> Self {
        let mut socket = Self::new(now, origin, State::SynSent);
        socket.push(now, 0, flag::SYN);
        socket
    }

    /// A SYN reached a listener (`tcp_conn_request`).
    pub(crate) fn accept(now: Duration, origin: Origin, syn: &Segment) -> Self {
        let mut socket = Self::new(now, origin, State::SynRecv);
        socket.rcv_nxt = syn.next_seq();
        socket.push(now, 0, flag::SYN | flag::ACK);
        socket
    }

    fn new(now: Duration, origin: Origin, state: State) -> Self {
        Self {
            local: origin.local,
            peer: origin.peer,
            state,
            probes: 0,
            v6: origin.v6,
            wheel: ExpiryRule::Wheel { hz: origin.hz },
            snd_una: origin.isn,
            snd_nxt: origin.isn,
            rcv_nxt: 0,
            unacked: VecDeque::new(),
            first_sent: now,
            retransmits: 0,
            probed_tail: false,
            keepalive: origin.keepalive,
            probes_out: 0,
            last_received: now,
            timers: [None; 3],
            soft_error: None,
            orphan: false,
            out: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// The segments to send now.
    pub(crate) fn drain_out(&mut self) -> Vec<Draft> {
        std::mem::take(&mut self.out)
    }

    /// What the program sees now.
    pub(crate) fn drain_seen(&mut self) -> Vec<Seen> {
        std::mem::take(&mut self.seen)
    }

    /// When to call [`Socket::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        self.timers.iter().flatten().min().copied()
    }

    /// `send(2)`: the whole of `bytes` fits the send buffer.
    pub(crate) fn send(&mut self, now: Duration, bytes: usize) -> Result<(), Errno> {
        if !matches!(self.state, State::Established | State::CloseWait) || self.orphan {
            return Err(Errno::Pipe);
        }
        let mut left = bytes;
        while left > 0 {
            let payload = left.min(MSS);
            left -= payload;
            let push = if left == 0 { flag::PSH } else { 0 };
            self.push(now, payload, flag::ACK | push);
        }
        Ok(())
    }

    /// `close(2)`: the program sees nothing any more.
    pub(crate) fn close(&mut self, now: Duration) {
        self.orphan = true;
        self.shutdown(now);
        if self.state == State::FinWait2 {
            self.set(Timer::Linger, now, FIN_TIMEOUT);
        }
    }

    /// `shutdown(2)` of the sending direction.
    pub(crate) fn shutdown(&mut self, now: Duration) {
        self.state = match self.state {
            State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            State::SynSent | State::SynRecv => {
                self.die();
                return;
            }
            _ => return,
        };
        self.push(now, 0, flag::FIN | flag::ACK);
    }

    /// `setsockopt(2)` of `SO_KEEPALIVE` and the three values (`tcp_set_keepalive`): a full idle from now.
    pub(crate) fn set_keepalive(&mut self, now: Duration, values: Option<KeepaliveValues>) {
        self.keepalive = values;
        match values {
            Some(values) => self.set(Timer::Keepalive, now, values.idle),
            None => self.timers[Timer::Keepalive as usize] = None,
        }
    }

    /// A segment for this socket came (`tcp_rcv_state_process`, `tcp_rcv_established`).
    pub(crate) fn handle_segment(&mut self, now: Duration, segment: &Segment) {
        if self.state == State::SynSent {
            self.handle_answer_to_syn(now, segment);
            return;
        }
        if segment.has(flag::RST) {
            // `tcp_validate_incoming` (RFC 5961): exactly the next byte, or it is challenged.
            if segment.seq == self.rcv_nxt {
                self.reset();
            }
            return;
        }
        // `tcp_sequence`: nothing in it is new, not even its acknowledgment counts. A keepalive probe is such a
        // segment, so whoever receives probes does not put off its own.
        if segment.has(flag::SYN) || before(segment.next_seq(), self.rcv_nxt) {
            self.acknowledge();
            return;
        }
        self.last_received = now;
        if segment.has(flag::ACK) {
            self.handle_ack(now, segment.ack);
        }
        if self.state != State::Closed {
            self.handle_payload(now, segment);
        }
    }

    /// An ICMP "port unreachable" for this socket came (`tcp_v4_err`), about the segment that began with
    /// `seq`. One about a byte that is acknowledged is not believed: a keepalive probe is such a byte.
    pub(crate) fn handle_unreachable(&mut self, seq: u32) {
        if before(seq, self.snd_una) || before(self.snd_nxt, seq) {
            return;
        }
        if self.state == State::SynSent {
            self.fail(Errno::ConnRefused);
        } else {
            self.soft_error = Some(Errno::ConnRefused);
        }
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Duration) {
        for timer in [Timer::Retransmit, Timer::Keepalive, Timer::Linger] {
            let due = self.timers[timer as usize].is_some_and(|at| at <= now);
            if due {
                self.timers[timer as usize] = None;
                match timer {
                    Timer::Retransmit => self.retransmit_timer(now),
                    Timer::Keepalive => self.keepalive_timer(now),
                    Timer::Linger => self.die(),
                }
            }
        }
    }

    /// `tcp_rcv_synsent_state_process`.
    fn handle_answer_to_syn(&mut self, now: Duration, segment: &Segment) {
        if !segment.has(flag::ACK) || segment.ack != self.snd_nxt {
            return;
        }
        if segment.has(flag::RST) {
            self.fail(Errno::ConnRefused);
        } else if segment.has(flag::SYN) {
            self.rcv_nxt = segment.next_seq();
            self.handle_ack(now, segment.ack);
            self.established(now);
            self.acknowledge();
        }
    }

    /// `tcp_finish_connect`, and `TCP_SYN_RECV` in `tcp_rcv_state_process`: keepalive is armed.
    fn established(&mut self, now: Duration) {
        self.state = State::Established;
        self.last_received = now;
        self.seen.push(Seen::Open);
        if let Some(values) = self.keepalive {
            self.set(Timer::Keepalive, now, values.idle);
        }
    }

    /// `tcp_ack`.
    fn handle_ack(&mut self, now: Duration, ack: u32) {
        if before(ack, self.snd_una) || before(self.snd_nxt, ack) {
            return;
        }
        self.probes_out = 0;
        if ack == self.snd_una {
            return;
        }
        self.snd_una = ack;
        let mut fin = false;
        while let Some(head) = self.unacked.front().filter(|head| !before(ack, head.end())) {
            fin |= head.flags & flag::FIN != 0;
            self.unacked.pop_front();
        }
        let recovering = self.retransmits > 0 || self.probed_tail;
        (self.retransmits, self.probed_tail, self.soft_error) = (0, false, None);
        self.first_sent = now;
        self.timers[Timer::Retransmit as usize] = None;
        if !self.unacked.is_empty() {
            if recovering {
                self.resend();
            }
            self.set(Timer::Retransmit, now, RTO);
        }
        match self.state {
            State::SynRecv => self.established(now),
            State::FinWait1 if fin => {
                self.state = State::FinWait2;
                if self.orphan {
                    self.set(Timer::Linger, now, FIN_TIMEOUT);
                }
            }
            State::Closing if fin => self.time_wait(now),
            State::LastAck if fin => self.die(),
            _ => {}
        }
    }

    /// `tcp_data_queue` and `tcp_fin`; a segment out of order (a keepalive probe) is only acknowledged.
    fn handle_payload(&mut self, now: Duration, segment: &Segment) {
        let fin = segment.has(flag::FIN);
        if segment.seq != self.rcv_nxt {
            self.acknowledge();
            return;
        }
        if segment.payload == 0 && !fin {
            return;
        }
        // `tcp_rcv_state_process`: data for a socket that nobody will read is answered by a reset.
        if segment.payload > 0 && self.orphan {
            self.control(self.snd_nxt, flag::RST | flag::ACK);
            self.die();
            return;
        }
        self.rcv_nxt = segment.next_seq();
        if segment.payload > 0 {
            self.seen.push(Seen::Data(segment.payload));
        }
        if fin {
            if !self.orphan {
                self.seen.push(Seen::Eof);
            }
            match self.state {
                State::Established | State::SynRecv => self.state = State::CloseWait,
                State::FinWait1 => self.state = State::Closing,
                State::FinWait2 => self.time_wait(now),
                _ => {}
            }
        }
        self.acknowledge();
    }

    /// `tcp_reset`.
    fn reset(&mut self) {
        self.fail(match self.state {
            State::SynSent => Errno::ConnRefused,
            State::CloseWait => Errno::Pipe,
            _ => Errno::ConnReset,
        });
    }

    /// `tcp_retransmit_timer`, and before it `tcp_send_loss_probe`.
    fn retransmit_timer(&mut self, now: Duration) {
        let Some(head) = self.unacked.front() else { return };
        let syn = head.flags & flag::SYN != 0;
        // `tcp_write_timeout`: a SYN by count, the rest by time.
        let over = if syn {
            self.retransmits >= SYN_RETRIES
        } else {
            let retries = if self.orphan { ORPHAN_RETRIES } else { RETRIES2 };
            now.saturating_sub(self.first_sent) >= give_up_after(retries)
        };
        if over {
            self.fail(self.soft_error.unwrap_or(Errno::TimedOut));
            return;
        }
        self.resend();
        if syn || self.probed_tail {
            self.retransmits += 1;
        }
        self.probed_tail |= !syn;
        let first = if syn { SYN_RTO } else { RTO };
        self.set(Timer::Retransmit, now, (first * (1 << self.retransmits.min(16))).min(RTO_MAX));
    }

    /// `tcp_keepalive_timer`.
    fn keepalive_timer(&mut self, now: Duration) {
        let Some(KeepaliveValues { idle, interval, count }) = self.keepalive else { return };
        if !matches!(self.state, State::Established | State::CloseWait | State::FinWait2) {
            return;
        }
        if !self.unacked.is_empty() {
            self.set(Timer::Keepalive, now, idle);
            return;
        }
        let elapsed = now.saturating_sub(self.last_received);
        let next = if elapsed < idle {
            idle.saturating_sub(elapsed)
        } else if self.probes_out >= count {
            self.control(self.snd_nxt, flag::RST | flag::ACK);
            self.fail(self.soft_error.unwrap_or(Errno::TimedOut));
            return;
        } else {
            // `tcp_xmit_probe_skb`: one byte before what the peer has seen, so that it must answer.
            self.control(self.snd_una.wrapping_sub(1), flag::ACK);
            self.probes += 1;
            self.probes_out += 1;
            interval
        };
        self.set(Timer::Keepalive, now, next);
    }

    fn time_wait(&mut self, now: Duration) {
        self.state = State::TimeWait;
        self.set(Timer::Linger, now, FIN_TIMEOUT);
    }

    /// `tcp_done`, the program told if it still listens.
    fn fail(&mut self, errno: Errno) {
        if !self.orphan {
            self.seen.push(Seen::Error(errno));
        }
        self.die();
    }

    fn die(&mut self) {
        self.state = State::Closed;
        self.timers = [None; 3];
        self.unacked.clear();
    }

    /// Every timer of a socket is on the kernel's timer wheel.
    fn set(&mut self, timer: Timer, now: Duration, delay: Duration) {
        self.timers[timer as usize] = Some(self.wheel.dies_at(now, delay));
    }

    fn push(&mut self, now: Duration, payload: usize, flags: u8) {
        let segment = Unacked { seq: self.snd_nxt, payload, flags };
        if self.unacked.is_empty() {
            self.first_sent = now;
            let first = if flags & flag::SYN != 0 { SYN_RTO } else { RTO };
            self.set(Timer::Retransmit, now, first);
        }
        self.snd_nxt = segment.end();
        self.unacked.push_back(segment);
        self.emit(segment);
    }

    fn resend(&mut self) {
        if let Some(&head) = self.unacked.front() {
            self.emit(head);
        }
    }

    fn acknowledge(&mut self) {
        self.control(self.snd_nxt, flag::ACK);
    }

    fn control(&mut self, seq: u32, flags: u8) {
        self.emit(Unacked { seq, payload: 0, flags });
    }

    fn emit(&mut self, segment: Unacked) {
        let Unacked { seq, payload, flags } = segment;
        let ack = if flags & flag::ACK == 0 { 0 } else { self.rcv_nxt };
        let (v6, from, to) = (self.v6, self.local, self.peer);
        self.out.push(Draft { v6, from, to, seq, ack, flags, payload });
    }
}

/// `tcp_model_timeout` for `retries` timeouts from `TCP_RTO_MIN`: 924.6 s for 15.
fn give_up_after(retries: u32) -> Duration {
    const RTO_MIN: Duration = Duration::from_millis(200);
    // Doublings until TCP_RTO_MAX: ilog2(120 s / 200 ms).
    let doublings = 9;
    let doubled = RTO_MIN * ((2 << retries.min(doublings)) - 1);
    doubled + RTO_MAX * retries.saturating_sub(doublings)
}

#[cfg(test)]
mod tests;
