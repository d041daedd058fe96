//! Asks the kernel for the TCP sockets of the calling thread's network namespace.

use rustix::net::netlink::SOCK_DIAG;
use stillopen_model::Connection;

use super::{
    Listeners, Sockets, View,
    parse::{Socket, each_socket},
    wire::{GET_TCP_SOCKETS, INET_DIAG_INFO, LISTEN},
};
use crate::{
    Filter,
    address::Addresses,
    netlink::{
        Block, NetlinkError,
        read::{Buffer, Whole, dump},
    },
};

/// `sizeof(struct inet_diag_req)`
const REQUEST: usize = 60;
/// ESTABLISHED, `SYN_SENT`, `FIN_WAIT1`, `FIN_WAIT2`, `CLOSE_WAIT`: a program can hang in these.
const CONNECTION_STATES: u32 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 8;
/// The bit of `INET_DIAG_INFO` in `idiag_ext`.
const WITH_INFO: u8 = 1 << (INET_DIAG_INFO - 1);

/// Adds the namespace's connections, IPv4 and IPv6, to `into`.
pub(crate) fn connections(
    into: &mut Sockets,
    view: &View<'_>,
    buffer: &mut Buffer,
) -> Result<Whole, NetlinkError> {
    let start = into.mark();
    let restart = |sockets: &mut Sockets| sockets.back_to(start);
    let take = |block: &[u8], sockets: &mut Sockets| sockets.take(block, view);
    tcp_dump(CONNECTION_STATES, WITH_INFO, into, buffer, restart, take)
}

/// Hands each of the namespace's connections with its cookie to `take`; what their surroundings would tell
/// (roles by listeners, own addresses) is not looked up. A dump that has to be asked for again gives the
/// same ones again.
pub(crate) fn each_connection<S>(
    netns: u32,
    state: &mut S,
    buffer: &mut Buffer,
    take: impl Fn(u64, Connection, &mut S),
) -> Result<Whole, NetlinkError> {
    let take = |block: &[u8], state: &mut S| {
        let view =
            View { netns, filter: &Filter::default(), listeners: None, own: &Addresses::default() };
        each_socket(block, &view, |socket| {
            if let Socket::Connection(cookie, connection) = socket {
                take(cookie, connection, state);
            }
        })
    };
    tcp_dump(CONNECTION_STATES, WITH_INFO, state, buffer, |_| {}, take)
}

/// The namespace's listeners. A list that changed under the dump marks a few roles wrongly at worst,
/// those of connections that are as new.
pub(crate) fn listeners(buffer: &mut Buffer) -> Result<Listeners, NetlinkError> {
    let mut found = Listeners::default();
    let take = |block: &[u8], listeners: &mut Listeners| listeners.take(block);
    tcp_dump(1 << LISTEN, 0, &mut found, buffer, Listeners::clear, take)?;
    found.ready();
    Ok(found)
}

fn tcp_dump<S>(
    states: u32,
    extensions: u8,
    state: &mut S,
    buffer: &mut Buffer,
    restart: impl Fn(&mut S),
    take: impl Fn(&[u8], &mut S) -> Result<Block, NetlinkError>,
) -> Result<Whole, NetlinkError> {
    let request = request(states, extensions);
    dump(Some(SOCK_DIAG), GET_TCP_SOCKETS, &request, buffer, state, restart, take)
}

/// `struct inet_diag_req`: every address and port, by states and extensions.
fn request(states: u32, extensions: u8) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    bytes[3] = extensions;
    bytes[52..56].copy_from_slice(&states.to_ne_bytes());
    bytes
}
