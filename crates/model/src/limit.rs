//! What forgets a connection: after how long, which connections, what refreshes it, what happens then,
//! and how we know.

use std::{net::SocketAddr, time::Duration};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{KernelHz, Role, TableId, secs};

/// Something on the way that forgets a connection when it has been idle for long enough.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IdleLimit {
    /// A speaking id: of the catalogue (`aws-nat-gateway`), of the configuration, or `user-350s`.
    pub id: String,
    /// What it is, for people: `AWS NAT gateway`.
    pub component: String,
    /// Idle timeout of an established connection.
    #[serde(rename = "idle_timeout_s", with = "secs")]
    pub idle_timeout: Duration,
    /// Idle timeout once the client has closed its direction; `None`: not known.
    #[serde(rename = "client_closed_s", with = "secs::option", default)]
    pub client_closed: Option<Duration>,
    /// Idle timeout once the server has closed its direction; `None`: not known.
    #[serde(rename = "server_closed_s", with = "secs::option", default)]
    pub server_closed: Option<Duration>,
    /// The table of this host's kernel that it is the timeout of: the connections with a
    /// [`Witness`](crate::Witness) of it pass it, whatever [`selector`](Self::selector) says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<TableId>,
    /// Which connections pass it.
    #[serde(default)]
    pub selector: Selector,
    /// What starts its timer anew.
    #[serde(default)]
    pub refreshed_by: Refresh,
    /// How late it may be.
    #[serde(default)]
    pub slack: TimerSlack,
    /// What it does when the time is up.
    #[serde(default)]
    pub on_expiry: Expiry,
    /// What the client's next packet meets afterwards; `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_meets: Option<Miss>,
    /// What the server's next packet meets afterwards; `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_meets: Option<Miss>,
    /// What a configuration wants `idle_timeout` to be, where one was read beside what is in force.
    #[serde(
        rename = "configured_s",
        with = "secs::option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub configured: Option<Duration>,
    /// How this is known, strongest first. Measured beats read, read beats catalogue.
    pub evidence: Vec<Evidence>,
}

impl IdleLimit {
    /// A limit that means what it says: exact, silent, for every peer, refreshed by any packet.
    #[must_use]
    pub fn new(id: String, component: String, idle_timeout: Duration, evidence: Evidence) -> Self {
        Self {
            id,
            component,
            idle_timeout,
            client_closed: None,
            server_closed: None,
            table: None,
            selector: Selector::default(),
            refreshed_by: Refresh::default(),
            slack: TimerSlack::default(),
            on_expiry: Expiry::default(),
            client_meets: None,
            server_meets: None,
            configured: None,
            evidence: vec![evidence],
        }
    }

    /// How late an expiry after `idle_timeout` may be on this limit's own timer.
    #[must_use]
    pub fn slack_of(&self, idle_timeout: Duration) -> Duration {
        match self.slack {
            TimerSlack::Exact => Duration::ZERO,
            TimerSlack::Wheel { hz } => hz.slack(idle_timeout),
        }
    }
}

/// Which connections pass a limit.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Selector {
    /// Networks of the peer; empty, and no [`services`](Self::services) either: any peer that is not on
    /// this host.
    #[serde(default)]
    pub peers: Vec<IpNet>,
    /// Virtual services: addresses and ports that the limit's component translates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<SocketAddr>,
    /// Who opened the connection.
    #[serde(default)]
    pub direction: Direction,
}

impl Selector {
    /// Whether the limit names `peer` with a network or a service of its own.
    #[must_use]
    pub fn names(&self, peer: SocketAddr) -> bool {
        let ip = peer.ip().to_canonical();
        self.peers.iter().any(|net| net.contains(&ip))
            || self.services.contains(&SocketAddr::new(ip, peer.port()))
    }

    /// Whether a connection to `peer`, opened by this end or by the other, passes it.
    ///
    /// Where it is not known who opened it, both directions count: the smaller limit is the safe answer.
    #[must_use]
    pub fn matches(&self, peer: SocketAddr, role: Role) -> bool {
        let direction = match (self.direction, role) {
            (Direction::Both, _) | (_, Role::Unknown) => true,
            (Direction::Outbound, role) => role == Role::Client,
            (Direction::Inbound, role) => role == Role::Server,
        };
        let any = self.peers.is_empty() && self.services.is_empty();
        direction && (any || self.names(peer))
    }
}

/// Who opened the connections that a limit holds for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Whoever did.
    #[default]
    Both,
    /// This host.
    Outbound,
    /// The peer.
    Inbound,
}

/// What starts an idle timer anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refresh {
    /// Every packet, either way, keepalive probes and bare ACKs too: what works on layer 3 and 4.
    #[default]
    AnyPacket,
    /// Payload only: a proxy ends TCP itself, so its kernel answers the probes.
    PayloadOnly,
    /// Not known, or disputed: no keepalive makes a connection safe under it.
    Unknown,
}

/// What a limit does when the time is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expiry {
    /// Nothing: nobody is told.
    #[default]
    Silent,
    /// It closes the connection to both ends, as a proxy does.
    Fin,
    /// It resets both ends.
    Reset,
    /// Not known: a connection that outlived it is not called cut.
    Unknown,
}

/// What a packet meets once its connection has been forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Miss {
    /// It disappears.
    Drop,
    /// Its sender gets a reset.
    Reset,
    /// The entry is made anew: the connection heals.
    Recreate,
    /// It goes on with its untranslated address, and the host that it reaches resets it.
    PassUntranslated,
    /// Its sender gets an ICMP unreachable.
    IcmpUnreachable,
}

/// How late a limit's own timer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimerSlack {
    /// Not late: conntrack checks at look-up, and a limit that the user gave means what it says.
    #[default]
    Exact,
    /// On the kernel's timer wheel: never early, up to a bucket late (IPVS).
    Wheel {
        /// Ticks a second of that kernel.
        hz: KernelHz,
    },
}

/// How a limit is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// What kind of source.
    pub source: EvidenceSource,
    /// The command line, the file, the page.
    pub detail: String,
    /// When the source was read, `YYYY-MM-DD`, where that matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Where to read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl Evidence {
    /// Evidence that needs no date and has no page.
    #[must_use]
    pub fn new(source: EvidenceSource, detail: String) -> Self {
        Self { source, detail, date: None, url: None }
    }
}

/// The kinds of evidence, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceSource {
    /// A probe measured it.
    Measured,
    /// The kernel that forgets said so.
    Kernel,
    /// The user said so on the command line.
    User,
    /// A configuration file.
    ConfigFile,
    /// Inferred from logs.
    Logs,
    /// The catalogue: dated, and not about this very network.
    Catalogue,
}
