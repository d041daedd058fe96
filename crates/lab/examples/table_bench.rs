//! How fast the middlebox's table is, and what an entry costs: packets a second with 1,000,000 entries.
//!
//! `cargo run --release -p stillopen-lab --example table_bench`; prints one JSON line.
// A benchmark measures the wall clock: nothing here decides by it.
#![allow(clippy::disallowed_methods)]

use std::{
    hint::black_box,
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use stillopen_lab::middlebox::{Config, Fate, Middlebox, Profile, Service, Side};

const ENTRIES: u32 = 1_000_000;
const PACKETS: u32 = 6_000_000;
/// Packets that a driver takes from its ring at once.
const BATCH: u32 = 64;
/// Neighbours are far apart: a step that shares no factor with the number of entries.
const STEP: u32 = 611_953;
const VIP: ([u8; 4], u16) = ([10, 96, 14, 3], 8000);
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

fn main() {
    let service = Service {
        vip: SocketAddr::from(VIP),
        backends: (1..=4).map(|last| SocketAddr::from(([10, 2, 0, last], 8000))).collect(),
    };
    let mut config = Config::new(Profile::named("ipvs").expect("a profile"), vec![service]);
    config.capacity = ENTRIES;
    let mut middlebox = Middlebox::new(config);
    let mut now = Duration::ZERO;

    let started = Instant::now();
    for client in 0..ENTRIES {
        send(&mut middlebox, now, client, SYN);
        send(&mut middlebox, now, client, ACK);
        now += Duration::from_micros(10);
    }
    let opened = started.elapsed();
    assert_eq!(middlebox.len(), ENTRIES as usize);

    let started = Instant::now();
    let mut client = 0;
    for _ in 0..PACKETS {
        client = (client + STEP) % ENTRIES;
        send(&mut middlebox, now, client, ACK);
        now += Duration::from_micros(10);
    }
    let one_by_one = started.elapsed();

    let started = Instant::now();
    for _ in 0..PACKETS / BATCH {
        let mut batch: [[u8; 40]; BATCH as usize] = std::array::from_fn(|_| {
            client = (client + STEP) % ENTRIES;
            segment(client, ACK)
        });
        middlebox.handle_packets(now, Side::Client, black_box(&mut batch), |_, fate| {
            assert_eq!(fate, Fate::Forward { known: true });
        });
        now += Duration::from_micros(100);
    }
    let passed = started.elapsed();
    assert_eq!(middlebox.len(), ENTRIES as usize);

    let started = Instant::now();
    middlebox.handle_timeout(now + Duration::from_secs(1000));
    let expired = started.elapsed();
    assert!(middlebox.is_empty());

    let per_s = |count: u32, took: Duration| f64::from(count) / took.as_secs_f64();
    println!(
        "{{\"entries\":{ENTRIES},\"packets_per_s\":{:.0},\"one_by_one_per_s\":{:.0},\"opened_per_s\":{:.0},\"expired_per_s\":{:.0},\"bytes_per_entry\":{:.1}}}",
        per_s(PACKETS, passed),
        per_s(PACKETS, one_by_one),
        per_s(ENTRIES, opened),
        per_s(ENTRIES, expired),
        per_s(u32::try_from(middlebox.table_bytes()).unwrap_or(u32::MAX), Duration::from_secs(1))
            / f64::from(ENTRIES),
    );
}

fn send(middlebox: &mut Middlebox, now: Duration, client: u32, flags: u8) {
    let mut packet = segment(client, flags);
    let fate = middlebox.handle_packet(now, Side::Client, black_box(&mut packet));
    assert_eq!(fate, Fate::Forward { known: true });
}

/// A bare segment from client number `client`. The TCP checksum stays zero: IPVS does not look at it.
fn segment(client: u32, flags: u8) -> [u8; 40] {
    let address = Ipv4Addr::from_bits(0x0a01_0000 + client % 50_000).octets();
    let port = u16::try_from(1024 + client / 50_000).unwrap_or(u16::MAX);
    let mut packet = [0; 40];
    packet[0] = 0x45;
    packet[3] = 40;
    packet[8] = 64;
    packet[9] = 6;
    packet[12..16].copy_from_slice(&address);
    packet[16..20].copy_from_slice(&VIP.0);
    let words = packet[..20].chunks_exact(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap_or(u16::MAX);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet[20..22].copy_from_slice(&port.to_be_bytes());
    packet[22..24].copy_from_slice(&VIP.1.to_be_bytes());
    packet[32] = 5 << 4;
    packet[33] = flags;
    packet
}
