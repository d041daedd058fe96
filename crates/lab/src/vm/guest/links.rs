//! The network namespaces of a lane and the wires between them.

use std::{
    fs::{self, File},
    io,
    net::SocketAddr,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd},
    path::Path,
    thread,
};

use rustix::{
    mount::mount_bind,
    thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe},
};

use super::{Done, failed};
use crate::{
    netlink::links::{Links, VethEnd},
    path::Addresses,
};

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

    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
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
    let end = |name, station| VethEnd { name, mac: mac(lane, station) };
    let [near, far] = [end("client", Station::NodeToClient), end(c.as_str(), Station::Client)];
    links.veth(near, far, client.fd())?;
    let [near, far] = [end("pods", Station::NodeToPods), end(p.as_str(), Station::Pods)];
    links.veth(near, far, pods.fd())?;
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
    Ok(links.route(at.node(1), at.prefix(), Some(at.node(2)), &p)?)
}
