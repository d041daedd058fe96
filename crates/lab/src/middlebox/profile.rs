//! What kinds of middlebox there are: each is one row of data, nothing here is code that decides.
//!
//! What a miss meets agrees with what real kernels were measured to do (Linux 6.1, IPVS and nftables
//! DNAT). A new middlebox adds a row. Read first: `grid.rs`.

use std::time::Duration;

use stillopen_model::{Expiry, Miss, Refresh};

use super::grid::{self, Grid, STATES, TcpState};

/// One kind of middlebox.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Its name in scenario files.
    pub name: &'static str,
    /// What it is, for people.
    pub about: &'static str,
    /// Its state machine.
    pub grid: &'static Grid,
    /// Its timeouts, per state.
    pub timeouts: Timeouts,
    /// Whether its timer is on the kernel's timer wheel.
    pub on_wheel: bool,
    /// What it does when the time is up.
    pub on_expiry: Expiry,
    /// What starts its timer anew.
    pub refreshed_by: Refresh,
    /// What the client's next packet meets when the entry is gone.
    pub client_meets: Miss,
    /// What the server's next packet meets when the entry is gone.
    pub server_meets: Miss,
    /// Whether a packet that does not fit its connection's state is dropped, or passes untranslated.
    pub invalid: Passage,
    /// What becomes of a segment whose TCP checksum is wrong.
    pub wrong_checksum: Passage,
    /// What becomes of fragments. No profile reassembles; TCP with path MTU discovery never fragments.
    pub fragments: Passage,
    /// What becomes of other protocols.
    pub other_protocols: Passage,
    /// Whether clients connect to a virtual address that it translates, or to the server itself.
    pub translates: bool,
}

/// Whether a packet that is not in order goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// Nobody looks: it is treated as any other.
    NotChecked,
    /// As it is, untranslated.
    Pass,
    /// No.
    Drop,
}

use Passage::{Drop, NotChecked, Pass};

/// How long an idle entry is kept in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts([Duration; STATES]);

impl Timeouts {
    /// How long in `state`.
    #[must_use]
    pub fn of(&self, state: TcpState) -> Duration {
        self.0[state as usize]
    }

    /// The same with another timeout for `state`.
    #[must_use]
    pub const fn with(mut self, state: TcpState, timeout: Duration) -> Self {
        self.0[state as usize] = timeout;
        self
    }

    /// What `change` makes of each.
    #[cfg(all(feature = "programs", target_os = "linux", not(stillopen_portable)))]
    pub(crate) fn each(&self, change: impl FnMut(Duration) -> Duration) -> Self {
        Self(self.map(change))
    }

    pub(crate) fn map<T>(&self, each: impl FnMut(Duration) -> T) -> [T; STATES] {
        self.0.map(each)
    }
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// `tcp_timeouts` of `ip_vs_proto_tcp.c`. `ipvsadm --set` changes `ESTABLISHED` and `FIN_WAIT` (and UDP) only.
const IPVS_TIMEOUTS: Timeouts = Timeouts([
    /* None */ s(2),
    /* SynSent */ s(2 * 60),
    /* SynRecv */ s(60),
    /* Established */ s(15 * 60),
    /* FinWait */ s(2 * 60),
    /* CloseWait */ s(60),
    /* LastAck */ s(30),
    /* TimeWait */ s(2 * 60),
    /* Close */ s(10),
    /* SynSent2: not in IPVS */ s(2 * 60),
    /* Lingering: not in IPVS */ s(60),
]);

/// `tcp_timeouts` of `nf_conntrack_proto_tcp.c`; the sysctls `nf_conntrack_tcp_timeout_*`.
const CONNTRACK_TIMEOUTS: Timeouts = Timeouts([
    /* None */ s(10 * 60),
    /* SynSent */ s(2 * 60),
    /* SynRecv */ s(60),
    /* Established */ s(5 * 24 * 60 * 60),
    /* FinWait */ s(2 * 60),
    /* CloseWait */ s(60),
    /* LastAck */ s(30),
    /* TimeWait */ s(2 * 60),
    /* Close */ s(10),
    /* SynSent2 */ s(2 * 60),
    /* Lingering: a proxy's tcp_fin_timeout */ s(60),
]);

const IPVS: Profile = Profile {
    name: "ipvs",
    about: "Kubernetes Service in IPVS mode (masquerading, rr)",
    grid: &grid::IPVS,
    timeouts: IPVS_TIMEOUTS,
    on_wheel: true,
    on_expiry: Expiry::Silent,
    refreshed_by: Refresh::AnyPacket,
    // The virtual address is the node's own (kube-ipvs0): its TCP has no such socket and resets.
    client_meets: Miss::Reset,
    // Nothing matches: the node routes it, with the pod's own address.
    server_meets: Miss::PassUntranslated,
    invalid: Pass,
    // `tcp_snat_handler` checks only for application helpers: it is updated and stays wrong.
    wrong_checksum: NotChecked,
    fragments: Pass,
    other_protocols: Pass,
    translates: true,
};

const CONNTRACK: Profile = Profile {
    name: "conntrack",
    about: "NAT by nf_conntrack (kube-proxy in iptables or nftables mode), tcp_loose=1",
    grid: &grid::CONNTRACK,
    timeouts: CONNTRACK_TIMEOUTS,
    on_wheel: false,
    // tcp_loose: an ACK of the client is NEW mid-stream, and the rules translate it again.
    client_meets: Miss::Recreate,
    // The server's is NEW the other way round: no rule translates it.
    server_meets: Miss::PassUntranslated,
    invalid: Pass,
    // `nf_conntrack_checksum`: INVALID, so not translated.
    wrong_checksum: Pass,
    ..IPVS
};

/// The profiles, each a row.
pub const PROFILES: [Profile; 13] = [
    IPVS,
    Profile {
        name: "ipvs-sloppy",
        about: "IPVS with sloppy_tcp=1: any packet of the client makes an entry",
        client_meets: Miss::Recreate,
        ..IPVS
    },
    Profile {
        name: "ipvs-icmp",
        about: "IPVS with nat_icmp_send=1: the server gets ICMP port unreachable",
        server_meets: Miss::IcmpUnreachable,
        ..IPVS
    },
    Profile {
        name: "ipvs-conntrack",
        about: "IPVS with vs.conntrack=1, INVALID dropped, tcp_loose=1: the drop rule does not fire",
        invalid: Drop,
        wrong_checksum: Drop,
        ..IPVS
    },
    Profile {
        name: "ipvs-conntrack-strict",
        about: "IPVS with vs.conntrack=1, INVALID dropped, tcp_loose=0: true silence",
        server_meets: Miss::Drop,
        invalid: Drop,
        wrong_checksum: Drop,
        ..IPVS
    },
    CONNTRACK,
    Profile {
        name: "conntrack-drop-invalid",
        about: "NAT by nf_conntrack, tcp_loose=1, INVALID dropped",
        invalid: Drop,
        wrong_checksum: Drop,
        ..CONNTRACK
    },
    Profile {
        name: "conntrack-strict",
        about: "NAT by nf_conntrack, tcp_loose=0, INVALID dropped: true silence",
        client_meets: Miss::Drop,
        server_meets: Miss::Drop,
        invalid: Drop,
        wrong_checksum: Drop,
        ..CONNTRACK
    },
    Profile {
        name: "conntrack-not-loose",
        about: "NAT by nf_conntrack, tcp_loose=0, INVALID passes untranslated",
        client_meets: Miss::PassUntranslated,
        server_meets: Miss::PassUntranslated,
        ..CONNTRACK
    },
    Profile {
        name: "nat-reset",
        about: "NAT gateway that resets the sender of a packet that it does not know",
        client_meets: Miss::Reset,
        server_meets: Miss::Reset,
        invalid: Drop,
        wrong_checksum: Drop,
        other_protocols: Drop,
        fragments: Drop,
        // AWS NAT gateway: 350 s.
        timeouts: CONNTRACK_TIMEOUTS.with(TcpState::Established, s(350)),
        ..CONNTRACK
    },
    Profile {
        name: "lb-reset-both",
        about: "load balancer that resets both ends when it forgets (F5 FastL4)",
        on_expiry: Expiry::Reset,
        client_meets: Miss::Reset,
        server_meets: Miss::Reset,
        invalid: Drop,
        wrong_checksum: Drop,
        other_protocols: Drop,
        fragments: Drop,
        // F5 BIG-IP FastL4: 300 s.
        timeouts: CONNTRACK_TIMEOUTS.with(TcpState::Established, s(300)),
        ..CONNTRACK
    },
    Profile {
        name: "firewall-drop",
        about: "stateful firewall without NAT that drops what it does not know",
        client_meets: Miss::Drop,
        server_meets: Miss::Drop,
        invalid: Drop,
        wrong_checksum: Drop,
        other_protocols: Drop,
        fragments: Drop,
        // Cisco ASA, Palo Alto, FortiGate: 3600 s.
        timeouts: CONNTRACK_TIMEOUTS.with(TcpState::Established, s(3600)),
        translates: false,
        ..CONNTRACK
    },
    Profile {
        name: "l7-proxy",
        about: "HTTP proxy: counts payload only, closes both sides when the time is up",
        on_expiry: Expiry::Fin,
        refreshed_by: Refresh::PayloadOnly,
        client_meets: Miss::Reset,
        server_meets: Miss::Reset,
        invalid: Drop,
        wrong_checksum: Drop,
        other_protocols: Drop,
        fragments: Drop,
        // nginx proxy_read_timeout: 60 s.
        timeouts: CONNTRACK_TIMEOUTS.with(TcpState::Established, s(60)),
        ..CONNTRACK
    },
];

impl Profile {
    /// The profile of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        PROFILES.into_iter().find(|profile| profile.name == name)
    }

    /// All names, in the order of the table.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        PROFILES.iter().map(|profile| profile.name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for profile in PROFILES {
            assert_eq!(Profile::named(profile.name).as_ref(), Some(&profile));
        }
        assert_eq!(Profile::named("router"), None);
    }
}
