//! Which connections are reported, and which of them make the program fail.

use crate::{
    holder::Holder,
    report::{Owner, Report},
    scene::{FAMILIES, Family, Scene},
    socket::{Connection, Values, keep_alive},
};

const LIMIT: [&str; 2] = ["--limit", "900s"];

/// A connection of each family that has asked.
fn asked(scene: &Scene) -> [Connection; 2] {
    FAMILIES.map(|family| {
        let mut connection = scene.connect(family);
        connection.ask();
        connection
    })
}

fn locals(report: &Report) -> Vec<&str> {
    report.connections.iter().map(|row| row.local.as_str()).collect()
}

#[test]
fn a_port_is_meant_at_either_end() {
    let scene = Scene::new();
    let [v4, v6] = asked(&scene);
    let port = |address: std::io::Result<std::net::SocketAddr>| address.unwrap().port().to_string();
    for (of, port) in [
        (&v4, port(v4.client.local_addr())),
        (&v4, port(v4.client.peer_addr())),
        (&v6, port(v6.client.local_addr())),
        (&v6, port(v6.client.peer_addr())),
    ] {
        let report = scene.check_client(&["--limit", "900s", "--port", &port]).report(1);
        assert_eq!(locals(&report), [of.local()], "{port}");
    }
    assert_eq!(locals(&scene.check_client(&LIMIT).args(&["--port", "9"]).report(0)), [""; 0]);
}

#[test]
fn a_network_is_the_peers() {
    let scene = Scene::new();
    let [v4, v6] = asked(&scene);
    for (of, family) in [(&v4, Family::V4), (&v6, Family::V6)] {
        let server = scene.server.address(family).to_string();
        let report = scene.check_client(&LIMIT).args(&["--peer", &server]).report(1);
        assert_eq!(locals(&report), [of.local()], "{server}");
        let client = scene.client.address(family).to_string();
        let report = scene.check_client(&LIMIT).args(&["--peer", &client]).report(0);
        assert_eq!(locals(&report), [""; 0], "{client}");
    }
}

#[test]
fn a_process_is_its_own_sockets_and_its_namespace() {
    let scene = Scene::new();
    let [v4, _v6] = asked(&scene);
    let local = v4.local();
    let Connection { client, server: _server } = v4;
    let holder = Holder::of_root(client);
    let pid = holder.pid().to_string();
    let report = scene.check_client(&LIMIT).args(&["--pid", &pid]).report(1);
    assert_eq!(locals(&report), [local]);
    let owner = Owner { pid: holder.pid(), command: "cat".to_owned() };
    assert_eq!(report.connections[0].owner, Some(owner));
}

#[test]
fn a_namespace_may_be_named_by_a_process_in_it() {
    let scene = Scene::new();
    let connections = asked(&scene);
    let inside = Holder::inside(&scene.client);
    let pid = inside.pid().to_string();
    let report = scene.check(&["--limit", "900s", "--netns", &pid]).report(1);
    for connection in &connections {
        assert_eq!(report.row(connection).netns, format!("pid {pid}"));
    }
}

#[test]
fn every_namespace_is_the_default_of_root() {
    let scene = Scene::new();
    let connections = asked(&scene);
    let server = scene.server.address(Family::V4).to_string();
    let report = scene.check(&["--limit", "900s", "--peer", &server]).report(1);
    assert_eq!(locals(&report), [connections[0].local()]);
}

#[test]
fn what_is_cut_after_the_horizon_does_not_fail() {
    let scene = Scene::new();
    let _connections = asked(&scene);
    for (horizon, status) in [("1m", 0), ("800s", 0), ("900s", 1), ("1h", 1)] {
        let report = scene.check_client(&LIMIT).args(&["--horizon", horizon]).report(status);
        assert!(report.connections.iter().all(|row| row.verdict == "at_risk"), "{horizon}");
    }
}

#[test]
fn unknown_fails_only_when_asked_for() {
    let scene = Scene::new();
    let connections = asked(&scene);
    let report = scene.check_client(&[]).report(0);
    for connection in &connections {
        let row = report.row(connection);
        assert_eq!((row.verdict.as_str(), &row.limit), ("unknown", &None), "{row:#?}");
        assert_eq!(row.missing.as_deref(), Some("limit"), "{row:#?}");
    }
    scene.check_client(&["--fail-on", "unknown"]).report(1);
    for connection in &connections {
        keep_alive(&connection.client, Values(60, 30, 3));
    }
    scene.check_client(&LIMIT).args(&["--fail-on", "unknown"]).report(0);
}
