//! What two looks at one connection say together. Pure.

use std::time::Duration;

use stillopen_model::{Connection, Counters, Keepalive, Watch};

/// Stamps are rounded from ticks to milliseconds one by one (`jiffies_to_msecs`): a difference of two
/// of them may be off by this much without a packet.
const ROUNDING: Duration = Duration::from_millis(4);

/// Takes the newer reading, and what the two say together.
pub(crate) fn update(connection: &mut Connection, second: &Connection) {
    connection.watch = watch(connection.counters, second.counters).map(Box::new);
    // What only getsockopt shows is kept; that keepalive was turned on since then shows here.
    connection.keepalive = match (connection.keepalive, second.keepalive) {
        (Keepalive::Off(times), Keepalive::On(_)) => Keepalive::On(times),
        (Keepalive::Unknown, newer) => newer,
        (older, _) => older,
    };
    connection.state = second.state;
    connection.timer = second.timer;
    connection.timer_expires = second.timer_expires;
    connection.retransmits = second.retransmits;
    connection.probes_unanswered = second.probes_unanswered;
    connection.receive_queue = second.receive_queue;
    connection.send_queue = second.send_queue;
    connection.counters = second.counters;
}

/// `None` where data moved, or where what arrived can't be told apart with certainty.
fn watch(first: Option<Counters>, second: Option<Counters>) -> Option<Watch> {
    let (first, second) = (first?, second?);
    let data = |c: Counters| (c.data_segs_in, c.data_segs_out, c.bytes_acked, c.bytes_received);
    if data(first) != data(second) || first.unacked != second.unacked {
        return None;
    }
    // No data was sent, so this stamp aged by exactly the time between the looks, on the kernel's clock.
    let after = second.last_data_sent.get().checked_sub(first.last_data_sent.get())?;
    let arrived = second.segs_in.wrapping_sub(first.segs_in);
    // How much younger the ACK stamp is than it would be if no ACK had come.
    let shift = (first.last_ack_recv.get() + after).abs_diff(second.last_ack_recv.get());
    let peer_probes = if shift.is_zero() {
        // No ACK was taken: all that arrived moved no stamp.
        arrived
    } else if arrived == 0 {
        0
    } else if shift > ROUNDING && arrived == 1 {
        // The one segment is the ACK.
        0
    } else {
        // At least one was an ACK: the answer to a probe of ours, or a window update. How many of the
        // others were is not known. The path was refreshed then, and the stamp says when.
        return None;
    };
    let own_segments = second.segs_out.wrapping_sub(first.segs_out);
    Some(Watch { after, peer_probes, own_segments })
}

#[cfg(test)]
mod tests {
    use stillopen_model::Millis;

    use super::*;

    fn counters(sent: u32, ack: u32, segs_in: u32, data_segs_in: u32) -> Counters {
        Counters {
            last_data_sent: Millis::new(sent),
            last_ack_recv: Millis::new(ack),
            segs_in,
            data_segs_in,
            ..Counters::default()
        }
    }

    #[test]
    fn a_peer_probe_is_claimed_only_where_nothing_else_explains_the_segment() {
        let first = counters(10_000, 9_000, 5, 1);
        for (case, second, probes) in [
            ("nothing came", counters(40_000, 39_000, 5, 1), Some(0)),
            ("three came, no stamp moved", counters(40_000, 39_000, 8, 1), Some(3)),
            ("the one is an ACK", counters(40_000, 12_000, 6, 1), Some(0)),
            ("ACKs, perhaps among others", counters(40_000, 12_000, 8, 1), None),
            ("one tick off: rounding or an ACK", counters(40_000, 38_997, 6, 1), None),
            ("one tick off, nothing came", counters(40_000, 38_997, 5, 1), Some(0)),
            ("data came", counters(40_000, 12_000, 6, 2), None),
            ("data was sent", counters(3_000, 2_000, 6, 1), None),
        ] {
            let got = watch(Some(first), Some(second));
            assert_eq!(got.map(|watch| watch.peer_probes), probes, "{case}");
            let after = Duration::from_secs(30);
            assert!(got.is_none_or(|watch| watch.after == after), "{case}: {got:?}");
        }
        assert_eq!(watch(None, Some(first)), None);
        assert_eq!(watch(Some(first), None), None);
    }
}
