//! What is read goes away in mid-read: never an error, never a panic.

use std::{
    net::{Ipv6Addr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use crate::{
    program::Program,
    scene::{Family, Scene},
    socket::Connection,
};

/// `check` runs so often while something else begins and ends.
const TIMES: u32 = 20;

/// Runs `check` again and again while `meanwhile` is called again and again.
fn check_while(check: &Program, meanwhile: impl Fn() + Sync) {
    /// Also where a check panics: the other thread must end.
    struct Done<'a>(&'a AtomicBool);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _done = Done(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                meanwhile();
            }
        });
        for _ in 0..TIMES {
            let said = check.run();
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
    check_while(&scene.check_client(&["--json", "--limit", "900s"]), || {
        // It holds the socket for as long as it lives.
        let held = client.try_clone().expect("duplicate the socket");
        let mut command = Command::new("true");
        command.stdin(OwnedFd::from(held)).stdout(Stdio::null());
        let status = command.status().expect("start true");
        assert!(status.success());
    });
    drop(server);
}

#[test]
fn a_connection_may_end_in_mid_read() {
    let scene = Scene::new();
    check_while(&scene.check_client(&["--json", "--limit", "900s"]), || {
        let mut connection = scene.connect(Family::V6);
        connection.exchange(1);
    });
}

#[test]
fn a_namespace_may_go_in_mid_read() {
    let scene = Scene::new();
    let _connection = scene.connect(Family::V4);
    check_while(&scene.check_all(&["--json", "--limit", "900s"]), || {
        let other = scene.bystander();
        other.enter(|| {
            let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).expect("listen");
            let to = listener.local_addr().expect("a listener has an address");
            Connection::new(TcpStream::connect(to), &listener).exchange(1);
        });
    });
}
