//! A second reading where an entry was not there.
//!
//! The socket was listed before the tables were read, and it is looked at once more at the end: one that
//! has gone by then may have closed, and its entry with it; one that has received something is not cut.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
};

use stillopen_model::{Connection, Entry, Role, TableKind, ends_agree};

use super::{
    held::{self, Held, Index},
    look::{Draft, Found, Missing, Said, of_row, present},
};
use crate::{
    budget::Budget,
    conntrack::{Tracked, read::Wanted},
    ipvs::{self, Row},
    linux::{Gaps, TableGap},
    netlink::read::Buffer,
    netns::{self, Place},
    sock_diag::read::each_connection,
};

/// While entries come and go, the kernel's list of them may leave one out: so often it is read then.
const READINGS_OF_ROWS: usize = 3;

pub(super) struct Second<'a> {
    pub connections: &'a [Connection],
    pub cookies: &'a [u64],
    pub places: &'a [Place],
}

/// What a place's tables held the second time. `None`: not read completely.
struct Tables {
    /// All entries of conntrack, and how many flows go to a destination as they are.
    tracked: HashMap<usize, Option<All>>,
    rows: HashMap<usize, Option<Vec<Index<Row>>>>,
}

struct All {
    tracked: Index<Tracked>,
    untranslated: HashSet<SocketAddr>,
}

impl Second<'_> {
    /// Turns drafts into what the tables said for certain.
    pub(super) fn settle(
        &self,
        drafts: Vec<Draft>,
        held: &[Held],
        budget: &mut Budget,
        buffer: &mut Buffer,
        gaps: &mut Gaps,
    ) -> Vec<Found> {
        let missing = |draft: &&Draft| matches!(draft.said, Said::Missing(_));
        let mut suspects: Vec<usize> =
            drafts.iter().filter(missing).map(|draft| draft.connection).collect();
        suspects.dedup();
        let tables = self.read(&drafts, held, budget, buffer, gaps);
        let alive = self.alive(&suspects, buffer);
        let translated = self.translated(&drafts, buffer);
        let mut found: Vec<Found> = Vec::with_capacity(drafts.len());
        for Draft { connection, place, kind, said } in drafts {
            let (entry, aside) = match said {
                Said::Entry(entry) => (Some(entry), false),
                Said::Missing(missing) => {
                    let known = Known {
                        alive: alive.contains(&connection),
                        translated: translated.contains(&connection),
                    };
                    (tables.settle(place, kind, &missing, held, known), missing.beside_ipvs)
                }
            };
            if let Some(entry) = entry {
                found.push(Found { connection, place, kind, entry, aside });
            }
        }
        only_where_ipvs_has_none(&mut found);
        found
    }

    /// Which connections have another end on this host that takes the client for its peer, and is not the one that
    /// the client connected to: something has translated them. The rules alone don't prove that: they may have
    /// exceptions, and be younger than the connection.
    fn translated(&self, drafts: &[Draft], buffer: &mut Buffer) -> HashSet<usize> {
        let mut translated = HashSet::new();
        let by_rules = |draft: &&Draft| {
            matches!(&draft.said, Said::Missing(missing) if !missing.beside_ipvs)
                && draft.kind == TableKind::Conntrack
        };
        if !drafts.iter().any(|draft| by_rules(&draft)) {
            return translated;
        }
        let sources = drafts.iter().filter(by_rules).filter_map(|draft| match &draft.said {
            Said::Missing(missing) => Some(missing.flow.source),
            Said::Entry(_) => None,
        });
        let elsewhere = self.elsewhere(&sources.collect(), buffer);
        let mut by_peer: HashMap<SocketAddr, Vec<&Connection>> = HashMap::new();
        for connection in &elsewhere {
            by_peer.entry(connection.peer).or_default().push(connection);
        }
        let mut by_local: HashMap<(u32, SocketAddr), Vec<SocketAddr>> = HashMap::new();
        for connection in self.connections {
            let Connection { netns, local, peer, .. } = *connection;
            by_peer.entry(peer).or_default().push(connection);
            by_local.entry((netns, local)).or_default().push(peer);
        }
        for draft in drafts.iter().filter(by_rules) {
            let Said::Missing(missing) = &draft.said else { continue };
            let client = &self.connections[draft.connection];
            // A connection of the same port that goes to the server itself has that end.
            let direct = by_local.get(&(client.netns, client.local)).map_or(&[][..], Vec::as_slice);
            let is_end = |server: &&&Connection| {
                server.netns != client.netns
                    && server.role != Role::Client
                    && !direct.contains(&server.local)
                    && ends_agree(client, server)
            };
            let servers = by_peer.get(&missing.flow.source).into_iter().flatten();
            if servers.filter(is_end).count() == 1 {
                translated.insert(draft.connection);
            }
        }
        translated
    }

    /// The sockets with one of these peers in the namespaces that no connection was listed of.
    fn elsewhere(&self, peers: &HashSet<SocketAddr>, buffer: &mut Buffer) -> Vec<Connection> {
        let listed: HashSet<u32> = self.connections.iter().map(|c| c.netns).collect();
        let mut found = Vec::new();
        for (netns, place) in (0..).zip(self.places).filter(|(netns, _)| !listed.contains(netns)) {
            let take = |_, connection: Connection, found: &mut Vec<Connection>| {
                if peers.contains(&connection.peer) {
                    found.push(connection);
                }
            };
            let read = || each_connection(netns, &mut found, buffer, take);
            // What can't be read proves nothing.
            let _ = netns::read::visit(place, read);
        }
        found
    }

    fn read(
        &self,
        drafts: &[Draft],
        held: &[Held],
        budget: &mut Budget,
        buffer: &mut Buffer,
        gaps: &mut Gaps,
    ) -> Tables {
        let mut tables = Tables { tracked: HashMap::new(), rows: HashMap::new() };
        for draft in drafts {
            let Said::Missing(missing) = &draft.said else { continue };
            if draft.kind == TableKind::Ipvs {
                tables
                    .rows
                    .entry(draft.place)
                    .or_insert_with(|| self.rows(draft.place, &held[draft.place], budget, gaps));
            }
            let of_conntrack = (draft.kind == TableKind::Conntrack).then_some(&draft.place);
            for &place in of_conntrack.into_iter().chain(&missing.unchanged_at) {
                let mut read = || self.tracked(place, budget, buffer, gaps);
                tables.tracked.entry(place).or_insert_with(&mut read);
            }
        }
        tables
    }

    fn rows(
        &self,
        at: usize,
        held: &Held,
        budget: &mut Budget,
        gaps: &mut Gaps,
    ) -> Option<Vec<Index<Row>>> {
        let place = &self.places[at];
        let mut readings: Vec<Index<Row>> = Vec::new();
        while readings.len() < READINGS_OF_ROWS {
            let read = netns::read::visit(place, || budget.spend(ipvs::read::entries)).ok()?;
            match read {
                Ok(rows) => readings.push(Index::new(rows)),
                Err(error) => {
                    gaps.table(TableGap::IpvsEntries, &place.name, &error);
                    return None;
                }
            }
            let last = &readings[readings.len() - 1];
            if held.rows.as_ref().is_some_and(|first| first.has_the_same_as(last)) {
                break;
            }
        }
        Some(readings)
    }

    fn tracked(
        &self,
        at: usize,
        budget: &mut Budget,
        buffer: &mut Buffer,
        gaps: &mut Gaps,
    ) -> Option<All> {
        let place = &self.places[at];
        let read = netns::read::visit(place, || {
            budget.spend(|spending| held::tracked(Wanted::All, buffer, spending))
        });
        match read.ok()? {
            Ok(entries) => {
                let as_it_is = entries.iter().filter(|entry| !entry.translates_destination());
                let untranslated = as_it_is.map(|entry| entry.original.destination).collect();
                Some(All { tracked: Index::new(entries), untranslated })
            }
            Err(error) => {
                gaps.table(TableGap::Conntrack, &place.name, &error);
                None
            }
        }
    }

    /// Which of these connections are still there and have received nothing since.
    fn alive(&self, suspects: &[usize], buffer: &mut Buffer) -> HashSet<usize> {
        let mut alive = HashSet::new();
        let netns = |&at: &usize| self.connections[at].netns;
        for of_one in suspects.chunk_by(|a, b| netns(a) == netns(b)) {
            let Some(place) = self.places.get(netns(&of_one[0]) as usize) else { continue };
            let by_cookie: HashMap<u64, usize> =
                of_one.iter().map(|&at| (self.cookies[at], at)).collect();
            let take = |cookie, now: Connection, alive: &mut HashSet<usize>| {
                let Some(&at) = by_cookie.get(&cookie) else { return };
                let received = |c: &Connection| c.counters.map(|counters| counters.segs_in);
                let before = &self.connections[at];
                if now.state == before.state && received(&now) == received(before) {
                    alive.insert(at);
                }
            };
            let read = || each_connection(0, &mut alive, buffer, take);
            // What can't be read now is not said to be alive.
            let _ = netns::read::visit(place, read);
        }
        alive
    }
}

/// What is known of a connection whose entry is not there.
#[derive(Clone, Copy)]
struct Known {
    /// It is still there, and has received nothing since.
    alive: bool,
    /// Its other end shows that it is translated.
    translated: bool,
}

impl Tables {
    /// What the table says for certain; `None`: the connection does not pass it, as far as is known.
    fn settle(
        &self,
        place: usize,
        kind: TableKind,
        missing: &Missing,
        held: &[Held],
        known: Known,
    ) -> Option<Entry> {
        let not_read = Some(Entry::NotRead);
        for at in &missing.unchanged_at {
            let Some(Some(all)) = self.tracked.get(at) else { return not_read };
            let as_it_is = all.tracked.by_client(missing.flow).is_some_and(|e| !e.translates());
            if !as_it_is {
                // It may come to the table with another address.
                return None;
            }
        }
        match kind {
            TableKind::Ipvs => {
                let Some(Some(readings)) = self.rows.get(&place) else { return not_read };
                let row = readings.iter().rev().find_map(|rows| rows.by_client(missing.flow));
                if let Some(row) = row {
                    return Some(of_row(row));
                }
            }
            TableKind::Conntrack => {
                let Some(Some(all)) = self.tracked.get(&place) else { return not_read };
                match all.tracked.by_client(missing.flow) {
                    Some(entry) if entry.translates() => {
                        return Some(present(entry, missing.flow));
                    }
                    // It passes as it is, or IPVS wrote this entry.
                    Some(_) => return None,
                    None => {}
                }
                let to = missing.flow.destination;
                let certain = missing.beside_ipvs
                    || (known.translated
                        && (missing.by_rule || held[place].translates_for_others(to))
                        && !all.untranslated.contains(&to));
                if !certain {
                    return None;
                }
            }
        }
        Some(if known.alive { Entry::Absent } else { Entry::NotRead })
    }
}

/// What conntrack says beside IPVS explains why that has no entry, and nothing else.
fn only_where_ipvs_has_none(found: &mut Vec<Found>) {
    let absent: HashSet<(usize, usize)> = found
        .iter()
        .filter(|found| found.kind == TableKind::Ipvs && found.entry == Entry::Absent)
        .map(|found| (found.connection, found.place))
        .collect();
    found.retain(|found| !found.aside || absent.contains(&(found.connection, found.place)));
}

#[cfg(test)]
mod tests;
