//! One TCP connection as one observer sees it.

use std::{net::SocketAddr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{Keepalive, Micros, Millis, Witness, secs};

/// The last packet on the wire may be this much younger than the youngest stamp: a delayed ACK leaves up
/// to 200 ms (`TCP_DELACK_MAX`, `include/net/tcp.h`) after the data that it answers, and moves no stamp.
pub const LAST_PACKET_UNCERTAINTY: Duration = Duration::from_millis(200);

/// A TCP connection as the kernel of one end describes it at the moment of the snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Connection {
    /// This end.
    pub local: SocketAddr,
    /// The other end, as this end's kernel knows it (the VIP of a Service, not its pod).
    pub peer: SocketAddr,
    /// Which of [`Snapshot::namespaces`](crate::Snapshot) it is in.
    pub netns: u32,
    /// Which of [`Snapshot::processes`](crate::Snapshot) holds it; `None`: not seen, or nobody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
    /// The socket's inode; 0 where no file refers to it (the program has closed it).
    #[serde(default)]
    pub inode: u32,
    /// TCP state.
    pub state: State,
    /// Whether this end connected or accepted.
    #[serde(default)]
    pub role: Role,
    /// Whether the path starts and ends on this host.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_host: OnHost,
    /// What the kernel's timer of this socket is armed for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timer: Timer,
    /// `icsk_retransmits`: retransmission timeouts in a row without an answer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retransmits: u8,
    /// `icsk_probes_out`: keepalive or window probes in a row without an answer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub probes_unanswered: u8,
    /// `tcpi_options` has `TCPI_OPT_SYN_DATA`: the SYN carried data (TCP Fast Open).
    #[serde(default, skip_serializing_if = "is_default")]
    pub syn_data: bool,
    /// When [`timer`](Self::timer) fires, from now.
    #[serde(rename = "timer_expires_s", default)]
    pub timer_expires: Option<Millis>,
    /// This end's keepalive.
    #[serde(default)]
    pub keepalive: Keepalive,
    /// `TCP_USER_TIMEOUT`; `None`: not readable; zero: not set.
    #[serde(rename = "user_timeout_s", default)]
    pub user_timeout: Option<Millis>,
    /// Bytes that the program has not read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub receive_queue: u32,
    /// Bytes not yet acknowledged by the peer, sent or not.
    #[serde(default, skip_serializing_if = "is_default")]
    pub send_queue: u32,
    /// The stamps and counters of `tcp_info`; `None` where the kernel gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counters>,
    /// What changed until a second look, where one was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<Box<Watch>>,
    /// The other end, where this host sees it too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_end: Option<Box<FarEnd>>,
    /// What the tables that it passes on this host say of it.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub tables: Box<[Witness]>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Stamps and counters of `struct tcp_info` (`include/uapi/linux/tcp.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Since this end last sent data.
    #[serde(rename = "last_data_sent_s")]
    pub last_data_sent: Millis,
    /// Since this end last received data.
    #[serde(rename = "last_data_recv_s")]
    pub last_data_recv: Millis,
    /// Since an acceptable ACK last arrived. A probe that arrives does not move it.
    #[serde(rename = "last_ack_recv_s")]
    pub last_ack_recv: Millis,
    /// Smoothed round-trip time.
    #[serde(rename = "rtt_s")]
    pub rtt: Micros,
    /// Segments sent that the peer has not acknowledged.
    pub unacked: u32,
    /// Segments received, with and without data.
    pub segs_in: u32,
    /// Segments sent, with and without data.
    pub segs_out: u32,
    /// Segments received with data.
    pub data_segs_in: u32,
    /// Segments sent with data.
    pub data_segs_out: u32,
    /// Bytes of this end that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Bytes received.
    pub bytes_received: u64,
}

/// Two looks at one connection, [`after`](Self::after) apart, without data between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// From the first look to the second.
    #[serde(rename = "after_s", with = "secs")]
    pub after: Duration,
    /// How many segments arrived that moved none of the `last_*` stamps: probes of the peer.
    pub peer_probes: u32,
    /// How many segments this end sent meanwhile, which may have refreshed the path.
    #[serde(default)]
    pub own_segments: u32,
}

/// The other end of a connection that has both its ends on this host, in two network namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FarEnd {
    /// Which of the snapshot's namespaces it is in.
    pub netns: u32,
    /// Which of the snapshot's processes holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
    /// TCP state there.
    pub state: State,
    /// How long no packet has been seen, from its stamps: it sees the answers to its own probes.
    #[serde(rename = "quiet_s", with = "secs::option", default)]
    pub quiet: Option<Duration>,
    /// Its keepalive, which refreshes the path as well as this end's does.
    pub keepalive: Keepalive,
    /// What its timer is armed for.
    #[serde(default)]
    pub timer: Timer,
    /// Its unanswered keepalive probes.
    #[serde(default)]
    pub probes_unanswered: u8,
    /// The time to its next keepalive timer.
    #[serde(rename = "timer_expires_s", with = "secs::option", default)]
    pub timer_expires: Option<Duration>,
}

/// TCP states in which a program can hang (RFC 9293 section 3.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Both may send.
    Established,
    /// The SYN has no answer yet.
    SynSent,
    /// This end has closed its direction; the FIN is not acknowledged.
    FinWait1,
    /// This end has closed its direction and waits for the peer's FIN.
    FinWait2,
    /// The peer has closed its direction; this end's program has not.
    CloseWait,
}

impl State {
    /// As `ss` and RFC 9293 write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Established => "ESTABLISHED",
            Self::SynSent => "SYN-SENT",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::CloseWait => "CLOSE-WAIT",
        }
    }
}

/// Which end opened the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// This end connected.
    Client,
    /// This end accepted.
    Server,
    /// It could not be read.
    #[default]
    Unknown,
}

/// Whether the packets of a connection leave this host's one network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnHost {
    /// The peer is elsewhere.
    #[default]
    No,
    /// The peer is on loopback.
    Loopback,
    /// The peer has an address of this connection's own network namespace.
    SameNamespace,
    /// The peer's address is elsewhere, but a process of this namespace has taken the connection over
    /// (a sidecar behind a REDIRECT rule): the leg to it ends here.
    Proxy {
        /// Which of the snapshot's processes that is, where it is seen.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<u32>,
    },
}

/// What the socket's timer is armed for (`idiag_timer`, `net/ipv4/inet_diag.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timer {
    /// None: keepalive is off.
    #[default]
    None,
    /// 1: data is unacknowledged. It hides whether keepalive is on.
    Retransmit,
    /// 2: keepalive (or, for a socket that no file refers to, `FIN_WAIT2`).
    Keepalive,
    /// 4: the peer's window is closed.
    ZeroWindow,
    /// 3, or one that this version does not know.
    Other,
}

/// What this end waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    /// It sent last and has no answer: the reader that will never be told.
    ForAnswer,
    /// The last exchange is complete: a pooled connection.
    Idle,
    /// Not known, or this end is the server.
    Unknown,
}

impl Role {
    /// The other end's.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
            Self::Unknown => Self::Unknown,
        }
    }
}

impl Connection {
    /// How long no packet has been seen, from this end's stamps; `None` where the kernel gave none.
    ///
    /// The end that receives keepalive probes sees none of them in any stamp: see
    /// [`probes_possible`](crate::probes_possible). Where the other end is seen too, its stamps count as
    /// well; a second look that saw probes bounds it.
    #[must_use]
    pub fn quiet(&self) -> Option<Duration> {
        let c = self.counters?;
        let mut quiet = c.last_data_sent.min(c.last_data_recv).min(c.last_ack_recv).get();
        if let Some(far_quiet) = self.far_end.as_ref().and_then(|far| far.quiet) {
            quiet = quiet.min(far_quiet);
        }
        if let Some(watch) = &self.watch
            && watch.peer_probes > 0
        {
            quiet = quiet.min(watch.after);
        }
        Some(quiet)
    }

    /// How long no payload has been seen; `None` where the kernel gave no stamps.
    #[must_use]
    pub fn payload_quiet(&self) -> Option<Duration> {
        self.counters.map(|c| c.last_data_sent.min(c.last_data_recv).get())
    }

    /// What this end waits for. Known for the connecting end only, and not once the peer has closed: the
    /// end of its stream is an answer.
    ///
    /// The stamps tick with the kernel's clock: where the last data went both ways within one tick,
    /// only a later ACK shows that this end sent last.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        let Some(c) = self.counters else { return Waiting::Unknown };
        if self.role != Role::Client || matches!(self.state, State::SynSent | State::CloseWait) {
            return Waiting::Unknown;
        }
        if c.data_segs_out == 0 {
            // Nothing asked yet. A server that speaks first (SSH, SMTP) may have.
            return Waiting::Idle;
        }
        if c.data_segs_in == 0 || c.last_data_sent < c.last_data_recv {
            return Waiting::ForAnswer;
        }
        if c.last_data_recv < c.last_data_sent {
            return Waiting::Idle;
        }
        Waiting::Unknown
    }

    /// Whether one end has closed its direction.
    #[must_use]
    pub fn is_half_closed(&self) -> bool {
        matches!(self.state, State::CloseWait | State::FinWait1 | State::FinWait2)
    }

    /// The latest that the last packet may have been seen after the youngest stamp.
    #[must_use]
    pub fn stamp_uncertainty(&self) -> Duration {
        LAST_PACKET_UNCERTAINTY + self.counters.map(|c| c.rtt.get()).unwrap_or_default()
    }
}
