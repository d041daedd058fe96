//! The listeners of one namespace: they tell a server's end from a client's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::wire::{DiagMessage, GET_TCP_SOCKETS, INET_DIAG_SKV6ONLY, INET6, LISTEN};
use crate::netlink::{Attributes, Block, NetlinkError, each_message};

const ANY4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const ANY6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// Where something listens. Sorted by [`ready`](Self::ready), after the dump.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Vec<(u16, IpAddr)>);

impl Listeners {
    /// Takes one block of a dump of listeners.
    pub(crate) fn take(&mut self, block: &[u8]) -> Result<Block, NetlinkError> {
        each_message(block, |kind, body| {
            if kind != GET_TCP_SOCKETS {
                return Ok(());
            }
            let (message, attributes) = DiagMessage::split(body)?;
            if message.raw_state() != LISTEN {
                return Ok(());
            }
            let mut v6_only = false;
            for attribute in Attributes(attributes) {
                let (kind, value) = attribute?;
                if kind == INET_DIAG_SKV6ONLY {
                    v6_only = value.first().is_some_and(|&only| only != 0);
                }
            }
            self.add(message.local(), message.family() == INET6 && !v6_only);
            Ok(())
        })
    }

    /// `dual`: an IPv6 socket that IPv4 peers may connect to.
    fn add(&mut self, at: SocketAddr, dual: bool) {
        self.0.push((at.port(), at.ip()));
        if dual && at.ip() == ANY6 {
            self.0.push((at.port(), ANY4));
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn ready(&mut self) {
        self.0.sort_unstable();
        self.0.dedup();
    }

    /// Whether something listens at `local`, by its address or by a wildcard.
    pub(crate) fn serves(&self, local: SocketAddr) -> bool {
        let has = |ip| self.0.binary_search(&(local.port(), ip)).is_ok();
        has(local.ip()) || has(if local.is_ipv4() { ANY4 } else { ANY6 })
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.0.iter().map(|&(port, ip)| SocketAddr::new(ip, port))
    }

    #[cfg(test)]
    pub(crate) fn of(at: &[(&str, bool)]) -> Self {
        let mut listeners = Self::default();
        for &(address, dual) in at {
            listeners.add(address.parse().unwrap(), dual);
        }
        listeners.ready();
        listeners
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_serves_every_address_of_its_families() {
        let listeners = Listeners::of(&[
            ("10.0.0.1:80", false),
            ("0.0.0.0:81", false),
            ("[::]:82", true),
            ("[::]:83", false),
            ("[2001:db8::1]:84", true),
        ]);
        for (local, served) in [
            ("10.0.0.1:80", true),
            ("10.0.0.2:80", false),
            ("10.0.0.2:81", true),
            ("[2001:db8::1]:81", false),
            ("10.0.0.2:82", true),
            ("[2001:db8::1]:82", true),
            ("10.0.0.2:83", false),
            ("[2001:db8::1]:83", true),
            ("[2001:db8::1]:84", true),
            ("[2001:db8::2]:84", false),
            ("10.0.0.1:85", false),
        ] {
            assert_eq!(listeners.serves(local.parse().unwrap()), served, "{local}");
        }
    }
}
