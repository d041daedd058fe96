//! Faults of a connection, each with what it means and what cures it: a table of data.

use std::fmt;

use serde::{Serialize, Serializer};

/// A fault that is, or looks like, an idle cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Finding {
    /// `SO_KEEPALIVE` is 0 on a connection that leaves the host.
    KeepaliveOff,
    /// Keepalive is on and its first probe comes after the path has forgotten.
    KeepaliveTooLate,
    /// Keepalive refreshes in time, and one lost probe is enough to lose the connection.
    KeepaliveThinMargin,
    /// `TCP_KEEPIDLE` is set and `SO_KEEPALIVE` is not.
    ArmedButOff,
    /// A proxy on the path counts payload only.
    Useless,
    /// Keepalive probes get no reply.
    Unanswered,
    /// Data is unacknowledged and is being retransmitted.
    DeadPeer,
    /// The peer has closed; this end's program has not noticed.
    PeerClosed,
    /// Both ends are on this host: no middlebox can be at fault.
    OnThisHost,
    /// A proxy of this host ends the connection: keepalive does not go past it.
    ProxyOnThisHost,
    /// Only the peer's keepalive refreshes the path.
    PeerKeepsAlive,
    /// The program has a timer of its own.
    ProgramTimer,
    /// A pool keeps connections for longer than the path does.
    PoolOutlivesPath,
    /// Idle or interval equals the timeout that it should beat.
    EqualsTimer,
    /// `TCP_USER_TIMEOUT` makes one lost probe end the connection.
    OneLostProbeKills,
    /// The node's sysctl is tuned; this network namespace has its own.
    SysctlNotInherited,
    /// The sysctl is tuned; the program never sets `SO_KEEPALIVE`.
    SysctlWithoutEffect,
    /// The limit says that it would have closed the connection by now.
    LimitContradicted,
    /// The SYN gets no answer.
    SynUnanswered,
    /// The timeout in force is not the one that the configuration sets.
    ConfigurationDrift,
}

/// What is to be said about a [`Finding`].
struct Row {
    finding: Finding,
    id: &'static str,
    title: &'static str,
    cure: &'static str,
}

/// In the order of [`Finding`].
const ROWS: [Row; 20] = [
    Row {
        finding: Finding::KeepaliveOff,
        id: "keepalive_off",
        title: "TCP keepalive is off: while the program is silent, nothing refreshes the path",
        cure: "set SO_KEEPALIVE, TCP_KEEPIDLE, TCP_KEEPINTVL and TCP_KEEPCNT on the socket",
    },
    Row {
        finding: Finding::KeepaliveTooLate,
        id: "keepalive_too_late",
        title: "keepalive is on, but its next probe may come after the path has forgotten",
        cure: "lower TCP_KEEPIDLE (and TCP_KEEPINTVL) well below the limit",
    },
    Row {
        finding: Finding::KeepaliveThinMargin,
        id: "keepalive_thin_margin",
        title: "keepalive refreshes the path just in time: one lost probe loses the connection",
        cure: "lower TCP_KEEPIDLE so that idle + interval x (count - 1) stays below the limit",
    },
    Row {
        finding: Finding::ArmedButOff,
        id: "armed_but_off",
        title: "TCP_KEEPIDLE is set but SO_KEEPALIVE is 0: no probe is ever sent",
        cure: "set SO_KEEPALIVE to 1 on this socket, before TCP_KEEPIDLE",
    },
    Row {
        finding: Finding::Useless,
        id: "useless",
        title: "TCP keepalive does not help here: a proxy on the path counts payload only",
        cure: "send payload in time (streaming, SSE comments, HTTP/2 PING, the protocol's heartbeat), \
               or raise the proxy's timer",
    },
    Row {
        finding: Finding::Unanswered,
        id: "unanswered",
        title: "keepalive probes get no reply: the peer is gone, or the path drops probes",
        cure: "do not tighten keepalive here: it would end the connection sooner",
    },
    Row {
        finding: Finding::DeadPeer,
        id: "dead_peer",
        title: "sent data gets no ACK and is being retransmitted: not an idle cut, and keepalive does \
                not run meanwhile",
        cure: "set TCP_USER_TIMEOUT to notice sooner; by default Linux gives up after 924 to 939 s",
    },
    Row {
        finding: Finding::PeerClosed,
        id: "peer_closed",
        title: "the peer has closed this connection and the program has not read that: not an idle cut",
        cure: "the program must read the end of the stream and close; keepalive is no use",
    },
    Row {
        finding: Finding::OnThisHost,
        id: "on_this_host",
        title: "both ends are in one network namespace: nothing between them can forget it",
        cure: "look for a timer in one of the two programs",
    },
    Row {
        finding: Finding::ProxyOnThisHost,
        id: "proxy_on_this_host",
        title: "a proxy on this host ends this connection: its keepalive does not go past the proxy",
        cure: "set keepalive on the proxy's own connection to the peer",
    },
    Row {
        finding: Finding::PeerKeepsAlive,
        id: "peer_keeps_alive",
        title: "only the peer's keepalive refreshes the path",
        cure: "nothing to do while the peer keeps it on; either end's keepalive suffices",
    },
    Row {
        finding: Finding::ProgramTimer,
        id: "program_timer",
        title: "the program gives up waiting by a timer of its own, whatever the network does",
        cure: "raise the program's own timer",
    },
    Row {
        finding: Finding::PoolOutlivesPath,
        id: "pool_outlives_path",
        title: "the pool keeps idle connections for longer than the path does: the next request on it \
                fails or hangs, a retry works",
        cure: "set keepalive, or let the pool drop idle connections before the limit",
    },
    Row {
        finding: Finding::EqualsTimer,
        id: "equals_timer",
        title: "a keepalive value equals the timeout that it should beat: each probe is a race",
        cure: "choose idle and interval below the limit, never equal to it",
    },
    Row {
        finding: Finding::OneLostProbeKills,
        id: "one_lost_probe_kills",
        title: "TCP_USER_TIMEOUT is so short that one lost keepalive probe ends the connection",
        cure: "set TCP_USER_TIMEOUT to at least idle + interval x count",
    },
    Row {
        finding: Finding::SysctlNotInherited,
        id: "sysctl_not_inherited",
        title: "the host's tcp_keepalive_time is tuned, but a network namespace does not inherit it",
        cure: "set it in the pod (securityContext.sysctls), or on the socket",
    },
    Row {
        finding: Finding::SysctlWithoutEffect,
        id: "sysctl_without_effect",
        title: "tcp_keepalive_time is tuned here, but does nothing: the program never sets SO_KEEPALIVE",
        cure: "set SO_KEEPALIVE to 1 in the program",
    },
    Row {
        finding: Finding::LimitContradicted,
        id: "limit_contradicted",
        title: "the limit should have closed this connection by now, and it is open: the limit is not on \
                its path, or is longer",
        cure: "check the limit's value and which connections it applies to",
    },
    Row {
        finding: Finding::SynUnanswered,
        id: "syn_unanswered",
        title: "the connection is not made yet: its SYN gets no answer",
        cure: "check the address, the route and the firewalls; this is not an idle cut",
    },
    Row {
        finding: Finding::ConfigurationDrift,
        id: "configuration_drift",
        title: "the timeout in force is not the one that kube-proxy's configuration sets",
        cure: "restart kube-proxy on this node, and look for what else sets it (ipvsadm --set)",
    },
];

impl Finding {
    /// Every finding, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.finding)
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The stable id: `keepalive_too_late`.
    #[must_use]
    pub fn id(self) -> &'static str {
        self.row().id
    }

    /// What is wrong, in one sentence.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.row().title
    }

    /// What to do about it.
    #[must_use]
    pub fn cure(self) -> &'static str {
        self.row().cure
    }

    fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// A set of findings, in four bytes: there is one for every connection.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct FindingSet(u32);

impl FindingSet {
    /// Adds one.
    pub fn insert(&mut self, finding: Finding) {
        self.0 |= finding.bit();
    }

    /// Takes one away.
    pub fn remove(&mut self, finding: Finding) {
        self.0 &= !finding.bit();
    }

    /// Adds one if `condition` holds.
    pub fn insert_if(&mut self, condition: bool, finding: Finding) {
        if condition {
            self.insert(finding);
        }
    }

    /// Whether it is there.
    #[must_use]
    pub fn contains(self, finding: Finding) -> bool {
        self.0 & finding.bit() != 0
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that are there, in the order of [`Finding::all`].
    pub fn iter(self) -> impl Iterator<Item = Finding> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let row = ROWS.get(left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(row.finding)
        })
    }
}

impl fmt::Debug for FindingSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Serialize for FindingSet {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter().map(Finding::id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_the_enum() {
        for (position, row) in ROWS.iter().enumerate() {
            assert_eq!(row.finding as usize, position, "{}", row.id);
        }
    }
}
