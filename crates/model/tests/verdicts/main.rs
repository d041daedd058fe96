//! The arithmetic of the verdicts, one row a rule.

mod tables;

use std::time::Duration;

use stillopen_model::{
    Connection, Counters, Diagnosis, Direction, Evidence, EvidenceSource, Expiry, FarEnd, Finding,
    Host, IdleLimit, Keepalive, KeepaliveTimes, KeepaliveValues, KernelHz, Millis, Namespace,
    OnHost, Process, Proof, Refresh, Role, Selector, Snapshot, State, Timer, TimerSlack, Verdict,
    Watch, diagnose, pair_ends, plan, predict,
};

const HZ: KernelHz = KernelHz::Known(250);

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A limit that the user gave: exact, and for every peer.
fn limit(idle_timeout_s: u64) -> IdleLimit {
    let evidence = Evidence::new(EvidenceSource::User, "--limit".into());
    let id = format!("user-{idle_timeout_s}s");
    IdleLimit::new(id, "given by the user".into(), s(idle_timeout_s), evidence)
}

/// A client that asked once, `quiet_s` ago, and has no answer.
fn asked(quiet_s: u64) -> Connection {
    Connection {
        local: "10.0.0.2:40000".parse().unwrap(),
        peer: "203.0.113.9:443".parse().unwrap(),
        netns: 0,
        owner: Some(0),
        inode: 1,
        state: State::Established,
        role: Role::Client,
        on_host: OnHost::No,
        timer: Timer::None,
        retransmits: 0,
        probes_unanswered: 0,
        syn_data: false,
        timer_expires: None,
        keepalive: Keepalive::Off(KeepaliveTimes::default()),
        user_timeout: Some(Millis::new(0)),
        receive_queue: 0,
        send_queue: 0,
        counters: Some(Counters {
            last_data_sent: s(quiet_s).into(),
            last_data_recv: (s(quiet_s) + Duration::from_millis(40)).into(),
            last_ack_recv: s(quiet_s).into(),
            rtt: Duration::from_millis(1).into(),
            unacked: 0,
            // SYN-ACK and the ACK of the request in; SYN, ACK, request out.
            segs_in: 2,
            segs_out: 3,
            data_segs_in: 0,
            data_segs_out: 1,
            bytes_acked: 101,
            bytes_received: 0,
        }),
        watch: None,
        far_end: None,
        tables: Box::default(),
    }
}

fn with_keepalive(mut c: Connection, values: &str) -> Connection {
    let values: KeepaliveValues = values.parse().unwrap();
    c.keepalive = Keepalive::On(values.times());
    c.timer = Timer::Keepalive;
    c
}

/// The same with `extra` bare segments in and out that nothing explains.
fn with_unexplained(mut c: Connection, extra: u32) -> Connection {
    let counters = c.counters.as_mut().unwrap();
    counters.segs_in += extra;
    counters.segs_out += extra;
    c
}

fn snapshot(connections: Vec<Connection>, limits: Vec<IdleLimit>) -> Snapshot {
    let host = Host { kernel: String::new(), hz: HZ, all_namespaces: false, platforms: Vec::new() };
    let mut snapshot = Snapshot::new("2026-11-29T12:00:00Z".into(), host);
    let namespace = |name: &str| Namespace {
        name: name.into(),
        inode: 0,
        is_host: false,
        sysctls: None,
        conntrack: None,
    };
    snapshot.namespaces = vec![namespace("a"), namespace("b")];
    snapshot.processes = vec![Process { pid: 1, command: "python3".into(), uid: None, pod: None }];
    snapshot.connections = connections;
    snapshot.limits = limits;
    snapshot
}

fn one(c: Connection, limits: Vec<IdleLimit>) -> Diagnosis {
    diagnose(&snapshot(vec![c], limits))[0]
}

fn verdict(c: Connection, limits: Vec<IdleLimit>) -> Verdict {
    one(c, limits).verdict
}

fn at_risk(cut_in_s: u64) -> Verdict {
    Verdict::AtRisk { cut_in: s(cut_in_s) }
}

const CUT: Verdict = Verdict::Cut { proof: Proof::Inferred };

#[test]
fn silence_counts_down_to_the_limit() {
    assert_eq!(verdict(asked(100), vec![limit(900)]), at_risk(800));
    assert_eq!(verdict(asked(1000), vec![limit(900)]), CUT);
}

#[test]
fn between_the_limit_and_its_slack_the_entry_may_still_be_there() {
    let ipvs = IdleLimit { slack: TimerSlack::Wheel { hz: HZ }, ..limit(900) };
    assert_eq!(verdict(asked(910), vec![ipvs.clone()]), at_risk(0));
    assert_eq!(verdict(asked(917), vec![ipvs]), CUT);
}

#[test]
fn keepalive_is_safe_when_its_latest_probe_beats_the_limit() {
    for (values, safe) in
        [("60/30/3", true), ("870/75/9", true), ("890/30/3", false), ("7200/75/9", false)]
    {
        let diagnosis = one(with_keepalive(asked(10), values), vec![limit(900)]);
        assert_eq!(matches!(diagnosis.verdict, Verdict::Safe { .. }), safe, "{values}");
        let too_late = diagnosis.findings.contains(Finding::KeepaliveTooLate);
        assert_eq!(too_late, !safe, "{values}");
    }
}

#[test]
fn an_interval_longer_than_idle_is_the_period() {
    let diagnosis = one(with_keepalive(asked(10), "60/1000/3"), vec![limit(900)]);
    assert_eq!(diagnosis.verdict, at_risk(890));
}

#[test]
fn a_timer_that_was_armed_late_does_not_save_what_is_cut_before_it() {
    // TCP_KEEPIDLE before SO_KEEPALIVE on a connection quiet for 880 s: the probe is 60 s away.
    let mut c = with_keepalive(asked(880), "60/30/3");
    c.timer_expires = Some(s(60).into());
    assert_eq!(verdict(c.clone(), vec![limit(900)]), at_risk(20));
    // SO_KEEPALIVE before TCP_KEEPIDLE: at once.
    c.timer_expires = Some(Millis::new(0));
    assert!(matches!(verdict(c, vec![limit(900)]), Verdict::Safe { .. }));
}

#[test]
fn what_only_the_peer_may_keep_alive_is_never_called_cut() {
    // 10 s of silence over a limit of 3 s: three probes would have kept it.
    for (unexplained, expected) in [(0, "cut"), (2, "cut"), (3, "unknown"), (300, "unknown")] {
        let c = with_unexplained(asked(10), unexplained);
        assert_eq!(verdict(c, vec![limit(3)]).name(), expected, "{unexplained} segments");
    }
}

#[test]
fn a_watch_tells_the_peers_keepalive() {
    let watched = |after_s, peer_probes| {
        let mut c = with_unexplained(asked(1000), 5);
        c.watch =
            Some(Box::new(Watch { after: s(after_s), peer_probes, own_segments: peer_probes }));
        verdict(c, vec![limit(900)])
    };
    assert!(matches!(watched(30, 4), Verdict::Safe { .. }), "a probe every 10 s");
    assert_eq!(watched(30, 1).name(), "unknown", "one probe: alive, its period is not known");
    assert_eq!(watched(30, 0).name(), "unknown", "no growth excludes only periods below 30 s");
    assert_eq!(watched(1000, 0), CUT, "no probe in longer than the limit");
    // The second look may come later than the limit: what was seen meanwhile still counts.
    assert!(matches!(watched(1000, 100), Verdict::Safe { .. }), "a probe every 10 s");
}

/// The same with other counters.
fn with_counters(mut c: Connection, change: impl FnOnce(&mut Counters)) -> Connection {
    change(c.counters.as_mut().unwrap());
    c
}

#[test]
fn fast_open_leaves_room_for_a_probe() {
    // SYN with data and SYN-ACK that acknowledges it; then one probe of the peer, and its answer.
    let c = Connection { syn_data: true, ..with_unexplained(asked(1000), 0) };
    let c = with_counters(c, |n| (n.segs_in, n.segs_out) = (2, 3));
    assert_eq!(verdict(c, vec![limit(900)]).name(), "unknown");
    // MSG_FASTOPEN without a cookie: the handshake's ACK rode on the request.
    let c = with_counters(asked(1000), |n| (n.segs_in, n.segs_out) = (3, 3));
    assert_eq!(verdict(c, vec![limit(900)]).name(), "unknown");
    // To a server that takes no data with the SYN: it was sent again, with the handshake's ACK.
    let c = with_counters(asked(1000), |n| (n.segs_in, n.segs_out, n.data_segs_out) = (3, 3, 2));
    assert_eq!(verdict(c, vec![limit(900)]).name(), "unknown");
}

#[test]
fn a_window_update_of_this_end_may_have_refreshed_the_path() {
    let slow_reader = |bytes_received| {
        with_counters(asked(1000), |n| {
            // Three ACKs went out; nothing tells when the last one did.
            (n.segs_in, n.data_segs_in, n.segs_out) = (82, 80, 7);
            n.bytes_received = bytes_received;
        })
    };
    assert_eq!(verdict(slow_reader(120_000), vec![limit(900)]).name(), "unknown");
    assert_eq!(verdict(slow_reader(300), vec![limit(900)]), CUT);
}

#[test]
fn a_watch_in_which_this_end_sent_something_proves_nothing() {
    let mut c = with_unexplained(asked(1000), 5);
    c.watch = Some(Box::new(Watch { after: s(1000), peer_probes: 0, own_segments: 1 }));
    assert_eq!(verdict(c, vec![limit(900)]).name(), "unknown");
}

#[test]
fn window_probes_of_the_peer_are_no_keepalive() {
    let mut c = with_unexplained(asked(100), 5);
    c.watch = Some(Box::new(Watch { after: s(30), peer_probes: 2, own_segments: 2 }));
    c.receive_queue = 65_536;
    assert_eq!(verdict(c, vec![limit(900)]).name(), "unknown");
}

#[test]
fn keepalive_does_not_run_while_the_peers_window_is_closed() {
    let mut c = with_keepalive(asked(2), "1/1/9");
    c.timer = Timer::ZeroWindow;
    assert_eq!(verdict(c, vec![limit(3)]), at_risk(1));
}

#[test]
fn a_fin_of_the_peer_may_have_acknowledged_the_request() {
    let ipvs = IdleLimit { client_closed: Some(s(60)), server_closed: Some(s(120)), ..limit(900) };
    // SYN-ACK, the FIN that also acknowledged, and one probe in.
    let c = Connection { state: State::CloseWait, ..asked(150) };
    let c = with_counters(c, |n| (n.segs_in, n.segs_out) = (3, 5));
    assert_eq!(verdict(c, vec![ipvs]).name(), "unknown");
}

#[test]
fn a_limit_that_names_the_other_end_counts_where_both_are_seen() {
    let far = FarEnd {
        netns: 1,
        owner: None,
        state: State::Established,
        quiet: Some(s(100)),
        keepalive: Keepalive::Off(KeepaliveTimes::default()),
        timer: Timer::None,
        probes_unanswered: 0,
        timer_expires: None,
    };
    let both = Connection { far_end: Some(Box::new(far)), ..asked(100) };
    let selector = |peers: &[&str], direction| Selector {
        services: Vec::new(),
        peers: peers.iter().map(|net| net.parse().unwrap()).collect(),
        direction,
    };
    for selector in [selector(&["10.0.0.2/32"], Direction::Both), selector(&[], Direction::Inbound)]
    {
        let limits = vec![IdleLimit { selector, ..limit(900) }];
        assert_eq!(verdict(both.clone(), limits.clone()), at_risk(800));
        assert_eq!(verdict(asked(100), limits).name(), "unknown", "one end alone");
    }
}

#[test]
fn the_margin_of_a_half_closed_connection_is_under_its_own_timeout() {
    let ipvs = IdleLimit { client_closed: Some(s(60)), server_closed: Some(s(120)), ..limit(900) };
    let open = with_keepalive(asked(10), "40/20/3");
    let closed = Connection { state: State::FinWait2, ..open.clone() };
    for (c, thin) in [(open, false), (closed, true)] {
        let findings = one(c, vec![ipvs.clone()]).findings;
        assert_eq!(findings.contains(Finding::KeepaliveThinMargin), thin);
    }
}

#[test]
fn a_half_closed_connection_is_not_safe_under_a_limit_that_is_not_known() {
    let ipvs = IdleLimit { client_closed: Some(s(60)), server_closed: Some(s(120)), ..limit(900) };
    let c = Connection { state: State::FinWait2, ..with_keepalive(asked(10), "40/10/3") };
    assert_eq!(verdict(c.clone(), vec![ipvs.clone()]).name(), "safe");
    assert_eq!(verdict(c, vec![limit(30), ipvs]).name(), "unknown");
}

#[test]
fn the_slack_of_a_smaller_limit_hides_no_cut_by_a_larger_one() {
    let ipvs = IdleLimit { slack: TimerSlack::Wheel { hz: KernelHz::Foreign }, ..limit(900) };
    assert_eq!(verdict(asked(1000), vec![ipvs, limit(950)]), CUT);
}

#[test]
fn the_far_end_counts_where_it_is_seen() {
    let far = |keepalive: &str, quiet_s| {
        let values: KeepaliveValues = keepalive.parse().unwrap();
        Some(Box::new(FarEnd {
            netns: 1,
            owner: None,
            state: State::Established,
            quiet: Some(s(quiet_s)),
            keepalive: Keepalive::On(values.times()),
            timer: Timer::Keepalive,
            probes_unanswered: 0,
            timer_expires: None,
        }))
    };
    let with_far = |far_end| Connection { far_end, ..with_unexplained(asked(10), 9) };
    let kept = one(with_far(far("1/1/3", 1)), vec![limit(3)]);
    assert!(matches!(kept.verdict, Verdict::Safe { .. }), "{kept:?}");
    assert!(kept.findings.contains(Finding::PeerKeepsAlive));
    assert_eq!(verdict(with_far(far("60/30/3", 10)), vec![limit(3)]), CUT);
}

#[test]
fn both_ends_on_one_host_are_one_row_and_lookalikes_are_not() {
    let client = asked(10);
    let mut server = asked(10);
    (server.local, server.peer) = (client.peer, client.local);
    (server.netns, server.role) = (1, Role::Server);
    let counters = server.counters.as_mut().unwrap();
    (counters.bytes_acked, counters.bytes_received) = (0, 100);

    let mut both = snapshot(vec![server.clone(), client.clone()], vec![]);
    assert_eq!(pair_ends(&mut both).len(), 1);
    assert_eq!(both.connections[0].role, Role::Client);
    assert_eq!(both.connections[0].far_end.as_ref().unwrap().netns, 1);

    for change in [(|n: &mut Counters| n.bytes_received = 5_000) as fn(&mut Counters), |n| {
        n.last_data_recv = s(500).into();
    }] {
        let stranger = with_counters(server.clone(), change);
        let mut strangers = snapshot(vec![stranger, client.clone()], vec![]);
        assert!(pair_ends(&mut strangers).is_empty(), "another network with the same addresses");
        assert_eq!(strangers.connections.len(), 2);
    }
}

#[test]
fn the_smaller_of_two_limits_decides_in_its_direction() {
    let outbound = IdleLimit {
        selector: Selector { direction: Direction::Outbound, ..Selector::default() },
        ..limit(350)
    };
    let limits = vec![limit(900), outbound];
    assert_eq!(verdict(asked(100), limits.clone()), at_risk(250));
    let accepted = Connection { role: Role::Server, ..asked(100) };
    assert_eq!(verdict(accepted, limits), at_risk(800));
}

#[test]
fn a_limit_holds_for_the_peers_that_it_names() {
    let named = |net: &str| IdleLimit {
        selector: Selector { peers: vec![net.parse().unwrap()], ..Selector::default() },
        ..limit(900)
    };
    assert_eq!(verdict(asked(100), vec![named("203.0.113.0/24")]), at_risk(800));
    assert_eq!(verdict(asked(100), vec![named("198.51.100.0/24")]).name(), "unknown");
    // A local peer is on the path of a limit only where the limit names it.
    let local = Connection { on_host: OnHost::SameNamespace, ..asked(100) };
    assert_eq!(verdict(local.clone(), vec![limit(900)]).name(), "safe");
    assert_eq!(verdict(local, vec![named("203.0.113.9/32")]), at_risk(800));
}

#[test]
fn keepalive_does_not_help_where_payload_counts() {
    let proxy = IdleLimit { refreshed_by: Refresh::PayloadOnly, ..limit(60) };
    let mut c = with_keepalive(asked(50), "10/10/3");
    c.counters.as_mut().unwrap().last_ack_recv = s(3).into();
    let diagnosis = one(c, vec![proxy, limit(900)]);
    assert_eq!(diagnosis.verdict, at_risk(10));
    assert!(diagnosis.findings.contains(Finding::Useless));
    assert!(!diagnosis.findings.contains(Finding::KeepaliveTooLate));
}

#[test]
fn what_is_not_known_of_a_limit_makes_nothing_safe_or_cut() {
    let refresh = IdleLimit { refreshed_by: Refresh::Unknown, ..limit(900) };
    let kept = with_keepalive(asked(10), "60/30/3");
    assert_eq!(verdict(kept, vec![refresh.clone()]).name(), "unknown");
    assert_eq!(verdict(asked(10), vec![refresh]), at_risk(890));
    let expiry = IdleLimit { on_expiry: Expiry::Unknown, ..limit(900) };
    assert_eq!(verdict(asked(1000), vec![expiry]).name(), "unknown");
}

#[test]
fn a_limit_that_closes_at_expiry_is_contradicted_by_an_open_connection() {
    let closing = IdleLimit { on_expiry: Expiry::Fin, ..limit(60) };
    let diagnosis = one(asked(100), vec![closing, limit(900)]);
    assert_eq!(diagnosis.verdict, at_risk(800));
    assert!(diagnosis.findings.contains(Finding::LimitContradicted));
}

#[test]
fn half_closed_connections_have_a_timeout_of_their_own() {
    let ipvs = IdleLimit { client_closed: Some(s(60)), server_closed: Some(s(120)), ..limit(900) };
    let closed_by_server = Connection { state: State::CloseWait, ..asked(100) };
    let diagnosis = one(closed_by_server.clone(), vec![ipvs.clone()]);
    assert_eq!(diagnosis.verdict, at_risk(20));
    assert!(diagnosis.findings.contains(Finding::PeerClosed));
    let closed_by_us = Connection { state: State::FinWait2, ..asked(50) };
    assert_eq!(verdict(closed_by_us, vec![ipvs]), at_risk(10));
    assert_eq!(verdict(closed_by_server, vec![limit(900)]).name(), "unknown");
}

#[test]
fn what_cannot_be_read_is_unknown() {
    let unread = |keepalive| Connection { keepalive, ..asked(100) };
    for keepalive in [Keepalive::Unknown, Keepalive::On(KeepaliveTimes::default())] {
        assert_eq!(verdict(unread(keepalive), vec![limit(900)]).name(), "unknown");
    }
    let no_stamps = Connection { counters: None, ..asked(100) };
    assert_eq!(verdict(no_stamps, vec![limit(900)]).name(), "unknown");
    assert_eq!(verdict(asked(100), vec![]).name(), "unknown");
}

#[test]
fn unanswered_probes_are_said_and_make_nothing_safe() {
    let mut c = with_keepalive(asked(130), "60/30/9");
    c.probes_unanswered = 2;
    let diagnosis = one(c, vec![limit(900)]);
    assert_eq!(diagnosis.verdict.name(), "unknown");
    assert!(diagnosis.findings.contains(Finding::Unanswered));
}

/// `stillopen ask` sent them, and they may have refreshed the path.
#[test]
fn probes_before_keepalive_is_due_leave_no_cut() {
    let mut c = with_keepalive(asked(1000), "7200/75/9");
    let cut = Verdict::Cut { proof: Proof::Inferred };
    assert_eq!(verdict(c.clone(), vec![limit(900)]), cut);
    c.probes_unanswered = 3;
    assert_eq!(verdict(c, vec![limit(900)]).name(), "unknown");
}

/// `stillopen ask` puts the options back; what got no answer stays counted.
#[test]
fn probes_that_were_unanswered_while_keepalive_was_on_for_a_moment_are_said() {
    let mut c = asked(1000);
    c.probes_unanswered = 3;
    let diagnosis = one(c, vec![limit(900)]);
    assert_eq!(diagnosis.verdict.name(), "unknown");
    assert!(diagnosis.findings.contains(Finding::Unanswered));
}

#[test]
fn a_user_timeout_can_make_one_lost_probe_kill() {
    let mut c = with_keepalive(asked(10), "60/30/3");
    for (user_timeout_s, kills) in [(0, false), (80, true), (200, false)] {
        c.user_timeout = Some(s(user_timeout_s).into());
        let findings = one(c.clone(), vec![limit(900)]).findings;
        assert_eq!(findings.contains(Finding::OneLostProbeKills), kills, "{user_timeout_s} s");
    }
}

#[test]
fn a_plan_is_predicted_and_what_is_cut_is_to_be_sent_again() {
    let snapshot = snapshot(vec![asked(100), asked(1000), asked(899)], vec![limit(900)]);
    let planned = plan(&snapshot, &diagnose(&snapshot));
    assert_eq!(planned.len(), 2);
    assert_eq!((planned[0].remedy.name(), &planned[0].connections[..]), ("send_again", &[1][..]));
    assert_eq!(planned[1].connections, [0, 2]);
    let mut predicted = predict(&snapshot, &planned[1]).unwrap();
    assert!(predicted.all(|verdict| matches!(verdict, Verdict::Safe { .. })));
}

#[test]
fn what_is_proposed_first_does_not_follow_from_the_order_of_the_sockets() {
    let names = |quiet: [u64; 2]| {
        let snapshot = self::snapshot(quiet.map(asked).to_vec(), vec![limit(900)]);
        let planned = plan(&snapshot, &diagnose(&snapshot));
        planned.iter().map(|planned| planned.remedy.name()).collect::<Vec<_>>()
    };
    assert_eq!(names([100, 1000]), ["send_again", "enable_keepalive"]);
    assert_eq!(names([1000, 100]), names([100, 1000]));
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    fn any_connection() -> impl Strategy<Value = Connection> {
        let keepalive = prop_oneof![
            Just(Keepalive::Unknown),
            Just(Keepalive::Off(KeepaliveTimes::default())),
            Just(Keepalive::On(KeepaliveTimes::default())),
            (1u64..2000, 1u64..2000, 1u32..9).prop_map(|(idle, interval, count)| {
                let values = KeepaliveValues { idle: s(idle), interval: s(interval), count };
                Keepalive::On(values.times())
            }),
        ];
        let state = prop_oneof![
            Just(State::Established),
            Just(State::CloseWait),
            Just(State::FinWait2),
            Just(State::SynSent)
        ];
        (0u64..3000, 0u32..9, keepalive, state, 0u8..4, 0u8..4).prop_map(
            |(quiet_s, unexplained, keepalive, state, retransmits, probes)| {
                let mut c = with_unexplained(asked(quiet_s), unexplained);
                c.keepalive = keepalive;
                c.timer = if keepalive.is_on() { Timer::Keepalive } else { Timer::None };
                (c.state, c.retransmits, c.probes_unanswered) = (state, retransmits, probes);
                c.counters.as_mut().unwrap().unacked = u32::from(retransmits > 0);
                c
            },
        )
    }

    fn rank(verdict: Verdict) -> usize {
        ["safe", "unknown", "at_risk", "cut"].iter().position(|n| *n == verdict.name()).unwrap()
    }

    proptest! {
        #[test]
        fn diagnose_is_free_of_order(
            mut connections in prop::collection::vec(any_connection(), 0..8),
            timeout in 1u64..2000,
        ) {
            let mut forwards = diagnose(&snapshot(connections.clone(), vec![limit(timeout)]));
            connections.reverse();
            let backwards = diagnose(&snapshot(connections, vec![limit(timeout)]));
            forwards.reverse();
            prop_assert_eq!(forwards, backwards);
        }

        #[test]
        fn a_plan_never_makes_a_verdict_worse(
            connections in prop::collection::vec(any_connection(), 1..8),
            timeout in 1u64..2000,
        ) {
            let snapshot = snapshot(connections, vec![limit(timeout)]);
            let before = diagnose(&snapshot);
            for planned in plan(&snapshot, &before) {
                let Some(after) = predict(&snapshot, &planned) else { continue };
                for (index, after) in planned.connections.iter().zip(after) {
                    let before = before[*index as usize].verdict;
                    prop_assert!(rank(after) <= rank(before), "{before:?} -> {after:?}");
                }
            }
        }

        #[test]
        fn a_snapshot_survives_its_file(connections in prop::collection::vec(any_connection(), 0..4)) {
            let snapshot = snapshot(connections, vec![limit(900)]);
            let mut file = Vec::new();
            snapshot.to_json(&mut file).unwrap();
            prop_assert_eq!(Snapshot::from_json(&file).unwrap(), snapshot);
        }
    }
}
