//! Which connections stay in their namespace: a table of its sockets.

use super::*;
use crate::sock_diag::parse::parse_connections;

/// A connection of the recorded dump's shape, between these.
fn connection(local: &str, peer: &str, inode: u32, state: State) -> Connection {
    let recorded = include_bytes!("../../sock_diag/testdata/connections.bin");
    let mut connection = parse_connections(recorded).unwrap().items.swap_remove(0);
    connection.local = local.parse().unwrap();
    connection.peer = peer.parse().unwrap();
    connection.inode = inode;
    connection.state = state;
    connection
}

const PROXY: OnHost = OnHost::Proxy { owner: None };

/// The namespace has 10.0.0.5 and the address of a Service, 10.96.0.10; something listens on 8080.
fn classified(sockets: &[(&str, &str)], bystanders: &[(&str, &str)]) -> (Vec<OnHost>, Vec<u32>) {
    let own = Addresses::new(["10.0.0.5", "10.96.0.10"].map(|ip| ip.parse().unwrap()).to_vec());
    let mut connections: Vec<_> = sockets
        .iter()
        .zip(1..)
        .map(|(&(local, peer), inode)| connection(local, peer, inode, State::Established))
        .collect();
    let bystanders: Vec<_> = bystanders
        .iter()
        .zip(100..)
        .map(|(&(local, peer), inode)| Bystander {
            local: local.parse().unwrap(),
            peer: peer.parse().unwrap(),
            inode,
            state: State::Established,
        })
        .collect();
    let taken = classify(&mut connections, &bystanders, &own, Some(&Listeners::default()));
    (
        connections.iter().map(|connection| connection.on_host).collect(),
        taken.iter().map(|taken| taken.by_inode).collect(),
    )
}

#[test]
fn loopback_own_addresses_and_elsewhere() {
    let remote = ("10.0.0.5:40000", "192.0.2.1:443");
    for (case, sockets, expected) in [
        ("loopback", vec![("127.0.0.1:40000", "127.0.0.1:80")], vec![OnHost::Loopback]),
        ("IPv6 loopback", vec![("[::1]:40000", "[::1]:80")], vec![OnHost::Loopback]),
        ("elsewhere", vec![remote], vec![OnHost::No]),
        (
            "both ends on an own address",
            vec![("10.0.0.5:40000", "10.0.0.5:8080"), ("10.0.0.5:8080", "10.0.0.5:40000")],
            vec![OnHost::SameNamespace; 2],
        ),
        (
            "a Service's address on this node, but no other end here",
            vec![("10.0.0.5:40000", "10.96.0.10:80")],
            vec![OnHost::No],
        ),
        (
            "a sidecar took it over",
            vec![remote, ("127.0.0.1:15001", "10.0.0.5:40000")],
            vec![PROXY, OnHost::SameNamespace],
        ),
        (
            "the sidecar's own leg goes on",
            vec![
                remote,
                ("127.0.0.1:15001", "10.0.0.5:40000"),
                ("10.0.0.5:40001", "192.0.2.1:443"),
            ],
            vec![PROXY, OnHost::SameNamespace, OnHost::No],
        ),
        (
            "the same local port, but that socket has its own other end",
            vec![remote, ("10.0.0.5:8080", "10.0.0.5:40000"), ("10.0.0.5:40000", "10.0.0.5:8080")],
            vec![OnHost::No, OnHost::SameNamespace, OnHost::SameNamespace],
        ),
        (
            "another port",
            vec![remote, ("127.0.0.1:15001", "127.0.0.1:40000")],
            vec![OnHost::No, OnHost::Loopback],
        ),
    ] {
        assert_eq!(classified(&sockets, &[]).0, expected, "{case}");
    }
}

#[test]
fn a_socket_that_was_not_asked_for_may_be_the_other_end() {
    let (on_host, taken) = classified(
        &[("10.0.0.5:40000", "192.0.2.1:443")],
        &[("127.0.0.1:15001", "10.0.0.5:40000")],
    );
    assert_eq!((on_host, taken), (vec![PROXY], vec![100]));
    let (on_host, taken) =
        classified(&[("10.0.0.5:40000", "10.0.0.5:80")], &[("10.0.0.5:80", "10.0.0.5:40000")]);
    assert_eq!((on_host, taken), (vec![OnHost::SameNamespace], vec![]));
}

#[test]
fn a_closing_connection_to_a_listener_needs_no_other_end() {
    let own = Addresses::new(vec!["10.0.0.5".parse().unwrap()]);
    let listeners = Listeners::of(&[("0.0.0.0:80", false)]);
    for (peer, state, expected) in [
        ("10.0.0.5:80", State::CloseWait, OnHost::SameNamespace),
        ("10.0.0.5:81", State::CloseWait, OnHost::No),
        ("10.0.0.5:80", State::Established, OnHost::No),
    ] {
        let mut connections = [connection("10.0.0.5:40000", peer, 1, state)];
        classify(&mut connections, &[], &own, Some(&listeners));
        assert_eq!(connections[0].on_host, expected, "{peer} {state:?}");
    }
}
