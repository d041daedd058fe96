//! What the tables on the way of one connection say of it.

use std::time::Duration;

use stillopen_model::{Connection, Entry, OtherSide, Role, TableId, TableKind, Witness};

use super::{
    held::Held,
    path::{At, Paths},
};
use crate::{conntrack::Tracked, flow::Flow, ipvs::Row, netlink::read::Buffer, route::Way};

/// Through more namespaces than a pod, its node and the node's host no way is followed.
const HOPS: usize = 4;

/// What one table says, before a second reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Draft {
    /// Which connection.
    pub connection: usize,
    /// Which place's table.
    pub place: usize,
    pub kind: TableKind,
    pub said: Said,
}

/// What it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    Entry(Entry),
    /// It should have an entry, and did not.
    Missing(Missing),
}

/// An entry that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Missing {
    /// The connection, as its client's packets come to the table.
    pub flow: Flow,
    /// A rule translates this destination.
    pub by_rule: bool,
    /// It is a virtual service's too: what conntrack has, or not, explains the other table.
    pub beside_ipvs: bool,
    /// Places on the way whose conntrack must be seen to have left the flow as it is.
    pub unchanged_at: Vec<usize>,
}

/// One connection being looked at.
pub(super) struct Look<'a> {
    pub held: &'a [Held],
    /// Its position.
    pub at: usize,
    pub connection: &'a Connection,
    pub drafts: &'a mut Vec<Draft>,
}

/// What a namespace does with a packet.
enum Fate {
    /// It goes on with these addresses.
    On(Flow),
    /// What follows is not known, or does not matter.
    End,
}

impl Look<'_> {
    pub(super) fn follow(&mut self, paths: &mut Paths<'_>, buffer: &mut Buffer) {
        let Connection { local, peer, netns, .. } = *self.connection;
        let mut flow = Flow::new(local, peer);
        let mut at = At { place: netns as usize, from: None };
        let mut unchanged_at = Vec::new();
        for _ in 0..HOPS {
            let mut way = paths.way(at, flow.source.ip(), flow.destination, buffer);
            let Fate::On(after) = self.pass(at, flow, way, &unchanged_at) else { return };
            if after.destination != flow.destination {
                way = paths.way(at, flow.source.ip(), after.destination, buffer);
            }
            if after == flow && self.held.get(at.place).is_none_or(Held::may_translate) {
                unchanged_at.push(at.place);
            }
            flow = after;
            let Way::Through { link, gateway } = way else { return };
            let next = gateway.unwrap_or(flow.destination.ip());
            let Some(beyond) = paths.beyond(at.place, link, next, buffer) else { return };
            at = beyond;
        }
    }

    fn pass(&mut self, at: At, flow: Flow, way: Way, unchanged_at: &[usize]) -> Fate {
        let Some(held) = self.held.get(at.place) else { return Fate::End };
        let from_here = at.from.is_none();
        // ip_vs_in_hook: what starts here, and what has arrived (NF_INET_LOCAL_OUT, NF_INET_LOCAL_IN).
        let ipvs_sees = from_here || way == Way::Here;
        let entry = held
            .tracked
            .as_ref()
            .and_then(|tracked| tracked.by_client(flow).or_else(|| tracked.by_server(flow)));
        if ipvs_sees && held.serves(flow.destination) && self.connection.role != Role::Server {
            if let Some(entry) = entry.filter(|entry| entry.translates_destination()) {
                self.say(at, TableKind::Conntrack, Said::Entry(present(entry, flow)));
            }
            self.virtual_service(at, flow, unchanged_at);
            return Fate::End;
        }
        if let Some(row) = held.rows.as_ref().and_then(|rows| rows.by_server(flow)) {
            let entry = Entry::Present {
                remaining: row.remaining,
                translates_destination: true,
                other_side: Some(side(row.original)),
            };
            self.say(at, TableKind::Ipvs, Said::Entry(entry));
            return Fate::End;
        }
        match entry {
            Some(entry) if entry.translates() => {
                self.say(at, TableKind::Conntrack, Said::Entry(present(entry, flow)));
                let from_client = entry.original == flow;
                Fate::On(if from_client { entry.reply } else { entry.original }.inverse())
            }
            Some(entry) => {
                if self.drops_strays(at, way) {
                    self.say(at, TableKind::Conntrack, Said::Entry(present(entry, flow)));
                }
                Fate::On(flow)
            }
            None => self.without_entry(at, flow, unchanged_at),
        }
    }

    /// The connection goes to a virtual service of the namespace.
    fn virtual_service(&mut self, at: At, flow: Flow, unchanged_at: &[usize]) {
        let held = &self.held[at.place];
        let said = match &held.rows {
            None => Said::Entry(Entry::NotRead),
            Some(rows) => match rows.by_client(flow) {
                Some(row) => Said::Entry(of_row(row)),
                None => Said::Missing(Missing {
                    flow,
                    by_rule: false,
                    beside_ipvs: false,
                    unchanged_at: unchanged_at.to_vec(),
                }),
            },
        };
        let missing = matches!(said, Said::Missing(_));
        self.say(at, TableKind::Ipvs, said);
        let tracks = held.settings.is_some();
        let has_said = self.drafts.iter().rev().take_while(|draft| draft.connection == self.at);
        let knows = has_said
            .filter(|draft| draft.place == at.place)
            .any(|draft| draft.kind == TableKind::Conntrack);
        if missing && tracks && !knows {
            self.say(
                at,
                TableKind::Conntrack,
                Said::Missing(Missing {
                    flow,
                    by_rule: false,
                    beside_ipvs: true,
                    unchanged_at: Vec::new(),
                }),
            );
        }
    }

    fn without_entry(&mut self, at: At, flow: Flow, unchanged_at: &[usize]) -> Fate {
        let held = &self.held[at.place];
        let to = flow.destination;
        let by_rule =
            held.rules.as_ref().is_some_and(|rules| rules.translate(to, at.from.is_none()));
        let by_others = held.translates_for_others(to);
        if self.connection.role == Role::Server || !(by_rule || by_others) {
            return Fate::On(flow);
        }
        let unchanged_at = unchanged_at.to_vec();
        let missing = Missing { flow, by_rule, beside_ipvs: false, unchanged_at };
        let said = match held.tracked {
            Some(_) => Said::Missing(missing),
            None => Said::Entry(Entry::NotRead),
        };
        self.say(at, TableKind::Conntrack, said);
        Fate::End
    }

    /// Whether the namespace drops what has no entry. With `tcp_loose` such a packet is NEW, not INVALID.
    fn drops_strays(&self, at: At, way: Way) -> bool {
        let held = &self.held[at.place];
        let Some(rules) = &held.rules else { return false };
        if held.settings.is_none_or(|settings| settings.loose) && !rules.drops_new {
            return false;
        }
        if at.from.is_none() || way == Way::Here {
            rules.drop_incoming
        } else {
            rules.drop_forwarded
        }
    }

    fn say(&mut self, at: At, kind: TableKind, said: Said) {
        self.drafts.push(Draft { connection: self.at, place: at.place, kind, said });
    }
}

/// An entry of conntrack, as the end sees it whose packets come as `flow`. One without a time lives for as
/// long as anything does here.
pub(super) fn present(entry: &Tracked, flow: Flow) -> Entry {
    let other = if entry.original == flow { entry.reply } else { entry.original };
    Entry::Present {
        remaining: entry.remaining.unwrap_or(Duration::from_secs(u32::MAX.into())),
        translates_destination: entry.translates_destination(),
        other_side: entry.translates().then(|| side(other)),
    }
}

/// An entry of IPVS, as its client sees it.
pub(super) fn of_row(row: &Row) -> Entry {
    Entry::Present {
        remaining: row.remaining,
        translates_destination: true,
        other_side: Some(OtherSide { local: row.server, peer: row.original.source }),
    }
}

/// The socket whose packets come to the table as `flow`.
fn side(flow: Flow) -> OtherSide {
    OtherSide { local: flow.source, peer: flow.destination }
}

/// A witness of one place's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub connection: usize,
    pub place: usize,
    pub kind: TableKind,
    pub entry: Entry,
    /// It only explains what another table says.
    pub aside: bool,
}

/// Hands the witnesses to their connections. They are in the order of those.
pub(super) fn give(
    connections: &mut [Connection],
    found: &[Found],
    table: impl Fn(usize, TableKind) -> Option<TableId>,
) {
    for of_one in found.chunk_by(|a, b| a.connection == b.connection) {
        let witnesses = of_one.iter().filter_map(|found| {
            Some(Witness { table: table(found.place, found.kind)?, entry: found.entry })
        });
        connections[of_one[0].connection].tables = witnesses.collect();
    }
}

#[cfg(test)]
mod tests;
