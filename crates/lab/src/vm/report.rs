//! What the guest wrote about one lane → what was observed of its connections.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::protocol::{Lane, Line, Packet, Table};
use crate::{
    middlebox::{ExpiryRule, Side},
    observed::{Connection, Crossing, Met, ONE_EVENT, Observed},
    path::{Addresses, Path},
};

/// From a packet to what it leads to at the other end.
const REACTION: Duration = Duration::from_secs(1);

/// All of one lane.
pub(super) fn observed(lane: &Lane, path: &Path, lines: &[Line]) -> Observed {
    let connects = lane.steps.iter().filter(|step| step.does == super::protocol::Does::Connect);
    let mut observed = Observed::new(connects.count(), ONE_EVENT);
    let at = Addresses::new(lane.number, lane.v6, lane.backends);
    let mut finished = BTreeSet::new();
    // What the node sent, and when each entry was there last.
    let (mut left, mut alive) = (Vec::new(), BTreeMap::new());
    for line in lines {
        match line {
            Line::Packet(packet) if packet.lane == lane.number => {
                let client = at.client(0).ip();
                let end = [packet.from, packet.to].into_iter().find(|end| end.ip() == client);
                let Some(number) = end.and_then(|end| Addresses::connection(end.port())) else {
                    continue;
                };
                if packet.flags.contains(['F', 'R']) {
                    finished.insert(number);
                }
                if matches!(packet.by, 'C' | 'P') {
                    left.push((number, packet));
                }
                if let Some(of) = observed.connections.get_mut(number) {
                    if lane.table == Table::Conntrack && !finished.contains(&number) {
                        exact(of, packet, path);
                    }
                    crossing(of, packet, &at, lane, path);
                }
            }
            Line::Died { lane: of, port, alive_ms, at_ms, .. } if *of == lane.number => {
                let Some(number) = Addresses::connection(*port) else { continue };
                alive.entry(number).or_insert(millis(*alive_ms));
                if let Some(of) = observed.connections.get_mut(number) {
                    died(of, millis(*alive_ms), millis(*at_ms));
                }
            }
            Line::Sent { lane: of, connection, who, bytes, at_ms, error } if *of == lane.number => {
                let error = error.as_deref();
                observed.sent(*connection, who.who(), *bytes, millis(*at_ms), error);
            }
            Line::Ended { lane: of, connection, .. } if *of == lane.number => {
                if let Some(of) = observed.connections.get_mut(*connection) {
                    of.closing = true;
                }
            }
            Line::Saw { lane: of, connection, who, what, bytes, at_ms } if *of == lane.number => {
                observed.saw(*connection, who.who(), what, *bytes, millis(*at_ms));
            }
            _ => {}
        }
    }
    // Told at the cut: what the node sent of its own when it forgot.
    for (number, packet) in left {
        let (Some(of), Some(&from)) = (observed.connections.get_mut(number), alive.get(&number))
        else {
            continue;
        };
        let Some((gone, _)) = of.forgot else { continue };
        let then = |at: Duration| at > from && at <= gone;
        if then(millis(packet.at_ms)) && !of.crossings.iter().any(|crossing| then(crossing.at)) {
            of.told[usize::from(packet.by == 'P')] = true;
        }
    }
    observed
}

/// A packet at the node: on its way in it crosses, on its way out it says what the crossing met.
fn crossing(of: &mut Connection, packet: &Packet, at: &Addresses, lane: &Lane, path: &Path) {
    let when = millis(packet.at_ms);
    let from = if matches!(packet.by, 'c' | 'C') { Side::Client } else { Side::Server };
    if matches!(packet.by, 'c' | 'p') {
        let last = of.crossings.last().map(|crossing| crossing.at);
        let alive = of.forgot.is_none();
        let rule = if lane.table == Table::Ipvs {
            ExpiryRule::Wheel { hz: path.hz }
        } else {
            ExpiryRule::Exact
        };
        let due = last.filter(|_| alive).map(|last| rule.dies_at(last, path.idle_timeout()));
        let payload = packet.payload;
        of.crossings.push(Crossing { at: when, from, payload, due, met: Met::Dropped });
        // One byte before what was acknowledged, and nothing in it.
        let probe = packet.by == 'c' && payload == 0 && packet.flags == "." && is_alone(of);
        of.probes += u32::from(probe);
        return;
    }
    let Some(last) = of.crossings.last_mut().filter(|last| when.saturating_sub(last.at) < REACTION)
    else {
        return;
    };
    let back = last.from == from;
    let pods_own = at.backends.contains(&packet.from) && packet.by == 'C';
    last.met = match (back, pods_own) {
        (true, _) => Met::Answered,
        (false, true) => Met::Untranslated,
        (false, false) => Met::Translated,
    };
}

/// conntrack's entries are not watched: of an established one it is exact when it dies.
fn exact(of: &mut Connection, packet: &Packet, path: &Path) {
    let Some(last) = of.crossings.last().map(|crossing| crossing.at) else { return };
    let due = last + path.idle_timeout();
    if due <= millis(packet.at_ms) {
        of.forgot.get_or_insert((due, due.saturating_sub(last)));
    }
}

/// Whether the last crossing came after silence: an acknowledgment follows what it acknowledges.
fn is_alone(of: &Connection) -> bool {
    match of.crossings.as_slice() {
        [.., before, last] => last.at.saturating_sub(before.at) > REACTION,
        _ => false,
    }
}

/// The entry was there at `alive` and not at `at`.
fn died(of: &mut Connection, alive: Duration, at: Duration) {
    let last = of.crossings.last().map_or(alive, |last| last.at);
    of.forgot.get_or_insert((at, at.saturating_sub(last)));
}

fn millis(at: u64) -> Duration {
    Duration::from_millis(at)
}
