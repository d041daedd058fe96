//! Whether the peer's own keepalive may have kept a connection alive.
//!
//! The end that RECEIVES a keepalive probe sees it in none of `tcp_info`'s `last_*` stamps: the probe's
//! sequence number lies before the window, so the kernel answers it and drops it before any stamp is
//! taken (`tcp_validate_incoming`, `net/ipv4/tcp_input.c`). Only `segs_in` counts it, and `segs_out` the
//! answer. What those counters leave unexplained bounds the number of probes from above.

use std::time::Duration;

use crate::{Connection, LAST_PACKET_UNCERTAINTY, Role, State};

/// The most keepalive probes of the peer that a connection's counters leave room for; `None` where there
/// are no counters.
///
/// Each probe that arrived counts once in `segs_in` without data, and its answer once in `segs_out`
/// without data. From both sums is taken what must have been something else; the smaller one holds.
#[must_use]
pub fn probes_possible(c: &Connection) -> Option<u32> {
    let n = c.counters?;
    let arrived = n.segs_in.saturating_sub(n.data_segs_in);
    let left = n.segs_out.saturating_sub(n.data_segs_out);

    // The connecting end: SYN-ACK in; SYN and the handshake's ACK out. That ACK may ride on data after
    // a Fast Open. The accepting end's socket is made by the handshake's last ACK, which a listener
    // with TCP_DEFER_ACCEPT does not count, and its SYN-ACK was sent by the request socket.
    let (handshake_in, handshake_out) = match c.role {
        Role::Client if c.syn_data => (1, 1),
        Role::Client => (1, 2),
        Role::Server | Role::Unknown => (0, 0),
    };

    // Our last data has been acknowledged and nothing with data has come since: a bare ACK did it.
    let sent_last = n.data_segs_in == 0 || n.last_data_sent < n.last_data_recv;
    let drawn = u32::from(n.data_segs_out > 0 && n.unacked == 0 && sent_last);
    // We received last, and have sent nothing with data since: our ACK of it was bare. It has left when
    // the longest delay of an ACK has passed.
    let received_last = n.data_segs_out == 0 || n.last_data_recv < n.last_data_sent;
    let owed = u32::from(
        n.data_segs_in > 0 && received_last && n.last_data_recv.get() > LAST_PACKET_UNCERTAINTY,
    );
    // A FIN of the peer came in a segment of its own or with data, and so was ours.
    let closed = u32::from(c.state == State::CloseWait && n.data_segs_in == 0);

    let most_in = arrived.saturating_sub(handshake_in + drawn + closed);
    let most_out = left.saturating_sub(handshake_out + owed);
    Some(most_in.min(most_out))
}

/// How many probes it takes at least to keep an entry that lives `lifetime` without a packet over a
/// quiet time of `quiet`.
#[must_use]
pub fn probes_needed(quiet: Duration, lifetime: Duration) -> u32 {
    if lifetime.is_zero() {
        return u32::MAX;
    }
    u32::try_from(quiet.as_nanos() / lifetime.as_nanos()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_needed_is_one_for_each_lifetime_that_has_passed() {
        let s = Duration::from_secs;
        for (quiet, lifetime, needed) in [(2, 3, 0), (4, 3, 1), (10, 3, 3), (5, 0, u32::MAX)] {
            assert_eq!(probes_needed(s(quiet), s(lifetime)), needed, "{quiet} s over {lifetime} s");
        }
    }
}
