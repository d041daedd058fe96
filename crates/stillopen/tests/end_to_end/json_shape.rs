//! `--json` has every field that is promised, with its type.

use serde_json::{Value, json};

use crate::{
    scene::{FAMILIES, Scene},
    socket::{Values, keep_alive},
};

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn document(scene: &Scene, args: &[&str], status: i32) -> Value {
    let said = scene.check_client(args).args(&["--json"]).run();
    assert_eq!((said.status, said.stderr.as_str()), (status, ""));
    serde_json::from_str(&said.stdout).expect("it writes JSON")
}

#[test]
fn the_document_has_its_parts() {
    let scene = Scene::new();
    let mut connection = scene.connect(FAMILIES[0]);
    connection.ask();
    let document = document(&scene, &["--limit", "900s"], 1);
    assert_eq!(document["schema"], "stillopen.check/1");
    for part in ["limits", "connections", "findings", "advice", "gaps"] {
        assert!(document[part].is_array(), "{part}");
    }
    assert_eq!(document["limits"][0]["id"], "user-900s");
    assert_eq!(document["findings"][0]["id"], "keepalive_off");
    assert_eq!(document["advice"][0]["remedy"], "enable_keepalive");
    assert_eq!(document["advice"][0]["predicted"]["safe"], 1);
}

#[test]
fn each_connection_has_what_is_promised() {
    let scene = Scene::new();
    let comm = std::fs::read_to_string("/proc/self/comm").expect("read this process's name");
    let owner = json!({"pid": std::process::id(), "command": comm.trim_end()});
    for family in FAMILIES {
        let mut connection = scene.connect(family);
        connection.ask();
        let row = document(&scene, &["--limit", "900s"], 1)["connections"][0].take();
        let cut_in_s = row["cut_in_s"].as_f64().expect("a number");
        let quiet_s = row["quiet_s"].as_f64().expect("a number");
        for (key, value) in [
            ("local", json!(connection.local())),
            ("peer", json!(connection.peer())),
            ("netns", json!(scene.client.name)),
            ("state", json!("established")),
            ("waiting", json!("for_answer")),
            ("quiet_s", json!(quiet_s)),
            (
                "keepalive",
                json!({"state": "off", "idle_s": 7200.0, "interval_s": 75.0, "count": 9}),
            ),
            ("owner", owner.clone()),
            ("verdict", json!("at_risk")),
            ("proof", Value::Null),
            ("cut_in_s", json!(cut_in_s)),
            ("limit", json!({"id": "user-900s", "idle_timeout_s": 900.0})),
            ("findings", json!(["keepalive_off"])),
        ] {
            assert!(keys(&row).contains(&key), "{key} is missing");
            assert_eq!(row[key], value, "{key}");
        }
    }
}

#[test]
fn what_is_not_known_is_null() {
    let scene = Scene::new();
    let connection = scene.connect(FAMILIES[0]);
    keep_alive(&connection.client, Values(60, 30, 3));
    let row = document(&scene, &["--no-owners"], 0)["connections"][0].take();
    for key in ["owner", "proof", "cut_in_s", "limit"] {
        assert!(keys(&row).contains(&key) && row[key].is_null(), "{key}: {row}");
    }
    let unknown = json!({"state": "on", "idle_s": null, "interval_s": null, "count": null});
    assert_eq!(row["keepalive"], unknown);
    assert_eq!(row["verdict"], "unknown");
}
