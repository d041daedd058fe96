//! What the kernel says of the sockets in an end's namespace (`sock_diag(7)`): where a server listens, and when a
//! client's keepalive will probe.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use stillopen_collect::{parse_connections, parse_listeners};
use stillopen_model::Timer;

use super::{Body, Netlink};

/// `TCPDIAG_GETSOCK`
const GET: u16 = 18;
/// `NLM_F_DUMP`
const DUMP: u16 = 0x300;
/// `sizeof(struct inet_diag_req)`
const REQUEST: usize = 60;
/// `1 << TCP_LISTEN`
const LISTENING: u32 = 1 << 10;
/// `AF_INET` and `AF_INET6`
const FAMILIES: [u8; 2] = [2, 10];

/// A netlink socket of `NETLINK_SOCK_DIAG` that was opened in the namespace.
#[derive(Debug)]
pub(crate) struct Sockets(pub(crate) Netlink);

/// The next probe of a keepalive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Probe {
    /// How long it is until then.
    pub(crate) due: Duration,
    /// Whether it comes after the keepalive's idle time: no probe before it is unanswered.
    pub(crate) is_first: bool,
}

impl Sockets {
    /// Where something listens; a socket of IPv6 that takes IPv4 too counts as two.
    pub(crate) fn listeners(&self) -> io::Result<Vec<SocketAddr>> {
        let mut request = [0; REQUEST];
        request[52..56].copy_from_slice(&LISTENING.to_ne_bytes());
        let mut found = Vec::new();
        self.0.blocks(GET, DUMP, &Body::with(&request), |block| {
            let block = parse_listeners(block).map_err(io::Error::other)?;
            found.extend(block.items);
            Ok(block.done)
        })?;
        Ok(found)
    }

    /// When keepalive probes next on the connection from `local` to `peer`. `None`: it is off, not known (data is
    /// unacknowledged), or there is no such connection.
    pub(crate) fn next_probe(&self, local: SocketAddr, peer: SocketAddr) -> Option<Probe> {
        let mut connection = None;
        let found = self.0.blocks(GET, 0, &Body::with(&one(local, peer)), |block| {
            connection = parse_connections(block).map_err(io::Error::other)?.items.pop();
            Ok(true)
        });
        // The kernel refuses to tell of one that is not there.
        found.ok()?;
        let connection = connection.filter(|found| found.timer == Timer::Keepalive)?;
        let due = connection.timer_expires.map(stillopen_model::Ticks::get)?;
        Some(Probe { due, is_first: connection.probes_unanswered == 0 })
    }
}

/// `struct inet_diag_req` for one connection, whatever its cookie.
fn one(local: SocketAddr, peer: SocketAddr) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    bytes[0] = FAMILIES[usize::from(local.is_ipv6())];
    for (port_at, at, end) in [(4, 8, local), (6, 24, peer)] {
        bytes[port_at..port_at + 2].copy_from_slice(&end.port().to_be_bytes());
        match end.ip() {
            IpAddr::V4(ip) => bytes[at..at + 4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => bytes[at..at + 16].copy_from_slice(&ip.octets()),
        }
    }
    // `INET_DIAG_NOCOOKIE`
    bytes[44..52].fill(0xff);
    bytes
}

/// All addresses of the family of `at`.
pub(crate) fn any(at: SocketAddr) -> IpAddr {
    if at.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

/// Whether one of these takes connections to `at`.
pub(crate) fn serve(listeners: &[SocketAddr], at: SocketAddr) -> bool {
    let on_port = listeners.iter().filter(|listener| listener.port() == at.port());
    on_port.map(SocketAddr::ip).any(|ip| ip == at.ip() || ip == any(at))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustix::net::netlink::SOCK_DIAG;

    use super::*;

    fn own() -> Sockets {
        Sockets(Netlink::open(Some(SOCK_DIAG)).unwrap())
    }

    #[test]
    fn a_listener_serves_its_address_or_all_of_its_family() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (listener, v4, v6) in [
            ("0.0.0.0:80", true, false),
            ("[::]:80", false, true),
            ("10.0.2.2:80", true, false),
            ("127.0.0.1:80", false, false),
            ("[::1]:80", false, false),
            ("0.0.0.0:81", false, false),
        ] {
            assert_eq!(serve(&[at(listener)], at("10.0.2.2:80")), v4, "{listener}");
            assert_eq!(serve(&[at(listener)], at("[fd00::2]:80")), v6, "{listener}");
        }
    }

    #[test]
    fn the_kernels_own_list_has_a_listener_of_this_process() {
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(at).unwrap();
            let at = listener.local_addr().unwrap();
            assert!(serve(&own().listeners().unwrap(), at), "{at}");
        }
    }

    #[test]
    fn the_next_probe_is_known_where_keepalive_is_on() {
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(at).unwrap();
            let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (local, peer) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
            assert_eq!(own().next_probe(local, peer), None);
            rustix::net::sockopt::set_socket_keepalive(&stream, true).unwrap();
            rustix::net::sockopt::set_tcp_keepidle(&stream, Duration::from_secs(600)).unwrap();
            let probe = own().next_probe(local, peer).unwrap();
            assert!((500..=600).contains(&probe.due.as_secs()) && probe.is_first, "{probe:?}");
            assert_eq!(own().next_probe(peer, peer), None, "no such connection");
        }
    }
}
