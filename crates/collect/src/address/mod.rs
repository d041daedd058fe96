//! The addresses of one network namespace, and which connections never leave it.

pub(crate) mod on_host;
pub(crate) mod parse;
pub(crate) mod read;

use std::net::IpAddr;

/// A namespace's own addresses.
#[derive(Debug, Default)]
pub(crate) struct Addresses(Vec<IpAddr>);

impl Addresses {
    pub(crate) fn new(mut addresses: Vec<IpAddr>) -> Self {
        addresses.sort_unstable();
        addresses.dedup();
        Self(addresses)
    }

    /// One of them, other than loopback.
    pub(crate) fn has(&self, ip: IpAddr) -> bool {
        self.0.binary_search(&ip).is_ok()
    }

    /// Loopback, or one of them.
    pub(crate) fn is_local(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.has(ip)
    }
}
