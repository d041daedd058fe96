//! Faults that look like an idle cut and are none.

use std::{net::Shutdown, time::Duration};

use std::io::Write as _;

use crate::{
    deadline::wait_until,
    scene::{FAMILIES, Scene},
};

#[test]
fn unacknowledged_data_is_a_dead_peer() {
    let scene = Scene::new();
    let mut connections = FAMILIES.map(|family| {
        let mut connection = scene.connect(family);
        connection.exchange(1);
        connection
    });
    scene.server.lose_way_to(&scene.client);
    for connection in &mut connections {
        connection.client.write_all(b"anybody there?").expect("send");
    }
    // Two retransmission timeouts in a row; the first is after 0.2 to 1 s.
    let report = wait_until("the retransmissions are seen", Duration::from_secs(20), || {
        let (report, _) = scene.check_client(&["--limit", "900s"]).look();
        report.connections.iter().all(|row| row.has("dead_peer")).then_some(report)
    });
    for connection in &connections {
        let row = report.row(connection);
        assert_eq!(row.verdict, "unknown", "{row:#?}");
        assert_eq!(row.missing.as_deref(), Some("peer_answer"), "{row:#?}");
    }
    // Nor is it an idle cut where the limit is shorter than the time to the next retransmission.
    let report = scene.check_client(&["--limit", "1ms"]).report(0);
    for connection in &connections {
        assert_eq!(report.row(connection).verdict, "unknown");
    }
}

#[test]
fn a_connection_that_the_peer_has_closed_is_said_to_be_so() {
    let scene = Scene::new();
    let connections = FAMILIES.map(|family| {
        let mut connection = scene.connect(family);
        connection.exchange(1);
        connection.server.shutdown(Shutdown::Write).expect("send a FIN");
        connection
    });
    let report = wait_until("the FINs have arrived", Duration::from_secs(10), || {
        let (report, _) = scene.check_client(&["--limit", "900s"]).look();
        report.connections.iter().all(|row| row.state == "close_wait").then_some(report)
    });
    for connection in &connections {
        let row = report.row(connection);
        assert_eq!(row.findings, ["peer_closed"], "{row:#?}");
        assert!(["safe", "unknown"].contains(&row.verdict.as_str()), "{row:#?}");
    }
}
