//! Which tables of this host's kernel each connection passes, and what they say of it.
//!
//! Nothing is guessed: a table is a witness where the routes lead the connection through its namespace. A
//! connection to an address that some table translates may go another way (two clusters on one laptop use
//! the same service addresses).
//!
//! In this order: what each namespace holds (`held.rs`), which connections that may concern, the way of
//! each (`path.rs`), what the tables on it say (`look.rs`), and of an entry that is not there a second
//! reading (`again.rs`). `limits.rs` has the timeouts.

mod again;
mod held;
mod limits;
mod look;
mod path;

use std::{collections::HashSet, time::Duration};

use stillopen_model::{Connection, OnHost, Snapshot, State, TableId};

use crate::{budget::Budget, flow::Flow, linux::Gaps, netlink::read::Buffer, netns::Place};
use held::Held;
use look::{Draft, Look};
use path::Paths;

/// CPU time for the tables of all namespaces.
const BUDGET: Duration = Duration::from_secs(2);

/// Gives each connection of `snapshot` the witnesses of the tables that it passes, and the snapshot their
/// limits. `places` are those of its namespaces, `others` further ones that a way may lead through; of
/// those the ones that matter are added. `cookies` are the connections', in their order.
pub(crate) fn witnesses(
    snapshot: &mut Snapshot,
    cookies: &[u64],
    places: &mut Vec<Place>,
    others: Vec<Place>,
    gaps: &mut Gaps,
) {
    for connection in &mut snapshot.connections {
        connection.tables = Box::default();
    }
    snapshot.limits.retain(|limit| limit.table.is_none());
    if !snapshot.connections.iter().any(may_pass) {
        return;
    }
    let listed = places.len();
    let all: Vec<Place> = places.iter().cloned().chain(others).collect();
    let mut budget = Budget::new(BUDGET);
    let mut buffer = Buffer::new();
    let held: Vec<Held> =
        all.iter().map(|place| held::read(place, &mut buffer, &mut budget, gaps)).collect();

    let concerned = Concerned::by(&held);
    let mut paths = Paths::new(&all);
    let mut drafts: Vec<Draft> = Vec::new();
    if !concerned.is_empty() {
        for (at, connection) in snapshot.connections.iter().enumerate() {
            if may_pass(connection) && concerned.may_be(connection) {
                let mut look = Look { held: &held, at, connection, drafts: &mut drafts };
                look.follow(&mut paths, &mut buffer);
            }
        }
    }
    drop(paths);
    let second = again::Second { connections: &snapshot.connections, cookies, places: &all };
    let found = second.settle(drafts, &held, &mut budget, &mut buffer, gaps);

    // Namespaces beside those that were asked for get a row where they matter.
    let mut rows: Vec<Option<u32>> = (0..all.len()).map(|at| index(at, listed)).collect();
    for witness in &found {
        if rows[witness.place].is_none() {
            rows[witness.place] = u32::try_from(places.len()).ok();
            let place = all[witness.place].clone();
            let mut row = place.row();
            row.conntrack = held[witness.place].settings;
            snapshot.namespaces.push(row);
            places.push(place);
        }
    }
    let table = |place: usize, kind| rows[place].map(|netns| TableId { netns, kind });
    for limit in limits::limits(&held, &found, &all, snapshot.host.hz, table) {
        snapshot.limits.push(limit);
    }
    look::give(&mut snapshot.connections, &found, table);
}

fn index(at: usize, listed: usize) -> Option<u32> {
    u32::try_from(at).ok().filter(|_| at < listed)
}

/// Whether its packets leave its program's namespace, or may be sent elsewhere within it.
fn may_pass(connection: &Connection) -> bool {
    connection.on_host == OnHost::No && connection.state != State::SynSent
}

/// What the tables of all namespaces know: a filter that most connections do not pass.
#[derive(Default)]
struct Concerned {
    /// Destinations that some table translates.
    destinations: HashSet<(std::net::IpAddr, Option<u16>)>,
    /// Flows that some table has an entry of, as one of the two ends sends them.
    flows: HashSet<Flow>,
}

impl Concerned {
    fn by(held: &[Held]) -> Self {
        let mut concerned = Self::default();
        for held in held {
            concerned.destinations.extend(held.destinations());
            concerned.flows.extend(held.flows());
        }
        concerned
    }

    fn is_empty(&self) -> bool {
        self.destinations.is_empty() && self.flows.is_empty()
    }

    fn may_be(&self, connection: &Connection) -> bool {
        let Connection { local, peer, .. } = *connection;
        let names = |port| self.destinations.contains(&(peer.ip(), port));
        names(Some(peer.port())) || names(None) || self.flows.contains(&Flow::new(local, peer))
    }
}
