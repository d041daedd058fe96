//! The end of a connection that is dead, now and not after an hour: its program gets an error and can retry.
#![allow(clippy::disallowed_methods, reason = "the end is waited for in real time")]

use std::{
    io,
    net::{IpAddr, SocketAddr},
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::{io::Errno, net::netlink::SOCK_DIAG};
use stillopen_collect::{SocketOptions, request_done};
use stillopen_model::KeepaliveValues;

use crate::{
    Answer, Held, Refusal, Stakes, ask,
    held::Watch,
    options::put_back,
    socket::{bound_device, has_data_in_flight, has_ended, tcp_info},
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
    /// By its program, which closed it meanwhile.
    ByItsProgram,
}

/// Asks [`BATCH`](crate::BATCH) sockets at most a last time, since nothing that is alive may be ended. `None`: it is as
/// dead as it looked; otherwise it has ended while it was asked.
///
/// # Errors
/// They could not be asked.
pub fn confirm(sockets: Vec<Held>) -> io::Result<Vec<Result<Option<Closed>, Refusal>>> {
    let confirmed = |answer| match answer {
        Answer::Reset => Ok(Some(Closed::Probed)),
        Answer::Closed => Ok(Some(Closed::ByItsProgram)),
        // Data that is in flight asks by itself, and half of a connection has no keepalive of its own.
        Answer::NoAnswer { .. }
        | Answer::InFlight
        | Answer::NotEstablished
        | Answer::OwnKeepalive => Ok(None),
        Answer::Answers { .. } => Err(Refusal::Alive),
        Answer::Refused(refusal) => Err(Refusal::Unconfirmed(Box::new(refusal))),
    };
    Ok(ask(sockets, Stakes::Last)?.into_iter().map(confirmed).collect())
}

/// Ends the connection between `local` and `peer` of the calling thread's network namespace, which `socket` is a
/// copy of. Where the caller may not have the kernel do it, it is given keepalive 1/1/3 and waited for; what
/// does not end by that has its options back.
///
/// # Errors
/// It could be ended in neither way.
pub fn end(
    local: SocketAddr,
    peer: SocketAddr,
    cookie: u64,
    mut socket: Held,
) -> Result<Closed, Refusal> {
    let device = bound_device(&socket).map_err(Refusal::Options)?;
    match request_done(Some(SOCK_DIAG), SOCK_DESTROY, &request(local, peer, device, cookie)) {
        Ok(()) => Ok(Closed::Destroyed),
        Err(_) if has_ended(&tcp_info(&socket).map_err(Refusal::Options)?) => Ok(Closed::Probed),
        Err(refused) if refused.is_permission() => by_its_own_probes(&mut socket),
        Err(refused) => Err(Refusal::Kernel(refused.to_string())),
    }
}

fn by_its_own_probes(socket: &mut Held) -> Result<Closed, Refusal> {
    let failed = |errno: Errno| Refusal::Options(errno.into());
    if has_data_in_flight(&*socket).map_err(Refusal::Options)? {
        return Err(Refusal::InFlight);
    }
    let before = SocketOptions::read(&*socket).map_err(failed)?;
    turn_on(&*socket, TIGHTEST).map_err(failed)?;
    let mut watch = Watch::default();
    let start = Instant::now();
    let mut is_closed = false;
    while start.elapsed() < Duration::from_secs(PATIENCE_S) && !is_closed {
        is_closed = watch.is_closed(socket);
        if has_ended(&tcp_info(&*socket).map_err(Refusal::Options)?) {
            return Ok(Closed::Probed);
        }
        if !is_closed {
            sleep(LOOK);
        }
    }
    put_back(&*socket, before).map_err(failed)?;
    if is_closed { Ok(Closed::ByItsProgram) } else { Err(Refusal::StillThere(PATIENCE_S)) }
}

/// `struct inet_diag_req_v2`: family, protocol, extensions, padding, states, ports, addresses, device, cookie.
fn request(local: SocketAddr, peer: SocketAddr, device: u32, cookie: u64) -> [u8; REQUEST] {
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
    bytes[44..48].copy_from_slice(&device.to_ne_bytes());
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
