//! The bytes of a `sock_diag` dump → connections. Pure; each message is read in place.

use std::net::SocketAddr;

use stillopen_model::{Connection, Keepalive, KeepaliveTimes, OnHost, Role, State, Timer};

use super::{
    Listeners,
    wire::{DiagMessage, GET_TCP_SOCKETS, INET_DIAG_INFO, Info},
};
use crate::{
    Filter,
    address::Addresses,
    netlink::{Attributes, Block, NetlinkError, each_message},
};

/// What a dump is read against.
pub(crate) struct View<'a> {
    pub netns: u32,
    pub filter: &'a Filter,
    /// `None`: they could not be read.
    pub listeners: Option<&'a Listeners>,
    pub own: &'a Addresses,
}

/// What the dumps gave, of all namespaces.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    pub connections: Vec<Connection>,
    /// `idiag_cookie` of each connection, in the same order.
    pub cookies: Vec<u64>,
    /// The descriptor of each connection in its owner, where owners were looked for; [`NO_FD`]: none seen.
    pub fds: Vec<u32>,
    /// Sockets that no file refers to: closed, or not accepted yet. No program's, so left out.
    pub orphans: u32,
    /// Sockets with a local peer that the filter left out.
    pub bystanders: Vec<Bystander>,
}

/// No descriptor was seen.
pub(crate) const NO_FD: u32 = u32::MAX;

/// A socket that may explain another one, but was not asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bystander {
    pub local: SocketAddr,
    pub peer: SocketAddr,
    pub inode: u32,
    pub state: State,
}

/// How far a dump had come, to go back to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark(usize, u32, usize);

impl Sockets {
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.connections.len(), self.orphans, self.bystanders.len())
    }

    pub(crate) fn back_to(&mut self, mark: Mark) {
        self.connections.truncate(mark.0);
        self.cookies.truncate(mark.0);
        self.orphans = mark.1;
        self.bystanders.truncate(mark.2);
    }

    /// Takes one block of a dump.
    pub(crate) fn take(&mut self, block: &[u8], view: &View<'_>) -> Result<Block, NetlinkError> {
        each_socket(block, view, |socket| match socket {
            Socket::Connection(cookie, connection) => {
                self.cookies.push(cookie);
                self.connections.push(connection);
            }
            Socket::LeftOut(bystander) => {
                if bystander.inode == 0 {
                    self.orphans = self.orphans.saturating_add(1);
                }
                if view.own.has(bystander.peer.ip())
                    || (bystander.inode != 0 && bystander.peer.ip().is_loopback())
                {
                    self.bystanders.push(bystander);
                }
            }
        })
    }
}

/// One socket of a dump.
pub(crate) enum Socket {
    /// Its cookie, and what it is.
    Connection(u64, Connection),
    /// No program's, or not asked for.
    LeftOut(Bystander),
}

/// Hands each socket of one block of a dump to `each`.
pub(crate) fn each_socket(
    block: &[u8],
    view: &View<'_>,
    mut each: impl FnMut(Socket),
) -> Result<Block, NetlinkError> {
    each_message(block, |kind, body| {
        if kind != GET_TCP_SOCKETS {
            return Ok(());
        }
        let (message, attributes) = DiagMessage::split(body)?;
        let Some(state) = message.state() else { return Ok(()) };
        let (local, peer, inode) = (message.local(), message.peer(), message.inode());
        if inode == 0 || !view.filter.passes(local, peer) {
            each(Socket::LeftOut(Bystander { local, peer, inode, state }));
            return Ok(());
        }
        let (info, timer) = (info(message, attributes)?, message.timer());
        let role = role(info, state).unwrap_or_else(|| match view.listeners {
            None => Role::Unknown,
            Some(listeners) if listeners.serves(local) => Role::Server,
            Some(_) => Role::Client,
        });
        each(Socket::Connection(
            message.cookie(),
            Connection {
                local,
                peer,
                netns: view.netns,
                owner: None,
                inode,
                state,
                role,
                on_host: OnHost::No,
                timer,
                retransmits: info.retransmits,
                probes_unanswered: info.probes,
                syn_data: info.syn_data,
                timer_expires: (timer != Timer::None).then(|| message.expires()),
                keepalive: keepalive(timer, state),
                user_timeout: None,
                receive_queue: message.receive_queue(),
                send_queue: message.send_queue(),
                // Before the handshake the stamps are not set: they count from the boot.
                counters: info.counters.filter(|_| state != State::SynSent),
                watch: None,
                far_end: None,
                tables: Box::default(),
            },
        ));
        Ok(())
    })
}

/// Who connected, by the byte counts; `None` while data is in flight, and where they say nothing.
fn role(info: Info, state: State) -> Option<Role> {
    let fin = match state {
        State::Established | State::CloseWait => 0,
        State::FinWait2 => 1,
        State::SynSent => return Some(Role::Client),
        State::FinWait1 => return None,
    };
    if info.counters?.unacked > 0 {
        return None;
    }
    match info.acked_beyond_data?.checked_sub(fin)? {
        0 => Some(Role::Server),
        1 => Some(Role::Client),
        _ => None,
    }
}

#[inline]
fn info(message: DiagMessage<'_>, attributes: &[u8]) -> Result<Info, NetlinkError> {
    let mut info = None;
    for attribute in Attributes(attributes) {
        let (kind, value) = attribute?;
        if kind == INET_DIAG_INFO {
            info = Info::parse(value);
        }
    }
    Ok(info.unwrap_or_else(|| without_info(message.timer(), message.retrans())))
}

/// `idiag_retrans` is `icsk_retransmits` for timer 1, `icsk_probes_out` for 2 and 4.
fn without_info(timer: Timer, retrans: u8) -> Info {
    match timer {
        Timer::Retransmit => Info { retransmits: retrans, ..Info::default() },
        Timer::Keepalive | Timer::ZeroWindow => Info { probes: retrans, ..Info::default() },
        Timer::None | Timer::Other => Info::default(),
    }
}

/// What the timer shows of keepalive. A retransmission timer hides it.
pub(crate) fn keepalive(timer: Timer, state: State) -> Keepalive {
    let unknown = KeepaliveTimes::default();
    match (timer, state) {
        (Timer::Keepalive, _) => Keepalive::On(unknown),
        (Timer::None, State::Established | State::CloseWait) => Keepalive::Off(unknown),
        _ => Keepalive::Unknown,
    }
}

/// What one received block of a dump holds.
#[derive(Debug)]
pub struct ParsedBlock<T> {
    /// What it lists.
    pub items: Vec<T>,
    /// Whether it ends the dump. A dump without an end is not whole.
    pub done: bool,
    /// Whether the kernel said that the list changed while it was read.
    pub interrupted: bool,
}

/// Parses one received block of a dump of connections, without listeners and own addresses.
///
/// # Errors
/// A message that is cut short or malformed, or one that says that the kernel refused.
pub fn parse_connections(block: &[u8]) -> Result<ParsedBlock<Connection>, NetlinkError> {
    let mut sockets = Sockets::default();
    let view =
        View { netns: 0, filter: &Filter::default(), listeners: None, own: &Addresses::default() };
    let Block { done, interrupted } = sockets.take(block, &view)?;
    Ok(ParsedBlock { items: sockets.connections, done, interrupted })
}

/// Parses one received block of a dump of listeners.
///
/// # Errors
/// A message that is cut short or malformed, or one that says that the kernel refused.
pub fn parse_listeners(block: &[u8]) -> Result<ParsedBlock<SocketAddr>, NetlinkError> {
    let mut listeners = Listeners::default();
    let Block { done, interrupted } = listeners.take(block)?;
    Ok(ParsedBlock { items: listeners.addresses().collect(), done, interrupted })
}

#[cfg(test)]
mod tests;
