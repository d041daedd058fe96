//! Recorded dumps → connections; cut ones are never taken for whole.

use std::time::Duration;

use super::*;

const CONNECTIONS: &[u8] = include_bytes!("../testdata/connections.bin");
const LISTENERS: &[u8] = include_bytes!("../testdata/listeners.bin");

fn listeners() -> Listeners {
    let mut listeners = Listeners::default();
    assert!(listeners.take(LISTENERS).unwrap().done);
    listeners.ready();
    listeners
}

fn recorded(filter: &Filter) -> Sockets {
    let own = Addresses::new(vec!["10.9.0.1".parse().unwrap()]);
    let listeners = listeners();
    let view = View { netns: 3, filter, listeners: Some(&listeners), own: &own };
    let mut sockets = Sockets::default();
    assert_eq!(sockets.take(CONNECTIONS, &view).unwrap(), Block { done: true, interrupted: false });
    sockets
}

fn one<'a>(sockets: &'a Sockets, local: &str) -> &'a Connection {
    let local: SocketAddr = local.parse().unwrap();
    sockets.connections.iter().find(|connection| connection.local == local).unwrap()
}

#[test]
fn recorded_listeners() {
    let mut found = parse_listeners(LISTENERS).unwrap().items;
    found.sort();
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    // [::]:8444 is IPv6 only.
    assert_eq!(found, ["0.0.0.0:8443", "10.9.0.1:8080", "[::]:8443", "[::]:8444"]);
}

#[test]
fn a_kept_alive_client_and_its_server() {
    let sockets = recorded(&Filter::default());
    let client = one(&sockets, "10.9.0.1:40001");
    assert_eq!(client.peer, "10.9.0.1:8080".parse().unwrap());
    assert_eq!((client.netns, client.state, client.role), (3, State::Established, Role::Client));
    assert_eq!(client.timer, Timer::Keepalive);
    assert_eq!(client.keepalive, Keepalive::On(KeepaliveTimes::default()));
    let expires = client.timer_expires.unwrap().get();
    assert!(expires > Duration::from_secs(55) && expires < Duration::from_secs(62), "{expires:?}");
    let counters = client.counters.unwrap();
    assert_eq!((counters.data_segs_out, counters.data_segs_in), (1, 0));
    // The SYN counts as a byte.
    assert_eq!((counters.bytes_acked, counters.bytes_received), (8, 0));
    // The stamps are a second old; nothing was ever received.
    for stamp in [counters.last_data_sent.get(), counters.last_ack_recv.get()] {
        assert!(stamp >= Duration::from_secs(1) && stamp < Duration::from_secs(2), "{stamp:?}");
    }

    let server = one(&sockets, "10.9.0.1:8080");
    assert_eq!(
        (server.role, server.timer, server.timer_expires),
        (Role::Server, Timer::None, None)
    );
    assert_eq!(server.keepalive, Keepalive::Off(KeepaliveTimes::default()));
    assert_eq!(server.counters.unwrap().bytes_received, 7);
}

#[test]
fn ipv4_mapped_addresses_are_ipv4() {
    let sockets = recorded(&Filter::default());
    let server = one(&sockets, "10.9.0.1:8443");
    assert_eq!((server.role, server.peer), (Role::Server, "10.9.0.1:40002".parse().unwrap()));
    assert_eq!(one(&sockets, "10.9.0.1:40002").receive_queue, 6);
}

#[test]
fn other_states_and_ipv6() {
    let sockets = recorded(&Filter::default());
    let closed = one(&sockets, "[2001:db8:9::1]:40003");
    assert_eq!((closed.state, closed.role), (State::CloseWait, Role::Client));
    let syn = one(&sockets, "10.9.0.1:40005");
    assert_eq!((syn.state, syn.timer), (State::SynSent, Timer::Retransmit));
    assert_eq!((syn.keepalive, syn.counters), (Keepalive::Unknown, None));
    // The other end of 40003, closed, and that of 40004, not accepted.
    assert_eq!(sockets.orphans, 2);
    assert_eq!(sockets.connections.len(), 7);
    assert_eq!(sockets.cookies.len(), 7);
    assert!(sockets.cookies.iter().all(|&cookie| cookie != 0));
}

#[test]
fn what_the_filter_leaves_out_with_a_local_peer_is_a_bystander() {
    let sockets = recorded(&Filter { ports: vec![40001], ..Filter::default() });
    assert_eq!(sockets.connections.len(), 2);
    // Both ends of 40002, the client of 40004 and its end that is not accepted. 40003 and its end
    // have a peer that is not among the own addresses here, as the one of 40005 is.
    let mut bystanders: Vec<_> = sockets.bystanders.iter().map(|b| b.local.port()).collect();
    bystanders.sort_unstable();
    assert_eq!(bystanders, [8080, 8443, 40002, 40004]);
}

#[test]
fn a_cut_dump_is_an_error_or_says_that_it_is_not_whole() {
    for dump in [CONNECTIONS, LISTENERS] {
        for end in 0..dump.len() {
            match parse_connections(&dump[..end]) {
                Ok(part) => assert!(!part.done, "{end} bytes"),
                Err(error) => assert!(matches!(error, NetlinkError::Malformed { .. }), "{error}"),
            }
            if let Ok(part) = parse_listeners(&dump[..end]) {
                assert!(!part.done, "{end} bytes");
            }
        }
    }
}

/// A message with a `tcp_info` of `length` bytes, each with the value of its position.
fn with_info(timer: u8, length: usize) -> Vec<u8> {
    let mut body = vec![0; 72];
    body[..4].copy_from_slice(&[2, 1, timer, 5]);
    body[68] = 1;
    if let Ok(attribute) = u16::try_from(4 + length) {
        body.extend(attribute.to_ne_bytes());
        body.extend(INET_DIAG_INFO.to_ne_bytes());
        body.extend((0..length).map(|at| u8::try_from(at % 256).unwrap()));
    }
    crate::netlink::parse::tests::message(GET_TCP_SOCKETS, 0, &body)
}

#[test]
fn an_older_kernels_tcp_info_gives_what_it_has() {
    for (length, retransmits, has_counters) in
        [(0, 5, false), (7, 5, false), (8, 2, false), (104, 2, false), (159, 2, false)]
            .into_iter()
            .chain([(160, 2, true), (280, 2, true)])
    {
        let items = parse_connections(&with_info(1, length)).unwrap().items;
        assert_eq!(items[0].retransmits, retransmits, "{length} bytes");
        assert_eq!(items[0].counters.is_some(), has_counters, "{length} bytes");
    }
    let counters = parse_connections(&with_info(1, 160)).unwrap().items[0].counters.unwrap();
    assert_eq!(counters.segs_in.to_ne_bytes(), [140, 141, 142, 143]);
    assert_eq!(counters.segs_out.to_ne_bytes(), [136, 137, 138, 139]);
}

#[test]
fn the_timer_shows_keepalive_or_hides_it() {
    let unknown = KeepaliveTimes::default();
    for (timer, state, expected) in [
        (Timer::Keepalive, State::Established, Keepalive::On(unknown)),
        (Timer::Keepalive, State::FinWait2, Keepalive::On(unknown)),
        (Timer::None, State::Established, Keepalive::Off(unknown)),
        (Timer::None, State::CloseWait, Keepalive::Off(unknown)),
        (Timer::None, State::FinWait2, Keepalive::Unknown),
        (Timer::Retransmit, State::Established, Keepalive::Unknown),
        (Timer::ZeroWindow, State::Established, Keepalive::Unknown),
        (Timer::Other, State::Established, Keepalive::Unknown),
    ] {
        assert_eq!(keepalive(timer, state), expected, "{timer:?} {state:?}");
    }
    // Without tcp_info the count is of what the timer is for.
    for (timer, retransmits, probes) in [(1, 5, 0), (2, 0, 5), (4, 0, 5), (0, 0, 0)] {
        let connection = &parse_connections(&with_info(timer, 0)).unwrap().items[0];
        assert_eq!((connection.retransmits, connection.probes_unanswered), (retransmits, probes));
    }
}
