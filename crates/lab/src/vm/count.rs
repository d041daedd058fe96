//! What a lane's path did to connections that programs made: from the packets at its node and what was seen of
//! its table.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use super::protocol::{Lane, Line, Packet, Table};
use crate::{
    exec::Tally,
    middlebox::{Flow, Side},
    path::{Addresses, Path},
};

/// What comes in leaves within this, or it does not leave.
const PASSES: Duration = Duration::from_millis(500);

/// One connection on its way.
#[derive(Debug, Default)]
struct Seen {
    vip: Option<SocketAddr>,
    backend: Option<SocketAddr>,
    /// When the last packet of it came to the node.
    last: Duration,
    /// Which end has sent a FIN.
    ended: [bool; 2],
    reset: bool,
    forgotten: bool,
}

impl Seen {
    fn is_open(&self) -> bool {
        !self.reset && self.ended != [true, true]
    }

    fn flow(&self, client: SocketAddr) -> Option<Flow> {
        Some(Flow { client, vip: self.vip?, backend: self.backend? })
    }
}

/// Counts what `lane` did.
pub(super) fn tally(lane: &Lane, path: &Path, lines: &[Line]) -> Tally {
    let mut tally = Tally::default();
    let client_ip = Addresses::new(lane.number, lane.v6, lane.backends).client(0).ip();
    let packets: Vec<&Packet> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Packet(packet) if packet.lane == lane.number => Some(packet),
            _ => None,
        })
        .collect();
    let mut deaths = deaths(lane, lines);
    // conntrack's table is not watched; it forgets to the second.
    let exact = (lane.table == Table::Conntrack).then(|| path.idle_timeout());
    let mut seen: BTreeMap<SocketAddr, Seen> = BTreeMap::new();
    for (number, packet) in packets.iter().enumerate() {
        let now = at(packet);
        let (ends, later) = ([packet.from, packet.to], &packets[number + 1..]);
        let Some(client) = ends.into_iter().find(|end| end.ip() == client_ip) else { continue };
        let (entered, side) = match packet.by {
            'c' => (true, Side::Client),
            'p' => (true, Side::Server),
            'P' => (false, Side::Client),
            _ => (false, Side::Server),
        };
        while let Some(death) = deaths.pop_if(|death| death.at <= now) {
            forget(&mut tally, &mut seen, (client_ip, death.port).into(), death.at);
        }
        let syn = packet.by == 'c' && packet.flags == "S";
        if syn && tally.opened(client, packet.to, packet.seq) {
            seen.insert(client, Seen { vip: Some(packet.to), last: now, ..Seen::default() });
        }
        let due = exact.and_then(|exact| Some(seen.get(&client)?.last + exact));
        if let Some(due) = due.filter(|due| entered && *due < now) {
            forget(&mut tally, &mut seen, client, due);
        }
        let Some(of) = seen.get_mut(&client) else { continue };
        if !entered {
            match side {
                Side::Client => {
                    of.backend = Some(packet.to);
                    tally.counts.packets.to_server += 1;
                }
                Side::Server => tally.counts.packets.to_client += 1,
            }
            let own = packet.flags.contains('R') && !came_just_before(packet, &packets[..number]);
            tally.counts.resets += u32::from(own);
            of.reset |= packet.flags.contains('R');
            continue;
        }
        of.last = now;
        of.ended[usize::from(side == Side::Server)] |= packet.flags.contains('F');
        let translated = |left: &Packet| side == Side::Client || Some(left.from) == of.vip;
        match leaves(packet, later) {
            Some(left) if translated(left) => of.reset |= packet.flags.contains('R'),
            left => {
                tally.counts.packets.dropped += u64::from(left.is_none());
                if packet.payload > 0 {
                    tally.undelivered(side, packet.from, packet.to);
                }
            }
        }
    }
    for death in deaths.into_iter().rev() {
        forget(&mut tally, &mut seen, (client_ip, death.port).into(), death.at);
    }
    tally
}

/// An entry that was seen to be gone.
struct Death {
    port: u16,
    at: Duration,
}

/// The latest first.
fn deaths(lane: &Lane, lines: &[Line]) -> Vec<Death> {
    let died = lines.iter().filter_map(|line| match line {
        Line::Died { lane: of, port, at_ms, .. } if *of == lane.number => {
            Some(Death { port: *port, at: Duration::from_millis(*at_ms) })
        }
        _ => None,
    });
    let mut deaths: Vec<Death> = died.collect();
    deaths.sort_by_key(|death| std::cmp::Reverse(death.at));
    deaths
}

fn forget(
    tally: &mut Tally,
    seen: &mut BTreeMap<SocketAddr, Seen>,
    client: SocketAddr,
    at: Duration,
) {
    let Some(of) = seen.get_mut(&client).filter(|of| of.is_open() && !of.forgotten) else { return };
    let Some(flow) = of.flow(client) else { return };
    of.forgotten = true;
    tally.forgot(flow, of.last, at, None);
}

fn at(packet: &Packet) -> Duration {
    Duration::from_millis(packet.at_ms)
}

fn is_same(a: &Packet, b: &Packet) -> bool {
    a.seq == b.seq && a.payload == b.payload && a.flags == b.flags
}

/// The packet as it left the node on the other side.
fn leaves<'a>(packet: &Packet, later: &[&'a Packet]) -> Option<&'a Packet> {
    let by = if packet.by == 'c' { 'P' } else { 'C' };
    let soon = later.iter().take_while(|left| at(left) <= at(packet) + PASSES);
    soon.copied().find(|left| left.by == by && is_same(packet, left))
}

fn came_just_before(packet: &Packet, before: &[&Packet]) -> bool {
    let by = if packet.by == 'P' { 'c' } else { 'p' };
    let just = before.iter().rev().take_while(|came| at(came) + PASSES >= at(packet));
    just.copied().any(|came| came.by == by && is_same(packet, came))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{middlebox::Profile, vm::lane};

    /// Recorded on Linux 6.1: a request, 1000 s of silence, the answer, and the client's own timer at 1100 s.
    const LOST: &str = "\
0 1398 c 10.0.1.2:38440 10.96.14.3:8000 S 2223488687 0 0
0 1398 P 10.0.1.2:38440 10.0.2.2:8000 S 2223488687 0 0
0 1398 p 10.0.2.2:8000 10.0.1.2:38440 S. 1675987427 2223488688 0
0 1398 C 10.96.14.3:8000 10.0.1.2:38440 S. 1675987427 2223488688 0
0 1398 c 10.0.1.2:38440 10.96.14.3:8000 . 2223488688 1675987428 0
0 1398 P 10.0.1.2:38440 10.0.2.2:8000 . 2223488688 1675987428 0
0 1399 c 10.0.1.2:38440 10.96.14.3:8000 P. 2223488688 1675987428 143
0 1399 P 10.0.1.2:38440 10.0.2.2:8000 P. 2223488688 1675987428 143
0 1399 p 10.0.2.2:8000 10.0.1.2:38440 . 1675987428 2223488831 0
0 1399 C 10.96.14.3:8000 10.0.1.2:38440 . 1675987428 2223488831 0
0 1001400 p 10.0.2.2:8000 10.0.1.2:38440 P. 1675987428 2223488831 119
0 1001400 C 10.0.2.2:8000 10.0.1.2:38440 P. 1675987428 2223488831 119
0 1001400 c 10.0.1.2:38440 10.0.2.2:8000 R 2223488831 0 0
0 1001400 P 10.0.1.2:38440 10.0.2.2:8000 R 2223488831 0 0
0 1101440 c 10.0.1.2:38440 10.96.14.3:8000 F. 2223488831 1675987428 0
0 1101440 C 10.96.14.3:8000 10.0.1.2:38440 R 1675987428 0 0";

    fn of(profile: &str, died: bool) -> Tally {
        let profile = Profile::named(profile).unwrap();
        let timeouts = profile
            .timeouts
            .with(crate::middlebox::TcpState::Established, Duration::from_secs(900));
        let path = Path::new(profile, timeouts, 250, Addresses::new(0, false, 1));
        let packets = LOST.lines().map(|line| Packet::try_from(line.to_owned()).unwrap());
        let mut lines: Vec<Line> = packets.map(Line::Packet).collect();
        let row = String::new();
        let died = died.then_some(Line::Died {
            lane: 0,
            port: 38440,
            alive_ms: 916_790,
            at_ms: 917_792,
            row,
        });
        lines.extend(died);
        tally(&lane::bare(0, &path, 1).unwrap(), &path, &lines)
    }

    #[test]
    fn an_answer_that_is_lost_behind_ipvs() {
        let tally = of("ipvs", true);
        assert_eq!(
            (tally.counts.connections, tally.counts.forgotten.len(), tally.counts.answers_lost),
            (1, 1, 1)
        );
        // The client's reset passes; what meets its FIN is the node's own.
        assert_eq!((tally.counts.resets, tally.counts.packets.dropped), (1, 1));
        let [forgotten] = tally.counts.forgotten.as_slice() else { panic!("{tally:?}") };
        assert!((forgotten.at_s - 917.792).abs() < 1e-9 && (forgotten.last_s - 1.399).abs() < 1e-9);
    }

    #[test]
    fn conntrack_forgets_to_the_second_without_being_watched() {
        let [forgotten] = &of("conntrack", false).counts.forgotten[..] else {
            panic!("one is forgotten")
        };
        assert!((forgotten.at_s - 901.399).abs() < 1e-9);
        assert_eq!(of("ipvs", false).counts.answers_lost, 0, "its table is watched");
    }
}
