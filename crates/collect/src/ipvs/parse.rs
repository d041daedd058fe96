//! The bytes of the generic netlink family `IPVS` → timeouts and services (`include/uapi/linux/ip_vs.h`).
//! Pure.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use crate::{
    flow::ip,
    netlink::{Attributes, Block, NetlinkError, each_message, exactly},
    sock_diag::parse::ParsedBlock,
};

/// `sizeof(struct genlmsghdr)`
const MESSAGE: usize = 4;
/// `CTRL_ATTR_FAMILY_ID` (`include/uapi/linux/genetlink.h`)
const FAMILY_ID: u16 = 1;
/// `IPVS_CMD_ATTR_SERVICE`
const SERVICE: u16 = 1;
/// `IPVS_CMD_ATTR_TIMEOUT_TCP`
const TIMEOUT_TCP: u16 = 4;
/// `IPVS_CMD_ATTR_TIMEOUT_TCP_FIN`
const TIMEOUT_TCP_FIN: u16 = 5;
/// `IPVS_CMD_ATTR_TIMEOUT_UDP`
const TIMEOUT_UDP: u16 = 6;
/// `IPVS_SVC_ATTR_AF`
const SERVICE_FAMILY: u16 = 1;
/// `IPVS_SVC_ATTR_PROTOCOL`
const SERVICE_PROTOCOL: u16 = 2;
/// `IPVS_SVC_ATTR_ADDR`
const SERVICE_ADDRESS: u16 = 3;
/// `IPVS_SVC_ATTR_PORT`
const SERVICE_PORT: u16 = 4;
/// `IPVS_SVC_ATTR_FWMARK`
const SERVICE_MARK: u16 = 5;
/// `AF_INET`
const INET: u16 = 2;
/// `IPPROTO_TCP`
const TCP: u16 = 6;

/// What `ipvsadm --set` sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// Of an established TCP connection.
    pub tcp: Duration,
    /// Of `FIN_WAIT`.
    pub tcp_fin: Duration,
    /// Of UDP.
    pub udp: Duration,
}

/// The virtual services of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Services {
    /// Of TCP. Port 0: every port of the address.
    pub tcp: Vec<SocketAddr>,
    /// How many are named by a firewall mark: they have no address.
    pub by_mark: u32,
}

/// The number of a generic netlink family, from the answer of the controller.
pub(crate) fn family(block: &[u8]) -> Result<u16, NetlinkError> {
    let mut id = None;
    each_answer(block, |attributes| {
        for attribute in attributes {
            if let (FAMILY_ID, value) = attribute? {
                id = Some(u16::from_ne_bytes(exactly("CTRL_ATTR_FAMILY_ID", value)?));
            }
        }
        Ok(())
    })?;
    id.ok_or(missing("CTRL_ATTR_FAMILY_ID"))
}

/// The timeouts, from the answer to `IPVS_CMD_GET_CONFIG`.
pub(crate) fn timeouts(block: &[u8]) -> Result<Timeouts, NetlinkError> {
    let [mut tcp, mut tcp_fin, mut udp] = [None; 3];
    each_answer(block, |attributes| {
        for attribute in attributes {
            let (kind, value) = attribute?;
            let into = match kind {
                TIMEOUT_TCP => &mut tcp,
                TIMEOUT_TCP_FIN => &mut tcp_fin,
                TIMEOUT_UDP => &mut udp,
                _ => continue,
            };
            let seconds = u32::from_ne_bytes(exactly("a timeout", value)?);
            *into = Some(Duration::from_secs(seconds.into()));
        }
        Ok(())
    })?;
    // A kernel without UDP or TCP balancing has no such attribute; without TCP nothing matters here.
    let tcp = tcp.ok_or(missing("IPVS_CMD_ATTR_TIMEOUT_TCP"))?;
    let tcp_fin = tcp_fin.ok_or(missing("IPVS_CMD_ATTR_TIMEOUT_TCP_FIN"))?;
    Ok(Timeouts { tcp, tcp_fin, udp: udp.unwrap_or_default() })
}

/// Takes one block of a dump of services.
pub(crate) fn take_services(block: &[u8], into: &mut Services) -> Result<Block, NetlinkError> {
    each_answer(block, |attributes| {
        for attribute in attributes {
            if let (SERVICE, value) = attribute? {
                service(value, into)?;
            }
        }
        Ok(())
    })
}

fn service(bytes: &[u8], into: &mut Services) -> Result<(), NetlinkError> {
    let (mut family, mut protocol, mut address, mut port) = (0, 0, None, 0);
    for attribute in Attributes(bytes) {
        match attribute? {
            (SERVICE_FAMILY, value) => family = u16::from_ne_bytes(exactly("a family", value)?),
            (SERVICE_PROTOCOL, value) => {
                protocol = u16::from_ne_bytes(exactly("a protocol", value)?);
            }
            (SERVICE_ADDRESS, value) => address = Some(exactly::<16>("an address", value)?),
            (SERVICE_PORT, value) => port = u16::from_be_bytes(exactly("a port", value)?),
            (SERVICE_MARK, _) => into.by_mark = into.by_mark.saturating_add(1),
            _ => {}
        }
    }
    if let Some(address) = address.filter(|_| protocol == TCP)
        && let Some(ip) = address_of(family, &address)
    {
        into.tcp.push(SocketAddr::new(ip, port));
    }
    Ok(())
}

/// `union nf_inet_addr`: an IPv4 address is its first four bytes.
fn address_of(family: u16, bytes: &[u8; 16]) -> Option<IpAddr> {
    if family == INET { ip(&bytes[..4]) } else { ip(bytes) }
}

fn each_answer(
    block: &[u8],
    mut each: impl FnMut(Attributes<'_>) -> Result<(), NetlinkError>,
) -> Result<Block, NetlinkError> {
    each_message(block, |_, body| {
        let attributes = body.get(MESSAGE..).ok_or(NetlinkError::Malformed {
            what: "genlmsghdr",
            got: body.len(),
            need: MESSAGE,
        })?;
        each(Attributes(attributes))
    })
}

fn missing(what: &'static str) -> NetlinkError {
    NetlinkError::Malformed { what, got: 0, need: 4 }
}

/// Parses one received block of a dump of IPVS services: the addresses of those of TCP.
///
/// # Errors
/// A message that is cut short or malformed, or one that says that the kernel refused.
pub fn parse_ipvs_services(block: &[u8]) -> Result<ParsedBlock<SocketAddr>, NetlinkError> {
    let mut services = Services::default();
    let Block { done, interrupted } = take_services(block, &mut services)?;
    Ok(ParsedBlock { items: services.tcp, done, interrupted })
}

/// Parses the answer to `IPVS_CMD_GET_CONFIG`: the timeouts of TCP, TCP after a FIN, and UDP.
///
/// # Errors
/// A message that is cut short or malformed, or one that says that the kernel refused.
pub fn parse_ipvs_timeouts(block: &[u8]) -> Result<[Duration; 3], NetlinkError> {
    timeouts(block).map(|Timeouts { tcp, tcp_fin, udp }| [tcp, tcp_fin, udp])
}
