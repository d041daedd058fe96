//! nginx between a client and a server: each of its legs has what is said of it.

use std::{
    fs,
    io::Write as _,
    net::{TcpListener, TcpStream},
    os::fd::OwnedFd,
    process::{Command, Stdio},
};

use stillopen_model::Keepalive;

use crate::{
    Advised,
    defaults::kernels,
    held::{Held, connections},
    runtimes,
};

#[test]
fn nginx() {
    let advised = Advised::of("nginx");
    runtimes::is_required(advised.tested.as_deref());
    let folder = tempfile::tempdir().expect("make a folder");
    // nginx takes over a listening socket whose number its environment names: nobody else gets the port.
    let front = TcpListener::bind(("127.0.0.1", 0)).expect("listen");
    let front_address = front.local_addr().expect("a listener has an address");
    let upstream = TcpListener::bind(("127.0.0.1", 0)).expect("listen");
    let upstream_address = upstream.local_addr().expect("a listener has an address");
    let configuration = advised
        .driven_by("nginx.conf")
        .replace("@folder@", &folder.path().display().to_string())
        .replace("listen 80 ", &format!("listen {front_address} "))
        .replace("agent.example.com:8000", &upstream_address.to_string());
    let file = folder.path().join("nginx.conf");
    fs::write(&file, configuration).expect("write nginx.conf");
    let mut nginx = Command::new(runtimes::nginx());
    nginx.arg("-p").arg(folder.path()).arg("-c").arg(&file).env("NGINX", "0;");

    let ask = || {
        let mut client = TcpStream::connect(front_address).expect("connect");
        client.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("ask");
        client
    };
    let before_it_starts = ask();
    let held = Held::on(upstream, nginx.stdin(Stdio::from(OwnedFd::from(front))));
    // What is accepted has the listener's options of when it connected: nginx has set them by now.
    let client = ask();
    let server = held.next();
    drop(before_it_starts);
    let seen = connections(&["--pid", &held.pid().to_string()]);
    let keepalive_to = |peer: &TcpStream| {
        let end = peer.local_addr().expect("a connected socket has an address");
        seen.iter().find(|c| c.peer == end).expect("the connection is there").keepalive
    };
    let clients_leg = keepalive_to(&client);
    assert_eq!(clients_leg, Keepalive::On(advised.in_force.unwrap().times()));
    let upstreams_leg = keepalive_to(&server);
    assert_eq!(upstreams_leg, Keepalive::On(kernels()), "turned on, and nothing else");
}
