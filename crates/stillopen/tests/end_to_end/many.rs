//! So many connections that `rescue` arms them at once, by BPF iterators: its output and what it does are those of one
//! by one.

use rustix::{
    net::sockopt,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use serde_json::Value;

use crate::{
    program::Said,
    scene::{FAMILIES, Scene},
    socket::{Connection, Options, Values, keep_alive, options, set_values},
};

/// More than `MANY` of `stillopen-remedy`.
const MANY: usize = 5_010;
/// Root without what loading such a program takes.
const WITHOUT_BPF: [&str; 2] = ["setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin"];

fn connections(scene: &Scene) -> Vec<Connection> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("allow more files");
    let mut connections: Vec<Connection> =
        (0..MANY).map(|n| scene.connect(FAMILIES[n % 2])).collect();
    for pair in [0, 2, 4].map(|n| n..n + 2) {
        for connection in &mut connections[pair.clone()] {
            let client = &connection.client;
            match pair.start {
                0 => keep_alive(client, Values(1000, 77, 5)),
                2 => set_values(client, Values(1000, 77, 5)),
                _ => sockopt::set_tcp_user_timeout(client, 30_000).expect("set it"),
            }
            connection.ask();
        }
    }
    connections
}

/// Its report, after it was done: which rows, without what time changes, and whether it says that it was one by one.
fn report(said: &Said) -> (Vec<Value>, bool) {
    assert_eq!(said.status, 0, "{said:#?}");
    let mut report: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let rows = report["connections"].as_array_mut().expect("a list");
    for row in rows.iter_mut() {
        let row = row.as_object_mut().expect("an object");
        row.remove("quiet_s").expect("how long it was quiet");
        // Whose namespace it is called by depends on where one looks from.
        row.remove("netns").expect("where it is");
    }
    rows.sort_by_key(|row| row["local"].to_string());
    let rows = rows.clone();
    let gaps = report["gaps"].as_array().expect("a list");
    (rows, gaps.iter().any(|gap| gap["source"] == "bpf"))
}

#[test]
fn many_are_armed_at_once_as_they_would_be_one_by_one() {
    let scene = Scene::new();
    let connections = connections(&scene);
    let all = || connections.iter().map(|it| options(&it.client)).collect::<Vec<Options>>();
    let before = all();
    let name = &scene.client.name;
    let args = ["rescue", "--netns", name, "--at-risk", "--limit", "900s", "--apply", "--json"];
    let rescue = |undo| scene.program(&args).args(&["--save-undo", undo]);
    let undo = |file| scene.program(&["rescue", "--undo", file, "--apply"]).run();

    let (rows, one_by_one) = report(&rescue("at-once.json").run());
    assert!(!one_by_one, "this test loads BPF programs: it needs root");
    assert_eq!(rows.len(), MANY);
    assert!(rows.iter().all(|row| row["done"] == true));
    let armed = all();
    for (n, (armed, before)) in armed.iter().zip(&before).enumerate() {
        let user_timeout = if matches!(n, 4 | 5) { 30_000 } else { 0 };
        assert_eq!(armed, &Options::new(true, Values(60, 30, 3), user_timeout), "from {before:?}");
    }
    assert_eq!(undo("at-once.json").status, 0);
    assert_eq!(all(), before);

    let enter = ["ip", "netns", "exec", name];
    let without = rescue("one-by-one.json").started_by(&[&enter[..], &WITHOUT_BPF].concat());
    let (same, one_by_one) = report(&without.run());
    assert!(one_by_one, "it says so");
    assert_eq!(same, rows);
    assert_eq!(all(), armed);
    assert_eq!(undo("one-by-one.json").status, 0);
    assert_eq!(all(), before);
}
