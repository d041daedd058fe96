//! Real sockets of this process, over loopback.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use rustix::net::sockopt;
use stillopen_model::{Connection, Keepalive, Millis, Role, Seconds, State};

use super::*;

struct Pair {
    client: TcpStream,
    server: TcpStream,
    listener: TcpListener,
}

impl Pair {
    fn new(at: &str) -> Self {
        let listener = TcpListener::bind(at).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        Self { client, server, listener }
    }

    fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    fn collect(&self) -> Collected {
        self.collect_by(Some(std::process::id()), None)
    }

    fn collect_by(&self, pid: Option<u32>, iterators_from: Option<usize>) -> Collected {
        let filter = Filter { pid, ports: vec![self.port()], ..Filter::default() };
        let request =
            Request { namespaces: Namespaces::This, owners: true, iterators_from, filter };
        collect(&request, "2026-01-01T00:00:00Z".to_owned()).unwrap()
    }
}

fn row(collected: &Collected, local: SocketAddr) -> &Connection {
    collected.snapshot.connections.iter().find(|c| c.local == local).unwrap()
}

#[test]
fn both_ends_of_a_connection_of_this_process() {
    for at in ["127.0.0.1:0", "[::1]:0"] {
        let pair = Pair::new(at);
        sockopt::set_tcp_keepidle(&pair.client, Duration::from_mins(1)).unwrap();
        sockopt::set_tcp_keepintvl(&pair.client, Duration::from_secs(30)).unwrap();
        sockopt::set_tcp_keepcnt(&pair.client, 3).unwrap();
        sockopt::set_socket_keepalive(&pair.client, true).unwrap();
        sockopt::set_tcp_user_timeout(&pair.client, 5_500).unwrap();
        sockopt::set_tcp_keepidle(&pair.server, Duration::from_secs(30)).unwrap();

        let collected = pair.collect();
        assert_eq!(collected.snapshot.connections.len(), 2);
        assert_eq!(collected.snapshot.gaps, []);
        let client = row(&collected, pair.client.local_addr().unwrap());
        assert_eq!((client.state, client.role), (State::Established, Role::Client));
        assert_eq!(client.on_host, OnHost::Loopback);
        assert_eq!(client.keepalive.on_values().unwrap().to_string(), "60/30/3");
        assert_eq!(client.user_timeout, Some(Millis::new(5_500)));
        assert!(client.counters.is_some());
        let owner = collected.snapshot.process(client.owner).unwrap();
        assert_eq!(owner.pid, std::process::id());
        assert_eq!(owner.uid, Some(geteuid().as_raw()));
        assert!(!owner.command.is_empty());

        let server = row(&collected, pair.server.local_addr().unwrap());
        assert_eq!((server.role, server.user_timeout), (Role::Server, Some(Millis::new(0))));
        let Keepalive::Off(times) = server.keepalive else { panic!("{:?}", server.keepalive) };
        assert_eq!(times.idle, Some(Seconds::new(30)), "armed but off");
        assert!(collected.snapshot.namespaces[0].sysctls.is_some());
    }
}

#[test]
fn the_second_look_takes_what_changed_and_drops_what_has_gone() {
    let mut pair = Pair::new("127.0.0.1:0");
    let other = TcpStream::connect(pair.listener.local_addr().unwrap()).unwrap();
    let other_end = pair.listener.accept().unwrap();
    let quiet = TcpStream::connect(pair.listener.local_addr().unwrap()).unwrap();
    let _quiet_end = pair.listener.accept().unwrap();
    let mut collected = pair.collect();
    assert_eq!(collected.snapshot.connections.len(), 6);

    let gone = other.local_addr().unwrap();
    drop((other, other_end));
    pair.client.write_all(b"data").unwrap();
    pair.server.read_exact(&mut [0; 4]).unwrap();
    collected.look_again().unwrap();

    assert_eq!(collected.snapshot.connections.len(), 4);
    assert!(collected.snapshot.connections.iter().all(|c| c.local != gone));
    let client = row(&collected, pair.client.local_addr().unwrap());
    assert_eq!(client.counters.unwrap().data_segs_out, 1);
    assert_eq!(client.watch, None, "data moved");
    let watch = row(&collected, quiet.local_addr().unwrap()).watch.as_deref();
    assert_eq!(watch.unwrap().peer_probes, 0);
}

#[test]
fn a_process_that_is_not_there_is_named() {
    for iterators_from in [None, Some(0)] {
        let filter = Filter { pid: Some(u32::MAX), ..Filter::default() };
        let request =
            Request { namespaces: Namespaces::This, owners: true, iterators_from, filter };
        let error = collect(&request, String::new()).unwrap_err();
        assert!(error.to_string().contains("no process 4294967295"), "{error}");
    }
}

#[test]
fn iterators_find_the_owners_and_options_that_the_descriptors_show() {
    for at in ["127.0.0.1:0", "[::1]:0"] {
        let pair = Pair::new(at);
        let copy = pair.client.try_clone().unwrap();
        sockopt::set_tcp_keepidle(&pair.client, Duration::from_secs(77)).unwrap();
        sockopt::set_socket_keepalive(&pair.server, true).unwrap();
        sockopt::set_tcp_user_timeout(&pair.server, 5_500).unwrap();
        for pid in [None, Some(std::process::id())] {
            let [one_by_one, at_once] =
                [None, Some(0)].map(|iterators_from| pair.collect_by(pid, iterators_from));
            assert_eq!(at_once.snapshot.gaps, [], "they were used");
            assert_eq!(at_once.snapshot.processes, one_by_one.snapshot.processes);
            let rows = |of: &Collected| {
                let handles = (0..of.snapshot.connections.len()).map(|at| of.handle(at));
                let c = of.snapshot.connections.iter();
                let mut rows: Vec<_> = c
                    .zip(handles)
                    .map(|(c, handle)| (c.local, handle.unwrap(), c.keepalive, c.user_timeout))
                    .collect();
                rows.sort_by_key(|row| row.0);
                rows
            };
            assert_eq!(rows(&at_once), rows(&one_by_one));
            assert_eq!(rows(&at_once).len(), 2);
        }
        drop(copy);
    }
}

#[test]
fn a_snapshot_of_this_host_can_be_saved_and_read() {
    let pair = Pair::new("127.0.0.1:0");
    let mut file = Vec::new();
    let snapshot = pair.collect().snapshot;
    snapshot.to_json(&mut file).unwrap();
    assert_eq!(Snapshot::from_json(&file).unwrap(), snapshot);
}
