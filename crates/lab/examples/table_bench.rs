//! How fast the middlebox's table is, what an entry costs, and how long the incident takes on the simulator.
//!
//! `cargo run --release -p stillopen-lab --example table_bench`; prints one JSON line. The table holds 1,000,000
//! entries, and the packets come in an order in which neighbours are far apart in it.
// A benchmark measures the wall clock: nothing here decides by it.
#![allow(clippy::disallowed_methods)]

use std::{
    fs,
    hint::black_box,
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use stillopen_lab::{
    embedded,
    middlebox::{Config, Fate, Middlebox, Profile, Service, Side},
    run::{RunOptions, run},
    scenario::Scenario,
};

const ENTRIES: u32 = 1_000_000;
const PACKETS: u32 = 6_000_000;
/// Packets that a driver takes from its ring at once.
const BATCH: u32 = 64;
/// Neighbours are far apart: a step that shares no factor with the number of entries.
const STEP: u32 = 611_953;
const VIP: ([u8; 4], u16) = ([10, 96, 14, 3], 8000);
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// Both clocks: what the benchmark took, and what of that it ran on a core. On a busy machine only the
/// second says something of the program.
struct Clock {
    wall: Instant,
    on_cpu: Option<Duration>,
}

#[derive(Clone, Copy)]
struct Took {
    wall: Duration,
    on_cpu: Duration,
}

impl Clock {
    fn start() -> Self {
        Self { wall: Instant::now(), on_cpu: on_cpu() }
    }

    fn elapsed(&self) -> Took {
        let wall = self.wall.elapsed();
        let since = self.on_cpu.zip(on_cpu()).map(|(from, to)| to.saturating_sub(from));
        Took { wall, on_cpu: since.unwrap_or(wall) }
    }
}

/// Nanoseconds that this thread has run: the first field of `schedstat`, where there is one (Linux).
fn on_cpu() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

fn main() {
    let (incident_s, virtual_s) = incident();
    table(incident_s, virtual_s);
}

/// The best of a few runs of the incident, its file read each time: wall and virtual seconds.
fn incident() -> (f64, f64) {
    let mut best = (f64::MAX, 0.0);
    for _ in 0..5 {
        let started = Clock::start();
        let text = embedded::scenario(embedded::DEFAULT).expect("the default is embedded").text;
        let scenario = Scenario::parse(text).expect("it is a scenario");
        let result = run(&scenario, &RunOptions::default()).expect("it runs").result;
        let took = started.elapsed().wall.as_secs_f64();
        if took < best.0 {
            best = (took, result.virtual_s);
        }
    }
    best
}

fn table(incident_s: f64, virtual_s: f64) {
    let service = Service {
        vip: SocketAddr::from(VIP),
        backends: (1..=4).map(|last| SocketAddr::from(([10, 2, 0, last], 8000))).collect(),
    };
    let mut config = Config::new(Profile::named("ipvs").expect("a profile"), vec![service]);
    config.capacity = ENTRIES;
    let mut middlebox = Middlebox::new(config);
    let mut now = Duration::ZERO;

    let started = Clock::start();
    for client in 0..ENTRIES {
        send(&mut middlebox, now, client, SYN);
        send(&mut middlebox, now, client, ACK);
        now += Duration::from_micros(10);
    }
    let opened = started.elapsed();
    assert_eq!(middlebox.len(), ENTRIES as usize);

    let started = Clock::start();
    let mut client = 0;
    for _ in 0..PACKETS {
        client = (client + STEP) % ENTRIES;
        send(&mut middlebox, now, client, ACK);
        now += Duration::from_micros(10);
    }
    let one_by_one = started.elapsed();

    let started = Clock::start();
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

    let started = Clock::start();
    middlebox.handle_timeout(now + Duration::from_secs(1000));
    let expired = started.elapsed();
    assert!(middlebox.is_empty());

    let bytes = u32::try_from(middlebox.table_bytes()).unwrap_or(u32::MAX);
    let wall = |count: u32, took: Took| (f64::from(count) / took.wall.as_secs_f64()).round();
    let cpu = |count: u32, took: Took| (f64::from(count) / took.on_cpu.as_secs_f64()).round();
    let line = serde_json::json!({
        "entries": ENTRIES,
        "packets_per_s": wall(PACKETS, passed),
        "packets_per_cpu_s": cpu(PACKETS, passed),
        "one_by_one_per_cpu_s": cpu(PACKETS, one_by_one),
        "opened_per_cpu_s": cpu(ENTRIES, opened),
        "expired_per_cpu_s": cpu(ENTRIES, expired),
        "bytes_per_entry": (f64::from(bytes) / f64::from(ENTRIES)).round(),
        "incident_wall_s": incident_s,
        "incident_virtual_s": virtual_s,
    });
    println!("{line}");
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
