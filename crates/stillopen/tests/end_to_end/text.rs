//! The report for people, on live connections; `tests/golden` has its wording.

use crate::{
    scene::{FAMILIES, Scene},
    socket::{Values, keep_alive},
};

#[test]
fn the_answer_comes_first_and_a_command_last_within_100_columns() {
    let scene = Scene::new();
    let mut bare = FAMILIES.map(|family| scene.connect(family));
    bare.iter_mut().for_each(super::socket::Connection::ask);
    let kept_alive = FAMILIES.map(|family| scene.connect(family));
    for connection in &kept_alive {
        keep_alive(&connection.client, Values(60, 30, 3));
    }
    for (args, answer) in [
        (&["--limit", "900s"][..], "2 connections are AT RISK, of 4 connections."),
        (&["--limit", "900s", "--all"], "2 connections are AT RISK, of 4 connections."),
        (&[], "No idle limit is known here, so nothing is called cut or safe."),
        (&["--port", "9"], "No connection that matches leaves"),
    ] {
        let said = scene.check_client(args).started_by(&["env", "COLUMNS=100"]).run();
        let lines: Vec<&str> = said.stdout.lines().collect();
        assert!(lines[0].starts_with(answer), "{}", said.stdout);
        let command = lines.last().expect("there is a line");
        assert!(command.contains("stillopen "), "{}", said.stdout);
        for line in lines {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}
