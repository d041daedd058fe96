//! `stillopen.toml` in the working folder, and several limits at once.

use crate::{
    scene::{FAMILIES, Family, Scene},
    socket::{Values, keep_alive},
};

#[test]
fn keepalive_is_useless_where_payload_alone_counts() {
    let scene = Scene::new();
    scene.configure(
        "[[limit]]\n\
         name = 'the-proxy'\n\
         idle_timeout = '15m'\n\
         refreshed_by = 'payload_only'\n",
    );
    let connections = FAMILIES.map(|family| {
        let mut connection = scene.connect(family);
        keep_alive(&connection.client, Values(60, 30, 3));
        connection.ask();
        connection
    });
    let report = scene.check_client(&[]).report(1);
    for connection in &connections {
        report.row(connection).is("at_risk", "the-proxy", &["useless"]);
    }
}

#[test]
fn the_smaller_of_two_limits_decides() {
    let scene = Scene::new();
    let connections = FAMILIES.map(|family| {
        let mut connection = scene.connect(family);
        keep_alive(&connection.client, Values(400, 30, 3));
        connection.ask();
        connection
    });
    let report = scene.check_client(&["--limit", "900s", "--limit", "350s"]).report(1);
    for connection in &connections {
        report.row(connection).is("at_risk", "user-350s", &["keepalive_too_late"]);
    }
    // 400 s beat the larger limit, where that alone is on the way.
    let report = scene.check_client(&["--limit", "900s"]).report(0);
    for connection in &connections {
        report.row(connection).is("safe", "user-900s", &[]);
    }
}

#[test]
fn a_limit_with_a_network_holds_for_its_peers_only() {
    let scene = Scene::new();
    let mut connections = FAMILIES.map(|family| scene.connect(family));
    connections.iter_mut().for_each(super::socket::Connection::ask);
    let [v4, v6] = &connections;
    let for_v6 = format!("350s@{}", scene.server.address(Family::V6));
    let report = scene.check_client(&["--limit", "900s", "--limit", &for_v6]).report(1);
    report.row(v4).is("at_risk", "user-900s", &["keepalive_off"]);
    report.row(v6).is("at_risk", "user-350s", &["keepalive_off"]);
}

#[test]
fn a_limit_holds_in_its_direction() {
    let scene = Scene::new();
    scene.configure(
        "[[limit]]\n\
         name = 'nat'\n\
         idle_timeout = '350s'\n\
         direction = 'outbound'\n\
         [[limit]]\n\
         name = 'firewall'\n\
         idle_timeout = '3600s'\n",
    );
    let connections = FAMILIES.map(|family| {
        let mut connection = scene.connect(family);
        connection.ask();
        connection
    });
    let of_client = scene.check_client(&[]).report(1);
    let of_server = scene.check(&["--netns", &scene.server.name]).report(1);
    for connection in &connections {
        of_client.row(connection).is("at_risk", "nat", &["keepalive_off"]);
        let row = of_server.row_between(&connection.peer(), &connection.local());
        row.is("at_risk", "firewall", &["keepalive_off"]);
    }
}

#[test]
fn a_file_that_is_wrong_is_an_error_that_names_it() {
    let scene = Scene::new();
    for wrong in [
        "[[limit]]\nname = 'a'\n",
        "[[limit]]\nname = 'a'\nidle_timeout = 'soon'\n",
        "[[limit]]\nname = 'a'\nidle_timeout = '5m'\nrefreshed_by = 'prayer'\n",
        "[[limit",
    ] {
        scene.configure(wrong);
        let said = scene.check_client(&[]).run();
        assert_eq!((said.status, said.stdout.as_str()), (2, ""), "{wrong}");
        assert!(said.stderr.contains("stillopen.toml"), "{wrong}: {}", said.stderr);
    }
}
