//! A limit of 900 s, and every kind of keepalive of the client.

use crate::{
    report::{Keepalive, Row},
    scene::{FAMILIES, Family, Scene},
    socket::{Connection, Values, keep_alive, set_values},
};

/// What a client's namespace starts with: it inherits nothing of the host's.
const KERNEL_DEFAULT: Values = Values(7200, 75, 9);

/// The row, over each family, of a connection that has asked and has the options that `prepare` sets.
fn rows(prepare: impl Fn(&std::net::TcpStream), status: i32) -> Vec<Row> {
    let scene = Scene::new();
    let connections = FAMILIES.map(|family| {
        let mut connection = scene.connect(family);
        prepare(&connection.client);
        connection.ask();
        connection
    });
    let report = scene.check_client(&["--limit", "900s"]).report(status);
    assert_eq!(report.connections.len(), connections.len(), "{report:#?}");
    connections.iter().map(|connection| report.row(connection).clone()).collect()
}

#[test]
fn keepalive_60_30_3_is_safe() {
    for row in rows(|client| keep_alive(client, Values(60, 30, 3)), 0) {
        row.is("safe", "user-900s", &[]);
        assert_eq!(row.keepalive, Keepalive::known("on", Values(60, 30, 3)));
        assert_eq!((row.proof, row.cut_in_s), (None, None));
    }
}

#[test]
fn keepalive_890_30_3_is_at_risk_since_its_timer_may_be_late() {
    for row in rows(|client| keep_alive(client, Values(890, 30, 3)), 1) {
        row.is("at_risk", "user-900s", &["keepalive_too_late"]);
        assert_eq!(row.keepalive, Keepalive::known("on", Values(890, 30, 3)));
    }
}

#[test]
fn no_keepalive_is_at_risk_when_the_rest_of_the_limit_has_passed() {
    for row in rows(|_| (), 1) {
        row.is("at_risk", "user-900s", &["keepalive_off"]);
        assert_eq!(row.keepalive, Keepalive::known("off", KERNEL_DEFAULT));
        let known = row.cut_in_s.zip(row.quiet_s);
        let (cut_in_s, quiet_s) = known.expect("both are known");
        assert!((cut_in_s - (900.0 - quiet_s)).abs() <= 1.0, "{row:#?}");
    }
}

#[test]
fn keepalive_with_the_kernels_7200_is_too_late() {
    for row in rows(|client| keep_alive(client, KERNEL_DEFAULT), 1) {
        row.is("at_risk", "user-900s", &["keepalive_too_late"]);
    }
}

#[test]
fn an_idle_value_without_so_keepalive_is_armed_but_off() {
    for row in rows(|client| set_values(client, Values(30, 75, 9)), 1) {
        row.is("at_risk", "user-900s", &["armed_but_off"]);
        assert_eq!(row.keepalive, Keepalive::known("off", Values(30, 75, 9)));
    }
}

#[test]
fn a_client_that_asked_waits_for_the_answer_and_one_that_has_it_is_idle() {
    let scene = Scene::new();
    for family in FAMILIES {
        let mut connection = scene.connect(family);
        connection.ask();
        let waiting = |connection: &Connection| {
            let report = scene.check_client(&["--limit", "900s"]).report(1);
            report.row(connection).waiting.clone()
        };
        assert_eq!(waiting(&connection), "for_answer");
        connection.answer();
        assert_eq!(waiting(&connection), "idle");
    }
}

#[test]
fn the_catalogues_ipvs_has_its_own_id_and_time() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    let report = scene.check_client(&["--limit", "kubernetes-ipvs"]).report(1);
    let limit = report.row(&connection).limit.as_ref().expect("a limit is known");
    assert_eq!((limit.id.as_str(), limit.idle_timeout_s), ("kubernetes-ipvs", 900.0));
}
