//! A table that was read is a witness: its entry, or that it has none, beats the arithmetic.

use std::net::SocketAddr;

use stillopen_model::{
    Connection, ConntrackSettings, Entry, Finding, IdleLimit, Miss, Missing, OtherSide, Proof,
    Remedy, Role, State, TableId, TableKind, TimerSlack, Verdict, Witness, diagnose, pair_ends,
    plan, predict,
};

use super::{HZ, asked, at_risk, limit, one, s, snapshot, verdict, with_keepalive};

const IPVS: TableId = TableId { netns: 1, kind: TableKind::Ipvs };
const CONNTRACK: TableId = TableId { netns: 1, kind: TableKind::Conntrack };
const NO_ENTRY: Verdict = Verdict::Cut { proof: Proof::NoEntry };
const NOT_PROVEN: Verdict = Verdict::Unknown { missing: Missing::Entry };
const PEER_PROBES: Verdict = Verdict::Unknown { missing: Missing::PeerKeepalive };

fn left(remaining_s: u64) -> Entry {
    Entry::Present { remaining: s(remaining_s), translates_destination: true, other_side: None }
}

fn told(c: Connection, tables: &[(TableId, Entry)]) -> Connection {
    let tables = tables.iter().map(|&(table, entry)| Witness { table, entry }).collect();
    Connection { tables, ..c }
}

/// The limits of both tables: 900 s and a day.
fn limits() -> Vec<IdleLimit> {
    let ipvs = IdleLimit {
        table: Some(IPVS),
        slack: TimerSlack::Wheel { hz: HZ },
        client_closed: Some(s(60)),
        server_closed: Some(s(120)),
        ..limit(900)
    };
    vec![ipvs, IdleLimit { table: Some(CONNTRACK), ..limit(86_400) }]
}

#[test]
fn what_a_table_says_is_the_verdict() {
    for (quiet_s, tables, expected) in [
        // It is passed where it is a witness, and nowhere else.
        (100, &[][..], Verdict::Unknown { missing: Missing::Limit }),
        // The entry counts down, whatever the arithmetic says; overdue it still works.
        (100, &[(IPVS, left(799))], at_risk(799)),
        (890, &[(IPVS, left(3))], at_risk(3)),
        (905, &[(IPVS, left(0))], at_risk(0)),
        // The timeout was lowered while it was quiet: the entry keeps the time that it was given.
        (1000, &[(IPVS, left(1500))], at_risk(1500)),
        // Younger than the last packet that this end saw: somebody refreshed it.
        (100, &[(IPVS, left(890))], PEER_PROBES),
        (5000, &[(IPVS, left(890))], PEER_PROBES),
        // The table was not read: the arithmetic.
        (100, &[(IPVS, Entry::NotRead)], at_risk(800)),
        // No entry.
        (1000, &[(IPVS, Entry::Absent)], NO_ENTRY),
        (90_000, &[(CONNTRACK, Entry::Absent)], NO_ENTRY),
        // Before the limit's time, idleness can't be why: it may take another way, or be older than the rules.
        (100, &[(IPVS, Entry::Absent)], NOT_PROVEN),
        (100, &[(IPVS, Entry::Absent), (CONNTRACK, Entry::Absent)], NOT_PROVEN),
        (1000, &[(CONNTRACK, Entry::Absent)], NOT_PROVEN),
        (100, &[(IPVS, Entry::Absent), (CONNTRACK, Entry::NotRead)], NOT_PROVEN),
        (1000, &[(IPVS, Entry::Absent), (CONNTRACK, Entry::NotRead)], NO_ENTRY),
        // It does, or the other way round.
        (100, &[(IPVS, Entry::Absent), (CONNTRACK, left(86_300))], at_risk(86_300)),
        (100, &[(IPVS, left(799)), (CONNTRACK, Entry::Absent)], at_risk(799)),
        (100, &[(IPVS, left(799)), (CONNTRACK, Entry::NotRead)], at_risk(799)),
    ] {
        assert_eq!(
            verdict(told(asked(quiet_s), tables), limits()),
            expected,
            "{quiet_s} {tables:?}"
        );
    }
}

#[test]
fn an_entry_that_only_rewrites_the_source_does_not_excuse_a_missing_one() {
    let masqueraded =
        Entry::Present { remaining: s(86_300), translates_destination: false, other_side: None };
    let c = told(asked(1000), &[(IPVS, Entry::Absent), (CONNTRACK, masqueraded)]);
    assert_eq!(verdict(c, limits()), NO_ENTRY);
}

#[test]
fn an_entry_of_another_router_does_not_excuse_a_missing_one() {
    let elsewhere = TableId { netns: 0, kind: TableKind::Conntrack };
    let c = told(asked(1000), &[(elsewhere, left(50)), (IPVS, Entry::Absent)]);
    assert_eq!(verdict(c, limits()), NO_ENTRY);
}

#[test]
fn a_flow_with_a_shorter_timeout_of_its_own_is_not_safe_by_the_tables() {
    // 12 s quiet and 3 s left: its timeout is 15 s, whatever the sysctl says.
    let mut c = with_keepalive(asked(12), "14/60/9");
    c.timer_expires = Some(s(2).into());
    assert_eq!(verdict(told(c, &[(CONNTRACK, left(3))]), limits()), at_risk(3));
}

#[test]
fn keepalive_saves_a_connection_whose_next_probe_beats_its_entry() {
    let probing = |expires_s: u64, remaining_s| {
        let mut c = with_keepalive(asked(30), "60/30/3");
        c.timer_expires = Some(s(expires_s).into());
        told(c, &[(IPVS, left(remaining_s))])
    };
    let Verdict::Safe { margin: Some(margin) } = verdict(probing(30, 869), limits()) else {
        panic!("not safe")
    };
    assert!(margin > s(830) && margin < s(840), "{margin:?}");
    // The first probe comes after the entry's end: its time had been lowered, or keepalive was set late.
    assert_eq!(verdict(probing(30, 20), limits()), at_risk(20));
    assert_eq!(verdict(probing(60, 61), limits()), at_risk(61));
    // A timer that was armed before the last packet fires early, and is armed anew.
    assert_eq!(verdict(probing(2, 29), limits()), at_risk(29));
}

#[test]
fn keepalive_that_comes_too_late_is_said_of_an_entry_too() {
    let diagnosis =
        one(told(with_keepalive(asked(100), "7200/75/9"), &[(IPVS, left(799))]), limits());
    assert_eq!(diagnosis.verdict, at_risk(799));
    assert!(diagnosis.findings.contains(Finding::KeepaliveTooLate));
}

#[test]
fn data_that_is_sent_again_into_a_forgotten_path_is_no_dead_peer() {
    let mut c = told(asked(90_000), &[(CONNTRACK, Entry::Absent)]);
    c.retransmits = 5;
    c.counters.as_mut().unwrap().unacked = 1;
    let diagnosis = one(c, limits());
    assert_eq!(diagnosis.verdict, NO_ENTRY);
    assert!(!diagnosis.findings.contains(Finding::DeadPeer));
}

#[test]
fn a_connection_that_its_peer_has_closed_is_not_called_cut_for_want_of_an_entry() {
    let mut c = told(asked(30), &[(IPVS, Entry::Absent)]);
    c.state = State::CloseWait;
    assert_eq!(verdict(c, limits()), NOT_PROVEN);
}

#[test]
fn the_sooner_of_two_entries_decides() {
    let both = [(IPVS, left(799)), (CONNTRACK, left(250))];
    let diagnosis = one(told(asked(100), &both), limits());
    assert_eq!((diagnosis.verdict, diagnosis.limit), (at_risk(250), Some(1)));
}

#[test]
fn both_ends_at_the_sides_of_a_table_are_one_row() {
    let pod: SocketAddr = "10.0.2.2:8080".parse().unwrap();
    let mut client = asked(100);
    let other_side = Some(OtherSide { local: pod, peer: client.local });
    let remaining = s(870);
    let entry = Entry::Present { remaining, translates_destination: true, other_side };
    client.tables = [Witness { table: IPVS, entry }].into();
    let mut server = with_keepalive(asked(30), "60/30/3");
    (server.local, server.peer) = (pod, client.local);
    (server.netns, server.role, server.owner) = (1, Role::Server, None);
    server.timer_expires = Some(s(30).into());
    server.tables = client.tables.clone();
    let counters = server.counters.as_mut().unwrap();
    (counters.last_data_recv, counters.last_data_sent) = (s(100).into(), s(100).into());
    (counters.bytes_received, counters.bytes_acked) = (101, 0);
    let mut both = snapshot(vec![client, server], limits());
    both.connections[0].counters.as_mut().unwrap().last_data_recv = s(100).into();
    assert_eq!(pair_ends(&mut both).len(), 1);
    let far = both.connections[0].far_end.as_deref().expect("the pod's end");
    assert_eq!(far.netns, 1);
    let diagnosis = diagnose(&both)[0];
    assert!(matches!(diagnosis.verdict, Verdict::Safe { .. }), "{diagnosis:?}");
    assert!(diagnosis.findings.contains(Finding::PeerKeepsAlive));
}

#[test]
fn an_interval_that_equals_conntracks_timer_for_unacknowledged_data_is_a_race() {
    let settings = ConntrackSettings {
        established: s(86_400),
        close_wait: s(60),
        fin_wait: s(120),
        unacknowledged: s(300),
        max_retrans: s(300),
        loose: true,
        be_liberal: false,
        acct: false,
    };
    for (values, races) in [("60/300/3", true), ("300/30/3", true), ("60/30/3", false)] {
        let c = told(with_keepalive(asked(10), values), &[(CONNTRACK, left(86_390))]);
        let mut snapshot = snapshot(vec![c], limits());
        snapshot.namespaces[1].conntrack = Some(settings);
        let findings = diagnose(&snapshot)[0].findings;
        assert_eq!(findings.contains(Finding::EqualsTimer), races, "{values}");
    }
}

#[test]
fn where_the_next_packet_makes_the_entry_anew_a_client_that_probes_is_not_cut() {
    let loose = || {
        let meets = Some(Miss::Recreate);
        vec![IdleLimit { table: Some(CONNTRACK), client_meets: meets, ..limit(60) }]
    };
    let absent = |c| told(c, &[(CONNTRACK, Entry::Absent)]);
    assert_eq!(verdict(absent(asked(100)), loose()), NO_ENTRY);
    let mut probing = with_keepalive(asked(100), "120/5/9");
    probing.timer_expires = Some(s(20).into());
    assert_eq!(verdict(absent(probing), loose()), at_risk(0), "until its probe");
    // Turned on, keepalive probes at once.
    let snapshot = snapshot(vec![absent(asked(100))], loose());
    let planned = plan(&snapshot, &diagnose(&snapshot));
    assert_eq!(planned[0].remedy.name(), "enable_keepalive");
    let after: Vec<Verdict> = predict(&snapshot, &planned[0]).expect("a prediction").collect();
    assert!(matches!(after[..], [Verdict::Safe { .. }]), "{after:?}");
}

#[test]
fn behind_ipvs_what_is_cut_is_to_be_sent_again_with_keepalive() {
    let snapshot = snapshot(vec![told(asked(1000), &[(IPVS, Entry::Absent)])], limits());
    let planned = plan(&snapshot, &diagnose(&snapshot));
    assert_eq!(planned[0].remedy, Remedy::SendAgain("60/30/3".parse().unwrap()));
    assert!(predict(&snapshot, &planned[0]).is_none());
}
