//! Puts the sources together: each namespace's sockets, then the owners of all of them.

mod gaps;
mod look_again;

use std::io;

use rustix::process::geteuid;
use stillopen_model::{ConntrackSettings, KernelHz, OnHost, Snapshot, Sysctls, pair_ends};

use crate::{
    CollectError, Filter, Namespaces, Request,
    address::{
        self,
        on_host::{TakenOver, classify},
    },
    cluster, conntrack, host, ipvs,
    netlink::{
        NetlinkError,
        read::{Buffer, Whole},
    },
    netns::{self, Place, read::Listed},
    process::read::{Kernel, owners},
    sock_diag::{self, NO_FD, Sockets, View},
    sysctl, tables,
};
use gaps::Sees;

pub(crate) use gaps::{Gaps, TableGap};

/// What was read, and what is needed to look again.
#[derive(Debug)]
pub struct Collected {
    /// What was read.
    pub snapshot: Snapshot,
    /// How many sockets were left out because no file refers to them: closed by their program, or not
    /// accepted yet.
    pub orphans: u32,
    /// `SO_COOKIE` of each connection, in the snapshot's order.
    cookies: Vec<u64>,
    /// The descriptor of each connection in its owner; empty where owners were not looked for.
    fds: Vec<u32>,
    /// Each of the snapshot's namespaces.
    places: Vec<Place>,
}

/// Reads the connections that `request` asks for. `taken_at` is the moment, RFC 3339.
///
/// # Errors
/// What was asked for is not there, or none of it can be read. What is merely missing is a gap.
pub fn collect(request: &Request, taken_at: String) -> Result<Collected, CollectError> {
    let mut gaps = Gaps::default();
    let Listed { places, hidden } = netns::read::list(&request.namespaces)?;
    let root = geteuid().is_root();
    gaps.hidden_namespaces(hidden, root);
    let host = host::read(request.namespaces == Namespaces::All);
    let mut snapshot = Snapshot::new(taken_at, host);
    let mut sockets = Sockets::default();
    let mut taken_over = Vec::new();
    for place in &places {
        let at = u32::try_from(snapshot.namespaces.len()).unwrap_or(u32::MAX);
        let mut row = place.row();
        match namespace(place, at, &request.filter, &mut sockets, &mut gaps) {
            Ok(read) => {
                row.sysctls = read.sysctls;
                row.conntrack = read.conntrack;
                taken_over.extend(read.taken_over);
            }
            Err(error) if places.len() == 1 => return Err(error),
            Err(error) => gaps.namespace(&place.name, error),
        }
        snapshot.namespaces.push(row);
    }
    if request.owners || request.filter.pid.is_some() {
        let only = request.filter.pid;
        let sees = Sees { root, every_pid: netns::read::sees_every_pid() };
        let mut inside = Vec::new();
        let kernel = match snapshot.host.hz {
            // Its numbers of processes are those of the first PID namespace.
            KernelHz::Known(hz)
                if sees.every_pid
                    && request.iterators_from.is_some_and(|n| n <= sockets.connections.len()) =>
            {
                if let [place] = &places[..] {
                    inside = netns::read::processes_in(place)?;
                }
                Some(Kernel { hz, namespaces: &snapshot.namespaces, processes: &inside })
            }
            KernelHz::Known(_) | KernelHz::Foreign => None,
        };
        let others = taken_over.iter().map(|taken| taken.by_inode);
        let found = owners(&mut sockets, others, only, kernel)?;
        for taken in &taken_over {
            let owner = found.of_inode(taken.by_inode);
            sockets.connections[taken.connection].on_host = OnHost::Proxy { owner };
        }
        if only.is_some() {
            keep_owned(&mut sockets);
        }
        gaps.owners(&sockets.connections, &found, sees);
        snapshot.processes = found.processes;
        snapshot.services = cluster::read::describe(&mut snapshot.processes);
    }
    snapshot.connections = sockets.connections;
    if root && request.namespaces == Namespaces::All && !ipvs::read::exists() {
        gaps.no_ipvs();
    }
    let Sockets { orphans, cookies, fds, .. } = sockets;
    let mut collected = Collected { snapshot, orphans, cookies, fds, places };
    collected.ask_tables(&mut gaps);
    collected.snapshot.gaps = gaps.finish();
    Ok(collected)
}

/// Where a connection's socket is to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Handle {
    /// The process that holds it.
    pub pid: u32,
    /// Its descriptor there.
    pub fd: u32,
    /// `SO_COOKIE`: what tells it from another socket that has the number later.
    pub cookie: u64,
    /// The socket's inode: what other holders are found by.
    #[serde(default)]
    pub inode: u32,
}

impl Collected {
    /// Where the socket of connection number `index` of the snapshot is to be had, while the snapshot's
    /// connections are as they were read; `None` where no owner of it was seen.
    #[must_use]
    pub fn handle(&self, index: usize) -> Option<Handle> {
        let c = self.snapshot.connections.get(index)?;
        let owner = self.snapshot.process(c.owner)?;
        let fd = self.fds.get(index).copied().filter(|&fd| fd != NO_FD)?;
        Some(Handle { pid: owner.pid, fd, cookie: *self.cookies.get(index)?, inode: c.inode })
    }

    /// The cookie of connection number `index`, as for [`handle`](Self::handle).
    #[must_use]
    pub fn cookie(&self, index: usize) -> Option<u64> {
        self.cookies.get(index).copied()
    }

    /// Makes both ends of one connection one row, as [`pair_ends`] does.
    pub fn pair_ends(&mut self) {
        let gone = pair_ends(&mut self.snapshot);
        if !gone.is_empty() {
            keep(&mut self.cookies, |at| gone.binary_search(&at).is_err());
            keep(&mut self.fds, |at| gone.binary_search(&at).is_err());
        }
    }

    /// Calls `act` in the network namespace of the snapshot's row `netns`, in a thread of its own where that
    /// is another one than this thread's.
    ///
    /// # Errors
    /// There is no such row, the namespace is gone, or it may not be entered.
    pub fn in_namespace<T: Send>(
        &self,
        netns: u32,
        act: impl FnOnce() -> T + Send,
    ) -> io::Result<T> {
        let place = self.places.get(netns as usize);
        netns::read::visit(place.ok_or(io::ErrorKind::NotFound)?, act)
    }

    /// Gives the connections the witnesses of the tables that they pass. Where one namespace was asked for,
    /// their way may lead through others.
    fn ask_tables(&mut self, gaps: &mut Gaps) {
        let all = if geteuid().is_root() { netns::read::list(&Namespaces::All).ok() } else { None };
        let mut others = all.map(|listed| listed.places).unwrap_or_default();
        others.retain(|other| !self.places.iter().any(|place| place.inode == other.inode));
        let Self { snapshot, cookies, places, .. } = self;
        tables::witnesses(snapshot, cookies, places, others, gaps);
    }
}

/// What one namespace gave beside its sockets.
struct Visited {
    sysctls: Option<Sysctls>,
    conntrack: Option<ConntrackSettings>,
    taken_over: Vec<TakenOver>,
}

fn namespace(
    place: &Place,
    at: u32,
    filter: &Filter,
    sockets: &mut Sockets,
    gaps: &mut Gaps,
) -> Result<Visited, CollectError> {
    let start = sockets.mark();
    let read = netns::read::visit(place, || visited(&place.name, at, filter, sockets, gaps));
    sockets.bystanders = Vec::new();
    match read {
        Ok(Ok(visited)) => Ok(visited),
        Ok(Err(cause)) => {
            sockets.back_to(start);
            let namespace = place.name.clone();
            Err(CollectError::Sockets { namespace, cause: cause.into() })
        }
        Err(cause) => Err(CollectError::Enter { name: place.name.clone(), cause }),
    }
}

/// Reads the namespace that this thread is in.
fn visited(
    name: &str,
    netns: u32,
    filter: &Filter,
    sockets: &mut Sockets,
    gaps: &mut Gaps,
) -> Result<Visited, NetlinkError> {
    let mut buffer = Buffer::new();
    let sysctls = gaps.or_gap("sysctls", name, sysctl::read::sysctls());
    let conntrack = gaps.or_gap("conntrack", name, conntrack::read::settings()).flatten();
    let own = gaps.or_gap("addresses", name, address::read::addresses(&mut buffer));
    let own = own.unwrap_or_default();
    let listeners = gaps.or_gap("listeners", name, sock_diag::read::listeners(&mut buffer));
    let listeners = listeners.as_ref();
    let start = sockets.connections.len();
    let view = View { netns, filter, listeners, own: &own };
    if sock_diag::read::connections(sockets, &view, &mut buffer)? == Whole::No {
        gaps.partial(name);
    }
    let Sockets { connections, bystanders, .. } = sockets;
    let mut taken_over = classify(&mut connections[start..], bystanders, &own, listeners);
    for taken in &mut taken_over {
        taken.connection += start;
    }
    Ok(Visited { sysctls, conntrack, taken_over })
}

/// Leaves out what the process that was asked for does not hold.
fn keep_owned(sockets: &mut Sockets) {
    let connections = &sockets.connections;
    keep(&mut sockets.cookies, |at| connections[at].owner.is_some());
    keep(&mut sockets.fds, |at| connections[at].owner.is_some());
    sockets.connections.retain(|connection| connection.owner.is_some());
}

/// Keeps what stands at the positions that `stays` names.
fn keep<T>(list: &mut Vec<T>, stays: impl Fn(usize) -> bool) {
    let mut position = 0;
    list.retain(|_| {
        position += 1;
        stays(position - 1)
    });
}

#[cfg(test)]
mod tests;
