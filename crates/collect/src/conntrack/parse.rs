//! The bytes of a ctnetlink dump → entries (`include/uapi/linux/netfilter/nfnetlink_conntrack.h`). Pure.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use crate::{
    flow::{Flow, ip},
    netlink::{Attributes, Block, NetlinkError, each_message, exactly},
    sock_diag::parse::ParsedBlock,
};

/// `NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW`
const NEW_ENTRY: u16 = 1 << 8;
/// `sizeof(struct nfgenmsg)`
const MESSAGE: usize = 4;
/// `CTA_TUPLE_ORIG`
const ORIGINAL: u16 = 1;
/// `CTA_TUPLE_REPLY`
const REPLY: u16 = 2;
/// `CTA_STATUS`
pub(super) const STATUS: u16 = 3;
/// `CTA_TIMEOUT`
const TIMEOUT: u16 = 7;
/// `CTA_TUPLE_IP`
const TUPLE_IP: u16 = 1;
/// `CTA_TUPLE_PROTO`
const TUPLE_PROTO: u16 = 2;
/// `CTA_IP_V4_SRC` and `CTA_IP_V6_SRC`
const IP_SOURCE: [u16; 2] = [1, 3];
/// `CTA_IP_V4_DST` and `CTA_IP_V6_DST`
const IP_DESTINATION: [u16; 2] = [2, 4];
/// `CTA_PROTO_NUM`
const PROTO_NUMBER: u16 = 1;
/// `CTA_PROTO_SRC_PORT`
const SOURCE_PORT: u16 = 2;
/// `CTA_PROTO_DST_PORT`
const DESTINATION_PORT: u16 = 3;
/// `IPPROTO_TCP`
const TCP: u8 = 6;
/// `IPS_SRC_NAT` and `IPS_DST_NAT` (`include/uapi/linux/netfilter/nf_conntrack_common.h`)
pub(crate) const SOURCE_NAT: u32 = 1 << 4;
pub(crate) const DESTINATION_NAT: u32 = 1 << 5;

/// One entry of a TCP connection.
///
/// Its zone does not matter here: an entry of any zone is an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tracked {
    /// As the client's packets come.
    pub original: Flow,
    /// As the server's packets come.
    pub reply: Flow,
    /// `None`: it is fixed (`IPS_FIXED_TIMEOUT`) or offloaded, and has no time.
    pub remaining: Option<Duration>,
    status: u32,
}

impl Tracked {
    /// An entry with these two tuples; `status`: what it translates.
    #[cfg(test)]
    pub(crate) fn new(original: Flow, reply: Flow, seconds: u64, status: u32) -> Self {
        Self { original, reply, remaining: Some(Duration::from_secs(seconds)), status }
    }

    /// Whether it translates an address of the connection. IP Virtual Server writes the tuples of its
    /// connections into their entries too (`ip_vs_update_conntrack`), but then the entry translates nothing.
    pub(crate) fn translates(&self) -> bool {
        self.status & (SOURCE_NAT | DESTINATION_NAT) != 0 && self.reply != self.original.inverse()
    }

    /// Whether the client's packets go elsewhere than the client sends them to.
    pub(crate) fn translates_destination(&self) -> bool {
        self.status & DESTINATION_NAT != 0 && self.reply.source != self.original.destination
    }
}

/// Hands each TCP entry of one block of a dump to `each`.
pub(crate) fn each_entry(
    block: &[u8],
    mut each: impl FnMut(Tracked),
) -> Result<Block, NetlinkError> {
    each_message(block, |kind, body| {
        if kind != NEW_ENTRY {
            return Ok(());
        }
        let attributes = body.get(MESSAGE..).ok_or(NetlinkError::Malformed {
            what: "nfgenmsg",
            got: body.len(),
            need: MESSAGE,
        })?;
        let (mut original, mut reply, mut remaining, mut status) = (None, None, None, 0);
        for attribute in Attributes(attributes) {
            match attribute? {
                (ORIGINAL, value) => original = tuple(value)?,
                (REPLY, value) => reply = tuple(value)?,
                (TIMEOUT, value) => {
                    let seconds = u32::from_be_bytes(exactly("CTA_TIMEOUT", value)?);
                    remaining = Some(Duration::from_secs(seconds.into()));
                }
                (STATUS, value) => status = u32::from_be_bytes(exactly("CTA_STATUS", value)?),
                _ => {}
            }
            if original.is_none() {
                // The first attribute. Of another protocol the rest does not matter.
                return Ok(());
            }
        }
        if let (Some(original), Some(reply)) = (original, reply) {
            each(Tracked { original, reply, remaining, status });
        }
        Ok(())
    })
}

/// `None`: not of TCP.
fn tuple(bytes: &[u8]) -> Result<Option<Flow>, NetlinkError> {
    let (mut source, mut destination): (Option<IpAddr>, Option<IpAddr>) = (None, None);
    let (mut protocol, mut from, mut to) = (0, 0, 0);
    for attribute in Attributes(bytes) {
        match attribute? {
            (TUPLE_IP, value) => {
                for attribute in Attributes(value) {
                    match attribute? {
                        (kind, value) if IP_SOURCE.contains(&kind) => source = ip(value),
                        (kind, value) if IP_DESTINATION.contains(&kind) => destination = ip(value),
                        _ => {}
                    }
                }
            }
            (TUPLE_PROTO, value) => {
                for attribute in Attributes(value) {
                    match attribute? {
                        (PROTO_NUMBER, value) => [protocol] = exactly("CTA_PROTO_NUM", value)?,
                        (SOURCE_PORT, value) => from = port(value)?,
                        (DESTINATION_PORT, value) => to = port(value)?,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    if protocol != TCP {
        return Ok(None);
    }
    let ends = source.zip(destination);
    Ok(ends.map(|(source, destination)| {
        Flow::new(SocketAddr::new(source, from), SocketAddr::new(destination, to))
    }))
}

fn port(value: &[u8]) -> Result<u16, NetlinkError> {
    exactly("a port", value).map(u16::from_be_bytes)
}

/// Parses one received block of a dump of conntrack entries: what is left of the time of each, and whether
/// it translates the destination.
///
/// # Errors
/// A message that is cut short or malformed, or one that says that the kernel refused.
pub fn parse_conntrack(
    block: &[u8],
) -> Result<ParsedBlock<(Option<Duration>, bool)>, NetlinkError> {
    let mut items = Vec::new();
    let Block { done, interrupted } = each_entry(block, |entry| {
        items.push((entry.remaining, entry.translates_destination()));
    })?;
    Ok(ParsedBlock { items, done, interrupted })
}
