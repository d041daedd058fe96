//! The tables of a kernel that remember connections, and what they say of one.
//!
//! A table is a witness: what it holds is known, not computed. Read `diagnose.rs` for what follows.

use std::{net::SocketAddr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{Connection, IdleLimit, secs};

/// One table of one network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TableId {
    /// Which of [`Snapshot::namespaces`](crate::Snapshot) has it.
    pub netns: u32,
    /// Which of its tables.
    pub kind: TableKind,
}

/// The kinds of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableKind {
    /// IP Virtual Server (`net/netfilter/ipvs`).
    Ipvs,
    /// Connection tracking (`net/netfilter/nf_conntrack_core.c`).
    Conntrack,
}

impl TableKind {
    /// As people say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ipvs => "IPVS",
            Self::Conntrack => "conntrack",
        }
    }
}

/// What a table that a connection passes says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// The table.
    pub table: TableId,
    /// Whether it has an entry.
    #[serde(flatten)]
    pub entry: Entry,
}

/// Whether a table has an entry of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// It has.
    Present {
        /// What is left of its time if no packet passes; zero: overdue, and still working.
        #[serde(rename = "remaining_s", with = "secs")]
        remaining: Duration,
        /// Whether the entry gives the connection another destination than the client connects to.
        translates_destination: bool,
        /// The addresses of the socket at the other side of the table, where that is known: on this host it
        /// is the other end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        other_side: Option<OtherSide>,
    },
    /// It was read completely, twice, and has none.
    Absent,
    /// It was not read completely.
    NotRead,
}

/// The addresses of the socket at the other side of a table that translates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OtherSide {
    /// Its own.
    pub local: SocketAddr,
    /// What it takes its peer's to be.
    pub peer: SocketAddr,
}

impl Connection {
    /// The other end behind the tables that it passes, where an entry tells.
    pub(crate) fn other_side(&self) -> Option<OtherSide> {
        self.tables.iter().find_map(|witness| match witness.entry {
            Entry::Present { other_side, .. } => other_side,
            Entry::Absent | Entry::NotRead => None,
        })
    }

    /// What the table that `limit` is the timeout of says of this connection; `None`: it is of no table, or the
    /// connection does not pass that, as far as is known.
    #[must_use]
    pub fn entry_under(&self, limit: &IdleLimit) -> Option<Entry> {
        self.entry_in(limit.table?)
    }

    /// What `table` says of this connection; `None`: it does not pass there, as far as is known.
    #[must_use]
    pub fn entry_in(&self, table: TableId) -> Option<Entry> {
        self.tables.iter().find(|witness| witness.table == table).map(|witness| witness.entry)
    }
}

/// The table is read after the socket, and counts in whole seconds.
pub(crate) const READ_APART: Duration = Duration::from_secs(1);

/// Whether another table of the same namespace translates it to its backend: `table`, which has no entry, is not
/// passed then.
pub(crate) fn is_translated_beside(c: &Connection, table: TableId) -> bool {
    let translates = |witness: &Witness| {
        witness.table.netns == table.netns
            && matches!(witness.entry, Entry::Present { translates_destination: true, .. })
    };
    c.tables.iter().any(translates)
}

/// Whether an entry is younger than the last packet that this end saw: probes of the peer, or answers to
/// them, refreshed it.
pub(crate) fn refreshed_unseen(
    c: &Connection,
    limit: &IdleLimit,
    remaining: Duration,
    quiet: Duration,
) -> bool {
    let timeout = limit.timeout_of(c);
    let overdue = if remaining.is_zero() { limit.slack_of(timeout) } else { Duration::ZERO };
    let age = timeout.checked_sub(remaining).map(|age| age + overdue);
    age.is_some_and(|age| age + READ_APART + c.stamp_uncertainty() < quiet)
}
