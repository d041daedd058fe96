//! Entry points for fuzzers: arbitrary bytes in, a panic where a promise is broken.
//!
//! The fuzz targets call these, and `cargo test` replays what they found.

use std::{net::SocketAddr, time::Duration};

use super::{
    Config, Draft, End, Fate, Flow, Middlebox, Output, PROFILES, Service, Side, TcpState, View,
    packet::Carried,
};

/// The most entries of the table that [`operations`] fills.
const CAPACITY: u32 = 4;
/// How many clients connect: more than fit.
const CLIENTS: u8 = 8;

/// Looks at arbitrary bytes as a packet.
///
/// # Panics
/// Where a promise is broken. Asserts: no panic; what is seen as TCP keeps its length and stays TCP when its addresses are rewritten
/// and rewritten back, and is then the same bytes, but for the two spellings of zero that a ones'
/// complement checksum has.
pub fn packet_view(bytes: &[u8]) {
    let Ok(view) = View::parse(bytes) else { return };
    let held = view.tcp_checksum_holds(bytes);
    let Carried::Tcp(segment) = view.carried else { return };
    let mut packet = bytes.to_vec();
    let other = End { address: if view.v6 { 1 } else { 0xffff_0102_0304 }, port: 4321 };
    view.rewrite(&mut packet, other, other);
    let there = View::parse(&packet).expect("a rewritten packet is a packet");
    assert_eq!(there.tcp_checksum_holds(&packet), held, "a checksum is as right as it was");
    there.rewrite(&mut packet, view.from(&segment), view.to(&segment));
    let back = View::parse(&packet).expect("a packet rewritten back is a packet");
    assert_eq!(back, view);
    assert_eq!(packet.len(), bytes.len());
}

/// Drives a small middlebox with arbitrary operations: the first byte picks the profile and the family,
/// then each operation is a byte and what it needs.
///
/// # Panics
/// Where a promise is broken. Asserts: no panic; never more entries than the capacity; a death is never dated before the last packet
/// of its entry, nor after now; no entry that should be dead is left after [`Middlebox::handle_timeout`];
/// the timeout that it names is in the future then, and never later than
/// a death; addresses are translated to and from the backends.
pub fn operations(bytes: &[u8]) {
    let mut input = bytes.iter().copied();
    let Some(first) = input.next() else { return };
    let profile = PROFILES[usize::from(first) % PROFILES.len()].clone();
    let v6 = first >= 128;
    let translates = profile.translates;
    let vip: SocketAddr = address(v6, 9, 80);
    let backends =
        if translates { vec![address(v6, 20, 8080), address(v6, 21, 8080)] } else { vec![vip] };
    let service = Service { vip, backends: backends.clone() };
    let mut config = Config::new(profile, vec![service]);
    config.capacity = CAPACITY;
    let mut middlebox = Middlebox::new(config.clone());
    let mut now = Duration::ZERO;
    while let Some(operation) = input.next() {
        let argument = input.next().unwrap_or_default();
        match operation % 8 {
            0..=3 => {
                let flags = input.next().unwrap_or_default();
                let client = address(v6, 1 + argument % CLIENTS, 1000);
                let backend = backends[usize::from(argument / CLIENTS) % backends.len()];
                let (side, from, to) = if operation % 2 == 0 {
                    (Side::Client, client, vip)
                } else {
                    (Side::Server, backend, client)
                };
                segment(&mut middlebox, now, side, (from, to), flags, usize::from(operation / 64));
            }
            4 => now += Duration::from_millis(u64::from(argument) * u64::from(argument) * 100),
            5 => {
                middlebox.handle_timeout(now);
                assert!(middlebox.poll_timeout().is_none_or(|next| next > now));
                for client in 1..=CLIENTS {
                    let entry = middlebox.entry(address(v6, client, 1000), vip);
                    assert!(entry.is_none_or(|(_, due)| due > now), "dead and not buried");
                }
            }
            6 => {
                let timeout = Duration::from_secs(u64::from(argument));
                let timeouts = config.timeouts.with(TcpState::Established, timeout);
                middlebox.set_timeouts(&timeouts);
            }
            _ => {
                let mut raw: Vec<u8> = input.by_ref().take(usize::from(argument)).collect();
                let _ = middlebox.handle_packet(now, Side::Client, &mut raw);
            }
        }
        assert!(middlebox.len() <= CAPACITY as usize, "more entries than the capacity");
        let next = middlebox.poll_timeout().unwrap_or(Duration::MAX);
        for client in 1..=CLIENTS {
            let entry = middlebox.entry(address(v6, client, 1000), vip);
            assert!(entry.is_none_or(|(_, due)| due >= next), "a death would be missed");
        }
        drain(&mut middlebox, now);
    }
}

fn segment(
    middlebox: &mut Middlebox,
    now: Duration,
    side: Side,
    (from, to): (SocketAddr, SocketAddr),
    flags: u8,
    payload: usize,
) {
    let v6 = from.is_ipv6();
    let draft = Draft { v6, from: from.into(), to: to.into(), seq: 1, ack: 1, flags, payload };
    let mut packet = draft.write();
    match middlebox.handle_packet(now, side, &mut packet) {
        Fate::Forward { .. } | Fate::Drop(_) => {}
        Fate::Answer(answer) => {
            View::parse(&answer).expect("an answer is a packet");
        }
    }
    let view = View::parse(&packet).expect("a forwarded packet is a packet");
    assert!(view.tcp_checksum_holds(&packet), "a right checksum stays right");
}

fn drain(middlebox: &mut Middlebox, now: Duration) {
    while let Some(output) = middlebox.poll_output() {
        match output {
            Output::Packet { packet, .. } => {
                let view = View::parse(&packet).expect("what it sends is a packet");
                assert!(view.tcp_checksum_holds(&packet));
            }
            Output::Forgot { flow: Flow { client, vip, backend }, last, at, .. } => {
                assert!(last <= at && at <= now, "{last:?} {at:?} {now:?}");
                assert!(client != vip && client != backend);
            }
        }
    }
}

fn address(v6: bool, last: u8, port: u16) -> SocketAddr {
    if v6 {
        SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)], port))
    } else {
        SocketAddr::from(([10, 0, 0, last], port))
    }
}
