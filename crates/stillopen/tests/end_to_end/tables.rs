//! Connections through a namespace that translates them (`router.rs`): its connection tracking is a
//! witness, of those that pass it.

use std::time::Duration;

use crate::{
    deadline::wait_until,
    router::{Router, Said, Wanted},
    scene::{FAMILIES, Family},
    socket::{Connection, Values, keep_alive},
};

/// The router's timeout, and the time that the machine may need on top.
const TIMEOUT: Duration = Duration::from_secs(6);
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until the router has no entry of `connection`.
fn wait_for_expiry(router: &Router, connection: &Connection) {
    wait_until("the entry expires", PATIENCE, || (!router.tracks(connection)).then_some(()));
}

#[test]
fn a_quiet_connection_shows_what_is_left_and_then_that_it_has_no_entry() {
    let router = Router::new();
    router.translate();
    let mut connections = FAMILIES.map(|family| router.connect(family, Wanted::Service));
    connections.iter_mut().for_each(Connection::ask);
    let snapshot = router.snapshot();
    for connection in &connections {
        let Said::Present { remaining, translates_destination } = snapshot.said(connection) else {
            panic!("{snapshot:#?}")
        };
        assert!(remaining <= TIMEOUT && translates_destination, "{snapshot:#?}");
    }
    let idle_timeout_s = snapshot.limit("conntrack").idle_timeout_s;
    assert_eq!(Duration::from_secs_f64(idle_timeout_s), TIMEOUT);
    connections.iter_mut().for_each(Connection::ask);
    let (report, status) = router.report();
    for connection in &connections {
        let row = report.row(connection);
        row.is("at_risk", "conntrack", &["keepalive_off"]);
        let cut_in_s = row.cut_in_s.expect("the entry tells");
        assert!(cut_in_s <= TIMEOUT.as_secs_f64() && cut_in_s.fract() == 0.0, "{row:#?}");
    }
    assert_eq!(status, 1);

    for connection in &connections {
        wait_for_expiry(&router, connection);
    }
    let snapshot = router.snapshot();
    for connection in &connections {
        assert_eq!(snapshot.said(connection), Said::Absent, "{snapshot:#?}");
    }
    let (report, status) = router.report();
    for connection in &connections {
        let row = report.row(connection);
        assert_eq!(
            (row.verdict.as_str(), row.proof.as_deref()),
            ("cut", Some("no_entry")),
            "{row:#?}"
        );
    }
    assert_eq!(status, 1);
}

#[test]
fn keepalive_keeps_the_entry() {
    let router = Router::new();
    router.translate();
    for family in FAMILIES {
        let mut kept = router.connect(family, Wanted::Service);
        keep_alive(&kept.client, Values(1, 1, 9));
        kept.ask();
        let mut quiet = router.connect(family, Wanted::Service);
        quiet.ask();
        wait_for_expiry(&router, &quiet);
        let snapshot = router.snapshot();
        assert!(matches!(snapshot.said(&kept), Said::Present { .. }), "{snapshot:#?}");
        assert_eq!(snapshot.said(&quiet), Said::Absent, "{snapshot:#?}");
        let (report, _) = router.report();
        assert_eq!(report.row(&kept).verdict, "safe", "{report:#?}");
        assert_eq!(report.row(&quiet).proof.as_deref(), Some("no_entry"), "{report:#?}");
    }
}

#[test]
fn without_the_rule_only_another_entry_shows_that_there_should_be_one() {
    let router = Router::new();
    router.translate();
    let mut quiet = router.connect(Family::V4, Wanted::Service);
    quiet.ask();
    wait_for_expiry(&router, &quiet);
    let mut other = router.connect(Family::V4, Wanted::Service);
    other.ask();
    router.forget_rules();
    let snapshot = router.snapshot();
    assert_eq!(snapshot.said(&quiet), Said::Absent, "{snapshot:#?}");
    assert!(matches!(snapshot.said(&other), Said::Present { .. }), "{snapshot:#?}");
    wait_for_expiry(&router, &other);
    let snapshot = router.snapshot();
    for connection in [&quiet, &other] {
        assert_eq!(snapshot.said(connection), Said::Nothing, "{snapshot:#?}");
    }
}

#[test]
fn a_connection_that_is_routed_as_it_is_has_no_witness() {
    let router = Router::new();
    router.translate();
    for family in FAMILIES {
        let mut connection = router.connect(family, Wanted::Server);
        connection.ask();
        assert!(router.tracks(&connection));
        let snapshot = router.snapshot();
        assert_eq!(snapshot.said(&connection), Said::Nothing, "{snapshot:#?}");
        assert_eq!(snapshot.limits, [], "{snapshot:#?}");
    }
}

#[test]
fn where_invalid_packets_are_dropped_it_has_one() {
    let router = Router::new();
    router.drop_invalid();
    // Picked up in the middle, nothing of it is INVALID.
    let mut picked_up = router.connect(Family::V4, Wanted::Server);
    picked_up.ask();
    assert_eq!(router.snapshot().said(&picked_up), Said::Nothing);
    router.pick_up(false);
    for family in FAMILIES {
        let mut connection = router.connect(family, Wanted::Server);
        connection.ask();
        let said = router.snapshot().said(&connection);
        let Said::Present { translates_destination: false, .. } = said else { panic!("{said:?}") };
        wait_for_expiry(&router, &connection);
        let snapshot = router.snapshot();
        assert_eq!(snapshot.said(&connection), Said::Nothing, "{snapshot:#?}");
    }
}

#[test]
fn the_same_address_by_another_way_has_no_witness() {
    let router = Router::new();
    router.translate();
    for family in FAMILIES {
        let mut through = router.connect(family, Wanted::Service);
        through.ask();
        let mut past = router.connect_past(family);
        past.ask();
        let snapshot = router.snapshot();
        assert!(matches!(snapshot.said(&through), Said::Present { .. }), "{snapshot:#?}");
        assert_eq!(snapshot.said(&past), Said::Nothing, "{snapshot:#?}");
    }
}

#[test]
fn a_masqueraded_connection_and_its_servers_end_show_what_is_left() {
    let router = Router::new();
    router.masquerade();
    for family in FAMILIES {
        let mut connection = router.connect(family, Wanted::Server);
        connection.ask();
        let snapshot = router.snapshot();
        for said in [snapshot.said(&connection), snapshot.said_at_server(&connection)] {
            let Said::Present { translates_destination: false, .. } = said else {
                panic!("{said:?} {snapshot:#?}")
            };
        }
    }
}

#[test]
fn a_connection_that_has_closed_is_never_said_to_have_no_entry() {
    let router = Router::new();
    router.translate();
    let mut kept = router.connect(Family::V4, Wanted::Service);
    kept.ask();
    let mut closed = router.connect(Family::V4, Wanted::Service);
    closed.ask();
    let (local, peer) = (closed.local(), closed.peer());
    drop(closed);
    let snapshot = router.snapshot();
    assert_eq!(snapshot.said_between(&local, &peer), Said::Nothing, "{snapshot:#?}");
}
