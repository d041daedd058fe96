//! Whether the peer's own keepalive may have kept a connection alive.
//!
//! The end that RECEIVES a keepalive probe sees it in none of `tcp_info`'s `last_*` stamps: the probe's
//! sequence number lies before the window, so the kernel answers it and drops it before any stamp is
//! taken (`tcp_validate_incoming`, `net/ipv4/tcp_input.c`). Only `segs_in` counts it, and `segs_out` the
//! answer. What those counters leave unexplained bounds the number of probes from above.

use std::time::Duration;

use crate::{Connection, LAST_PACKET_UNCERTAINTY, Role, State};

/// From so many bytes received on, a segment that this end sent unseen may have been a window update. One
/// is sent when the program reads what has filled half of the window, and a window of the kernel's default
/// size is 64 KiB (`tcp_cleanup_rbuf`, `net/ipv4/tcp.c`; `tcp_rmem`).
const WINDOW_UPDATES_FROM: u64 = 8 * 1024;

/// The most packets that may have refreshed the path and left no stamp, by a connection's counters: probes
/// of the peer, and window updates of this end. `None` where there are no counters.
///
/// Each probe that arrived counts once in `segs_in` without data, and its answer once in `segs_out`
/// without data. From both sums is taken what must have been something else; the smaller one holds. A
/// window update counts in `segs_out` alone.
#[must_use]
pub fn probes_possible(c: &Connection) -> Option<u32> {
    let n = c.counters?;
    let arrived = n.segs_in.saturating_sub(n.data_segs_in);
    let left = n.segs_out.saturating_sub(n.data_segs_out);

    // The connecting end got a SYN-ACK. What it sent of the handshake is not counted: after MSG_FASTOPEN the
    // SYN may have had data, or the last ACK. The accepting end's socket is made by that ACK, which a
    // listener with TCP_DEFER_ACCEPT does not count, and its SYN-ACK was sent by the request socket. Who
    // connected is certain only where nothing is in flight (collect reads it off the byte counts).
    let syn_ack = u32::from(c.role == Role::Client && n.unacked == 0);

    // Our last data has been acknowledged and nothing with data has come since: a bare ACK did it, unless
    // it was sent with the SYN or acknowledged by the peer's FIN.
    let sent_last = n.data_segs_in == 0 || n.last_data_sent < n.last_data_recv;
    let by_other = c.syn_data || c.state == State::CloseWait;
    let drawn = u32::from(n.data_segs_out > 0 && n.unacked == 0 && sent_last && !by_other);
    // We received last, and have sent nothing with data since: our ACK of it was bare. It has left when
    // the longest delay of an ACK has passed.
    let received_last = n.data_segs_out == 0 || n.last_data_recv < n.last_data_sent;
    let owed = u32::from(
        n.data_segs_in > 0 && received_last && n.last_data_recv.get() > LAST_PACKET_UNCERTAINTY,
    );
    // The peer's FIN came in a segment of its own where no data ever came.
    let closed = u32::from(c.state == State::CloseWait && n.data_segs_in == 0);

    let most_in = arrived.saturating_sub(syn_ack + drawn + closed);
    let most_out = left.saturating_sub(owed);
    let window_updates = n.bytes_received >= WINDOW_UPDATES_FROM;
    Some(if window_updates { most_out } else { most_in.min(most_out) })
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
