//! The two addresses of a packet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Where a TCP packet comes from and where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Flow {
    pub source: SocketAddr,
    pub destination: SocketAddr,
}

impl Flow {
    pub(crate) fn new(source: SocketAddr, destination: SocketAddr) -> Self {
        Self { source, destination }
    }

    /// That of the packets the other way, where nothing translates them.
    pub(crate) fn inverse(self) -> Self {
        Self { source: self.destination, destination: self.source }
    }
}

/// An address in network byte order; `None`: of another length than those have.
pub(crate) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(octets).into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|octets| Ipv6Addr::from(octets).into())
}

/// Its bytes as a packet carries them.
pub(crate) fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// `AF_INET` or `AF_INET6`.
pub(crate) fn family(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 2 } else { 10 }
}
