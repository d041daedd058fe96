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
            !limits.iter().any(|limit| limit.selector.names(c.peer.ip()))
        }
    }
}

/// The limits that a connection passes, each with its position.
pub(crate) fn limits_of<'a>(
    c: &'a Connection,
    limits: &'a [IdleLimit],
) -> impl Iterator<Item = (u32, &'a IdleLimit)> {
    (0..).zip(limits).filter(|(_, limit)| limit.selector.matches(c.peer.ip(), c.role))
}

/// The limit that decides among those that one kind of packet refreshes: the smallest for the state of the
/// connection.
#[derive(Clone, Copy)]
pub(crate) enum Deciding<'a> {
    /// No such limit is on the path.
    None,
    /// There is one, but its timeout for a half-closed connection is not known.
    PhaseUnknown(u32),
    /// This one, with its timeout in this state.
    Limit(u32, &'a IdleLimit, Duration),
}

impl<'a> Deciding<'a> {
    /// Takes one more limit of the path into account.
    pub(crate) fn consider(&mut self, c: &Connection, index: u32, limit: &'a IdleLimit) {
        match (timeout_in_state(c, limit), &self) {
            (None, Self::None) => *self = Self::PhaseUnknown(index),
            (Some(timeout), Self::Limit(_, _, smallest)) if timeout >= *smallest => {}
            (Some(timeout), _) => *self = Self::Limit(index, limit, timeout),
            (None, _) => {}
        }
    }
}

/// The idle timeout of `limit` for the state that `c` is in; `None`: it is half-closed, and what the
/// limit does then is not known.
#[must_use]
pub fn timeout_in_state(c: &Connection, limit: &IdleLimit) -> Option<Duration> {
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
