//! Wrong input is an error that names it; a reader that goes away is none.

use std::{
    fs::File,
    io::{self, Read as _},
    process::Stdio,
};

use crate::{
    program::Program,
    scene::{Family, Scene},
};

#[test]
fn what_does_not_exist_is_named() {
    let scene = Scene::new();
    for (args, named) in [
        (["--limit", "aws-nat-gatewya"], "aws-nat-gatewya"),
        (["--limit", "5 bananas"], "5 bananas"),
        (["--limit", "0s"], "0s"),
        (["--all", "--limit=-5s"], "-5s"),
        (["--limit", "900s@10.0.0.0/33"], "10.0.0.0/33"),
        (["--limit", "900s@"], "900s@"),
        (["--limit", ""], "--limit"),
        (["--peer", "10.0.0.0/33"], "10.0.0.0/33"),
        (["--peer", "example.com"], "example.com"),
        (["--port", "65536"], "65536"),
        (["--horizon", "soon"], "soon"),
        (["--all", "--sample=-1s"], "-1s"),
        (["--netns", "stillopen-test-no-such"], "stillopen-test-no-such"),
        (["--netns", "4294967295"], "4294967295"),
        (["--netns", "/proc/self/status"], "/proc/self/status"),
        (["--pid", "4294967295"], "4294967295"),
        (["--pid", "me"], "me"),
        (["--fail-on", "rain"], "rain"),
        (["--frobnicate", "1"], "--frobnicate"),
    ] {
        let said = scene.check(&args).run();
        assert_eq!((said.status, said.stdout.as_str()), (2, ""), "{args:?}");
        assert!(said.stderr.contains(named), "{args:?}: {}", said.stderr);
        assert!(!said.stderr.contains("panicked"), "{args:?}: {}", said.stderr);
    }
}

#[test]
fn a_near_id_of_the_catalogue_is_offered() {
    let scene = Scene::new();
    let said = scene.check(&["--limit", "aws-nat-gatewya"]).run();
    assert!(said.stderr.contains("aws-nat-gateway"), "{}", said.stderr);
}

/// Every command whose output somebody may page through.
fn long_outputs(scene: &Scene) -> Vec<Program> {
    let limit = ["--limit", "900s"];
    vec![
        scene.check_client(&limit).args(&["--all", "--json"]),
        scene.check_client(&limit).args(&["--all"]),
        scene.program(&["limits", "--catalogue"]),
        scene.program(&["limits", "--catalogue", "--json"]),
        scene.program(&["limits"]),
        scene.program(&["findings"]),
        scene.program(&["findings", "--json"]),
        scene.program(&["--help"]),
    ]
}

#[test]
fn a_closed_pipe_is_no_error() {
    let scene = Scene::new();
    let mut connections = [(); 3].map(|()| scene.connect(Family::V4));
    connections.iter_mut().for_each(super::socket::Connection::ask);
    for program in long_outputs(&scene) {
        let (reader, writer) = io::pipe().expect("make a pipe");
        // Already closed: the first write meets it, whatever fits into a pipe.
        drop(reader);
        let mut command = program.command();
        command.stdout(writer);
        let output = command.output().expect("start stillopen");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*stderr), (Some(0), ""), "{command:?}");
    }
}

#[test]
fn a_reader_that_takes_one_byte_and_goes_is_no_error() {
    let scene = Scene::new();
    // More rows than a pipe holds bytes: 64 KiB.
    let connections: Vec<_> = (0..200).map(|_| scene.connect(Family::V4)).collect();
    let mut command = scene.check_client(&["--limit", "900s", "--all", "--json"]).command();
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start stillopen");
    let mut stdout = child.stdout.take().expect("it is piped");
    stdout.read_exact(&mut [0]).expect("it writes");
    drop(stdout);
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*stderr), (Some(0), ""));
    drop(connections);
}

#[test]
fn a_full_disk_is_an_error() {
    let scene = Scene::new();
    for program in long_outputs(&scene) {
        let full = File::create("/dev/full").expect("open /dev/full");
        let mut command = program.command();
        command.stdout(full);
        let output = command.output().expect("start stillopen");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {stderr}");
        let said = "can't write the report to standard output: No space left";
        assert!(stderr.contains(said), "{command:?}: {stderr}");
    }
}

#[test]
fn an_error_that_nobody_reads_keeps_its_status() {
    let scene = Scene::new();
    for args in [["--netns", "stillopen-test-no-such"], ["--limit", "5 bananas"]] {
        let (reader, writer) = io::pipe().expect("make a pipe");
        drop(reader);
        let mut command = scene.check(&args).command();
        let status = command.stderr(writer).status().expect("start stillopen");
        assert_eq!(status.code(), Some(2), "{args:?}");
    }
}
