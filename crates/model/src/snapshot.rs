//! Everything that was read at one moment, and what could not be read. `check --save` writes it,
//! `check --from` diagnoses it elsewhere.

use std::{io, time::Duration};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{Connection, Evidence, IdleLimit, KernelHz, Platform, connection::OnHost, secs};

/// The only format of a snapshot file that this version reads and writes.
const SCHEMA: &str = "stillopen.snapshot/1";

/// Connections, limits and gaps of one host at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Format and its version: `stillopen.snapshot/1`.
    pub schema: String,
    /// When it was taken, RFC 3339.
    pub taken_at: String,
    /// The host that it was taken on.
    pub host: Host,
    /// The network namespaces that were visited.
    pub namespaces: Vec<Namespace>,
    /// Processes that hold connections.
    #[serde(default)]
    pub processes: Vec<Process>,
    /// What forgets connections.
    #[serde(default)]
    pub limits: Vec<IdleLimit>,
    /// kube-proxy's mode and where it is configured, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_proxy: Option<Evidence>,
    /// Addresses of Services that processes were told of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<KnownService>,
    /// The connections.
    pub connections: Vec<Connection>,
    /// What could not be read.
    #[serde(default)]
    pub gaps: Vec<Gap>,
}

/// The host of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// `uname -r`; empty where there is none.
    #[serde(default)]
    pub kernel: String,
    /// Ticks a second of its kernel's timers.
    pub hz: KernelHz,
    /// Whether every network namespace of the host was to be visited.
    #[serde(default)]
    pub all_namespaces: bool,
    /// What the host gave itself away as: it makes some limits likely, and decides none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub platforms: Vec<Platform>,
}

/// A network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// `host`, the name under /run/netns, `pid 4711`, or `this` where only one was visited.
    pub name: String,
    /// The inode of /proc/PID/ns/net; 0 where there is none.
    #[serde(default)]
    pub inode: u64,
    /// Whether it is the namespace of process 1 as this host's root sees it.
    #[serde(default)]
    pub is_host: bool,
    /// Its keepalive defaults, where they could be read.
    #[serde(default)]
    pub sysctls: Option<Sysctls>,
    /// Its connection tracking, where it has one that could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conntrack: Option<ConntrackSettings>,
}

/// `net.netfilter.nf_conntrack_*` of one network namespace
/// (`Documentation/networking/nf_conntrack-sysctl.rst`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConntrackSettings {
    /// `tcp_timeout_established`
    #[serde(rename = "established_s", with = "secs")]
    pub established: Duration,
    /// `tcp_timeout_close_wait`: after the client's FIN was acknowledged.
    #[serde(rename = "close_wait_s", with = "secs")]
    pub close_wait: Duration,
    /// `tcp_timeout_fin_wait`: after a FIN.
    #[serde(rename = "fin_wait_s", with = "secs")]
    pub fin_wait: Duration,
    /// `tcp_timeout_unacknowledged`: while data or a probe has no ACK.
    #[serde(rename = "unacknowledged_s", with = "secs")]
    pub unacknowledged: Duration,
    /// `tcp_timeout_max_retrans`: after `tcp_max_retrans` retransmissions without an ACK.
    #[serde(rename = "max_retrans_s", with = "secs")]
    pub max_retrans: Duration,
    /// `tcp_loose`: whether it picks up a connection in the middle.
    pub loose: bool,
    /// `tcp_be_liberal`: whether only RSTs out of the window are INVALID.
    pub be_liberal: bool,
    /// `acct`: whether it counts packets and bytes.
    pub acct: bool,
}

/// `net.ipv4.tcp_*` of one network namespace, which a new one does not inherit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sysctls {
    /// `tcp_keepalive_time`, seconds.
    pub keepalive_time_s: u32,
    /// `tcp_keepalive_intvl`, seconds.
    pub keepalive_intvl_s: u32,
    /// `tcp_keepalive_probes`.
    pub keepalive_probes: u32,
    /// `tcp_retries2`.
    pub retries2: u32,
}

impl Sysctls {
    /// What a kernel starts a namespace with (`include/net/tcp.h`).
    pub const KERNEL_DEFAULT: Self =
        Self { keepalive_time_s: 7200, keepalive_intvl_s: 75, keepalive_probes: 9, retries2: 15 };
}

/// A process that holds a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Process id as the observer sees it.
    pub pid: u32,
    /// `/proc/PID/comm`.
    pub command: String,
    /// The user id that it runs as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The pod that it runs in, where its cgroup tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Pod>,
}

/// A Kubernetes pod, and the container of it that a process is in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// `metadata.uid`; of a static pod, the hash of its file.
    pub uid: String,
    /// Its namespace, where a file of the node tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name, where a file of the node tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The container's id at its runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_id: Option<String>,
    /// The container's name, where a file of the node tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_name: Option<String>,
}

/// Addresses that are known to be Kubernetes Services'.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownService {
    /// One cluster IP, or the network that they are from.
    pub network: IpNet,
    /// How that is known: `AGENT_SERVICE_HOST=10.96.14.3 in the environment of pid 1`.
    pub seen: String,
}

/// A source that could not be read. Not an error: the report says "unknown because …".
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Gap {
    /// What was to be read: `owners`, `keepalive`, `namespace`, `sockets`.
    pub source: String,
    /// Why it could not be, with the object and the count.
    pub reason: String,
    /// How to get it; empty where there is no way.
    #[serde(default)]
    pub how: String,
}

/// A snapshot file that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// It could not be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is not JSON, or not of this shape.
    #[error("not a snapshot: {0}")]
    Malformed(serde_json::Error),
    /// It is of another version.
    #[error("its schema is {found:?}; this version of stillopen reads {SCHEMA:?}")]
    Version {
        /// What the file says.
        found: String,
    },
    /// A limit refers to a namespace that it does not hold.
    #[error("not a snapshot: limit {id:?} refers to namespace {index}, which it does not hold")]
    DanglingTable {
        /// The limit's id.
        id: String,
        /// The position that is not there.
        index: u32,
    },
    /// A limit forgets at once.
    #[error(
        "not a snapshot: the idle_timeout_s of limit {id:?} is 0: give the seconds after which it forgets"
    )]
    ZeroTime {
        /// The limit's id.
        id: String,
    },
    /// It refers to something that it does not hold.
    #[error(
        "not a snapshot: connection {connection} refers to {what} {index}, which it does not hold"
    )]
    Dangling {
        /// Position of the connection, from 0.
        connection: usize,
        /// `namespace` or `process`.
        what: &'static str,
        /// The position that is not there.
        index: u32,
    },
}

impl Snapshot {
    /// A snapshot without connections.
    #[must_use]
    pub fn new(taken_at: String, host: Host) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            taken_at,
            host,
            namespaces: Vec::new(),
            processes: Vec::new(),
            limits: Vec::new(),
            kube_proxy: None,
            services: Vec::new(),
            connections: Vec::new(),
            gaps: Vec::new(),
        }
    }

    /// Reads a snapshot file and checks it: the version first, so that a newer file gets a clear answer.
    ///
    /// # Errors
    /// Not JSON, another version, a reference to something that it does not hold, or a limit without a time.
    pub fn from_json(text: &[u8]) -> Result<Self, SnapshotError> {
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        let head: Head = serde_json::from_slice(text).map_err(SnapshotError::Malformed)?;
        if head.schema != SCHEMA {
            return Err(SnapshotError::Version { found: head.schema });
        }
        let snapshot: Self = serde_json::from_slice(text).map_err(SnapshotError::Malformed)?;
        snapshot.check_references()?;
        snapshot.check_times()?;
        Ok(snapshot)
    }

    /// Writes it as JSON.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn to_json(&self, to: impl io::Write) -> Result<(), SnapshotError> {
        serde_json::to_writer(to, self).map_err(|error| SnapshotError::Io(error.into()))
    }

    /// The process that holds a connection.
    #[must_use]
    pub fn process(&self, owner: Option<u32>) -> Option<&Process> {
        self.processes.get(owner? as usize)
    }

    /// The namespace of a connection.
    #[must_use]
    pub fn namespace(&self, index: u32) -> Option<&Namespace> {
        self.namespaces.get(index as usize)
    }

    fn check_times(&self) -> Result<(), SnapshotError> {
        match self.limits.iter().find(|limit| limit.idle_timeout.is_zero()) {
            Some(limit) => Err(SnapshotError::ZeroTime { id: limit.id.clone() }),
            None => Ok(()),
        }
    }

    fn check_references(&self) -> Result<(), SnapshotError> {
        let namespaces = self.namespaces.len();
        for limit in &self.limits {
            if let Some(table) = limit.table
                && table.netns as usize >= namespaces
            {
                return Err(SnapshotError::DanglingTable {
                    id: limit.id.clone(),
                    index: table.netns,
                });
            }
        }
        let processes = self.processes.len();
        for (connection, c) in self.connections.iter().enumerate() {
            let far = c.far_end.as_deref();
            let proxy = match c.on_host {
                OnHost::Proxy { owner } => owner,
                _ => None,
            };
            let references = [
                ("namespace", namespaces, Some(c.netns)),
                ("namespace", namespaces, far.map(|far| far.netns)),
                ("namespace", namespaces, c.tables.iter().map(|w| w.table.netns).max()),
                ("process", processes, c.owner),
                ("process", processes, far.and_then(|far| far.owner)),
                ("process", processes, proxy),
            ];
            for (what, held, index) in references {
                if let Some(index) = index
                    && index as usize >= held
                {
                    return Err(SnapshotError::Dangling { connection, what, index });
                }
            }
        }
        Ok(())
    }
}
