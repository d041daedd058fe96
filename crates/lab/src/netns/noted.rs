//! What a path notes of each connection's packets, where a timeline is run on it. No I/O, no clock.

use std::{collections::HashMap, net::SocketAddr, time::Duration};

use crate::{
    middlebox::{Carried, End, Fate, Middlebox, Output, Segment, Side, View, flag},
    observed::{Crossing, Met},
};

/// One thing of the connection from `client`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Noted {
    pub(super) client: SocketAddr,
    pub(super) what: What,
}

/// What it is, at the path's own times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A packet came; whether it is a keepalive probe of the client.
    Crossed { crossing: Crossing, probe: bool },
    /// This side got a packet because the path forgot.
    Told(Side),
    /// It is forgotten; when its last packet had come.
    Forgot { at: Duration, last: Duration },
}

/// The notes that nobody has taken yet.
#[derive(Debug)]
pub(super) struct Notes {
    vip: SocketAddr,
    taken: Vec<Noted>,
    /// The sequence number that follows all that each client has sent.
    next: HashMap<End, u32>,
}

impl Notes {
    /// Of the connections to `vip`.
    pub(super) fn new(vip: SocketAddr) -> Self {
        Self { vip, taken: Vec::new(), next: HashMap::new() }
    }

    pub(super) fn take(&mut self) -> Vec<Noted> {
        std::mem::take(&mut self.taken)
    }

    fn push(&mut self, client: SocketAddr, what: What) {
        self.taken.push(Noted { client, what });
    }

    /// What is known of a packet before it is handled.
    pub(super) fn before(
        &self,
        middlebox: &Middlebox,
        now: Duration,
        from: Side,
        view: &View,
    ) -> Option<(End, Crossing)> {
        Crossing::before(middlebox, self.vip, (now, from), view)
    }

    /// The packet that this was known of has been handled.
    pub(super) fn crossed(&mut self, before: (End, Crossing), segment: &Segment, fate: &Fate) {
        let (client, crossing) = before;
        let probe = crossing.from == Side::Client && self.is_probe(client, segment);
        let crossing = Crossing { met: Met::from(fate), ..crossing };
        self.push(client.into(), What::Crossed { crossing, probe });
    }

    /// One byte before what comes next, and nothing in it (`tcp_write_wakeup`).
    fn is_probe(&mut self, client: End, segment: &Segment) -> bool {
        let next = self.next.entry(client).or_insert(segment.seq);
        let is_probe = segment.payload == 0
            && segment.flags == flag::ACK
            && segment.seq == next.wrapping_sub(1);
        if segment.next_seq().wrapping_sub(*next) < u32::MAX / 2 {
            *next = segment.next_seq();
        }
        is_probe
    }

    /// The middlebox said this of its own.
    pub(super) fn output(&mut self, output: &Output) {
        match output {
            Output::Packet { to, packet } => {
                let Ok(view) = View::parse(packet) else { return };
                let Carried::Tcp(segment) = view.carried else { return };
                // Sent in the name of the other end.
                let client = match to {
                    Side::Client => view.to(&segment),
                    Side::Server => view.from(&segment),
                };
                self.push(client.into(), What::Told(*to));
            }
            Output::Forgot { flow, last, at, .. } => {
                self.push(flow.client, What::Forgot { at: *at, last: *last });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_one_byte_before_what_comes_next() {
        let client = SocketAddr::from(([10, 0, 1, 2], 20_000));
        let mut notes = Notes::new(SocketAddr::from(([10, 96, 14, 3], 8_000)));
        let segment = |seq, flags, payload| Segment {
            source: 20_000,
            destination: 8_000,
            seq,
            ack: 0,
            flags,
            payload,
        };
        let (ack, data) = (flag::ACK, flag::ACK | flag::PSH);
        // The sequence numbers begin just before they wrap.
        for (seq, flags, payload, probe) in [
            (u32::MAX, flag::SYN, 0, false),
            (0, ack, 0, false),
            (0, data, 500, false),
            (500, ack, 0, false),
            (499, ack, 0, true),
            (499, ack, 0, true),
            (0, data, 500, false),
            (500, flag::FIN | ack, 0, false),
            (501, ack, 0, false),
        ] {
            let is = notes.is_probe(client.into(), &segment(seq, flags, payload));
            assert_eq!(is, probe, "{seq} {flags:#x} {payload}");
        }
    }
}
