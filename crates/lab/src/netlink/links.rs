//! Veth pairs, addresses and routes, over rtnetlink (`include/uapi/linux/rtnetlink.h`).

use std::{
    io,
    net::IpAddr,
    os::fd::{AsRawFd as _, BorrowedFd},
};

use super::{Body, CREATE, Netlink};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
/// `IFLA_ADDRESS`, `IFLA_IFNAME`, `IFLA_LINKINFO`, `IFLA_NET_NS_FD`
const ADDRESS: u16 = 1;
const NAME: u16 = 3;
const LINK_INFO: u16 = 18;
const NAMESPACE: u16 = 28;
/// `IFLA_GSO_MAX_SEGS`
const GSO_MAX_SEGS: u16 = 40;
/// `IFLA_INFO_KIND`, `IFLA_INFO_DATA`; `VETH_INFO_PEER`
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const PEER: u16 = 1;
/// `IFA_ADDRESS`, `IFA_LOCAL`; `RTA_DST`, `RTA_OIF`, `RTA_GATEWAY`
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const DESTINATION: u16 = 1;
const DEVICE: u16 = 4;
const GATEWAY: u16 = 5;
/// `IFF_UP`
const UP: u32 = 1;
/// `IFF_NOARP`
const NO_ARP: u32 = 0x80;
/// `IFLA_OPERSTATE`, and `IF_OPER_UP` (RFC 2863)
const OPERATIONAL_STATE: u16 = 16;
const OPERATES: u8 = 6;
/// `IFA_F_NODAD`: an IPv6 address is usable at once.
const NO_DAD: u8 = 2;
/// `RT_TABLE_MAIN`, `RTPROT_STATIC`, `RTN_UNICAST`
const MAIN: u8 = 254;
const STATIC: u8 = 4;
const UNICAST: u8 = 1;
/// `RTN_LOCAL`
const LOCAL: u8 = 2;

/// What the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("{what} {with}: {source}")]
pub(crate) struct LinkError {
    what: &'static str,
    with: String,
    /// How.
    pub(crate) source: io::Error,
}

impl From<LinkError> for String {
    fn from(error: LinkError) -> Self {
        error.to_string()
    }
}

/// One end of a veth pair.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VethEnd<'a> {
    pub(crate) name: &'a str,
    pub(crate) mac: [u8; 6],
}

/// The devices of one network namespace.
#[derive(Debug)]
pub(crate) struct Links(Netlink);

impl Links {
    /// Of the namespace that this thread is in.
    pub(crate) fn open() -> Result<Self, LinkError> {
        Netlink::open(None).map(Self).map_err(failed("open", "rtnetlink"))
    }

    /// Of the namespace that the socket was opened in.
    pub(crate) fn of(netlink: Netlink) -> Self {
        Self(netlink)
    }

    /// A pair of which the far end is in `namespace`.
    pub(crate) fn veth(
        &self,
        near: VethEnd<'_>,
        far: VethEnd<'_>,
        namespace: BorrowedFd<'_>,
    ) -> Result<(), LinkError> {
        let namespace = u32::try_from(namespace.as_raw_fd()).unwrap_or(0);
        let peer = Body::with(&[0; 16])
            .text(NAME, far.name)
            .attribute(ADDRESS, &far.mac)
            .native(NAMESPACE, namespace);
        let data = Body::default().nested(PEER, &peer);
        let info = Body::default().text(INFO_KIND, "veth").nested(INFO_DATA, &data);
        let body = Body::with(&[0; 16])
            .text(NAME, near.name)
            .attribute(ADDRESS, &near.mac)
            .nested(LINK_INFO, &info);
        self.ask(RTM_NEWLINK, CREATE, &body, "make veth", near.name)
    }

    /// A device that takes everything and does nothing.
    pub(crate) fn dummy(&self, name: &str) -> Result<(), LinkError> {
        let info = Body::default().text(INFO_KIND, "dummy");
        let body = Body::with(&[0; 16]).text(NAME, name).nested(LINK_INFO, &info);
        self.ask(RTM_NEWLINK, CREATE, &body, "make dummy", name)
    }

    /// Brings a device up.
    pub(crate) fn up(&self, name: &str) -> Result<(), LinkError> {
        self.change(name, UP, Body::default(), "bring up")
    }

    /// Brings a device up that asks nobody for an address of the link (`IFF_NOARP`): what it sends has its own
    /// as destination too.
    pub(crate) fn up_without_neighbours(&self, name: &str) -> Result<(), LinkError> {
        self.change(name, UP | NO_ARP, Body::default(), "bring up")
    }

    /// Makes the device's own namespace send each segment by itself.
    pub(crate) fn one_segment_each(&self, name: &str) -> Result<(), LinkError> {
        let segments = Body::default().native(GSO_MAX_SEGS, 1);
        self.change(name, 0, segments, "set the segments at once of")
    }

    fn change(
        &self,
        name: &str,
        flags: u32,
        attributes: Body,
        what: &'static str,
    ) -> Result<(), LinkError> {
        // struct ifinfomsg: family, type, index, flags, change.
        let header = [[0; 4], [0; 4], flags.to_ne_bytes(), flags.to_ne_bytes()].concat();
        let mut body = Body::with(&header).text(NAME, name);
        body.0.extend(attributes.0);
        self.ask(RTM_NEWLINK, 0, &body, what, name)
    }

    /// A device's number.
    pub(crate) fn index(&self, name: &str) -> Result<u32, LinkError> {
        let link = self.link(name)?;
        let index = link.get(4..).and_then(<[u8]>::first_chunk);
        let index = index.map(|index| u32::from_ne_bytes(*index));
        index.ok_or(io::ErrorKind::InvalidData).map_err(failed("find device", name))
    }

    /// Whether a device sends and receives: it is up, so is its other end, and its queue has begun.
    pub(crate) fn operates(&self, name: &str) -> Result<bool, LinkError> {
        Ok(attribute(&self.link(name)?, 16, OPERATIONAL_STATE) == Some(&[OPERATES]))
    }

    /// What the kernel says of a device: `struct ifinfomsg` and its attributes.
    fn link(&self, name: &str) -> Result<Vec<u8>, LinkError> {
        let body = Body::with(&[0; 16]).text(NAME, name);
        let answers = self.0.ask(RTM_GETLINK, 0, &body).map_err(failed("find device", name))?;
        let link = answers.into_iter().next().ok_or(io::ErrorKind::InvalidData);
        link.map_err(failed("find device", name))
    }

    /// Gives a device an address.
    pub(crate) fn address(
        &self,
        device: &str,
        address: IpAddr,
        prefix: u8,
    ) -> Result<(), LinkError> {
        let (family, bytes) = parts(address);
        let mut header = vec![family, prefix, if address.is_ipv6() { NO_DAD } else { 0 }, 0];
        header.extend(self.index(device)?.to_ne_bytes());
        let body = Body::with(&header).attribute(IFA_LOCAL, &bytes).attribute(IFA_ADDRESS, &bytes);
        self.ask(RTM_NEWADDR, CREATE, &body, "add an address to", device)
    }

    /// Sends what is for these addresses to `via`, or else to anyone at the device.
    pub(crate) fn route(
        &self,
        to: IpAddr,
        prefix: u8,
        via: Option<IpAddr>,
        device: &str,
    ) -> Result<(), LinkError> {
        let (family, bytes) = parts(masked(to, prefix));
        // struct rtmsg: family, lengths of destination and source, tos, table, protocol, scope, type, flags.
        let header = [family, prefix, 0, 0, MAIN, STATIC, 0, UNICAST, 0, 0, 0, 0];
        let mut body = Body::with(&header);
        if prefix > 0 {
            body = body.attribute(DESTINATION, &bytes);
        }
        if let Some(via) = via {
            body = body.attribute(GATEWAY, &parts(via).1);
        }
        let body = body.native(DEVICE, self.index(device)?);
        self.ask(RTM_NEWROUTE, CREATE, &body, "add a route by", device)
    }

    /// Whether the namespace takes what is for this address. Of IPv6 it does not at once: the kernel adds the
    /// route to an address of its own from a queue.
    pub(crate) fn takes(&self, address: IpAddr) -> Result<bool, LinkError> {
        let (family, bytes) = parts(address);
        let prefix = u8::try_from(bytes.len() * 8).unwrap_or(u8::MAX);
        let header = [family, prefix, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let body = Body::with(&header).attribute(DESTINATION, &bytes);
        match self.0.ask(RTM_GETROUTE, 0, &body) {
            // struct rtmsg: the type is the eighth byte.
            Ok(routes) => Ok(routes.iter().any(|route| route.get(7) == Some(&LOCAL))),
            Err(error) if error.kind() == io::ErrorKind::NetworkUnreachable => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::HostUnreachable => Ok(false),
            Err(error) => Err(failed("find the route to", &address.to_string())(error)),
        }
    }

    fn ask(
        &self,
        kind: u16,
        flags: u16,
        body: &Body,
        what: &'static str,
        with: &str,
    ) -> Result<(), LinkError> {
        self.0.ask(kind, flags, body).map(drop).map_err(failed(what, with))
    }
}

fn failed<E: Into<io::Error>>(what: &'static str, with: &str) -> impl FnOnce(E) -> LinkError {
    let with = with.to_owned();
    move |source| LinkError { what, with, source: source.into() }
}

/// An attribute of a message whose own header is so long.
fn attribute(message: &[u8], header: usize, kind: u16) -> Option<&[u8]> {
    let mut rest = message.get(header..)?;
    loop {
        let number = |at: usize| Some(u16::from_ne_bytes(*rest.get(at..)?.first_chunk()?));
        let (length, found) = (usize::from(number(0)?), number(2)?);
        let value = rest.get(4..length)?;
        if found == kind {
            return Some(value);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

/// `AF_INET` or `AF_INET6`, and the bytes.
fn parts(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (2, address.octets().to_vec()),
        IpAddr::V6(address) => (10, address.octets().to_vec()),
    }
}

/// The kernel refuses a route whose destination has bits after its prefix.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V6((u128::from(v6) & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_of_a_message_and_none_of_one_cut_short() {
        let body =
            Body::with(&[7; 16]).text(NAME, "eth0").attribute(OPERATIONAL_STATE, &[OPERATES]);
        assert_eq!(attribute(&body.0, 16, OPERATIONAL_STATE), Some(&[OPERATES][..]));
        assert_eq!(attribute(&body.0, 16, ADDRESS), None);
        for length in 0..body.0.len() - 3 {
            assert_eq!(attribute(&body.0[..length], 16, OPERATIONAL_STATE), None, "{length}");
        }
        assert_eq!(attribute(&[0; 32], 16, OPERATIONAL_STATE), None);
    }
}
