//! Which connections never leave their network namespace. Pure.
//!
//! An own address alone proves nothing: a kube-proxy in IPVS mode gives its node the address of every
//! Service. A connection stays here when its other end is seen here.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

use stillopen_model::{Connection, OnHost, State};

use super::Addresses;
use crate::sock_diag::{Bystander, Listeners};

/// A connection to elsewhere that a socket of this namespace took over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TakenOver {
    /// Position among the connections.
    pub connection: usize,
    /// The socket that it really ends at.
    pub by_inode: u32,
}

/// Sets `on_host` of one namespace's connections. `bystanders` are its sockets that were left out.
pub(crate) fn classify(
    connections: &mut [Connection],
    bystanders: &[Bystander],
    own: &Addresses,
    listeners: Option<&Listeners>,
) -> Vec<TakenOver> {
    let mut to_own = Vec::new();
    let (mut any_remote, mut any_local) = (false, !bystanders.is_empty());
    for (at, connection) in connections.iter_mut().enumerate() {
        let ip = connection.peer.ip();
        if ip.is_loopback() {
            connection.on_host = OnHost::Loopback;
            any_local = true;
        } else if own.has(ip) {
            to_own.push(at);
            any_local = true;
        } else {
            any_remote = true;
        }
    }
    if !to_own.is_empty() {
        same_namespace(connections, bystanders, &to_own, listeners);
    }
    if any_remote && any_local { taken_over(connections, bystanders, own) } else { Vec::new() }
}

/// Of those with a peer on an own address, the ones whose other end is seen, or would be a listener.
fn same_namespace(
    connections: &mut [Connection],
    bystanders: &[Bystander],
    to_own: &[usize],
    listeners: Option<&Listeners>,
) {
    let mut ends: Vec<(SocketAddr, SocketAddr)> = to_own
        .iter()
        .map(|&at| (connections[at].local, connections[at].peer))
        .chain(bystanders.iter().map(|b| (b.local, b.peer)))
        .collect();
    ends.sort_unstable();
    for &at in to_own {
        let connection = &mut connections[at];
        let other_end = ends.binary_search(&(connection.peer, connection.local)).is_ok();
        let closing = connection.state != State::Established
            && listeners.is_some_and(|listeners| listeners.serves(connection.peer));
        if other_end || closing {
            connection.on_host = OnHost::SameNamespace;
        }
    }
}

/// A socket that accepted from a local address and has no end there that names it as its peer.
#[derive(Clone, Copy)]
struct Candidate {
    peer: SocketAddr,
    local: SocketAddr,
    inode: u32,
    /// Where it is among the connections.
    at: Option<usize>,
    paired: bool,
}

fn taken_over(
    connections: &mut [Connection],
    bystanders: &[Bystander],
    own: &Addresses,
) -> Vec<TakenOver> {
    let remote =
        Sieve::of(connections.iter().filter(|c| !own.is_local(c.peer.ip())).map(|c| c.local));
    let sockets = || {
        let listed = connections
            .iter()
            .enumerate()
            .map(|(at, c)| (Some(at), c.local, c.peer, c.inode, c.state));
        listed.chain(bystanders.iter().map(|b| (None, b.local, b.peer, b.inode, b.state)))
    };
    let mut candidates: Vec<Candidate> = sockets()
        .filter(|&(_, _, peer, _, state)| state == State::Established && remote.may_have(peer))
        .filter(|(_, _, peer, ..)| own.is_local(peer.ip()))
        .map(|(at, local, peer, inode, _)| Candidate { peer, local, inode, at, paired: false })
        .collect();
    if candidates.is_empty() {
        return Vec::new();
    }
    candidates.sort_unstable_by_key(|candidate| (candidate.peer, candidate.local));
    for (_, local, peer, ..) in sockets().filter(|&(_, local, ..)| remote.may_have(local)) {
        if let Ok(at) = candidates.binary_search_by_key(&(local, peer), |c| (c.peer, c.local)) {
            candidates[at].paired = true;
        }
    }
    candidates.retain(|candidate| !candidate.paired);
    let mut found = Vec::new();
    for at in 0..connections.len() {
        let Connection { local, peer, .. } = connections[at];
        if own.is_local(peer.ip()) || !remote.may_have(local) {
            continue;
        }
        let Ok(by) = candidates.binary_search_by_key(&local, |candidate| candidate.peer) else {
            continue;
        };
        let by = candidates[by];
        connections[at].on_host = OnHost::Proxy { owner: None };
        if let Some(by) = by.at {
            connections[by].on_host = if connections[by].peer.ip().is_loopback() {
                OnHost::Loopback
            } else {
                OnHost::SameNamespace
            };
        }
        found.push(TakenOver { connection: at, by_inode: by.inode });
    }
    found
}

/// Rules most addresses out without a search.
struct Sieve {
    ips: BTreeSet<IpAddr>,
    ports: Vec<bool>,
}

impl Sieve {
    fn of(addresses: impl Iterator<Item = SocketAddr>) -> Self {
        let mut sieve = Self { ips: BTreeSet::new(), ports: vec![false; 1 << 16] };
        let mut last = None;
        for address in addresses {
            sieve.ports[usize::from(address.port())] = true;
            if last != Some(address.ip()) {
                last = Some(address.ip());
                sieve.ips.insert(address.ip());
            }
        }
        sieve
    }

    fn may_have(&self, address: SocketAddr) -> bool {
        self.ports[usize::from(address.port())] && self.ips.contains(&address.ip())
    }
}

#[cfg(test)]
mod tests;
