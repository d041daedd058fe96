//! A program closes its socket while `ask` or `rescue` holds a copy of it and waits: the kernel closes it then, and not
//! when the wait is over. The path drops everything, so nothing else ends the wait.

use std::{
    io::Write as _,
    net::{Shutdown, TcpStream},
    process::{Child, Stdio},
    time::Duration,
};

use rustix::{
    net::sockopt,
    process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open},
};
use serde_json::Value;

use crate::{
    deadline::wait_until,
    holder::{AS_NOBODY, Holder},
    program::Program,
    scene::{Family, Scene},
    socket::{Connection, Options, Values, options, set_values},
    without_root::copy,
};

/// For a whole scene to come to what it is to show.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than anything that is waited for in one.
const LONG: Duration = Duration::from_secs(20);
/// What a socket has while it is asked.
const ASKED: Duration = Duration::from_secs(32_767);
const ARM: [&str; 7] =
    ["--at-risk", "--limit", "900s", "--keepalive", "1/100/3", "--apply", "--json"];

/// A path that forgets a connection a second after its server has closed.
const FORGETS_HALF_CLOSED: &str = "\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ipvs
ipvs:
  tcpFinTimeout: 1s
";

/// Connections that have been quiet for more than a second, and a path that has since been lost.
fn lost<const N: usize>() -> (Scene, [Connection; N]) {
    let scene = Scene::new();
    let connections = [(); N].map(|()| {
        let mut connection = scene.connect(Family::V4);
        connection.ask();
        connection
    });
    wait_until("all are quiet for more than a second", LONG, || {
        let report = scene.check_client(&["--limit", "900s"]).report(1);
        let quiet = |it| report.row(it).quiet_s.is_some_and(|quiet| quiet > 1.2);
        connections.iter().all(quiet).then_some(())
    });
    scene.client.lose_way_to(&scene.server);
    (scene, connections)
}

fn start(program: &Program) -> Child {
    let mut command = program.command();
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().expect("start stillopen")
}

fn ask(scene: &Scene) -> Program {
    scene.program(&["ask", "--netns", &scene.client.name, "--peer", "0.0.0.0/0", "--apply"])
}

fn rescue(scene: &Scene, args: &[&str]) -> Program {
    scene.program(&["rescue", "--netns", &scene.client.name]).args(args)
}

/// A program of `nobody`, in the client's namespace.
fn by_nobody(scene: &Scene, args: &[&str]) -> Program {
    let enter = ["ip", "netns", "exec", &scene.client.name];
    let program = Program::new(scene.folder.path()).args(args).at(&copy(scene));
    program.started_by(&[&enter[..], &AS_NOBODY].concat())
}

/// What it holds, had for a moment: a copy that is kept would keep it open.
fn held_by(holder: &Holder) -> TcpStream {
    let pid = Pid::from_raw(holder.pid().try_into().expect("a process id")).expect("not 0");
    let process = pidfd_open(pid, PidfdFlags::empty()).expect("it runs");
    pidfd_getfd(&process, 1, PidfdGetfdFlags::empty()).expect("its standard output").into()
}

fn is_asked(socket: &TcpStream) -> bool {
    sockopt::tcp_keepintvl(socket).expect("read it") == ASKED
}

/// Whether it was seen before `child` ended.
fn is_seen(what: &str, child: &mut Child, look: impl Fn() -> bool) -> bool {
    wait_until(what, LONG, || {
        let has_ended = child.try_wait().expect("look for its end").is_some();
        if has_ended { Some(false) } else { look().then_some(true) }
    })
}

/// Whether a client's socket, by its name in the report, is closed for every program, and not yet for its peer.
fn is_orphan(scene: &Scene, local: &str) -> bool {
    let (_, port) = local.rsplit_once(':').expect("an address with a port");
    let port = format!(":{:04X}", port.parse::<u16>().expect("a port"));
    let read = || std::fs::read_to_string("/proc/thread-self/net/tcp").expect("read the list");
    let list = scene.client.enter(read);
    let mut sockets = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let socket = sockets.find(|socket| socket[1].ends_with(&port));
    let inode = socket.map(|socket| socket[9]);
    inode == Some("0")
}

/// What it said of the connections with these ends, and its status.
fn said<const N: usize>(child: Child, ends: [&str; N]) -> ([Value; N], i32) {
    let output = child.wait_with_output().expect("wait for stillopen");
    let report: Value = serde_json::from_slice(&output.stdout).expect("it writes JSON");
    let rows = report["connections"].as_array().expect("a list");
    let row = |end| rows.iter().find(|row| row["local"] == end).expect("it is listed").clone();
    (ends.map(row), output.status.code().expect("it ends by itself"))
}

#[test]
fn asked_and_closed_by_its_program_a_socket_is_closed_at_once() {
    wait_until("it was closed while another one was asked", PATIENCE, || {
        let (scene, [leaves, stays]) = lost();
        let before = options(&stays.client);
        let [local, other] = [leaves.local(), stays.local()];
        let mut asking = start(&ask(&scene).args(&["--json"]));
        is_seen("both are asked", &mut asking, || {
            is_asked(&leaves.client) && is_asked(&stays.client)
        });
        drop(leaves.client);
        let is_closed = is_seen("it is closed", &mut asking, || is_orphan(&scene, &local));
        let in_the_middle = is_closed && is_asked(&stays.client);
        let ([closed, silent], status) = said(asking, [&local, &other]);
        assert_eq!(options(&stays.client), before);
        in_the_middle.then(|| {
            assert_eq!((&closed["answer"], &closed["probes"]), (&"closed".into(), &Value::Null));
            assert_eq!((&silent["answer"], status), (&"no_answer".into(), 1));
        })
    });
}

#[test]
fn that_its_program_closed_it_is_no_failure() {
    wait_until("it was closed while it was asked", PATIENCE, || {
        let (scene, [connection]) = lost();
        let mut asking = start(&ask(&scene));
        is_seen("it is asked", &mut asking, || is_asked(&connection.client));
        drop(connection.client);
        let said = asking.wait_with_output().expect("wait for stillopen");
        let text = String::from_utf8(said.stdout).expect("it writes UTF-8");
        text.contains("  its program closed it\n").then(|| assert_eq!(said.status.code(), Some(0)))
    });
}

/// An ordinary user sees no links of a process that has ended and that nobody has waited for.
#[test]
fn the_end_of_its_program_closes_a_socket_that_is_asked() {
    wait_until("it ended while it was asked", PATIENCE, || {
        let (scene, [connection]) = lost();
        let local = connection.local();
        let mut holder = Holder::of_nobody(connection.client);
        let args = ["ask", "--peer", "0.0.0.0/0", "--apply", "--json"];
        let mut asking = start(&by_nobody(&scene, &args));
        is_seen("it is asked", &mut asking, || is_asked(&held_by(&holder)));
        holder.end();
        let ([closed], status) = said(asking, [&local]);
        (closed["answer"] == "closed").then(|| assert_eq!(status, 0))
    });
}

#[test]
fn what_another_process_has_still_is_asked_on() {
    for the_first_closes in [true, false] {
        wait_until("one closed it while it was asked", PATIENCE, || {
            let (scene, [connection]) = lost();
            let local = connection.local();
            let Connection { client, server: _server } = connection;
            set_values(&client, Values(1234, 77, 5));
            let before = options(&client);
            let holder = Holder::of_root(client.try_clone().expect("a second descriptor"));
            let mut asking = start(&ask(&scene).args(&["--json"]));
            is_seen("it is asked", &mut asking, || is_asked(&client));
            let (left, _holder) = if the_first_closes {
                drop(client);
                (held_by(&holder), Some(holder))
            } else {
                drop(holder);
                (client, None)
            };
            let in_the_middle = is_asked(&left);
            let ([row], status) = said(asking, [&local]);
            assert_eq!(options(&left), before);
            in_the_middle.then(|| {
                assert_eq!((&row["answer"], status), (&"no_answer".into(), 1));
                assert_eq!(row["probes"], 3);
            })
        });
    }
}

#[test]
fn what_is_left_alone_is_let_go_while_another_one_is_asked() {
    wait_until("it was closed while the other one was asked", PATIENCE, || {
        let (scene, [mut in_flight, asked]) = lost();
        in_flight.client.write_all(b"more").expect("it is queued");
        let [local, other] = [in_flight.local(), asked.local()];
        let mut asking = start(&ask(&scene).args(&["--json"]));
        is_seen("the other one is asked", &mut asking, || is_asked(&asked.client));
        drop(in_flight.client);
        let is_closed = is_seen("it is closed", &mut asking, || is_orphan(&scene, &local));
        let in_the_middle = is_closed && is_asked(&asked.client);
        let ([alone, silent], _) = said(asking, [&local, &other]);
        in_the_middle.then(|| {
            assert_eq!(
                (&alone["answer"], &silent["answer"]),
                (&"in_flight".into(), &"no_answer".into())
            );
        })
    });
}

#[test]
fn armed_and_closed_by_its_program_a_socket_is_closed_at_once() {
    wait_until("it was closed while its first probe was waited for", PATIENCE, || {
        let (scene, [leaves, stays]) = lost();
        let [local, other] = [leaves.local(), stays.local()];
        let mut rescuing = start(&rescue(&scene, &ARM));
        let armed = Options::new(true, Values(1, 100, 3), 0);
        is_seen("both are armed", &mut rescuing, || {
            options(&leaves.client) == armed && options(&stays.client) == armed
        });
        drop(leaves.client);
        let in_the_middle = is_seen("it is closed", &mut rescuing, || is_orphan(&scene, &local));
        let ([closed, open], status) = said(rescuing, [&local, &other]);
        in_the_middle.then(|| {
            assert_eq!((&closed["first_probe"], &closed["done"]), (&"closed".into(), &true.into()));
            assert_eq!((&open["first_probe"], status), (&"no_answer_yet".into(), 0));
        })
    });
}

/// One with a `TCP_USER_TIMEOUT` is asked for three seconds before it is armed.
#[test]
fn what_was_armed_is_let_go_before_another_one_is_asked() {
    wait_until("it was closed while the other one was asked", PATIENCE, || {
        let (scene, [leaves, asked]) = lost();
        sockopt::set_tcp_user_timeout(&asked.client, 5000).expect("set it");
        let local = leaves.local();
        let mut rescuing = start(&rescue(&scene, &ARM));
        is_seen("the other one is asked", &mut rescuing, || is_asked(&asked.client));
        let armed = Options::new(true, Values(1, 100, 3), 0);
        assert_eq!(options(&leaves.client), armed, "it need not wait for the other one");
        drop(leaves.client);
        let is_closed = is_seen("it is closed", &mut rescuing, || is_orphan(&scene, &local));
        let in_the_middle = is_closed && is_asked(&asked.client);
        rescuing.wait_with_output().expect("wait for stillopen");
        in_the_middle.then_some(())
    });
}

#[test]
fn closed_while_it_is_asked_a_socket_is_not_armed() {
    wait_until("it was closed while it was asked", PATIENCE, || {
        let (scene, [connection]) = lost();
        let local = connection.local();
        sockopt::set_tcp_user_timeout(&connection.client, 5000).expect("set it");
        let mut rescuing = start(&rescue(&scene, &ARM));
        is_seen("it is asked", &mut rescuing, || is_asked(&connection.client));
        drop(connection.client);
        let ([row], status) = said(rescuing, [&local]);
        assert_eq!((&row["done"], status), (&false.into(), 1));
        let error = row["error"].as_str().expect("why not");
        error.contains("no longer holds it").then_some(())
    });
}

#[test]
fn closed_while_it_is_asked_a_last_time_a_socket_is_closed_at_once() {
    let args = ["--close-dead", "--limit", "1s", "--apply", "--json"];
    wait_until("it was closed while another one was asked", PATIENCE, || {
        let (scene, [leaves, stays]) = lost();
        let [local, other] = [leaves.local(), stays.local()];
        let mut ending = start(&rescue(&scene, &args));
        is_seen("both are asked", &mut ending, || {
            is_asked(&leaves.client) && is_asked(&stays.client)
        });
        drop(leaves.client);
        let is_closed = is_seen("it is closed", &mut ending, || is_orphan(&scene, &local));
        let in_the_middle = is_closed && is_asked(&stays.client);
        let ([closed, ended], status) = said(ending, [&local, &other]);
        in_the_middle.then(|| {
            assert_eq!((&closed["how"], &closed["done"]), (&"closed".into(), &true.into()));
            assert_eq!((&ended["how"], status), (&"destroyed".into(), 0));
        })
    });
}

/// Half of a connection is not asked, so that no probe has been lost yet when its own begin.
#[test]
fn closed_while_its_own_probes_are_to_end_it_a_socket_is_closed_at_once() {
    wait_until("it was closed while its probes went out", PATIENCE, || {
        let scene = Scene::new();
        let connection = scene.connect(Family::V4);
        let local = connection.local();
        let Connection { client, server } = connection;
        server.shutdown(Shutdown::Write).expect("close one half");
        let mut holder = Holder::of_nobody(client);
        let service = format!("{}/32", scene.server.address(Family::V4));
        std::fs::write(scene.path("kube-proxy.yaml"), FORGETS_HALF_CLOSED).expect("write it");
        let args = ["rescue", "--peer", &service, "--close-dead", "--json"];
        let path = ["--kube-proxy-config", "kube-proxy.yaml", "--service-cidr", &service];
        let close_dead = by_nobody(&scene, &args).args(&path);
        wait_until("it is cut", LONG, || close_dead.run().stdout.contains(&local).then_some(()));
        scene.client.lose_way_to(&scene.server);
        let mut ending = start(&close_dead.args(&["--apply"]));
        let tightest = Options::new(true, Values(1, 1, 3), 0);
        is_seen("its own probes are to end it", &mut ending, || {
            options(&held_by(&holder)) == tightest
        });
        holder.end();
        let ([row], status) = said(ending, [&local]);
        (row["how"] == "closed").then(|| {
            assert!(is_orphan(&scene, &local), "its probes have not ended it");
            assert_eq!(status, 0);
        })
    });
}
