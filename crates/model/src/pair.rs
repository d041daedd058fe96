//! Both ends of one connection, where a host sees them in two of its network namespaces, are one row.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
};

use crate::{Connection, Entry, FarEnd, Millis, OtherSide, Role, Snapshot, TableKind, Witness};

/// The two ends may have been read at slightly different moments: their byte counts need to agree only
/// where both were quiet for longer than that.
const READ_APART: std::time::Duration = std::time::Duration::from_secs(1);

/// Folds the accepting end of each connection that is seen at both ends into the connecting end's row,
/// as its [`FarEnd`]; returns where those were that are gone, in ascending order.
///
/// Two ends belong together when their addresses mirror each other, or those of a table's entry, in different namespaces, no third
/// socket claims the same addresses, what one has had acknowledged the other has received, and what one
/// sent last the other received then: separate networks of one host often use the same addresses.
pub fn pair_ends(snapshot: &mut Snapshot) -> Vec<usize> {
    if snapshot.namespaces.len() < 2 {
        return Vec::new();
    }
    let connections = &snapshot.connections;
    let mut keys: Vec<(u64, u32)> = (0..).zip(connections).map(|(i, c)| (key(c), i)).collect();
    keys.sort_unstable();
    let mut pairs = Vec::new();
    for group in keys.chunk_by(|a, b| a.0 == b.0) {
        let [(_, a), (_, b)] = *group else { continue };
        let (a, b) = (a as usize, b as usize);
        if are_ends(&connections[a], &connections[b]) {
            let accepting_first = connections[a].role == Role::Server;
            pairs.push(if accepting_first { (b, a) } else { (a, b) });
        }
    }
    drop(keys);
    let direct: Vec<usize> = pairs.iter().map(|&(near, _)| near).collect();
    through_tables(connections, &mut pairs);

    for near in direct {
        not_translated(&mut snapshot.connections[near]);
    }
    let mut gone: Vec<usize> = Vec::with_capacity(pairs.len());
    for (near, far) in pairs {
        let c = &snapshot.connections[far];
        let far_end = FarEnd {
            netns: c.netns,
            owner: c.owner,
            state: c.state,
            quiet: c.quiet(),
            keepalive: c.keepalive,
            timer: c.timer,
            probes_unanswered: c.probes_unanswered,
            timer_expires: c.timer_expires.map(Millis::get),
        };
        snapshot.connections[near].far_end = Some(Box::new(far_end));
        gone.push(far);
    }
    gone.sort_unstable();
    let mut position = 0;
    snapshot.connections.retain(|_| {
        position += 1;
        gone.binary_search(&(position - 1)).is_err()
    });
    gone
}

/// Takes away that connection tracking has no entry: both ends see the same addresses, so nothing translates them,
/// and a packet of either makes an entry anew. (IPVS may forward without a translation.)
fn not_translated(c: &mut Connection) {
    let says_nothing = |witness: &Witness| {
        witness.table.kind == TableKind::Conntrack && witness.entry == Entry::Absent
    };
    if c.tables.iter().any(says_nothing) {
        c.tables = c.tables.iter().copied().filter(|witness| !says_nothing(witness)).collect();
    }
}

/// The ends that a table on the way translates for: the entry of one names the other's addresses.
fn through_tables(connections: &[Connection], pairs: &mut Vec<(usize, usize)>) {
    let wanted: Vec<(OtherSide, usize)> = (0..)
        .zip(connections)
        .filter(|(_, c)| c.role != Role::Server)
        .filter_map(|(i, c)| Some((c.other_side()?, i)))
        .collect();
    if wanted.is_empty() {
        return;
    }
    let mut paired: HashSet<usize> = pairs.iter().flat_map(|&(near, far)| [near, far]).collect();
    let mut by_addresses: HashMap<OtherSide, Vec<usize>> = HashMap::new();
    for (i, c) in connections.iter().enumerate() {
        let addresses = OtherSide { local: c.local, peer: c.peer };
        by_addresses.entry(addresses).or_default().push(i);
    }
    for (other, near) in wanted {
        let Some([far]) = by_addresses.get(&other).map(Vec::as_slice) else { continue };
        let (a, b) = (&connections[near], &connections[*far]);
        let free = !paired.contains(&near) && !paired.contains(far);
        // Another site may have the same addresses: the far end passes the same table.
        let same_table = a.tables.iter().any(|witness| b.entry_in(witness.table).is_some());
        if free && same_table && a.netns != b.netns && b.role != Role::Client && ends_agree(a, b) {
            paired.extend([near, *far]);
            pairs.push((near, *far));
        }
    }
}

/// The same for both ends of a connection.
fn key(c: &Connection) -> u64 {
    let (low, high) = if c.local < c.peer { (c.local, c.peer) } else { (c.peer, c.local) };
    BuildHasherDefault::<DefaultHasher>::default().hash_one((low, high))
}

fn are_ends(a: &Connection, b: &Connection) -> bool {
    a.netns != b.netns && a.local == b.peer && a.peer == b.local && ends_agree(a, b)
}

/// Whether what one end has sent and had acknowledged, and when, is what the other has received.
#[must_use]
pub fn ends_agree(a: &Connection, b: &Connection) -> bool {
    let (Some(of_a), Some(of_b)) = (a.counters, b.counters) else { return false };
    let close = |sent: Millis, received: Millis| {
        sent.get().abs_diff(received.get()) <= READ_APART + of_a.rtt.get()
    };
    if !close(of_a.last_data_sent, of_b.last_data_recv)
        || !close(of_b.last_data_sent, of_a.last_data_recv)
    {
        return false;
    }
    let both_quiet = [a, b].iter().all(|c| c.quiet().is_some_and(|quiet| quiet > READ_APART));
    // bytes_acked counts the SYN of the connecting end, and both count a FIN (net/ipv4/tcp_input.c).
    let same = |acked: u64, received: u64| acked.abs_diff(received) <= 2;
    let in_flight = of_a.unacked > 0 || of_b.unacked > 0;
    !both_quiet
        || in_flight
        || (same(of_a.bytes_acked, of_b.bytes_received)
            && same(of_b.bytes_acked, of_a.bytes_received))
}
