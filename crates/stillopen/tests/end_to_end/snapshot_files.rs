//! `--save` and `--from`: the same rows again, and files that are none.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::Value;

use crate::{
    scene::{FAMILIES, Scene},
    socket::{Values, keep_alive},
};

/// A scene with a connection at risk and a safe one of each family, and their snapshot in `case.json`.
fn saved() -> (Scene, String) {
    let scene = Scene::new();
    let connections = FAMILIES.map(|family| {
        let [mut bare, mut kept_alive] = [scene.connect(family), scene.connect(family)];
        keep_alive(&kept_alive.client, Values(60, 30, 3));
        bare.ask();
        kept_alive.ask();
        [bare, kept_alive]
    });
    let args = ["--limit", "900s", "--save", "case.json", "--json"];
    let said = scene.check_client(&args).run();
    assert_eq!((said.status, said.stderr.as_str()), (1, ""));
    drop(connections);
    (scene, said.stdout)
}

#[test]
fn a_saved_snapshot_gives_the_same_report_again() {
    let (scene, live) = saved();
    let again = scene.check(&["--from", "case.json", "--json"]).run();
    assert_eq!((again.status, again.stderr.as_str()), (1, ""));
    assert_eq!(again.report().connections.len(), 4);
    let json = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    assert_eq!(json(&again.stdout), json(&live));
}

#[test]
fn a_saved_snapshot_is_its_owners_alone() {
    let (scene, _) = saved();
    let mode = fs::metadata(scene.path("case.json")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_limit_of_the_command_line_replaces_the_saved_ones() {
    let (scene, _) = saved();
    let with = |limit| scene.check(&["--from", "case.json", "--limit", limit]).report(1);
    for (limit, decides, at_risk) in
        [("350s", "user-350s", 2), ("1h", "user-1h", 2), ("40s", "user-40s", 4)]
    {
        let report = with(limit);
        let rows = &report.connections;
        assert!(rows.iter().all(|row| row.limit.as_ref().is_some_and(|l| l.id == decides)));
        assert_eq!(rows.iter().filter(|row| row.verdict == "at_risk").count(), at_risk, "{limit}");
    }
}

#[test]
fn the_filters_hold_for_a_saved_snapshot() {
    let (scene, _) = saved();
    let count = |args: &[&str]| {
        let said = scene.check(&["--from", "case.json", "--json"]).args(args).run();
        said.report().connections.len()
    };
    assert_eq!(count(&["--peer", "0.0.0.0/0"]), 2);
    assert_eq!(count(&["--peer", "::/0"]), 2);
    assert_eq!(count(&["--port", "9"]), 0);
    assert_eq!(count(&["--pid", &std::process::id().to_string()]), 4);
    assert_eq!(count(&["--pid", "1"]), 0);
}

#[test]
fn a_file_that_is_no_snapshot_is_an_error_that_names_it() {
    let (scene, _) = saved();
    let whole = fs::read(scene.path("case.json")).expect("read the snapshot");
    let text = String::from_utf8(whole.clone()).expect("JSON is UTF-8");
    let newer = text.replace("stillopen.snapshot/1", "stillopen.snapshot/2");
    assert_ne!(newer, text);
    let dangling = text.replace("\"netns\":0", "\"netns\":7");
    assert_ne!(dangling, text);
    let at_once = text.replace("\"idle_timeout_s\":900", "\"idle_timeout_s\":0");
    assert_ne!(at_once, text);
    for (name, bytes, why) in [
        ("at_once.json", at_once.as_bytes(), "the idle_timeout_s of limit \"user-900s\" is 0"),
        ("newer.json", newer.as_bytes(), "stillopen.snapshot/2"),
        ("truncated.json", &whole[..whole.len() / 2], "not a snapshot"),
        ("empty.json", &[][..], "not a snapshot"),
        ("binary.json", &[0x7f, b'E', b'L', b'F', 0, 0xff, 0xfe][..], "not a snapshot"),
        ("other.json", b"{\"connections\": []}", "not a snapshot"),
        ("dangling.json", dangling.as_bytes(), "not a snapshot"),
    ] {
        fs::write(scene.path(name), bytes).expect("write a file");
        let said = scene.check(&["--from", name]).run();
        assert_eq!((said.status, said.stdout.as_str()), (2, ""), "{name}");
        assert!(said.stderr.contains(name) && said.stderr.contains(why), "{}", said.stderr);
    }
    for name in ["missing.json", "."] {
        let said = scene.check(&["--from", name]).run();
        assert_eq!((said.status, said.stdout.as_str()), (2, ""), "{name}");
        assert!(said.stderr.contains(name), "{}", said.stderr);
    }
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_that_names_it() {
    let scene = Scene::new();
    for name in ["no/such/folder/case.json", "."] {
        let said = scene.check_client(&["--save", name]).run();
        assert_eq!((said.status, said.stdout.as_str()), (2, ""), "{name}");
        assert!(said.stderr.contains(name), "{}", said.stderr);
        // Nor one that nobody chose.
        assert!(!said.stderr.contains(".tmp"), "{}", said.stderr);
    }
}

#[test]
fn what_is_not_a_file_is_written_to_and_not_replaced() {
    let scene = Scene::new();
    let said = scene.check_client(&["--save", "/dev/stdout", "--json"]).run();
    assert_eq!(said.status, 0, "{}", said.stderr);
    let mut documents = serde_json::Deserializer::from_str(&said.stdout).into_iter::<Value>();
    let snapshot = documents.next().expect("the snapshot").expect("JSON");
    assert_eq!(snapshot["schema"], "stillopen.snapshot/1");
    let stdout = fs::symlink_metadata("/dev/stdout").expect("it is there");
    assert!(!stdout.is_file(), "a device was replaced");
}

#[test]
fn a_link_is_kept_and_its_file_is_written() {
    let scene = Scene::new();
    fs::write(scene.path("there.json"), "").expect("a file");
    std::os::unix::fs::symlink(scene.path("there.json"), scene.path("link.json")).expect("a link");
    let said = scene.check_client(&["--save", "link.json"]).run();
    assert_eq!(said.status, 0, "{}", said.stderr);
    assert!(fs::symlink_metadata(scene.path("link.json")).expect("it is there").is_symlink());
    assert!(fs::read_to_string(scene.path("there.json")).expect("text").starts_with('{'));
}

#[test]
fn a_device_without_an_end_is_no_snapshot() {
    let scene = Scene::new();
    let said = scene.check(&["--from", "/dev/zero"]).run();
    assert_eq!(said.status, 2);
    assert!(said.stderr.contains("/dev/zero"), "{}", said.stderr);
}
