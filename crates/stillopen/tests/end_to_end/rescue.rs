//! `stillopen rescue`: what it changes is read back on the sockets themselves.

use std::{fs, io::Read as _, os::fd::OwnedFd, thread, time::Duration};

use rustix::net::sockopt;
use serde_json::Value;

use crate::{
    deadline::wait_until,
    holder::{AS_NOBODY, Holder},
    program::{Program, Said},
    scene::{FAMILIES, Family, Scene},
    socket::{Connection, Options, Values, keep_alive, options, set_values},
    without_root::copy,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// Those of a new socket, but for keepalive.
fn armed(values: Values) -> Options {
    Options::new(true, values, 0)
}

fn rescue(scene: &Scene, args: &[&str]) -> Program {
    scene.program(&["rescue", "--netns", &scene.client.name]).args(args)
}

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:#?}"))
}

/// Quiet for so long that a `TCP_KEEPIDLE` of a second has passed.
fn wait_until_quiet(scene: &Scene, connection: &Connection) {
    wait_until("it is quiet for more than a second", PATIENCE, || {
        let report = scene.check_client(&["--limit", "900s"]).report(1);
        report.row(connection).quiet_s.filter(|&quiet| quiet > 1.2)
    });
}

/// The element of `connections` with this connection's client.
fn row<'a>(report: &'a Value, connection: &Connection) -> &'a Value {
    let rows = report["connections"].as_array().expect("a list");
    let local = connection.local();
    let found = rows.iter().find(|row| row["local"] == local.as_str());
    found.unwrap_or_else(|| panic!("{local} is not in {report:#}"))
}

#[test]
fn without_apply_nothing_is_changed_and_the_prediction_is_said() {
    let scene = Scene::new();
    for family in FAMILIES {
        let mut connection = scene.connect(family);
        connection.ask();
        let before = options(&connection.client);
        let args = ["--at-risk", "--limit", "900s", "--json"];
        let said = rescue(&scene, &args).run();
        assert_eq!(said.status, 0, "{said:#?}");
        let report = json(&said);
        let row = row(&report, &connection);
        assert_eq!(report["applied"], false);
        assert_eq!((&row["verdict"], &row["predicted"]), (&"at_risk".into(), &"safe".into()));
        assert_eq!((&row["done"], &row["after"]), (&false.into(), &Value::Null));
        assert_eq!(row["before"]["keepalive"]["state"], "off");
        assert_eq!(options(&connection.client), before);
        let text = rescue(&scene, &args[..3]).run().stdout;
        assert!(text.contains("off -> 60/30/3"), "{text}");
        assert!(text.contains("Nothing was changed."), "{text}");
    }
}

#[test]
fn what_is_at_risk_is_armed_and_undo_restores_every_value() {
    let scene = Scene::new();
    let connections = FAMILIES.map(|family| {
        let mut connection = scene.connect(family);
        set_values(&connection.client, Values(1000, 77, 5));
        connection.ask();
        connection
    });
    let mut safe = scene.connect(Family::V4);
    keep_alive(&safe.client, Values(61, 31, 4));
    safe.ask();
    let before: Vec<Options> = connections.iter().map(|c| options(&c.client)).collect();

    let args = ["--at-risk", "--limit", "900s", "--apply", "--save-undo", "undo.json", "--json"];
    let said = rescue(&scene, &args).run();
    assert_eq!(said.status, 0, "{said:#?}");
    let report = json(&said);
    for connection in &connections {
        assert_eq!(options(&connection.client), armed(Values(60, 30, 3)));
        let row = row(&report, connection);
        assert_eq!(row["done"], true);
        assert_eq!(row["after"]["keepalive"]["state"], "on");
        assert_eq!(row["after"]["keepalive"]["idle_s"], 60.0);
        assert_eq!(row["pid"], std::process::id());
    }
    assert_eq!(row(&report, &safe)["left"], "safe");
    assert_eq!(options(&safe.client), armed(Values(61, 31, 4)));
    scene.check_client(&["--limit", "900s"]).report(0);

    let undo = ["rescue", "--undo", "undo.json"];
    assert_eq!(scene.program(&undo).run().status, 0);
    assert_eq!(options(&connections[0].client), armed(Values(60, 30, 3)), "without --apply");
    let said = scene.program(&undo).args(&["--apply"]).run();
    assert_eq!(said.status, 0, "{said:#?}");
    assert!(said.stdout.contains("Put back what 2 of 2"), "{}", said.stdout);
    for (connection, before) in connections.iter().zip(&before) {
        assert_eq!(&options(&connection.client), before);
    }
}

#[test]
fn undo_leaves_another_socket_with_the_same_number_alone() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    let args = ["--at-risk", "--limit", "900s", "--apply", "--save-undo", "undo.json"];
    assert_eq!(rescue(&scene, &args).run().status, 0);
    // The descriptor's number stays; what it refers to is another connection.
    let other = scene.connect(Family::V4);
    let mut client = OwnedFd::from(connection.client);
    keep_alive(&other.client, Values(33, 22, 11));
    rustix::io::dup2(&other.client, &mut client).expect("replace it");
    let said = scene.program(&["rescue", "--undo", "undo.json", "--apply"]).run();
    assert!(said.stdout.contains("1 gone meanwhile"), "{said:#?}");
    assert_eq!(options(&other.client), armed(Values(33, 22, 11)));
}

#[test]
fn a_quiet_connection_is_probed_at_once() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    wait_until_quiet(&scene, &connection);
    let args = ["--at-risk", "--limit", "900s", "--keepalive", "1/100/3", "--apply"];
    let warning = "A probe goes out at once on 1 connection";
    let dry = rescue(&scene, &args[..5]).run();
    assert!(dry.stdout.contains(warning) && dry.stdout.contains("draw a reset"), "{dry:#?}");
    let said = rescue(&scene, &args).run();
    assert_eq!(said.status, 0, "{said:#?}");
    let answered = "Probed at once: 1 answered, 0 not answered yet, 0 ended.";
    assert!(said.stdout.contains(answered), "{said:#?}");
    // The next probe by itself would come 100 s later.
    wait_until("a probe was answered", Duration::from_secs(5), || {
        let report = scene.check_client(&["--limit", "900s"]).look().0;
        report.row(&connection).quiet_s.filter(|&quiet| quiet < 1.0)
    });
}

/// A path or a peer that has forgotten the connection answers the first probe with a reset.
#[test]
fn what_the_first_probe_ends_is_not_called_safe() {
    for json_too in [false, true] {
        let scene = Scene::new();
        let mut connection = scene.connect(Family::V4);
        connection.ask();
        let Connection { mut client, server } = connection;
        scene.server.lose_end(&server);
        let connection = Connection { client: client.try_clone().expect("a copy"), server };
        wait_until_quiet(&scene, &connection);
        drop(connection);
        scene.server.come_up(&scene.client);
        let args = ["--at-risk", "--limit", "900s", "--keepalive", "1/100/3", "--apply"];
        let said = rescue(&scene, &args).args(if json_too { &["--json"] } else { &[] }).run();
        assert_eq!(said.status, 1, "{said:#?}");
        if json_too {
            let row = &json(&said)["connections"][0];
            assert_eq!((&row["first_probe"], &row["done"]), (&"ended".into(), &false.into()));
            assert!(row["error"].as_str().is_some_and(|it| it.contains("forgotten")), "{row}");
        } else {
            let headline = "Keepalive is on for 0 connections; 1 ended by the first probe.";
            assert!(said.stdout.contains(headline) && !said.stdout.contains("safe"), "{said:#?}");
            assert!(said.stdout.contains("ENDED: the probe drew a reset"), "{said:#?}");
        }
        let error = client.read(&mut [0; 1]).expect_err("it was reset");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
}

#[test]
fn what_the_first_probe_gets_no_answer_from_is_said() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    wait_until_quiet(&scene, &connection);
    scene.client.lose_way_to(&scene.server);
    let args = ["--at-risk", "--limit", "900s", "--keepalive", "1/100/3", "--json"];
    let dry = json(&rescue(&scene, &args).run());
    assert_eq!(row(&dry, &connection)["first_probe"], "at_once");
    let said = rescue(&scene, &args).args(&["--apply"]).run();
    assert_eq!(said.status, 0, "{said:#?}");
    let report = json(&said);
    let row = row(&report, &connection);
    assert_eq!((&row["first_probe"], &row["done"]), (&"no_answer_yet".into(), &true.into()));
}

/// The option is put back after the first answer: from then on a lost probe meets it.
#[test]
fn a_user_timeout_that_one_lost_probe_meets_is_said_before_and_after() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    sockopt::set_tcp_user_timeout(&connection.client, 5000).expect("set it");
    connection.ask();
    wait_until_quiet(&scene, &connection);
    let args = ["--at-risk", "--limit", "350s", "--keepalive", "4/10/3"];
    for more in [&[][..], &["--apply"]] {
        let said = rescue(&scene, &args).args(more).run();
        assert_eq!(said.status, 0, "{said:#?}");
        let text = said.stdout.replace("\n    ", " ");
        for part in ["One lost probe ends ", "TCP_USER_TIMEOUT is 5s", "--keepalive 2/1/3", "34s"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    assert_eq!(options(&connection.client), Options::new(true, Values(4, 10, 3), 5000));
}

/// The keepalive that is turned on would wait for 127 lost probes.
#[test]
fn a_short_user_timeout_ends_it_long_before_the_count() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    sockopt::set_tcp_user_timeout(&connection.client, 2500).expect("set it");
    connection.ask();
    let args = ["--at-risk", "--limit", "900s", "--keepalive", "1/2/127", "--apply", "--json"];
    let said = rescue(&scene, &args).run();
    assert_eq!(said.status, 0, "{said:#?}");
    assert_eq!(row(&json(&said), &connection)["one_lost_probe_kills"], true);
    scene.client.lose_way_to(&scene.server);
    connection.client.set_read_timeout(Some(PATIENCE)).expect("do not wait for 127 probes");
    let error = connection.client.read(&mut [0; 1]).expect_err("it ends");
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut, "{error}");
}

#[test]
fn a_cut_connection_is_not_armed_and_what_a_probe_would_meet_is_said() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    let before = options(&connection.client);
    wait_until_cut(&scene, &connection);
    let said = rescue(&scene, &["--limit", "1s", "--peer", "0.0.0.0/0", "--apply"]).run();
    assert_eq!(said.status, 0, "{said:#?}");
    assert!(said.stdout.contains("it is cut, and what a probe"), "{}", said.stdout);
    assert_eq!(options(&connection.client), before);
}

#[test]
fn values_that_come_too_late_are_refused() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    let before = options(&connection.client);
    let args = ["--at-risk", "--limit", "350s", "--keepalive", "600/30/3", "--apply"];
    let said = rescue(&scene, &args).run();
    assert_eq!(said.status, 1, "{said:#?}");
    assert!(said.stdout.contains("these values come too late"), "{}", said.stdout);
    assert!(said.stdout.contains("In time: --keepalive 60/30/3."), "{}", said.stdout);
    assert_eq!(options(&connection.client), before);
}

#[test]
fn a_user_timeout_is_lifted_for_the_first_probe_and_restored() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    sockopt::set_tcp_user_timeout(&connection.client, 500).expect("set it");
    connection.ask();
    wait_until_quiet(&scene, &connection);
    let args = ["--at-risk", "--limit", "900s", "--apply"];
    let said = rescue(&scene, &args).run();
    assert_eq!(said.status, 0, "{said:#?}");
    assert_eq!(options(&connection.client), Options::new(true, Values(60, 30, 3), 500));
    connection.answer();
}

#[test]
fn with_a_user_timeout_and_no_answer_it_is_left_as_it_was() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    sockopt::set_tcp_user_timeout(&connection.client, 500).expect("set it");
    connection.ask();
    let before = options(&connection.client);
    wait_until_quiet(&scene, &connection);
    scene.client.lose_way_to(&scene.server);
    let said = rescue(&scene, &["--at-risk", "--limit", "900s", "--apply"]).run();
    assert_eq!(said.status, 1, "{said:#?}");
    assert!(said.stdout.contains("three probes got no answer"), "{}", said.stdout);
    assert_eq!(options(&connection.client), before);
}

/// The filter that names the server of this family alone.
fn server_of(scene: &Scene, family: Family) -> String {
    scene.server.address(family).to_string()
}

fn wait_until_cut(scene: &Scene, connection: &Connection) {
    wait_until("it is cut", PATIENCE, || {
        let (report, _) = scene.check_client(&["--limit", "1s"]).look();
        (report.row(connection).verdict == "cut").then_some(())
    });
}

#[test]
fn close_dead_ends_the_wait_of_a_client_that_is_cut() {
    let scene = Scene::new();
    let mut connections = FAMILIES.map(|family| (family, scene.connect(family)));
    for (_, connection) in &mut connections {
        connection.ask();
    }
    scene.client.lose_way_to(&scene.server);
    for (family, connection) in &connections {
        wait_until_cut(&scene, connection);
        let server = server_of(&scene, *family);
        let args = ["--close-dead", "--limit", "1s", "--peer", &server];
        let said = rescue(&scene, &args).run();
        assert!(said.stdout.contains("1 connection would be asked a last time"), "{said:#?}");
        let error = thread::scope(|scope| {
            let waits = scope.spawn(|| (&connection.client).read(&mut [0; 1]));
            let said = rescue(&scene, &args).args(&["--apply"]).run();
            assert_eq!(said.status, 0, "{said:#?}");
            assert!(said.stdout.contains("Ended 1 of 1."), "{}", said.stdout);
            waits.join().expect("it reads").expect_err("the wait ends with an error")
        });
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionAborted, "{error}");
    }
}

#[test]
fn close_dead_lists_each_and_gives_its_reasons_once() {
    let scene = Scene::new();
    let mut connections = [Family::V4, Family::V4].map(|family| scene.connect(family));
    for connection in &mut connections {
        connection.ask();
    }
    for connection in &connections {
        wait_until_cut(&scene, connection);
    }
    let said = rescue(&scene, &["--close-dead", "--limit", "1s"]).run().stdout;
    assert!(said.starts_with("2 connections would be asked a last time"), "{said}");
    assert!(said.contains("Their programs get an error"), "{said}");
    for connection in &connections {
        assert!(said.contains(&connection.local()), "{said}");
    }
    let said = said.replace("\n    ", " ");
    assert_eq!(said.matches("Why CUT, inferred: ").count(), 1, "{said}");
    assert_eq!(said.matches("(and 1 more for the same reason)").count(), 1, "{said}");
    assert_eq!(said.matches("The last question, for 2 cut connections: ").count(), 1, "{said}");
}

#[test]
fn without_a_limit_it_says_how_to_name_one() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    for (what, says) in [("--at-risk", "called at risk"), ("--close-dead", "called cut")] {
        let said = rescue(&scene, &[what]).run();
        assert_eq!(said.status, 0, "{said:#?}");
        let named = format!(" {what} --limit 350s\n");
        assert!(said.stdout.contains(says) && said.stdout.contains(&named), "{said:#?}");
    }
    let said = rescue(&scene, &["--at-risk"]).run().stdout;
    assert!(said.contains("--pid PID (or --port PORT, --peer CIDR)"), "{said}");
}

/// The limit that was named is not on the path.
#[test]
fn close_dead_spares_what_answers() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    let before = options(&connection.client);
    wait_until_cut(&scene, &connection);
    let said = rescue(&scene, &["--close-dead", "--limit", "1s", "--apply"]).run();
    assert_eq!(said.status, 1, "{said:#?}");
    assert!(said.stdout.contains("Ended 0 of 1.") && said.stdout.contains("ANSWERS"), "{said:#?}");
    assert_eq!(options(&connection.client), before);
    connection.answer();
}

/// Two retransmissions are a path that is down for a moment.
#[test]
fn close_dead_does_not_call_data_in_flight_dead_at_once() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    scene.client.lose_way_to(&scene.server);
    std::io::Write::write_all(&mut connection.client, b"more").expect("it is queued");
    wait_until("check calls the peer dead", PATIENCE, || {
        let (report, _) = scene.check_client(&[]).look();
        report.row(&connection).findings.iter().any(|it| it == "dead_peer").then_some(())
    });
    let said = rescue(&scene, &["--close-dead", "--apply"]).run();
    assert!(said.stdout.contains("No dead connection was found"), "{said:#?}");
    assert_eq!(sockopt::socket_error(&connection.client), Ok(Ok(())));
}

#[test]
fn a_closed_pipe_does_not_keep_what_was_asked_for_from_being_done() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    let before = options(&connection.client);
    let (reader, writer) = rustix::pipe::pipe().expect("make a pipe");
    drop(reader);
    let args = ["--at-risk", "--limit", "900s", "--apply"];
    let status = rescue(&scene, &args).command().stdout(writer).status();
    assert_eq!(status.expect("start stillopen").code(), Some(0));
    assert_ne!(options(&connection.client), before);
}

#[test]
fn an_undo_file_is_not_replaced() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    let args = ["--at-risk", "--limit", "900s", "--apply", "--save-undo", "undo.json"];
    assert_eq!(rescue(&scene, &args).run().status, 0);
    let kept = fs::read_to_string(scene.path("undo.json")).expect("it was written");
    // Nothing is at risk now: nothing to keep.
    assert_eq!(rescue(&scene, &args).run().status, 0);
    let tighter = ["--peer", "0.0.0.0/0", "--keepalive", "30/30/3"];
    set_values(&connection.client, Values(500, 30, 3));
    let said = rescue(&scene, &[&tighter[..], &args[3..]].concat()).run();
    assert_eq!(said.status, 2, "{said:#?}");
    assert!(said.stderr.contains("undo.json is there already"), "{said:#?}");
    assert_eq!(fs::read_to_string(scene.path("undo.json")).expect("it is there"), kept);
}

#[test]
fn undo_finds_a_socket_that_another_process_holds_by_now() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    let before = options(&connection.client);
    let first = Holder::of_root(connection.client.try_clone().expect("a second descriptor"));
    let Connection { client, server: _server } = connection;
    let args = ["--at-risk", "--limit", "900s", "--apply", "--save-undo", "undo.json"];
    assert_eq!(rescue(&scene, &args).run().status, 0);
    // Whoever of the two was recorded: now it is held by the other one alone, or under another number.
    drop(first);
    let moved = rustix::io::fcntl_dupfd_cloexec(&client, 900).expect("another number");
    drop(client);
    let said = scene.program(&["rescue", "--undo", "undo.json", "--apply"]).run();
    assert_eq!(said.status, 0, "{said:#?}");
    assert_eq!(options(&std::net::TcpStream::from(moved)), before);
}

#[test]
fn without_the_capability_close_dead_has_the_probes_end_it() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    scene.client.lose_way_to(&scene.server);
    let watch = connection.client.try_clone().expect("a second descriptor");
    let Connection { client, server } = connection;
    let _held = (Holder::of_nobody(client), server);
    let enter = ["ip", "netns", "exec", &scene.client.name];
    let by_nobody = |args: &[&str]| {
        Program::new(scene.folder.path())
            .args(&["rescue", "--peer", "0.0.0.0/0", "--limit", "1s", "--close-dead", "--apply"])
            .args(args)
            .at(&copy(&scene))
            .started_by(&[&enter[..], &AS_NOBODY].concat())
    };
    let said = wait_until("it is cut and ended", PATIENCE, || {
        let said = by_nobody(&["--json"]).run();
        (json(&said)["connections"] != Value::Array(Vec::new())).then_some(said)
    });
    assert_eq!(said.status, 0, "{said:#?}");
    assert_eq!(json(&said)["connections"][0]["how"], "probed");
    let error = sockopt::socket_error(&watch).expect("ask").expect_err("it has ended");
    assert_eq!(error, rustix::io::Errno::TIMEDOUT);
}

/// What it does not see may be dead.
#[test]
fn close_dead_says_what_an_ordinary_user_does_not_see() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    let enter = ["ip", "netns", "exec", &scene.client.name];
    let by_nobody = |what| {
        let args = ["rescue", what, "--limit", "900s"];
        let program = Program::new(scene.folder.path()).args(&args).at(&copy(&scene));
        let said = program.started_by(&[&enter[..], &AS_NOBODY].concat()).run().stdout;
        let lines = said.replace("\n    ", " ");
        lines.lines().filter(|line| line.contains("Not seen: ")).map(str::to_owned).collect()
    };
    let not_seen: Vec<String> = by_nobody("--close-dead");
    assert!(!not_seen.is_empty());
    assert_eq!(not_seen, by_nobody("--at-risk"));
}

#[test]
fn what_another_user_holds_is_refused_with_what_would_allow_it() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    let before = options(&connection.client);
    let enter = ["ip", "netns", "exec", &scene.client.name];
    let said = Program::new(scene.folder.path())
        .args(&["rescue", "--at-risk", "--limit", "900s", "--apply"])
        .at(&copy(&scene))
        .started_by(&[&enter[..], &AS_NOBODY].concat())
        .run();
    assert_eq!(said.status, 1, "{said:#?}");
    assert!(said.stdout.contains("REFUSED") && said.stdout.contains("run as root"), "{said:#?}");
    assert_eq!(options(&connection.client), before);
}

#[test]
fn bad_input_is_an_error_that_says_what_would_be_right() {
    let scene = Scene::new();
    for (name, text, said) in [
        ("none.json", None, "No such file"),
        ("empty.json", Some(""), "not a file that"),
        ("other.json", Some(r#"{"schema":"stillopen.undo/9"}"#), "stillopen.undo/9"),
        ("list.json", Some("[1]"), "not a file that"),
        (
            "old.json",
            Some(r#"{"schema":"stillopen.undo/1","boot_id":"x","taken_at":"","sockets":[]}"#),
            "last start",
        ),
    ] {
        if let Some(text) = text {
            fs::write(scene.path(name), text).expect("write it");
        }
        let outcome = scene.program(&["rescue", "--undo", name, "--apply"]).run();
        assert_eq!((outcome.status, outcome.stdout.as_str()), (2, ""), "{name}: {outcome:#?}");
        assert!(outcome.stderr.contains(said) && outcome.stderr.contains(name), "{outcome:#?}");
    }
    let all: &[(&[&str], &str)] = &[
        (&["rescue"], "--at-risk"),
        (&["rescue", "--pid", "4294967294", "--apply"], "no process"),
        (&["rescue", "--at-risk", "--keepalive", "0/1/1"], "idle/interval/count"),
        (&["rescue", "--at-risk", "--save-undo", "x"], "--apply"),
        (&["rescue", "--close-dead", "--keepalive", "1/1/1"], "--close-dead"),
        (&["ask"], "--pid"),
    ];
    for (args, word) in all {
        let outcome = scene.program(args).run();
        assert_eq!(outcome.status, 2, "{args:?}: {outcome:#?}");
        assert!(outcome.stderr.contains(word), "{args:?}: {outcome:#?}");
    }
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    let before = options(&connection.client);
    let args = ["--at-risk", "--limit", "900s", "--apply", "--save-undo", "/nowhere/x"];
    let outcome = rescue(&scene, &args).run();
    assert_eq!(outcome.status, 2, "{outcome:#?}");
    assert!(outcome.stderr.contains("nothing was changed"), "{outcome:#?}");
    assert_eq!(options(&connection.client), before);
}
