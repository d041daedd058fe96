//! What a client's sockets have without the snippet: what is said of it is read back, too.

use std::{fs, net::SocketAddr, process::Command};

use stillopen_model::{Keepalive, KeepaliveTimes, KeepaliveValues, Seconds};

use crate::{
    addressed, clients, driver,
    held::{Held, connection_of},
    runtimes, url,
};

/// Whether the socket has what `said` means.
fn is(said: &str, seen: Keepalive) -> bool {
    match said {
        "off" => seen.is_off(),
        "kernel" => seen == Keepalive::On(kernels()),
        values => {
            let values: KeepaliveValues = values.parse().expect("it is values");
            seen == Keepalive::On(values.times())
        }
    }
}

/// The kernel's own values, of this network namespace.
pub(crate) fn kernels() -> KeepaliveTimes {
    let read = |name| -> u32 {
        let path = format!("/proc/sys/net/ipv4/tcp_keepalive_{name}");
        fs::read_to_string(path).expect("read a sysctl").trim().parse().expect("it is a number")
    };
    KeepaliveTimes {
        idle: Some(Seconds::new(read("time"))),
        interval: Some(Seconds::new(read("intvl"))),
        count: Some(read("probes")),
    }
}

#[test]
fn what_a_client_does_by_default_is_what_is_said() {
    let mut wrong = Vec::new();
    for client in clients() {
        let Some(said) = client.by_default else { continue };
        let id = client.id.as_str();
        let held = Held::by(|server| without_snippet(id, server));
        let seen = connection_of(&held).keepalive;
        if !is(&said, seen) {
            wrong.push(format!("{id}: {seen:?}, not {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What asks that server with this client, which is left as it is.
pub(crate) fn without_snippet(id: &str, server: SocketAddr) -> Command {
    let source = |ending| addressed(&driver(&format!("default/{id}.{ending}")), server);
    match id {
        "curl" => runtimes::shell(&source("sh")),
        "node-http" | "undici" => runtimes::node(&source("js")),
        "java" | "jdbc" => runtimes::java(&format!("{id}-default"), &[("Drive", &source("java"))]),
        "go" => with_url(Command::new(runtimes::go("default", &source("go"))), server),
        "reqwest" => with_url(Command::new(runtimes::rust("reqwest-default")), server),
        _ => runtimes::python(&source("py")),
    }
}

fn with_url(mut program: Command, server: SocketAddr) -> Command {
    program.arg(url(server));
    program
}

/// What is said of Java's own HTTP clients: neither turns keepalive on.
#[test]
fn java_http_clients_leave_it_off() {
    for name in ["java-http-client", "java-url-connection"] {
        let held = Held::by(|server| {
            let drive = addressed(&driver(&format!("default/{name}.java")), server);
            runtimes::java(name, &[("Drive", &drive)])
        });
        assert!(connection_of(&held).keepalive.is_off(), "{name}");
    }
}
