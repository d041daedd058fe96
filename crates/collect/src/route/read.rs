//! Asks the kernel for routes, links and the numbers of namespaces.

use std::{
    net::{IpAddr, SocketAddr},
    os::fd::AsRawFd as _,
};

use super::parse::{Link, Way, link, nsid, way};
use crate::{
    flow::{family, octets},
    netlink::{
        NetlinkError,
        read::{Buffer, Socket},
        write::Body,
    },
    netns::{Place, read::open},
};

/// `RTM_GETLINK`
const GET_LINK: u16 = 18;
/// `RTM_GETROUTE`
const GET_ROUTE: u16 = 26;
/// `RTM_GETNSID`
const GET_NSID: u16 = 90;
/// `RTA_DST`
const DESTINATION: u16 = 1;
/// `RTA_SRC`
const SOURCE: u16 = 2;
/// `RTA_IIF`
const IN: u16 = 3;
/// `RTA_IP_PROTO`
const PROTOCOL: u16 = 27;
/// `RTA_DPORT`
const DESTINATION_PORT: u16 = 29;
/// `NETNSA_FD`
const NAMESPACE_FILE: u16 = 3;
/// `IPPROTO_TCP`
const TCP: u8 = 6;

/// Answers for one network namespace, from any thread.
#[derive(Debug)]
pub(crate) struct Router(Socket);

impl Router {
    /// For the calling thread's network namespace.
    pub(crate) fn open() -> Result<Self, NetlinkError> {
        Socket::open(None).map(Self)
    }

    /// Where a TCP packet goes that comes in through link `from`, or starts here.
    pub(crate) fn way(
        &self,
        source: Option<IpAddr>,
        to: SocketAddr,
        from: Option<u32>,
        buffer: &mut Buffer,
    ) -> Result<Way, NetlinkError> {
        let destination = octets(to.ip());
        let length = u8::try_from(destination.len() * 8).unwrap_or(u8::MAX);
        // struct rtmsg
        let head = [family(to.ip()), length, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut request = Body::new(&head).with(DESTINATION, &destination);
        if let Some(source) = source {
            request = request.with(SOURCE, &octets(source));
        }
        if let Some(link) = from {
            request = request.with(IN, &link.to_ne_bytes());
        }
        if to.port() != 0 {
            request =
                request.with(PROTOCOL, &[TCP]).with(DESTINATION_PORT, &to.port().to_be_bytes());
        }
        match self.0.ask(GET_ROUTE, request.bytes(), buffer, way) {
            // There is none.
            Err(NetlinkError::Refused { .. }) => Ok(Way::Nowhere),
            other => other,
        }
    }

    /// What link `index` is.
    pub(crate) fn link(&self, index: u32, buffer: &mut Buffer) -> Result<Link, NetlinkError> {
        // struct ifinfomsg
        let mut head = [0; 16];
        head[4..8].copy_from_slice(&index.to_ne_bytes());
        self.0.ask(GET_LINK, &head, buffer, link)
    }

    /// This namespace's number for the one at `place`; `None`: it has none, or has gone.
    pub(crate) fn number_of(&self, place: &Place, buffer: &mut Buffer) -> Option<i32> {
        let file = open(place).ok()?;
        let request = Body::new(&[0; 4]).with(NAMESPACE_FILE, &file.as_raw_fd().to_ne_bytes());
        self.0.ask(GET_NSID, request.bytes(), buffer, nsid).ok()?
    }
}
