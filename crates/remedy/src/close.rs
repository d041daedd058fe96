//! The end of a connection that is dead, now and not after an hour: its program gets an error and can retry.
#![allow(clippy::disallowed_methods, reason = "the end is waited for in real time")]

use std::{
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::net::netlink::SOCK_DIAG;
use stillopen_collect::{NetlinkError, request_done};
use stillopen_model::KeepaliveValues;

use crate::{
    Refusal,
    socket::{has_data_in_flight, has_ended, tcp_info},
    turn_on,
};

/// `SOCK_DESTROY` (`include/uapi/linux/sock_diag.h`)
const SOCK_DESTROY: u16 = 21;
/// `sizeof(struct inet_diag_req_v2)` (`include/uapi/linux/inet_diag.h`)
const REQUEST: usize = 56;

/// Ends a connection whose probes get no answer after 1 + 1 × 3 s.
const TIGHTEST: KeepaliveValues =
    KeepaliveValues { idle: Duration::from_secs(1), interval: Duration::from_secs(1), count: 3 };
/// For how long the end of a connection with those is waited for.
const PATIENCE_S: u64 = 6;
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// How a connection was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// By the kernel, on request: its program sees `ECONNABORTED`.
    Destroyed,
    /// By its own probes: its program sees `ECONNRESET` or `ETIMEDOUT`.
    Probed,
}

/// Ends the connection between `local` and `peer` of the calling thread's network namespace. Where the caller
/// may not have the kernel do it, `socket`, a descriptor of it, is given keepalive 1/1/3 and waited for.
///
/// # Errors
/// It could be ended in neither way.
pub fn close(
    local: SocketAddr,
    peer: SocketAddr,
    cookie: u64,
    socket: Result<OwnedFd, Refusal>,
) -> Result<Closed, Refusal> {
    let refused = match destroy(local, peer, cookie) {
        Ok(()) => return Ok(Closed::Destroyed),
        Err(refused) => refused,
    };
    let socket = socket.map_err(|_| Refusal::Kernel(refused.to_string()))?;
    if has_data_in_flight(&socket).map_err(Refusal::Options)? {
        return Err(Refusal::InFlight);
    }
    turn_on(&socket, TIGHTEST).map_err(|errno| Refusal::Options(errno.into()))?;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(PATIENCE_S) {
        if has_ended(&tcp_info(&socket).map_err(Refusal::Options)?) {
            return Ok(Closed::Probed);
        }
        sleep(LOOK);
    }
    Err(Refusal::StillThere(PATIENCE_S))
}

/// Has the kernel abort exactly this socket (`tcp_abort`, `net/ipv4/tcp.c`).
fn destroy(local: SocketAddr, peer: SocketAddr, cookie: u64) -> Result<(), NetlinkError> {
    request_done(Some(SOCK_DIAG), SOCK_DESTROY, &request(local, peer, cookie))
}

/// `struct inet_diag_req_v2`: family, protocol, extensions, padding, states, ports, addresses, device, cookie.
fn request(local: SocketAddr, peer: SocketAddr, cookie: u64) -> [u8; REQUEST] {
    const IPPROTO_TCP: u8 = 6;
    const EVERY_STATE: u32 = u32::MAX;
    let mut bytes = [0; REQUEST];
    bytes[0] = if local.is_ipv4() { 2 } else { 10 };
    bytes[1] = IPPROTO_TCP;
    bytes[4..8].copy_from_slice(&EVERY_STATE.to_ne_bytes());
    bytes[8..10].copy_from_slice(&local.port().to_be_bytes());
    bytes[10..12].copy_from_slice(&peer.port().to_be_bytes());
    address(local.ip(), &mut bytes[12..28]);
    address(peer.ip(), &mut bytes[28..44]);
    // The cookie's lower half comes first (`sock_diag_check_cookie`, `net/core/sock_diag.c`).
    let (low, high) = (cookie & u64::from(u32::MAX), cookie >> 32);
    bytes[48..52].copy_from_slice(&u32::try_from(low).unwrap_or_default().to_ne_bytes());
    bytes[52..56].copy_from_slice(&u32::try_from(high).unwrap_or_default().to_ne_bytes());
    bytes
}

fn address(ip: IpAddr, to: &mut [u8]) {
    match ip {
        IpAddr::V4(ip) => to[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => to.copy_from_slice(&ip.octets()),
    }
}
