//! `lab run --driver netns` as an ordinary user: a scenario on this host's own TCP, and what is refused.

use std::{
    fs,
    process::{Child, Output, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    programs::{processes_with, until_none_with},
    user::{User, now},
};

fn run(user: &User, args: &[&str]) -> Child {
    let stillopen = user.stillopen();
    let words = [&[stillopen.as_str(), "lab", "run", "--driver", "netns"], args].concat();
    let mut command = user.command(&words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start stillopen")
}

fn ended(child: Child) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// One that lasts two seconds.
const SHORT: &str = "name = \"A pooled connection is used again.\"\nwatch = \"130s\"\n\
                     [path]\nprofile = \"nat-reset\"\nidle_timeout = \"40s\"\n[netns]\nfaster = 60\n\
                     [[timeline]]\nat = \"0s\"\nwho = \"client\"\ndoes = \"connect\"\n\
                     [[timeline]]\nat = \"1s\"\nwho = \"client\"\ndoes = { send = { bytes = 10 } }\n\
                     [[timeline]]\nat = \"90s\"\nwho = \"client\"\ndoes = { send = { bytes = 10 } }\n\
                     [[expect]]\nwho = \"client\"\nsees = \"ECONNRESET\"\nat = \"90s\"\nwithin = \"1s\"\n";

#[test]
fn a_scenario_in_real_time_prints_what_the_model_prints() {
    let user = User::new();
    let runs =
        [&["half-close"][..], &["half-close", "--ipv6", "--json"]].map(|args| run(&user, args));
    let [text, json] = runs.map(ended);
    assert_eq!((text.0, text.2.as_str()), (Some(0), ""), "{}", text.1);
    for said in [
        "As expected: 1 of 3 sends arrived, 0 ends told at the cut, 1 later.",
        "LOST     after 1m",
        "server 0 sees EPIPE",
        "10 times faster, multiplied back; what is seen may be 5s late",
    ] {
        assert!(text.1.contains(said), "{said}: {}", text.1);
    }
    let last = text.1.lines().last().unwrap();
    assert!(last.ends_with("stillopen lab run half-close --driver netns --json"), "{last}");
    for line in text.1.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }

    assert_eq!((json.0, json.2.as_str()), (Some(0), ""));
    let json: Value = serde_json::from_str(&json.1).unwrap();
    assert_eq!((&json["driver"], &json["kernel"]), (&"netns".into(), &Value::Null));
    assert_eq!(json["real_time"], serde_json::json!({ "faster": 10, "tolerance_s": 5.0 }));
    assert_eq!((&json["answered"], &json["told_later"]), (&1.into(), &1.into()));
    assert_eq!(json["virtual_s"], 100.0);
    let wall = json["wall_s"].as_f64().unwrap();
    assert!((10.0..30.0).contains(&wall), "{wall}");
}

#[test]
fn an_expectation_that_fails_in_real_time_is_status_1() {
    let user = User::new();
    let right = user.file("right.toml", SHORT);
    let wrong = user.file("wrong.toml", &SHORT.replace("ECONNRESET", "eof"));
    let [right, wrong] = [right, wrong].map(|file| run(&user, &[&file])).map(ended);
    assert_eq!((right.0, right.2.as_str()), (Some(0), ""), "{}", right.1);
    assert_eq!((wrong.0, wrong.2.as_str()), (Some(1), ""), "{}", wrong.1);
    assert!(wrong.1.contains("must see eof from 90s to 121s, saw ECONNRESET"), "{}", wrong.1);
}

#[test]
fn what_is_not_for_real_time_is_status_2_with_the_reason() {
    let user = User::new();
    let unmarked = user.file("unmarked.toml", &SHORT.replace("[netns]\nfaster = 60\n", ""));
    let zero = user.file("zero.toml", &SHORT.replace("faster = 60", "faster = 0"));
    let slow = user.file("slow.toml", &SHORT.replace("faster = 60", "faster = 1"));
    for (args, named) in [
        (
            &["keepalive-too-late"][..],
            &["no [netns] table", "7200/75/9", "75 times", "--driver vm"][..],
        ),
        (&["keepalive-on-one-side"], &["no [netns] table", "60/30/3", "whole seconds", "3m00s"]),
        (&[], &["no [netns] table", "programs", "--driver vm"]),
        (&[&unmarked], &["no [netns] table", "`faster = 3`"]),
        (&[&zero], &["netns.faster is not 1 to 1000"]),
        (&[&slow], &["still lasts 2m10s", "the most is 1m", "larger `faster`"]),
        (&["half-close", "--keepalive", "65/30/3"], &["65/30/3 can't be 10 times faster"]),
        (&["half-close", "--kernel", "/"], &["--driver vm"]),
        (&["half-close", "--on-node", "14m check"], &["--driver vm"]),
        (&["half-close", "--profile", "router"], &["router"]),
    ] {
        let (status, stdout, stderr) = ended(run(&user, args));
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{args:?}: {stderr}");
        for word in named {
            assert!(stderr.contains(word), "{args:?} {word}: {stderr}");
        }
    }
}

#[test]
fn where_namespaces_are_forbidden_a_scenario_says_so() {
    let user = User::new();
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec ./stillopen lab run half-close --driver netns";
    let words = ["unshare", "--user", "--map-root-user", "sh", "-c", script];
    let output = user.command(&words).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("user.max_user_namespaces is 0"), "{stderr}");
}

/// Waits until its steps have begun: from then on it has an epoll.
#[track_caller]
fn until_begun(child: &Child) {
    let folder = format!("/proc/{}/fd", child.id());
    let has_epoll = || {
        // It may be root's for a moment, before another user's.
        let open = fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut targets = open.filter_map(|fd| fs::read_link(fd.path()).ok());
        targets.any(|target| target.as_os_str() == "anon_inode:[eventpoll]")
    };
    let deadline = now() + Duration::from_secs(10);
    while !has_epoll() {
        assert!(now() < deadline, "it does not begin");
        std::thread::yield_now();
    }
}

#[test]
fn a_step_that_is_late_is_no_result() {
    let user = User::new();
    let longer = |watch: &str| SHORT.replace("130s", watch).replace("\"90s\"", "\"300s\"");
    let (stopped, clock) = (user.file("stopped.toml", &longer("340s")), longer("400s"));
    let clock = user.file("clock.toml", &clock);
    let child = run(&user, &[&stopped]);
    until_begun(&child);
    kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
    // More than six seconds pass; the other's last step was to be after five.
    assert_eq!(ended(run(&user, &[&clock])).0, Some(0));
    kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
    let (status, stdout, stderr) = ended(child);
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("this host is too busy: step "), "{stderr}");
}

#[test]
fn nothing_is_left_of_a_scenario_that_is_killed() {
    let user = User::new();
    let file = user.file("killed.toml", SHORT);
    let mut child = run(&user, &[&file]);
    until_begun(&child);
    assert!(processes_with(&file) > 1, "it and process 1 of its namespaces");
    child.kill().unwrap();
    child.wait().unwrap();
    until_none_with(&file);
}
