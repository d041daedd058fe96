//! A second reading where an entry was not there.
//!
//! The socket was listed before the tables were read, and it is looked at once more at the end: one that
//! has gone by then may have closed, and its entry with it; one that has received something is not cut.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
};

use stillopen_model::{Connection, Entry, TableKind};

use super::{
    held::{self, Held, Index},
    look::{Draft, Found, Missing, Said, of_row, present},
};
use crate::{
    Filter,
    address::Addresses,
    budget::Budget,
    conntrack::{Tracked, read::Wanted},
    ipvs::{self, Row},
    linux::{Gaps, TableGap},
    netlink::read::Buffer,
    netns::{self, Place},
    sock_diag::{
        self, View,
        parse::{Socket, each_socket},
    },
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
        let mut found: Vec<Found> = Vec::with_capacity(drafts.len());
        for Draft { connection, place, kind, said } in drafts {
            let (entry, aside) = match said {
                Said::Entry(entry) => (Some(entry), false),
                Said::Missing(missing) => {
                    let alive = alive.contains(&connection);
                    (tables.settle(place, kind, &missing, held, alive), missing.beside_ipvs)
                }
            };
            if let Some(entry) = entry {
                found.push(Found { connection, place, kind, entry, aside });
            }
        }
        only_where_ipvs_has_none(&mut found);
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
            let read = || {
                let take = |block: &[u8], alive: &mut HashSet<usize>| {
                    let view = View {
                        netns: 0,
                        filter: &Filter::default(),
                        listeners: None,
                        own: &Addresses::default(),
                    };
                    each_socket(block, &view, |socket| {
                        let Socket::Connection(cookie, now) = socket else { return };
                        let Some(&at) = by_cookie.get(&cookie) else { return };
                        let received = |c: &Connection| c.counters.map(|counters| counters.segs_in);
                        let before = &self.connections[at];
                        if now.state == before.state && received(&now) == received(before) {
                            alive.insert(at);
                        }
                    })
                };
                sock_diag::read::each_block(&mut alive, buffer, take)
            };
            // What can't be read now is not said to be alive.
            let _ = netns::read::visit(place, read);
        }
        alive
    }
}

impl Tables {
    /// What the table says for certain; `None`: the connection does not pass it, as far as is known.
    fn settle(
        &self,
        place: usize,
        kind: TableKind,
        missing: &Missing,
        held: &[Held],
        alive: bool,
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
                    || ((missing.by_rule || held[place].translates_for_others(to))
                        && !all.untranslated.contains(&to));
                if !certain {
                    return None;
                }
            }
        }
        Some(if alive { Entry::Absent } else { Entry::NotRead })
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
