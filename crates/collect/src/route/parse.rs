//! The bytes of routing netlink → where a packet goes next (`include/uapi/linux/rtnetlink.h`,
//! `if_link.h`, `net_namespace.h`). Pure.

use std::net::IpAddr;

use crate::{
    flow::ip,
    netlink::{Attributes, NetlinkError, each_message, exactly},
};

/// `RTM_NEWLINK`
const NEW_LINK: u16 = 16;
/// `RTM_NEWROUTE`
const NEW_ROUTE: u16 = 24;
/// `RTM_NEWNSID`
const NEW_NSID: u16 = 88;
/// `sizeof(struct rtmsg)`
const ROUTE: usize = 12;
/// `RTN_UNICAST`
const UNICAST: u8 = 1;
/// `RTN_LOCAL`
const LOCAL: u8 = 2;
/// `RTA_OIF`
const OUT: u16 = 4;
/// `RTA_GATEWAY`
const GATEWAY: u16 = 5;
/// `RTA_VIA`: a gateway of the other family.
const VIA: u16 = 18;
/// `sizeof(struct ifinfomsg)`
const LINK: usize = 16;
/// `IFLA_LINK`
const LINK_PEER: u16 = 5;
/// `IFLA_MASTER`
const MASTER: u16 = 10;
/// `IFLA_LINKINFO`
const LINK_INFO: u16 = 18;
/// `IFLA_INFO_KIND`
const INFO_KIND: u16 = 1;
/// `IFLA_LINK_NETNSID`
const LINK_NETNSID: u16 = 37;
/// `sizeof(struct rtgenmsg)`, aligned.
const GENERAL: usize = 4;
/// `NETNSA_NSID`
const NSID: u16 = 1;

/// Where a packet goes from a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// It is for this namespace.
    Here,
    /// Through a link, to a neighbour.
    Through {
        /// Its number.
        link: u32,
        /// `None`: the destination itself.
        gateway: Option<IpAddr>,
    },
    /// It is refused, dropped, or goes one of several ways.
    Nowhere,
}

/// What is known of a link.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Link {
    kind: Vec<u8>,
    /// The link at its other end, by its number there.
    peer: Option<u32>,
    /// Which namespace that is in, by this namespace's number for it; `None`: this one.
    peer_namespace: Option<i32>,
    /// The link that it is a port of.
    pub master: Option<u32>,
}

impl Link {
    /// The only other end of a cable: the number of its namespace and its own there. What is sent on a
    /// macvlan or a bridge goes elsewhere, whatever they are linked to.
    pub(crate) fn other_end(&self) -> Option<(i32, u32)> {
        (self.kind == b"veth").then_some(self.peer_namespace.zip(self.peer)).flatten()
    }

    pub(crate) fn is_bridge(&self) -> bool {
        self.kind == b"bridge"
    }
}

/// The answer to `RTM_GETROUTE`.
pub(crate) fn way(block: &[u8]) -> Result<Way, NetlinkError> {
    let mut way = Way::Nowhere;
    each_message(block, |kind, body| {
        if kind != NEW_ROUTE {
            return Ok(());
        }
        let (head, attributes) = split::<ROUTE>("rtmsg", body)?;
        let (mut link, mut gateway) = (None, None);
        for attribute in Attributes(attributes) {
            match attribute? {
                (OUT, value) => link = Some(number("RTA_OIF", value)?),
                (GATEWAY, value) => gateway = ip(value),
                (VIA, value) => gateway = value.get(2..).and_then(ip),
                _ => {}
            }
        }
        way = match (head[7], link) {
            (LOCAL, _) => Way::Here,
            (UNICAST, Some(link)) => Way::Through { link, gateway },
            _ => Way::Nowhere,
        };
        Ok(())
    })?;
    Ok(way)
}

/// The answer to `RTM_GETLINK` for one link.
pub(crate) fn link(block: &[u8]) -> Result<Link, NetlinkError> {
    let mut link = Link::default();
    each_message(block, |kind, body| {
        if kind != NEW_LINK {
            return Ok(());
        }
        let (_, attributes) = split::<LINK>("ifinfomsg", body)?;
        for attribute in Attributes(attributes) {
            match attribute? {
                (LINK_PEER, value) => link.peer = Some(number("IFLA_LINK", value)?),
                (MASTER, value) => link.master = Some(number("IFLA_MASTER", value)?),
                (LINK_NETNSID, value) => {
                    let id = i32::from_ne_bytes(exactly("IFLA_LINK_NETNSID", value)?);
                    link.peer_namespace = Some(id);
                }
                (LINK_INFO, value) => {
                    for attribute in Attributes(value) {
                        if let (INFO_KIND, text) = attribute? {
                            link.kind = text.split(|&byte| byte == 0).next().unwrap_or(text).into();
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    })?;
    Ok(link)
}

/// The answer to `RTM_GETNSID`: this namespace's number for another; `None`: it has none.
pub(crate) fn nsid(block: &[u8]) -> Result<Option<i32>, NetlinkError> {
    let mut id = None;
    each_message(block, |kind, body| {
        if kind != NEW_NSID {
            return Ok(());
        }
        let (_, attributes) = split::<GENERAL>("rtgenmsg", body)?;
        for attribute in Attributes(attributes) {
            if let (NSID, value) = attribute? {
                id = Some(i32::from_ne_bytes(exactly("NETNSA_NSID", value)?));
            }
        }
        Ok(())
    })?;
    Ok(id.filter(|&id| id >= 0))
}

fn split<'a, const N: usize>(
    what: &'static str,
    body: &'a [u8],
) -> Result<(&'a [u8; N], &'a [u8]), NetlinkError> {
    body.split_first_chunk().ok_or(NetlinkError::Malformed { what, got: body.len(), need: N })
}

fn number(what: &'static str, value: &[u8]) -> Result<u32, NetlinkError> {
    exactly(what, value).map(u32::from_ne_bytes)
}

/// Parses one answer of routing netlink: the link that a route leads through.
///
/// # Errors
/// A message that is cut short or malformed, or one that says that the kernel refused.
pub fn parse_route(block: &[u8]) -> Result<Option<u32>, NetlinkError> {
    link(block)?;
    nsid(block)?;
    Ok(match way(block)? {
        Way::Through { link, .. } => Some(link),
        Way::Here | Way::Nowhere => None,
    })
}
