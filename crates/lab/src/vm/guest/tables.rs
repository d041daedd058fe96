//! What kube-proxy sets up on a node: a virtual server of IPVS (`include/uapi/linux/ip_vs.h`) over generic
//! netlink, or a DNAT rule of `nf_tables` (`include/uapi/linux/netfilter/nf_tables.h`); and its rule that drops
//! what conntrack calls INVALID.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
};

use rustix::net::netlink;

use super::{Done, failed};
use crate::netlink::{Body, Netlink, attributes};

/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_ID`, `CTRL_ATTR_FAMILY_NAME`
const CONTROL: u16 = 16;
const GET_FAMILY: u16 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// `IPVS_CMD_NEW_SERVICE`, `IPVS_CMD_NEW_DEST`, `IPVS_CMD_SET_CONFIG`, `IPVS_CMD_GET_CONFIG`
const NEW_SERVICE: u8 = 1;
const NEW_DEST: u8 = 5;
const SET_CONFIG: u8 = 12;
const GET_CONFIG: u8 = 13;
/// `IPVS_CMD_ATTR_SERVICE`, `_DEST`; `_TIMEOUT_TCP`, the next ones are `_TCP_FIN` and `_UDP`
const SERVICE: u16 = 1;
const DEST: u16 = 2;
const TIMEOUT_TCP: u16 = 4;
/// `sizeof(struct genlmsghdr)`
const GENERIC: usize = 4;
/// `IPPROTO_TCP`
const TCP: u8 = 6;

/// Writes one setting of the namespace that this thread is in.
pub(super) fn set(path: &str, value: &str) -> Done<()> {
    // /proc/sys follows the thread's namespace.
    fs::write(format!("/proc/sys/{path}"), value).map_err(failed("set", path))
}

/// IPVS of one network namespace.
#[derive(Debug)]
pub(super) struct Ipvs {
    netlink: Netlink,
    family: u16,
}

impl Ipvs {
    /// Of the namespace that this thread is in.
    pub(super) fn open() -> Done<Self> {
        let netlink =
            Netlink::open(Some(netlink::GENERIC)).map_err(failed("open", "generic netlink"))?;
        let body = Body::with(&command(GET_FAMILY.to_ne_bytes()[0])).text(FAMILY_NAME, "IPVS");
        let answers = netlink.ask(CONTROL, 0, &body).map_err(failed("find", "IPVS"))?;
        let family = answers.iter().find_map(|answer| {
            let id = attributes(answer.get(GENERIC..)?).into_iter().find(|a| a.0 == FAMILY_ID)?.1;
            id.first_chunk().map(|id| u16::from_ne_bytes(*id))
        });
        Ok(Self { netlink, family: family.ok_or("find IPVS: no answer")? })
    }

    /// `ipvsadm -A -t VIP -s rr` and `-a -t VIP -r BACKEND -m` for each.
    pub(super) fn serve(&self, vip: SocketAddr, backends: &[SocketAddr]) -> Done<()> {
        let (family, address) = parts(vip.ip());
        let netmask = if vip.is_ipv6() { 128 } else { u32::MAX };
        let service = Body::default()
            .attribute(1, &family.to_ne_bytes())
            .attribute(2, &u16::from(TCP).to_ne_bytes())
            .attribute(3, &address)
            .attribute(4, &vip.port().to_be_bytes());
        let whole =
            service.clone().text(6, "rr").attribute(7, &[0; 8]).native(8, 0).native(9, netmask);
        self.ask(NEW_SERVICE, &Body::default().nested(SERVICE, &whole), "add the virtual server")?;
        for backend in backends {
            let (family, address) = parts(backend.ip());
            // Address, port, method (0: masquerading), weight, no thresholds.
            let dest = Body::default()
                .attribute(1, &address)
                .attribute(2, &backend.port().to_be_bytes())
                .native(3, 0)
                .native(4, 1)
                .native(5, 0)
                .native(6, 0)
                .attribute(11, &family.to_ne_bytes());
            let body = Body::default().nested(SERVICE, &service).nested(DEST, &dest);
            self.ask(NEW_DEST, &body, "add a real server")?;
        }
        Ok(())
    }

    /// `ipvsadm --set`: 0 keeps what there is.
    pub(super) fn set_timeouts(&self, [tcp, tcp_fin]: [u32; 2]) -> Done<()> {
        let body = Body::default().native(TIMEOUT_TCP, tcp).native(TIMEOUT_TCP + 1, tcp_fin);
        self.ask(SET_CONFIG, &body, "set the timeouts of IPVS").map(drop)
    }

    /// What is in force: established, after a FIN, UDP.
    pub(super) fn timeouts(&self) -> Done<[u32; 3]> {
        let answers = self.ask(GET_CONFIG, &Body::default(), "read the timeouts of IPVS")?;
        let mut timeouts = [0; 3];
        for answer in &answers {
            for (kind, value) in attributes(answer.get(GENERIC..).unwrap_or_default()) {
                let at = kind.checked_sub(TIMEOUT_TCP).map(usize::from);
                let into = at.and_then(|at| timeouts.get_mut(at));
                if let (Some(into), Some(value)) = (into, value.first_chunk()) {
                    *into = u32::from_ne_bytes(*value);
                }
            }
        }
        Ok(timeouts)
    }

    fn ask(&self, number: u8, body: &Body, what: &str) -> Done<Vec<Vec<u8>>> {
        let body = Body([&command(number)[..], &body.0].concat());
        self.netlink.ask(self.family, 0, &body).map_err(failed(what, ""))
    }
}

/// `struct genlmsghdr`
fn command(number: u8) -> [u8; GENERIC] {
    [number, 1, 0, 0]
}

/// `AF_INET` or `AF_INET6`, and `union nf_inet_addr`.
fn parts(address: IpAddr) -> (u16, [u8; 16]) {
    match address {
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            (2, bytes)
        }
        IpAddr::V6(address) => (10, address.octets()),
    }
}

/// Registers are four words; the first is the verdict's.
const VERDICT: u32 = 0;
const REGISTER: u32 = 1;
const TABLE: &str = "stillopen";
/// `NFNL_SUBSYS_NFTABLES`, `NFNL_MSG_BATCH_BEGIN`, `NFNL_MSG_BATCH_END`
const NFTABLES: u16 = 10;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
/// `NFT_MSG_NEWTABLE`, `NFT_MSG_NEWCHAIN`, `NFT_MSG_NEWRULE`
const NEW_TABLE: u16 = 0;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
/// `NF_INET_PRE_ROUTING`, `NF_INET_FORWARD`; `NF_IP_PRI_NAT_DST`, `NF_IP_PRI_FILTER`
const DNAT: (&str, u32, i32) = ("nat", 0, -100);
const FORWARD: (&str, u32, i32) = ("filter", 2, 0);
/// `NF_CT_STATE_INVALID_BIT`
const INVALID: u32 = 1;

/// The rules of the namespace that this thread is in.
pub(super) fn rules(
    dnat: Option<(SocketAddr, SocketAddr)>,
    v6: bool,
    drop_invalid: bool,
) -> Done<()> {
    let chain = |name: &str, (kind, hook, priority): (&str, u32, i32)| {
        let hook = Body::default().network(1, hook).attribute(2, &priority.to_be_bytes());
        Body::default().text(1, TABLE).text(3, name).nested(4, &hook).text(7, kind)
    };
    let rule = |chain: &str, expressions: Vec<Body>| {
        let list = expressions.into_iter().fold(Body::default(), |list, e| list.nested(1, &e));
        Body::default().text(1, TABLE).text(2, chain).nested(4, &list)
    };
    let mut asked = vec![(NEW_TABLE, Body::default().text(1, TABLE))];
    if let Some((vip, backend)) = dnat {
        asked.push((NEW_CHAIN, chain("services", DNAT)));
        asked.push((NEW_RULE, rule("services", translate(vip, backend.ip()))));
    }
    if drop_invalid {
        asked.push((NEW_CHAIN, chain("forward", FORWARD)));
        let drop = Body::default().nested(2, &Body::default().network(1, 0));
        let drop = Body::default().network(1, VERDICT).nested(2, &drop);
        let expressions = vec![
            expression("ct", &Body::default().network(1, REGISTER).network(2, 0)),
            masked(INVALID),
            compare(1, &[0; 4]),
            expression("immediate", &drop),
        ];
        asked.push((NEW_RULE, rule("forward", expressions)));
    }
    let family = if v6 { 10 } else { 2 };
    let border = |kind| (kind, 0, Body::with(&[0, 0, 0, NFTABLES.to_be_bytes()[1]]));
    let mut messages = vec![border(BATCH_BEGIN)];
    messages.extend(asked.into_iter().map(|(kind, body)| {
        // struct nfgenmsg: family, version, resource.
        let body = Body([&[family, 0, 0, 0][..], &body.0].concat());
        // Appended, for a rule (NLM_F_APPEND).
        let append = if kind == NEW_RULE { 0x800 } else { 0 };
        (NFTABLES << 8 | kind, 0x400 | append, body)
    }));
    messages.push(border(BATCH_END));
    let netlink = Netlink::open(Some(netlink::NETFILTER)).map_err(failed("open", "nfnetlink"))?;
    netlink.batch(&messages).map_err(failed("add", "the rules of nf_tables"))
}

/// `ip daddr VIP tcp dport PORT dnat to BACKEND`
fn translate(vip: SocketAddr, backend: IpAddr) -> Vec<Body> {
    let bytes = |address| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let destination = bytes(vip.ip());
    let (offset, family) = if vip.is_ipv6() { (24, 10) } else { (16, 2) };
    let value = Body::default().attribute(1, &bytes(backend));
    let length = u32::try_from(destination.len()).unwrap_or(4);
    vec![
        // meta l4proto tcp
        expression("meta", &Body::default().network(1, REGISTER).network(2, 16)),
        compare(0, &[TCP]),
        load(1, offset, length),
        compare(0, &destination),
        load(2, 2, 2),
        compare(0, &vip.port().to_be_bytes()),
        expression("immediate", &Body::default().network(1, REGISTER).nested(2, &value)),
        // NFT_NAT_DNAT, the family, the address's register.
        expression("nat", &Body::default().network(1, 1).network(2, family).network(3, REGISTER)),
    ]
}

/// Loads a part of the header of the network (1) or of the transport (2).
fn load(base: u32, offset: u32, length: u32) -> Body {
    let body = Body::default().network(1, REGISTER).network(2, base);
    expression("payload", &body.network(3, offset).network(4, length))
}

/// Equal (0) or not (1).
fn compare(operation: u32, value: &[u8]) -> Body {
    let value = Body::default().attribute(1, value);
    expression("cmp", &Body::default().network(1, REGISTER).network(2, operation).nested(3, &value))
}

fn masked(bits: u32) -> Body {
    let value = |bits: u32| Body::default().attribute(1, &bits.to_ne_bytes());
    let body = Body::default().network(1, REGISTER).network(2, REGISTER).network(3, 4);
    expression("bitwise", &body.nested(4, &value(bits)).nested(5, &value(0)))
}

fn expression(name: &str, data: &Body) -> Body {
    Body::default().text(1, name).nested(2, data)
}
