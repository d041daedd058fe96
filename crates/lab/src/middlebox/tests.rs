//! The middlebox against what real ones were measured to do, and against bytes that are no packets.

use proptest::prelude::*;

use super::*;
use crate::middlebox::{
    packet::Carried,
    profile::{Passage, Profile},
};

const HZ: u32 = 250;

fn ends(v6: bool) -> (SocketAddr, SocketAddr, SocketAddr) {
    let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
    if v6 {
        (parse("[fd00::2]:40000"), parse("[fd00:96::a]:80"), parse("[fd01::2]:8080"))
    } else {
        (parse("10.0.1.2:40000"), parse("10.96.0.10:80"), parse("10.0.2.2:8080"))
    }
}

fn segment(from: SocketAddr, to: SocketAddr, flags: u8, payload: usize) -> Vec<u8> {
    let v6 = from.is_ipv6();
    Draft { v6, from: from.into(), to: to.into(), seq: 7, ack: 9, flags, payload }.write()
}

struct Rig {
    middlebox: Middlebox,
    client: SocketAddr,
    vip: SocketAddr,
    backend: SocketAddr,
}

impl Rig {
    fn new(name: &str, v6: bool) -> Self {
        let (client, vip, backend) = ends(v6);
        let profile = Profile::named(name).unwrap();
        let vip = if profile.translates { vip } else { backend };
        let mut config = Config::new(profile, vec![Service { vip, backends: vec![backend] }]);
        (config.hz, config.capacity) = (HZ, 16);
        config.timeouts = config.timeouts.with(TcpState::Established, Duration::from_secs(900));
        Self { middlebox: Middlebox::new(config), client, vip, backend }
    }

    fn client(&mut self, at_ms: u64, flags: u8, payload: usize) -> (Fate, Vec<u8>) {
        let mut packet = segment(self.client, self.vip, flags, payload);
        let now = Duration::from_millis(at_ms);
        (self.middlebox.handle_packet(now, Side::Client, &mut packet), packet)
    }

    fn server(&mut self, at_ms: u64, flags: u8, payload: usize) -> (Fate, Vec<u8>) {
        let mut packet = segment(self.backend, self.client, flags, payload);
        let now = Duration::from_millis(at_ms);
        (self.middlebox.handle_packet(now, Side::Server, &mut packet), packet)
    }

    fn open(&mut self) {
        self.client(0, flag::SYN, 0);
        self.server(0, flag::SYN | flag::ACK, 0);
        let (fate, packet) = self.client(0, flag::ACK, 100);
        assert_eq!(fate, Fate::Forward { known: true });
        assert_eq!(addresses(&packet), (self.client, self.backend));
        let (fate, packet) = self.server(0, flag::ACK, 0);
        assert_eq!(fate, Fate::Forward { known: true });
        assert_eq!(addresses(&packet), (self.vip, self.client));
    }

    fn state(&self) -> Option<(TcpState, Duration)> {
        self.middlebox.entry(self.client, self.vip)
    }
}

fn addresses(packet: &[u8]) -> (SocketAddr, SocketAddr) {
    let view = View::parse(packet).unwrap();
    assert!(view.tcp_checksum_holds(packet));
    let Carried::Tcp(segment) = view.carried else { panic!("not TCP") };
    (view.from(&segment).into(), view.to(&segment).into())
}

/// What a packet met, in the model's words.
fn met(fate: &Fate, packet: &[u8]) -> Option<Miss> {
    match fate {
        Fate::Forward { known: true } => Some(Miss::Recreate),
        Fate::Forward { known: false } => Some(Miss::PassUntranslated),
        Fate::Drop(_) => Some(Miss::Drop),
        Fate::Answer(answer) => {
            if unreachable_quote(answer).is_some() {
                return Some(Miss::IcmpUnreachable);
            }
            let (from, to) = addresses(answer);
            (addresses(packet) == (to, from)).then_some(Miss::Reset)
        }
    }
}

#[test]
fn each_profile_meets_a_forgotten_connection_as_measured() {
    use Miss::{Drop, IcmpUnreachable, PassUntranslated, Recreate, Reset};
    // KERNEL-FACTS: what the next packet meets. (profile, client's, server's)
    for (name, client, server) in [
        ("ipvs", Reset, PassUntranslated),
        ("ipvs-sloppy", Recreate, PassUntranslated),
        ("ipvs-icmp", Reset, IcmpUnreachable),
        ("ipvs-conntrack", Reset, PassUntranslated),
        ("ipvs-conntrack-strict", Reset, Drop),
        ("conntrack", Recreate, PassUntranslated),
        ("conntrack-drop-invalid", Recreate, PassUntranslated),
        ("conntrack-strict", Drop, Drop),
        ("conntrack-not-loose", PassUntranslated, PassUntranslated),
        ("nat-reset", Reset, Reset),
        ("lb-reset-both", Reset, Reset),
        ("firewall-drop", Drop, Drop),
    ] {
        for v6 in [false, true] {
            let late = 950_000;
            let mut rig = Rig::new(name, v6);
            rig.open();
            let (fate, packet) = rig.server(late, flag::ACK | flag::PSH, 10);
            assert_eq!(met(&fate, &packet), Some(server), "{name}: the server's");
            let mut rig = Rig::new(name, v6);
            rig.open();
            let (fate, packet) = rig.client(late, flag::ACK | flag::PSH, 10);
            assert_eq!(met(&fate, &packet), Some(client), "{name}: the client's");
        }
    }
}

#[test]
fn only_a_profile_that_tells_tells_at_the_cut() {
    for (name, told) in
        [("ipvs", 0), ("conntrack", 0), ("nat-reset", 0), ("lb-reset-both", 2), ("l7-proxy", 2)]
    {
        let mut rig = Rig::new(name, false);
        rig.open();
        rig.middlebox.handle_timeout(Duration::from_secs(950));
        let outputs: Vec<Output> = std::iter::from_fn(|| rig.middlebox.poll_output()).collect();
        let packets = outputs.iter().filter(|output| matches!(output, Output::Packet { .. }));
        assert_eq!(packets.count(), told, "{name}");
        assert_eq!(outputs.len(), told + 1, "{name}: and it is reported");
    }
}

#[test]
fn a_proxy_that_has_closed_resets_data_and_acknowledges_a_fin() {
    let mut rig = Rig::new("l7-proxy", false);
    rig.open();
    rig.middlebox.handle_timeout(Duration::from_secs(900));
    assert_eq!(rig.server(900_001, flag::ACK, 0).0, Fate::Drop(Why::Closed));
    assert!(matches!(rig.server(900_002, flag::ACK | flag::FIN, 0).0, Fate::Answer(_)));
    assert!(matches!(rig.server(900_003, flag::ACK, 10).0, Fate::Answer(_)));
    rig.middlebox.handle_timeout(Duration::from_secs(961));
    assert!(rig.middlebox.is_empty());
}

#[test]
fn a_proxy_counts_payload_only() {
    let mut rig = Rig::new("l7-proxy", false);
    rig.open();
    let before = rig.state().unwrap();
    rig.client(60_000, flag::ACK, 0);
    assert_eq!(rig.state().unwrap(), before, "a probe does nothing");
    rig.client(60_000, flag::ACK, 1);
    assert_ne!(rig.state().unwrap(), before, "a byte does");
}

#[test]
fn an_ipvs_entry_lives_by_the_wheel_and_every_packet_rearms_it() {
    let mut rig = Rig::new("ipvs", false);
    rig.open();
    let wheel = ExpiryRule::Wheel { hz: HZ };
    let dies = wheel.dies_at(Duration::ZERO, Duration::from_secs(900));
    assert_eq!(rig.state(), Some((TcpState::Established, dies)));
    // In the overdue window (after 900 s, before the bucket ends) it works, and is re-armed.
    let (fate, _) = rig.server(900_500, flag::ACK, 0);
    assert_eq!(fate, Fate::Forward { known: true });
    let anew = wheel.dies_at(Duration::from_millis(900_500), Duration::from_secs(900));
    assert_eq!(rig.state(), Some((TcpState::Established, anew)));
}

#[test]
fn ipvs_half_close_has_its_own_timeouts() {
    // KERNEL: a client's FIN 60 s (CLOSE_WAIT), a pod's FIN 120 s (FIN_WAIT).
    let wheel = ExpiryRule::Wheel { hz: HZ };
    let mut rig = Rig::new("ipvs", false);
    rig.open();
    rig.client(1_000, flag::FIN | flag::ACK, 0);
    let dies = wheel.dies_at(Duration::from_secs(1), Duration::from_secs(60));
    assert_eq!(rig.state(), Some((TcpState::CloseWait, dies)));
    let mut rig = Rig::new("ipvs", false);
    rig.open();
    rig.server(1_000, flag::FIN | flag::ACK, 0);
    let dies = wheel.dies_at(Duration::from_secs(1), Duration::from_secs(120));
    assert_eq!(rig.state(), Some((TcpState::FinWait, dies)));
}

#[test]
fn a_changed_timeout_does_not_touch_an_idle_entry() {
    let mut rig = Rig::new("ipvs", false);
    rig.open();
    let before = rig.state();
    let timeouts = Profile::named("ipvs")
        .unwrap()
        .timeouts
        .with(TcpState::Established, Duration::from_secs(10));
    rig.middlebox.set_timeouts(&timeouts);
    assert_eq!(rig.state(), before);
    rig.client(1_000, flag::ACK, 0);
    let (_, dies) = rig.state().unwrap();
    assert!(dies <= Duration::from_millis(11_300), "{dies:?}");
}

#[test]
fn backends_take_turns() {
    let (_, vip, backend) = ends(false);
    let second = "10.0.2.3:8080".parse().unwrap();
    let service = Service { vip, backends: vec![backend, second] };
    let mut middlebox = Middlebox::new(Config::new(Profile::named("ipvs").unwrap(), vec![service]));
    let mut served = Vec::new();
    for port in 0..4 {
        let client = SocketAddr::from(([10, 0, 1, 2], 40_000 + port));
        let mut packet = segment(client, vip, flag::SYN, 0);
        middlebox.handle_packet(Duration::ZERO, Side::Client, &mut packet);
        served.push(addresses(&packet).1);
    }
    assert_eq!(served, [backend, second, backend, second]);
}

#[test]
fn a_full_table_forgets_an_idle_entry_and_says_so() {
    let (_, vip, backend) = ends(false);
    let service = Service { vip, backends: vec![backend] };
    let mut config = Config::new(Profile::named("ipvs").unwrap(), vec![service]);
    config.capacity = 3;
    let mut middlebox = Middlebox::new(config);
    for port in 0..4 {
        let client = SocketAddr::from(([10, 0, 1, 2], 40_000 + port));
        let mut packet = segment(client, vip, flag::SYN, 0);
        middlebox.handle_packet(Duration::from_secs(port.into()), Side::Client, &mut packet);
        assert!(middlebox.len() <= 3);
    }
    let Some(Output::Forgot { flow, evicted: true, .. }) = middlebox.poll_output() else {
        panic!("nothing was evicted")
    };
    assert_eq!(flow.client.port(), 40_000, "the idlest");
}

#[test]
fn a_wrong_checksum_is_as_wrong_after_ipvs_and_stops_at_a_firewall() {
    let mut rig = Rig::new("ipvs", false);
    rig.open();
    let mut packet = segment(rig.client, rig.vip, flag::ACK, 4);
    *packet.last_mut().unwrap() ^= 0xff;
    let fate = rig.middlebox.handle_packet(Duration::ZERO, Side::Client, &mut packet);
    assert_eq!(fate, Fate::Forward { known: true });
    assert!(!View::parse(&packet).unwrap().tcp_checksum_holds(&packet));

    let mut rig = Rig::new("firewall-drop", false);
    let mut packet = segment(rig.client, rig.vip, flag::SYN, 4);
    *packet.last_mut().unwrap() ^= 0xff;
    let fate = rig.middlebox.handle_packet(Duration::ZERO, Side::Client, &mut packet);
    assert_eq!(fate, Fate::Drop(Why::Checksum));
}

#[test]
#[cfg(all(feature = "programs", target_os = "linux", not(stillopen_portable)))]
fn a_checksum_that_is_yet_to_be_made_is_right_after_translation() {
    for v6 in [false, true] {
        let (client, vip, backend) = ends(v6);
        let whole = segment(client, vip, flag::SYN, 9);
        let view = View::parse(&whole).unwrap();
        // As the kernel leaves it: the sum of the pseudo header, not complemented.
        let mut packet = whole.clone();
        let mut sum = super::checksum::Sum::default();
        let length = u32::try_from(view.end - view.offset).unwrap();
        sum.pseudo_header(v6, view.source, view.destination, super::packet::TCP, length);
        super::packet::put_u16(&mut packet, view.offset + 16, !sum.finish());
        let mut view = View::parse(&packet).unwrap();
        view.partial = true;
        assert!(view.tcp_checksum_holds(&packet));
        view.rewrite(&mut packet, client.into(), backend.into());
        complete_checksum(&mut packet);
        assert_eq!(addresses(&packet), (client, backend));
        assert!(View::parse(&packet).unwrap().tcp_checksum_holds(&packet), "{v6}");
    }
}

/// The same packet with IP options (IPv4) or extension headers (IPv6).
fn with_options(packet: &[u8]) -> Vec<u8> {
    if packet[0] >> 4 == 4 {
        let mut header = packet[..20].to_vec();
        header[0] = 0x46;
        let total = u16::try_from(packet.len() + 4).unwrap();
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header.extend([1, 1, 1, 0]);
        header[10..12].fill(0);
        let mut sum = super::checksum::Sum::default();
        sum.bytes(&header);
        header[10..12].copy_from_slice(&sum.finish().to_be_bytes());
        [header, packet[20..].to_vec()].concat()
    } else {
        let mut header = packet[..40].to_vec();
        let length = u16::try_from(packet.len() - 40 + 24).unwrap();
        header[4..6].copy_from_slice(&length.to_be_bytes());
        header[6] = 0;
        // Hop-by-hop, destination options, then an atomic fragment.
        let extensions = [60, 0, 1, 4, 0, 0, 0, 0, 44, 0, 1, 4, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 9];
        [header, extensions.to_vec(), packet[40..].to_vec()].concat()
    }
}

#[test]
fn options_and_extension_headers_are_passed_over() {
    for v6 in [false, true] {
        let mut rig = Rig::new("ipvs", v6);
        rig.open();
        let mut packet = with_options(&segment(rig.client, rig.vip, flag::ACK, 3));
        let fate = rig.middlebox.handle_packet(Duration::ZERO, Side::Client, &mut packet);
        assert_eq!(fate, Fate::Forward { known: true });
        assert_eq!(addresses(&packet), (rig.client, rig.backend));
    }
}

#[test]
fn fragments_and_other_protocols_are_treated_as_the_profile_says() {
    let (client, vip, _) = ends(false);
    let tcp = segment(client, vip, flag::ACK, 3);
    let sum_anew = |mut packet: Vec<u8>| {
        packet[10..12].fill(0);
        let mut sum = super::checksum::Sum::default();
        sum.bytes(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.finish().to_be_bytes());
        packet
    };
    let mut fragment = tcp.clone();
    fragment[6] = 0x20;
    let mut other = tcp;
    other[9] = 17;
    for profile in PROFILES {
        for (packet, passage, why) in [
            (&fragment, profile.fragments, Why::Fragment),
            (&other, profile.other_protocols, Why::OtherProtocol),
        ] {
            let mut rig = Rig::new(profile.name, false);
            let mut packet = sum_anew(packet.clone());
            let wanted = match passage {
                Passage::Drop => Fate::Drop(why),
                Passage::Pass | Passage::NotChecked => Fate::Forward { known: false },
            };
            let fate = rig.middlebox.handle_packet(Duration::ZERO, Side::Client, &mut packet);
            assert_eq!(fate, wanted, "{} {why:?}", profile.name);
        }
    }
}

#[test]
fn every_truncation_is_refused_or_passed_never_a_panic() {
    for v6 in [false, true] {
        let (client, vip, _) = ends(v6);
        let whole = segment(client, vip, flag::ACK, 9);
        for packet in [whole.clone(), with_options(&whole)] {
            for profile in PROFILES {
                for length in 0..packet.len() {
                    let mut rig = Rig::new(profile.name, v6);
                    rig.open();
                    let mut cut = packet[..length].to_vec();
                    let fate = rig.middlebox.handle_packet(Duration::ZERO, Side::Client, &mut cut);
                    assert!(matches!(fate, Fate::Drop(Why::Malformed(_))), "{length}: {fate:?}");
                }
            }
        }
    }
}

#[test]
fn every_byte_of_a_packet_may_be_wrong() {
    for v6 in [false, true] {
        let (client, vip, _) = ends(v6);
        let packet = with_options(&segment(client, vip, flag::ACK, 9));
        for at in 0..packet.len() {
            for value in [0x00, 0x01, 0x0f, 0x4f, 0x6f, 0x7f, 0x80, 0xf0, 0xff] {
                let mut changed = packet.clone();
                changed[at] = value;
                fuzz::packet_view(&changed);
                let mut rig = Rig::new("conntrack-strict", v6);
                rig.middlebox.handle_packet(Duration::ZERO, Side::Client, &mut changed);
            }
        }
    }
}

#[test]
fn a_batch_is_the_same_as_one_by_one() {
    let packets = |rig: &Rig| -> Vec<Vec<u8>> {
        let flags = [flag::SYN, flag::ACK, flag::ACK | flag::FIN, flag::RST, flag::ACK];
        (flags.iter().cycle().take(40))
            .map(|&flags| segment(rig.client, rig.vip, flags, 3))
            .collect()
    };
    let now = Duration::from_secs(1);
    let (mut one, mut batch) = (Rig::new("ipvs", false), Rig::new("ipvs", false));
    let mut single = packets(&one);
    let fates: Vec<Fate> = (single.iter_mut())
        .map(|packet| one.middlebox.handle_packet(now, Side::Client, packet))
        .collect();
    let mut together = packets(&batch);
    let mut batched = Vec::new();
    batch.middlebox.handle_packets(now, Side::Client, &mut together, |_, fate| batched.push(fate));
    assert_eq!((single, fates), (together, batched));
}

#[test]
fn a_timeout_of_days_is_kept_to_the_nanosecond_with_few_wakings() {
    let five_days = Duration::from_secs(5 * 86_400);
    let mut rig = Rig::new("conntrack", false);
    rig.middlebox
        .set_timeouts(&rig.middlebox.profile.timeouts.with(TcpState::Established, five_days));
    rig.open();
    let mut wakings = 0;
    let died = loop {
        let now = rig.middlebox.poll_timeout().unwrap();
        rig.middlebox.handle_timeout(now);
        wakings += 1;
        if rig.middlebox.is_empty() {
            break now;
        }
    };
    assert_eq!(died, five_days);
    assert!(wakings < 500, "{wakings}");
}

proptest! {
    #[test]
    fn any_bytes_are_looked_at(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzz::packet_view(&bytes);
    }

    #[test]
    fn any_operations_keep_the_promises(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        fuzz::operations(&bytes);
    }
}
