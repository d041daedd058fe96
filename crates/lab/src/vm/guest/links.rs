//! Network namespaces, veth pairs, addresses and routes, over rtnetlink (`include/uapi/linux/rtnetlink.h`).

use std::{
    fs::{self, File},
    io,
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd as _, AsRawFd as _},
    path::Path,
    thread,
};

use rustix::{
    mount::mount_bind,
    net::{AddressFamily, SocketType, netdevice::name_to_index, socket},
    thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe},
};

use super::{
    Done, failed,
    netlink::{Body, CREATE, Netlink},
};
use crate::path::Addresses;

const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
/// `IFLA_ADDRESS`, `IFLA_IFNAME`, `IFLA_LINKINFO`, `IFLA_NET_NS_FD`
const ADDRESS: u16 = 1;
const NAME: u16 = 3;
const LINK_INFO: u16 = 18;
const NAMESPACE: u16 = 28;
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
/// `IFA_F_NODAD`: an IPv6 address is usable at once.
const NO_DAD: u8 = 2;
/// `RT_TABLE_MAIN`, `RTPROT_STATIC`, `RTN_UNICAST`
const MAIN: u8 = 254;
const STATIC: u8 = 4;
const UNICAST: u8 = 1;

/// The device that has the virtual address, as kube-proxy names it.
const VIP_DEVICE: &str = "kube-ipvs0";
/// A device that takes everything and does nothing: where a node's other traffic goes.
const NOWHERE: &str = "nowhere";

/// Where `ip netns` keeps names.
const NAMES: &str = "/run/netns";

/// A network namespace.
#[derive(Debug)]
pub(super) struct Namespace(File);

impl Namespace {
    /// A new one.
    pub(super) fn make() -> Done<Self> {
        let made = thread::spawn(|| -> io::Result<File> {
            // SAFETY: only this thread's network namespace changes, and it holds no file of another.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET)? };
            File::open("/proc/thread-self/ns/net")
        });
        let made = made.join().map_err(|_| "make a network namespace".to_owned())?;
        made.map(Self).map_err(failed("make", "a network namespace"))
    }

    /// The one that this thread is in.
    pub(super) fn own() -> Done<Self> {
        File::open("/proc/thread-self/ns/net")
            .map(Self)
            .map_err(failed("open", "a network namespace"))
    }

    /// Moves this thread there.
    pub(super) fn enter(&self) -> Done<()> {
        move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(failed("enter", "a network namespace"))
    }

    /// Mounts it where `ip netns` looks for names.
    pub(super) fn name(&self, name: &str) -> Done<()> {
        let path = Path::new(NAMES).join(name);
        let made = fs::create_dir_all(NAMES).and_then(|()| File::create(&path));
        made.map_err(failed("make", NAMES))?;
        let from = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        mount_bind(from, &path).map_err(failed("name the namespace", name))
    }

    fn number(&self) -> u32 {
        u32::try_from(self.0.as_raw_fd()).unwrap_or(0)
    }
}

/// Who is at each end of a wire, as its MAC address says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Station {
    Client,
    NodeToClient,
    NodeToPods,
    Pods,
}

/// `02:00:00:LANE:00:STATION`
pub(super) fn mac(lane: u8, station: Station) -> [u8; 6] {
    [2, 0, 0, lane, 0, station as u8]
}

/// The lane's wires: client – node – pods, the virtual address on the node, routes.
pub(super) fn connect(
    lane: u8,
    at: &Addresses,
    vip_is_the_nodes: bool,
    [client, node, pods]: [&Namespace; 3],
) -> Done<()> {
    let [c, p] = [format!("c{lane}"), format!("p{lane}")];
    node.enter()?;
    let links = Links::open()?;
    links.up("lo")?;
    links.veth(
        "client",
        mac(lane, Station::NodeToClient),
        &c,
        mac(lane, Station::Client),
        client,
    )?;
    links.veth("pods", mac(lane, Station::NodeToPods), &p, mac(lane, Station::Pods), pods)?;
    for name in [VIP_DEVICE, NOWHERE] {
        links.dummy(name)?;
        links.up(name)?;
    }
    links.address("client", at.node(1), at.prefix())?;
    links.address("pods", at.node(2), at.prefix())?;
    links.up("client")?;
    links.up("pods")?;
    links.route(at.vip.ip(), 0, None, NOWHERE)?;
    if vip_is_the_nodes {
        links.address(VIP_DEVICE, at.vip.ip(), at.host_prefix())?;
    }
    client.enter()?;
    let links = Links::open()?;
    links.up("lo")?;
    links.address(&c, at.client(0).ip(), at.prefix())?;
    links.up(&c)?;
    links.route(at.vip.ip(), at.host_prefix(), Some(at.node(1)), &c)?;
    links.route(at.node(2), at.prefix(), Some(at.node(1)), &c)?;
    pods.enter()?;
    let links = Links::open()?;
    links.up("lo")?;
    for backend in at.backends.iter().map(SocketAddr::ip) {
        links.address(&p, backend, at.prefix())?;
    }
    links.up(&p)?;
    links.route(at.node(1), at.prefix(), Some(at.node(2)), &p)
}

struct Links(Netlink);

impl Links {
    fn open() -> Done<Self> {
        Netlink::open(None).map(Self).map_err(failed("open", "rtnetlink"))
    }

    fn veth(
        &self,
        name: &str,
        mac: [u8; 6],
        peer: &str,
        peer_mac: [u8; 6],
        namespace: &Namespace,
    ) -> Done<()> {
        let peer = Body::with(&[0; 16])
            .text(NAME, peer)
            .attribute(ADDRESS, &peer_mac)
            .native(NAMESPACE, namespace.number());
        let data = Body::default().nested(PEER, &peer);
        let info = Body::default().text(INFO_KIND, "veth").nested(INFO_DATA, &data);
        let body =
            Body::with(&[0; 16]).text(NAME, name).attribute(ADDRESS, &mac).nested(LINK_INFO, &info);
        self.ask(RTM_NEWLINK, CREATE, &body, "make veth", name)
    }

    fn dummy(&self, name: &str) -> Done<()> {
        let info = Body::default().text(INFO_KIND, "dummy");
        let body = Body::with(&[0; 16]).text(NAME, name).nested(LINK_INFO, &info);
        self.ask(RTM_NEWLINK, CREATE, &body, "make dummy", name)
    }

    fn up(&self, name: &str) -> Done<()> {
        // struct ifinfomsg: family, type, index, flags, change.
        let header = [[0; 4], [0; 4], UP.to_ne_bytes(), UP.to_ne_bytes()].concat();
        let body = Body::with(&header).text(NAME, name);
        self.ask(RTM_NEWLINK, 0, &body, "bring up", name)
    }

    fn address(&self, device: &str, address: IpAddr, prefix: u8) -> Done<()> {
        let (family, bytes) = parts(address);
        let mut header = vec![family, prefix, if address.is_ipv6() { NO_DAD } else { 0 }, 0];
        header.extend(index(device)?.to_ne_bytes());
        let body = Body::with(&header).attribute(IFA_LOCAL, &bytes).attribute(IFA_ADDRESS, &bytes);
        self.ask(RTM_NEWADDR, CREATE, &body, "add an address to", device)
    }

    fn route(&self, to: IpAddr, prefix: u8, via: Option<IpAddr>, device: &str) -> Done<()> {
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
        let body = body.native(DEVICE, index(device)?);
        self.ask(RTM_NEWROUTE, CREATE, &body, "add a route by", device)
    }

    fn ask(&self, kind: u16, flags: u16, body: &Body, what: &str, with: &str) -> Done<()> {
        self.0.ask(kind, flags, body).map(drop).map_err(failed(what, with))
    }
}

fn index(device: &str) -> Done<u32> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None);
    let any = any.map_err(failed("open", "a socket"))?;
    name_to_index(&any, device).map_err(failed("find device", device))
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
