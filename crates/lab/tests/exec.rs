//! `lab exec` as a library, in a test of a Rust program: the example of docs/lab-exec.md.
#![cfg(all(target_os = "linux", not(stillopen_portable)))]

use std::time::Duration;

use stillopen_lab::{
    exec::{Request, Server, Status},
    netns::{self, NetnsError, Options},
};

/// A client that waits 5 s for its answer. Yours would be `env!("CARGO_BIN_EXE_my-client")`.
fn client(keepalive: &str) -> [String; 3] {
    let curl = format!("curl -s -m 5 {keepalive} http://$STILLOPEN_SERVER/");
    ["sh".into(), "-c".into(), curl]
}

fn request(keepalive: &str) -> Request {
    Request {
        idle_timeout: Some(Duration::from_secs(1)),
        server: Server::AnswerAfter(Duration::from_secs(4)),
        profile: "firewall-drop".into(),
        ..Request::new(client(keepalive))
    }
}

#[test]
fn an_answer_that_takes_long_is_lost_without_keepalive() {
    let summary = netns::run(&request("--no-keepalive"), &Options::default()).unwrap();
    assert_eq!(summary.counts.answers_lost, 1, "{}", summary.text());
    // curl's own timeout.
    assert_eq!(summary.status, Status::Exit(28));
}

#[test]
fn and_arrives_where_the_path_forgets_later_than_probes_come() {
    let mut request = request("--keepalive-time 1");
    request.idle_timeout = Some(Duration::from_secs(3));
    let summary = netns::run(&request, &Options::default()).unwrap();
    assert_eq!((summary.status, summary.counts.forgotten.len()), (Status::Exit(0), 0));
}

#[test]
fn what_cannot_be_run_is_an_error() {
    let unknown = Request { profile: "router".into(), ..Request::new(["true"]) };
    let error = netns::run(&unknown, &Options::default()).unwrap_err();
    assert!(matches!(error, NetnsError::Profile { .. }), "{error}");
    let missing = netns::run(&Request::new(["/nonexistent"]), &Options::default()).unwrap_err();
    assert_eq!(missing.status(), 127, "{missing}");
}
