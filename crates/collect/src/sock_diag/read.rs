//! Asks the kernel for the TCP sockets of the calling thread's network namespace.

use rustix::net::netlink::SOCK_DIAG;

use super::{
    Listeners, Sockets, View,
    wire::{INET, INET_DIAG_INFO, INET6, LISTEN, SOCK_DIAG_BY_FAMILY},
};
use crate::netlink::{
    Block, NetlinkError,
    read::{Buffer, Whole, dump},
};

/// `sizeof(struct inet_diag_req_v2)`
const REQUEST: usize = 56;
/// `IPPROTO_TCP`
const TCP: u8 = 6;
/// ESTABLISHED, `SYN_SENT`, `FIN_WAIT1`, `FIN_WAIT2`, `CLOSE_WAIT`: a program can hang in these.
const CONNECTION_STATES: u32 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 8;

/// Adds the namespace's connections, IPv4 and IPv6, to `into`.
pub(crate) fn connections(
    into: &mut Sockets,
    view: &View<'_>,
    buffer: &mut Buffer,
) -> Result<Whole, NetlinkError> {
    let mut whole = Whole::Yes;
    for family in [INET, INET6] {
        let start = into.mark();
        let restart = |sockets: &mut Sockets| sockets.back_to(start);
        if family_of(family, into, buffer, restart, |block, into| into.take(block, view))?
            == Whole::No
        {
            whole = Whole::No;
        }
    }
    Ok(whole)
}

/// Hands each block of the dumps of the namespace's connections to `take`. A dump that has to be asked
/// for again gives the same sockets again.
pub(crate) fn each_block<S>(
    state: &mut S,
    buffer: &mut Buffer,
    take: impl Fn(&[u8], &mut S) -> Result<Block, NetlinkError>,
) -> Result<Whole, NetlinkError> {
    let mut whole = Whole::Yes;
    for family in [INET, INET6] {
        if family_of(family, state, buffer, |_| {}, &take)? == Whole::No {
            whole = Whole::No;
        }
    }
    Ok(whole)
}

fn family_of<S>(
    family: u8,
    state: &mut S,
    buffer: &mut Buffer,
    restart: impl Fn(&mut S),
    take: impl Fn(&[u8], &mut S) -> Result<Block, NetlinkError>,
) -> Result<Whole, NetlinkError> {
    dump(
        Some(SOCK_DIAG),
        SOCK_DIAG_BY_FAMILY,
        &request(family, CONNECTION_STATES, 1 << (INET_DIAG_INFO - 1)),
        buffer,
        state,
        restart,
        take,
    )
}

/// The namespace's listeners.
pub(crate) fn listeners(buffer: &mut Buffer) -> Result<Listeners, NetlinkError> {
    let mut all = Listeners::default();
    for family in [INET, INET6] {
        let mut these = Listeners::default();
        // A list that changed under the dump marks a few roles wrongly at worst, and for connections
        // that are as new.
        dump(
            Some(SOCK_DIAG),
            SOCK_DIAG_BY_FAMILY,
            &request(family, 1 << LISTEN, 0),
            buffer,
            &mut these,
            Listeners::clear,
            |block, listeners| listeners.take(block),
        )?;
        all.append(these);
    }
    all.ready();
    Ok(all)
}

/// `struct inet_diag_req_v2`: every address and port, by family, states and extensions.
fn request(family: u8, states: u32, extensions: u8) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    bytes[..3].copy_from_slice(&[family, TCP, extensions]);
    bytes[4..8].copy_from_slice(&states.to_ne_bytes());
    bytes
}
