//! Counts what a path does, from what its driver sees: which connections it forgot while they were open,
//! and what was sent on them afterwards and went nowhere. No I/O, no clock.

use std::{collections::HashMap, net::SocketAddr, time::Duration};

use super::summary::{Counts, Forgotten, NextProbe};
use crate::middlebox::{Flow, Side};

/// The counts of one run.
#[derive(Debug, Default)]
pub struct Tally {
    /// The driver itself counts resets and packets.
    pub counts: Counts,
    /// Whom each client's last connection is to, and its initial sequence number.
    opened: HashMap<SocketAddr, (SocketAddr, u32)>,
    /// What was lost of each forgotten connection, by the client's address.
    gone: HashMap<SocketAddr, Gone>,
}

#[derive(Debug)]
struct Gone {
    flow: Flow,
    answer: bool,
    request: bool,
}

impl Tally {
    /// A SYN with this sequence number passed from `client` to `vip`. Whether it opens another connection: one
    /// that is sent again has the same number, one of another connection from the same port has not (RFC 9293
    /// §3.4.1).
    pub fn opened(&mut self, client: SocketAddr, vip: SocketAddr, isn: u32) -> bool {
        if self.opened.insert(client, (vip, isn)) == Some((vip, isn)) {
            return false;
        }
        self.counts.connections = self.counts.connections.saturating_add(1);
        self.gone.remove(&client);
        true
    }

    /// The path forgot a connection that was open. `probe`: when the client's keepalive will probe, where that is
    /// known.
    pub fn forgot(&mut self, flow: Flow, last: Duration, at: Duration, probe: Option<NextProbe>) {
        let Flow { client, vip, backend } = flow;
        self.counts.forgotten.push(Forgotten {
            at_s: at.as_secs_f64(),
            last_s: last.as_secs_f64(),
            probe_s: probe.map(|probe| probe.at.as_secs_f64()),
            probe_is_first: probe.is_some_and(|probe| probe.is_first),
            client,
            vip,
            backend,
        });
        self.gone.insert(client, Gone { flow, answer: false, request: false });
    }

    /// Data came `from` this side, between these ends as its sender named them, and did not reach the other
    /// end's program.
    pub fn undelivered(&mut self, from: Side, source: SocketAddr, destination: SocketAddr) {
        let client = if from == Side::Client { source } else { destination };
        let Some(gone) = self.gone.get_mut(&client) else { return };
        let (peer, lost, count) = match from {
            Side::Client => {
                (gone.flow.vip == destination, &mut gone.request, &mut self.counts.requests_lost)
            }
            Side::Server => {
                (gone.flow.backend == source, &mut gone.answer, &mut self.counts.answers_lost)
            }
        };
        if peer && !*lost {
            *lost = true;
            *count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_on_a_forgotten_connection_counts_once_each_way_until_it_is_new() {
        let end = |last, port| SocketAddr::from(([10, 0, 0, last], port));
        let flow = Flow { client: end(1, 20_000), vip: end(2, 80), backend: end(3, 80) };
        let mut tally = Tally::default();
        assert!(tally.opened(flow.client, flow.vip, 1));
        assert!(!tally.opened(flow.client, flow.vip, 1), "the SYN is sent again");
        tally.undelivered(Side::Server, flow.backend, flow.client);
        assert_eq!(
            (tally.counts.answers_lost, tally.counts.requests_lost),
            (0, 0),
            "it is not forgotten"
        );
        tally.forgot(flow, Duration::from_secs(1), Duration::from_secs(6), None);
        for _ in 0..3 {
            tally.undelivered(Side::Server, flow.backend, flow.client);
            tally.undelivered(Side::Client, flow.client, flow.vip);
            tally.undelivered(Side::Client, flow.client, end(9, 80));
            tally.undelivered(Side::Server, flow.backend, end(9, 80));
        }
        assert_eq!((tally.counts.answers_lost, tally.counts.requests_lost), (1, 1));
        assert!(tally.opened(flow.client, flow.vip, 2), "another one from the same port");
        tally.undelivered(Side::Server, flow.backend, flow.client);
        assert_eq!((tally.counts.connections, tally.counts.answers_lost), (2, 1));
        assert!((tally.counts.forgotten[0].at_s - 6.0).abs() < 1e-9);
    }
}
