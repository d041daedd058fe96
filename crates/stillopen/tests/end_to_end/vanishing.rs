//! What is read goes away in mid-read: never an error, never a panic.

use std::{
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use crate::{
    scene::{Family, Scene},
    socket::Connection,
};

/// Runs `check` so often while `meanwhile` is called again and again.
const TIMES: u32 = 20;

fn check_while(scene: &Scene, meanwhile: impl Fn() + Sync) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                meanwhile();
            }
        });
        let check = || scene.check(&["--all-netns", "--json", "--limit", "900s"]).run();
        let said: Vec<_> = (0..TIMES).map(|_| check()).collect();
        // Before anything fails: the other thread must end.
        done.store(true, Ordering::Relaxed);
        for said in said {
            assert!([0, 1].contains(&said.status), "{said:#?}");
            assert_eq!(said.stderr, "");
            said.report();
        }
    });
}

#[test]
fn a_process_may_end_in_mid_read() {
    let scene = Scene::new();
    let Connection { client, server } = scene.connect(Family::V4);
    check_while(&scene, || {
        // It holds the socket for as long as it lives.
        let held = client.try_clone().expect("duplicate the socket");
        let mut command = Command::new("true");
        command.stdin(std::os::fd::OwnedFd::from(held)).stdout(Stdio::null());
        let status = command.status().expect("start true");
        assert!(status.success());
    });
    drop(server);
}

#[test]
fn a_connection_may_end_in_mid_read() {
    let scene = Scene::new();
    check_while(&scene, || {
        let mut connection = scene.connect(Family::V6);
        connection.exchange(1);
    });
}

#[test]
fn a_namespace_may_go_in_mid_read() {
    let scene = Scene::new();
    check_while(&scene, || {
        let other = Scene::new();
        other.connect(Family::V4).exchange(1);
    });
}
