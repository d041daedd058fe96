//! Where it can't be had: nothing is started, unless that is asked for, and the reason is named.

use crate::program::{AS_NOBODY, PYTHON, Ran, command, file};

const ARMED: &str =
    "import socket; s = socket.socket(); print(s.getsockopt(1, 9), s.getsockopt(6, 4))";

fn under(container: &str, options: &[&str]) -> Ran {
    let program = file("container");
    let before = [&AS_NOBODY[..], &[&program, container]].concat();
    Ran::of(&mut command(&before, options, &[PYTHON, "-c", ARMED]))
}

#[test]
fn dockers_default_profile_allows_it() {
    assert_eq!(under("default", &[]).printed(), "1 60");
}

#[test]
fn a_profile_without_seccomp_and_an_old_kernel_are_named() {
    for (container, reason) in [
        (
            "no-seccomp",
            "a seccomp profile or a security module forbids it: seccomp: Operation not permitted",
        ),
        ("old-kernel", "that takes Linux 5.19 or later"),
    ] {
        let refused = under(container, &[]);
        assert_eq!((refused.status, refused.stdout.as_str()), (Some(125), ""), "{refused:?}");
        assert!(refused.stderr.starts_with("stillopen: not started"), "{refused:?}");
        assert!(refused.stderr.contains(reason), "{refused:?}");
        assert!(refused.stderr.contains("--best-effort"), "{refused:?}");

        let started = under(container, &["--best-effort"]);
        assert_eq!((started.status, &started.stdout[..2]), (Some(0), "0 "), "{started:?}");
        assert!(started.stderr.starts_with("stillopen: started without keepalive"), "{started:?}");
        assert!(started.stderr.contains(reason), "{started:?}");
    }
}

#[test]
fn inside_another_run_it_says_so() {
    let stillopen = file("stillopen");
    let inner = |options: &[&'static str]| {
        let inner = [&[&stillopen, "run"], options, &["--", PYTHON, "-c", ARMED]].concat();
        Ran::of(&mut command(&AS_NOBODY, &["--keepalive", "61/31/4"], &inner))
    };
    let refused = inner(&[]);
    assert_eq!(refused.status, Some(125));
    assert!(refused.stderr.contains("a `stillopen run` around this one"), "{refused:?}");
    // The outer one's values.
    assert_eq!(inner(&["--best-effort"]).stdout, "1 61\n");
}

#[test]
fn values_that_come_too_late_are_refused() {
    let options = ["--limit", "aws-nat-gateway", "--keepalive", "400/30/3"];
    let refused = Ran::of(&mut command(&AS_NOBODY, &options, &["true"]));
    assert_eq!(refused.status, Some(125));
    assert!(refused.stderr.contains("too late under 350s (aws-nat-gateway)"), "{refused:?}");
    assert!(refused.stderr.contains("--keepalive 60/30/3"), "{refused:?}");
}

#[test]
fn bad_input_is_no_status_that_a_program_usually_has() {
    for options in [&["--keepalive", "1"][..], &["--no-such-option"], &["--limit", "never"]] {
        let refused = Ran::of(&mut command(&AS_NOBODY, options, &["true"]));
        assert_eq!(refused.status, Some(125), "{refused:?}");
        assert!(!refused.stderr.is_empty());
    }
    let stillopen = file("stillopen");
    let nothing = std::process::Command::new(stillopen).args(["run", "--"]).output().unwrap();
    assert_eq!(nothing.status.code(), Some(125));
}

/// Its first child would be process 1 of the new namespace, and end it: nothing is started there before that is
/// known.
#[test]
fn a_new_pid_namespace_without_a_process_is_named_and_stays_usable() {
    let in_new = |options: &[&str]| {
        let child = ["sh", "-c", "(exit 3); echo $?"];
        Ran::of(&mut command(&["unshare", "--pid"], options, &child))
    };
    let refused = in_new(&[]);
    assert_eq!((refused.status, refused.stdout.as_str()), (Some(125), ""), "{refused:?}");
    assert!(refused.stderr.contains("`unshare --pid` takes `--fork`"), "{refused:?}");
    assert_eq!(in_new(&["--best-effort"]).stdout, "3\n");
}
