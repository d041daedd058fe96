//! `stillopen run`: the same clients without their snippet, and servers, have keepalive all the same.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpStream,
    process::{Command, Stdio},
};

use stillopen_model::{Keepalive, KeepaliveValues};

use crate::{
    VALUES, clients,
    defaults::without_snippet,
    held::{Held, Running, connection_of, connections},
    runtimes, url,
};

/// An ordinary user who may read everything: what the tests install is in folders of root's.
const AS_A_USER: [&str; 6] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=+dac_read_search",
    "--ambient-caps=+dac_read_search",
];

/// The same command under `stillopen run`, as an ordinary user.
fn under_run(command: &Command) -> Command {
    let mut run = Command::new(AS_A_USER[0]);
    run.args(&AS_A_USER[1..])
        .args([env!("CARGO_BIN_EXE_stillopen"), "run", "--keepalive", VALUES, "--"])
        .arg(command.get_program())
        .args(command.get_args())
        // No configuration, no cache: this user has no home.
        .env("HOME", "/nonexistent")
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        run.current_dir(folder);
    }
    run
}

fn values() -> Keepalive {
    let values: KeepaliveValues = VALUES.parse().expect("it is values");
    Keepalive::On(values.times())
}

#[track_caller]
fn is_armed(what: &str, command: impl FnOnce(std::net::SocketAddr) -> Command) {
    let held = Held::by(|server| under_run(&command(server)));
    assert_eq!(connection_of(&held).keepalive, values(), "{what}");
}

/// Those that set values of their own keep them, and one that turns keepalive off has it off: what they set comes
/// later.
#[test]
fn clients_that_set_nothing_are_armed() {
    let mut tried = 0;
    for client in clients() {
        if client.id == "jdbc" {
            // pgjdbc's tcpKeepAlive is false.
            let held = Held::by(|server| under_run(&without_snippet(&client.id, server)));
            assert!(connection_of(&held).keepalive.is_off());
        } else if matches!(client.by_default.as_deref(), Some("off" | "kernel")) {
            is_armed(&client.id, |server| without_snippet(&client.id, server));
            tried += 1;
        }
    }
    // Most of Python's, and Java's own sockets.
    assert!(tried >= 8, "{tried}");
}

#[test]
fn node() {
    is_armed("node", |server| {
        let connect = "require('node:net').connect";
        runtimes::node(&format!("{connect}({}, '{}').write('x')", server.port(), server.ip()))
    });
}

#[test]
fn curl() {
    is_armed("curl", |server| runtimes::shell(&format!("curl --no-keepalive {}", url(server))));
}

#[test]
fn python_in_threads() {
    let held = Held::by(|server| {
        under_run(&runtimes::python(&format!(
            "
import threading, socket
def ask():
    s = socket.create_connection(('{}', {})); s.send(b'x'); s.recv(1)
for thread in [threading.Thread(target=ask) for _ in range(8)]: thread.start()
",
            server.ip(),
            server.port()
        )))
    });
    let mut ends = vec![connection_of(&held)];
    let others: Vec<TcpStream> = (1..8).map(|_| held.next()).collect();
    for other in &others {
        let client = other.peer_addr().expect("a connected socket has a peer");
        let seen = connections(&["--port", &client.port().to_string()]);
        ends.extend(seen.into_iter().filter(|c| c.local == client));
    }
    assert_eq!(ends.len(), 8);
    assert!(ends.iter().all(|end| end.keepalive == values()), "{ends:?}");
}

#[test]
fn a_static_go_program() {
    let source = "package main

import (
\t\"net\"
\t\"os\"
)

func main() {
\tdialer := net.Dialer{KeepAlive: -1}
\tconnection, _ := dialer.Dial(\"tcp\", os.Args[1])
\tconnection.Write([]byte(\"x\"))
\tconnection.Read(make([]byte, 1))
}
";
    let program = runtimes::go("plain", source);
    let loader = b"/ld-linux";
    let bytes = fs::read(&program).expect("read the program");
    assert!(!bytes.windows(loader.len()).any(|part| part == loader), "it is not static");
    is_armed("go", |server| {
        let mut go = Command::new(&program);
        go.arg(server.to_string());
        go
    });
}

/// What a server accepts has what its listener has.
#[test]
fn servers() {
    let node = "
const server = require('node:net').createServer(() => {}).listen(0, '127.0.0.1', () => {
    console.log(server.address().port);
});
";
    let java = "
public class Drive {
    public static void main(String[] args) throws Exception {
        var address = java.net.InetAddress.getLoopbackAddress();
        var server = new java.net.ServerSocket(0, 1, address);
        System.out.println(server.getLocalPort());
        var connection = server.accept();
        connection.getInputStream().read();
    }
}
";
    let programs =
        [("node", runtimes::node(node)), ("java", runtimes::java("server", &[("Drive", java)]))];
    for (what, server) in programs {
        let mut server =
            Running(under_run(&server).stdout(Stdio::piped()).spawn().expect("start a server"));
        let mut line = String::new();
        let stdout = server.0.stdout.take().expect("it is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it says its port");
        let port: u16 = line.trim().parse().expect("a port is a number");
        // In the queue of its listener or accepted: both times the kernel has made its end.
        let client = TcpStream::connect(("127.0.0.1", port)).expect("connect");
        let (local, peer) = (client.peer_addr(), client.local_addr());
        let (local, peer) = (local.expect("it has a peer"), peer.expect("it has an address"));
        // Before it is accepted it has no owner whose options could be read.
        let end = (0..1000).find_map(|_| {
            let seen = connections(&["--port", &port.to_string()]);
            let end = seen
                .into_iter()
                .find(|c| c.local.port() == local.port() && c.peer.port() == peer.port());
            end.filter(|end| end.keepalive.on_values().is_some())
        });
        assert_eq!(end.map(|end| end.keepalive), Some(values()), "{what}");
    }
}
