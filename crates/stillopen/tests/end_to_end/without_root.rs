//! As another user, without root: the same verdicts for that user's own sockets, and what is missing said.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, process::Command};

use crate::{
    holder::{AS_NOBODY, Holder},
    program::{Program, STILLOPEN},
    report::{Keepalive, Owner},
    scene::{FAMILIES, Family, Scene},
    socket::{Connection, Values, keep_alive, set_values},
};

/// `stillopen check --limit 900s` by that user, in the client's namespace.
fn check(scene: &Scene, args: &[&str]) -> Program {
    let enter = ["ip", "netns", "exec", &scene.client.name];
    scene
        .check(&["--limit", "900s"])
        .args(args)
        .at(&copy(scene))
        .started_by(&[&enter[..], &AS_NOBODY].concat())
}

/// A copy of the program that every user may run, in a folder that every user may enter.
///
/// Another process writes it: a process that a test beside this one starts would inherit our descriptor for
/// a moment, and a file that is open for writing can't be run.
pub(crate) fn copy(scene: &Scene) -> PathBuf {
    let path = scene.path("stillopen");
    let mut install = Command::new("install");
    let status = install.args(["-m", "755", STILLOPEN]).arg(&path).status();
    assert!(status.expect("start install").success(), "copy the program");
    let folder = scene.folder.path();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("let everybody in");
    path
}

/// A connection whose client's end a process of that user holds.
struct Owned {
    local: String,
    peer: String,
    holder: Holder,
    _server: std::net::TcpStream,
}

impl Owned {
    fn new(scene: &Scene, family: Family, prepare: impl Fn(&std::net::TcpStream)) -> Self {
        let mut connection = scene.connect(family);
        prepare(&connection.client);
        connection.ask();
        let (local, peer) = (connection.local(), connection.peer());
        let Connection { client, server } = connection;
        Self { local, peer, holder: Holder::of_nobody(client), _server: server }
    }

    fn owner(&self) -> Owner {
        Owner { pid: self.holder.pid(), command: "cat".to_owned() }
    }
}

/// Whether a process may read the socket options of another of its user (Yama's `ptrace_scope`, 1 on some
/// distributions): where not, the values of keepalive are among what is missing.
fn options_are_readable() -> bool {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    scope.is_err() || scope.is_ok_and(|scope| scope.trim_end() == "0")
}

#[test]
fn own_sockets_have_the_same_verdicts() {
    let scene = Scene::new();
    let off = FAMILIES.map(|family| Owned::new(&scene, family, |_| ()));
    let on =
        FAMILIES.map(|f| Owned::new(&scene, f, |client| keep_alive(client, Values(60, 30, 3))));
    let armed =
        FAMILIES.map(|f| Owned::new(&scene, f, |client| set_values(client, Values(30, 75, 9))));
    let report = check(&scene, &[]).report(1);
    let row = |owned: &Owned| {
        let row = report.row_between(&owned.local, &owned.peer);
        assert_eq!(row.owner, Some(owned.owner()));
        row
    };
    for owned in &off {
        row(owned).is("at_risk", "user-900s", &["keepalive_off"]);
    }
    if options_are_readable() {
        for owned in &on {
            row(owned).is("safe", "user-900s", &[]);
            assert_eq!(row(owned).keepalive, Keepalive::known("on", Values(60, 30, 3)));
        }
        for owned in &armed {
            row(owned).is("at_risk", "user-900s", &["armed_but_off"]);
        }
        // That no other namespace was looked at is all that is missing.
        report.gap("namespace");
        assert_eq!(report.gaps.len(), 1, "{:?}", report.gaps);
    } else {
        for owned in &on {
            assert_eq!(row(owned).missing.as_deref(), Some("keepalive_values"));
        }
        report.gap("keepalive");
    }
}

#[test]
fn what_others_own_is_said_to_be_missing() {
    let scene = Scene::new();
    let mut others = FAMILIES.map(|family| scene.connect(family));
    for other in &mut others {
        keep_alive(&other.client, Values(60, 30, 3));
        other.ask();
    }
    let report = check(&scene, &[]).report(0);
    for other in &others {
        let row = report.row(other);
        assert_eq!((row.verdict.as_str(), &row.owner), ("unknown", &None), "{row:#?}");
        assert_eq!(row.missing.as_deref(), Some("keepalive_values"), "{row:#?}");
        assert_eq!(row.keepalive.state, "on", "{row:#?}");
    }
    let gap = report.gap("owners");
    assert!(gap.reason.contains('2'), "{gap:?}");
    assert!(gap.how.contains("root"), "{gap:?}");
    let said = check(&scene, &[]).run();
    assert!(said.stdout.contains("Not seen: owners of 2 sockets"), "{}", said.stdout);
    assert_eq!(check(&scene, &["--fail-on", "unknown"]).run().status, 1);
}

#[test]
fn what_needs_root_is_an_error_that_says_so() {
    let scene = Scene::new();
    let root = std::process::id().to_string();
    for args in [["--pid", &root], ["--netns", &root]] {
        let said = check(&scene, &args).run();
        assert_eq!((said.status, said.stdout.as_str()), (2, ""), "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(&root) && said.stderr.contains("root"), "{}", said.stderr);
    }
}
