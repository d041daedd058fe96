//! Which limits a connection passes, and which of them decides.

use std::time::Duration;

use crate::{Connection, IdleLimit, OnHost, Role, State};

/// Whether nothing that could forget the connection lies between its ends: both are in one network
/// namespace, and no limit names the peer.
///
/// A leg that a proxy of this host has taken over is local whatever names its far peer: that limit holds
/// for the proxy's own connection.
pub(crate) fn is_local(c: &Connection, limits: &[IdleLimit]) -> bool {
    match c.on_host {
        OnHost::No => false,
        OnHost::Proxy { .. } => true,
        OnHost::Loopback | OnHost::SameNamespace => {
            !limits.iter().any(|limit| limit.selector.names(c.peer))
        }
    }
}

/// The limits that a connection passes, each with its position: those for this end's peer, and where the
/// other end is on this host too, those for its peer. A table of this host's kernel is passed where it is a
/// witness.
pub(crate) fn limits_of<'a>(
    c: &'a Connection,
    limits: &'a [IdleLimit],
) -> impl Iterator<Item = (u32, &'a IdleLimit)> {
    let passes = |limit: &IdleLimit| match limit.table {
        Some(table) => c.entry_in(table).is_some(),
        None => {
            limit.selector.matches(c.peer, c.role)
                || (c.far_end.is_some() && limit.selector.matches(c.local, c.role.opposite()))
        }
    };
    (0..).zip(limits).filter(move |(_, limit)| passes(limit))
}

/// The idle timeout of `limit` for the state that `c` is in; `None`: it is half-closed, and what the
/// limit does then is not known.
#[must_use]
pub(crate) fn timeout_in_state(c: &Connection, limit: &IdleLimit) -> Option<Duration> {
    let this_end_closed = match c.state {
        State::Established | State::SynSent => return Some(limit.idle_timeout),
        State::FinWait1 | State::FinWait2 => true,
        State::CloseWait => false,
    };
    match (c.role, this_end_closed) {
        (Role::Client, true) | (Role::Server, false) => limit.client_closed,
        (Role::Client, false) | (Role::Server, true) => limit.server_closed,
        (Role::Unknown, _) => limit.client_closed.zip(limit.server_closed).map(|(c, s)| c.min(s)),
    }
}

impl IdleLimit {
    /// The idle timeout for the state that `c` is in; that of an established connection where the one for a
    /// half-closed is not known.
    #[must_use]
    pub fn timeout_of(&self, c: &Connection) -> Duration {
        timeout_in_state(c, self).unwrap_or(self.idle_timeout)
    }
}
