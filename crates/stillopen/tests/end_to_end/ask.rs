//! `stillopen ask`: each kind of answer, and the options of the socket afterwards.

use std::{
    io::{self, Read as _},
    process::{Child, Stdio},
    time::Duration,
};

use rustix::net::sockopt;
use serde_json::Value;

use crate::{
    deadline::wait_until,
    program::Program,
    scene::{FAMILIES, Family, Scene, ip},
    socket::{Connection, Options, Values, keep_alive, options, set_values},
};

const PATIENCE: Duration = Duration::from_secs(20);
/// `MAX_TCP_KEEPINTVL`: what a socket has while it is asked.
const ASKED: Duration = Duration::from_secs(32_767);

fn ask(scene: &Scene) -> Program {
    let peers = ["--peer", "0.0.0.0/0", "--peer", "::/0"];
    scene.program(&["ask", "--netns", &scene.client.name]).args(&peers)
}

/// The answer of the only connection, how many probes it took, and the exit status.
fn answer(scene: &Scene) -> (String, Option<u64>, i32) {
    let said = ask(scene).args(&["--apply", "--json"]).run();
    let report: Value = serde_json::from_str(&said.stdout).expect("it writes JSON");
    let [row] = report["connections"].as_array().expect("a list").as_slice() else {
        panic!("one connection: {report:#}")
    };
    let answer = row["answer"].as_str().expect("it was asked").to_owned();
    (answer, row["probes"].as_u64(), said.status)
}

/// One that is under way; whether it had not ended yet when the socket was seen being asked.
fn asking(scene: &Scene, connection: &Connection) -> (Child, bool) {
    let mut command = ask(scene).args(&["--apply"]).command();
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut asking = command.spawn().expect("start stillopen");
    let interval = || sockopt::tcp_keepintvl(&connection.client).expect("read it");
    let in_the_middle = wait_until("it asks, or has ended", PATIENCE, || {
        let ended = asking.try_wait().expect("look for its end").is_some();
        (ended || interval() == ASKED).then_some(!ended)
    });
    (asking, in_the_middle)
}

#[test]
fn without_apply_nothing_is_sent_and_the_warning_comes_first() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    let before = options(&connection.client);
    let said = ask(&scene).run();
    assert_eq!(said.status, 0, "{said:#?}");
    assert!(said.stderr.starts_with("Warning: "), "{said:#?}");
    assert!(said.stderr.lines().all(|line| line.chars().count() <= 100), "{said:#?}");
    assert!(said.stdout.contains("1 connection would be asked. Nothing was sent."), "{said:#?}");
    assert_eq!(options(&connection.client), before);
}

#[test]
fn a_live_peer_answers_one_probe_and_the_options_are_as_they_were() {
    for family in FAMILIES {
        let scene = Scene::new();
        let mut connection = scene.connect(family);
        sockopt::set_tcp_user_timeout(&connection.client, 700).expect("set it");
        set_values(&connection.client, Values(1234, 77, 5));
        connection.ask();
        let before = options(&connection.client);
        wait_until("a probe was needed", PATIENCE, || {
            let (answer, probes, status) = answer(&scene);
            assert_eq!((answer.as_str(), status), ("answers", 0));
            probes.filter(|&probes| probes == 1)
        });
        assert_eq!(options(&connection.client), before);
        connection.answer();
    }
}

#[test]
fn it_says_that_its_probes_stay_counted() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    wait_until("a probe was needed", PATIENCE, || {
        let said = ask(&scene).args(&["--apply"]).run();
        said.stdout.contains("stay counted").then_some(())
    });
}

/// Its options are put back, and what got no answer stays counted.
#[test]
fn what_gave_no_answer_is_found_by_close_dead() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    scene.client.lose_way_to(&scene.server);
    let said = wait_until("it has been quiet for a second", PATIENCE, || {
        let said = ask(&scene).args(&["--apply"]).run();
        said.stdout.contains("NO ANSWER to 3 probes").then_some(said)
    });
    assert!(said.stdout.contains("End what does not answer:"), "{said:#?}");
    assert!(said.stdout.starts_with("0 of 1 connection answers."), "{said:#?}");
    let checked = scene.check_client(&["--limit", "350s"]).run();
    assert!(checked.stdout.contains("no answer, cut in "), "{checked:#?}");
    let said = scene.program(&["rescue", "--netns", &scene.client.name, "--close-dead"]).run();
    assert!(said.stdout.contains("1 connection would be asked a last time"), "{said:#?}");
}

#[test]
fn no_answer_leaves_the_connection_open_and_its_options_as_they_were() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    keep_alive(&connection.client, Values(5000, 75, 3));
    connection.ask();
    let before = options(&connection.client);
    scene.client.lose_way_to(&scene.server);
    wait_until("it has been quiet for a second", PATIENCE, || {
        (answer(&scene) == ("no_answer".into(), Some(2), 1)).then_some(())
    });
    assert_eq!(options(&connection.client), before);
    assert_eq!(sockopt::socket_error(&connection.client), Ok(Ok(())));
}

#[test]
fn a_peer_that_is_gone_resets_it() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    let Connection { mut client, server } = connection;
    scene.server.lose_end(&server);
    drop(server);
    scene.server.come_up(&scene.client);
    wait_until("it has been quiet for a second", PATIENCE, || {
        let (answer, _, status) = answer(&scene);
        (answer == "reset").then(|| assert_eq!(status, 1))
    });
    let error = client.read(&mut [0; 1]).expect_err("it was reset");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn data_in_flight_is_left_alone() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    scene.client.lose_way_to(&scene.server);
    io::Write::write_all(&mut connection.client, b"more").expect("it is queued");
    let before = options(&connection.client);
    wait_until("nothing was heard for a second", PATIENCE, || {
        (answer(&scene) == ("in_flight".into(), None, 0)).then_some(())
    });
    assert_eq!(options(&connection.client), before);
}

#[test]
fn killed_in_the_middle_it_leaves_the_options_as_they_were() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    set_values(&connection.client, Values(1234, 77, 5));
    connection.ask();
    let before = options(&connection.client);
    scene.client.lose_way_to(&scene.server);
    wait_until("it was killed while it asked", PATIENCE, || {
        let (mut asking, in_the_middle) = asking(&scene, &connection);
        let _ = asking.kill();
        asking.wait().expect("it has ended");
        in_the_middle.then_some(())
    });
    wait_until("the options are as they were", PATIENCE, || {
        (options(&connection.client) == before).then_some(())
    });
}

/// The kernel counts on from where a question stopped: with three lost ones and a count of three, the next look of the
/// socket's own keepalive would end it, however well the path is by then.
#[test]
fn its_own_keepalive_does_not_end_it_for_what_asking_lost() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    keep_alive(&connection.client, Values(2, 1, 3));
    connection.ask();
    ip(&format!("-n {} link set eth0 down\n", scene.server.name));
    wait_until("it was asked while the path was down", PATIENCE, || {
        ["no_answer", "own_keepalive"].contains(&answer(&scene).0.as_str()).then_some(())
    });
    scene.server.come_up(&scene.client);
    wait_until("it answers", PATIENCE, || (answer(&scene).0 == "answers").then_some(()));
    connection.answer();
}

#[test]
fn with_a_user_timeout_and_keepalive_it_is_left_to_that() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    keep_alive(&connection.client, Values(5000, 75, 9));
    sockopt::set_tcp_user_timeout(&connection.client, 500).expect("set it");
    connection.ask();
    let before = options(&connection.client);
    wait_until("nothing was heard for a second", PATIENCE, || {
        (answer(&scene) == ("own_keepalive".into(), None, 0)).then_some(())
    });
    assert_eq!(options(&connection.client), before);
}

#[test]
fn two_that_ask_at_once_leave_the_options_as_they_were() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    set_values(&connection.client, Values(1234, 77, 5));
    connection.ask();
    let before = options(&connection.client);
    scene.client.lose_way_to(&scene.server);
    wait_until("one is refused while the other asks", PATIENCE, || {
        let (mut asking, in_the_middle) = asking(&scene, &connection);
        let second = answer(&scene).0;
        asking.wait().expect("it has ended");
        (in_the_middle && second == "refused").then_some(())
    });
    assert_eq!(options(&connection.client), before);
}

#[test]
fn what_the_program_sets_meanwhile_stays() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    scene.client.lose_way_to(&scene.server);
    wait_until("it was set while it was asked", PATIENCE, || {
        let (mut asking, in_the_middle) = asking(&scene, &connection);
        keep_alive(&connection.client, Values(20, 5, 4));
        asking.wait().expect("it has ended");
        in_the_middle.then_some(())
    });
    assert_eq!(options(&connection.client), Options::new(true, Values(20, 5, 4), 0));
}

/// As a terminal's Ctrl-C does.
#[test]
fn a_signal_to_its_process_group_leaves_the_options_as_they_were() {
    use std::os::unix::process::CommandExt as _;
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    let before = options(&connection.client);
    scene.client.lose_way_to(&scene.server);
    wait_until("it was interrupted while it asked", PATIENCE, || {
        let mut command = ask(&scene).args(&["--apply"]).command();
        command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut asking = command.spawn().expect("start stillopen");
        let user_timeout = || options(&connection.client) != before;
        let in_the_middle = wait_until("it asks, or has ended", PATIENCE, || {
            let ended = asking.try_wait().expect("look for its end").is_some();
            (ended || user_timeout()).then_some(!ended)
        });
        let group = rustix::process::Pid::from_child(&asking);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::INT);
        asking.wait().expect("it has ended");
        in_the_middle.then_some(())
    });
    wait_until("the options are as they were", PATIENCE, || {
        (options(&connection.client) == before).then_some(())
    });
}

/// A new socket's values are the sysctl's, which may be larger than what an option takes.
#[test]
fn a_sysctl_beyond_what_an_option_takes_is_put_back_as_the_longest() {
    let scene = Scene::new();
    scene.client.enter(|| {
        std::fs::write("/proc/sys/net/ipv4/tcp_keepalive_time", "86400").expect("set the sysctl");
    });
    let mut connection = scene.connect(Family::V4);
    sockopt::set_socket_keepalive(&connection.client, true).expect("turn it on");
    connection.ask();
    wait_until("a probe was needed", PATIENCE, || {
        let (answer, probes, status) = answer(&scene);
        assert_eq!((answer.as_str(), status), ("answers", 0));
        probes.filter(|&probes| probes == 1)
    });
    assert_eq!(options(&connection.client), Options::new(true, Values(32_767, 75, 9), 0));
}
