//! What the host asks of the guest (one JSON file of its memory) and what the guest answers (lines on its
//! second serial port). Both ends are this program.

use serde::{Deserialize, Serialize};

use crate::ends::{End, Keepalive};

/// Everything that one boot does.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Modules to load, in this order: files of `/modules`.
    pub modules: Vec<String>,
    /// Ticks a second of the kernel.
    pub hz: u32,
    /// The guest's time of day at its boot, as QEMU takes it.
    pub date: String,
    /// What runs side by side.
    pub lanes: Vec<Lane>,
    /// Programs to start beside that.
    #[serde(default)]
    pub processes: Vec<Process>,
    /// How long to watch after the start.
    pub watch_ms: u64,
    /// Whether somebody wants to see how the time goes.
    #[serde(default)]
    pub tells_time: bool,
}

/// A program of the guest's memory, and when and where to start it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Process {
    /// The number of the lane whose namespaces are meant.
    pub lane: u8,
    pub place: Place,
    /// Since the start.
    pub at_ms: u64,
    /// Whether it starts only when something serves the lane's backend.
    pub when_served: bool,
    /// The program's path, and its arguments.
    pub words: Vec<Bytes>,
    pub environment: Vec<(Bytes, Bytes)>,
    pub folder: Bytes,
    /// The run is over when it has ended (and all others that have this), or after so many milliseconds of it.
    /// What still runs then is killed.
    pub awaited_ms: Option<u64>,
}

/// One of a lane's network namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Place {
    Client,
    Node,
    Pods,
}

/// Bytes that need be no UTF-8, as a JSON text with a character for each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub(crate) struct Bytes(pub Vec<u8>);

impl From<Bytes> for String {
    fn from(Bytes(bytes): Bytes) -> Self {
        bytes.into_iter().map(char::from).collect()
    }
}

impl From<String> for Bytes {
    fn from(text: String) -> Self {
        Self(text.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect())
    }
}

/// One scenario in the guest: a node with its own tables, and addresses of its own for client and pods.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Lane {
    /// Tells the addresses of lanes apart.
    pub number: u8,
    pub v6: bool,
    pub backends: u8,
    /// Who translates.
    pub table: Table,
    /// Settings of the node's namespace, by their path below `/proc/sys/`.
    pub sysctls: Vec<(String, String)>,
    /// `ipvsadm --set`: established and after a FIN, in seconds; 0 keeps the kernel's value.
    pub timeouts: [u32; 2],
    /// kube-proxy's rule that drops what conntrack calls INVALID.
    pub drop_invalid: bool,
    /// Keepalive of each connection, from its start.
    pub keepalive: [Option<Keepalive>; 2],
    pub steps: Vec<Step>,
    /// Who serves the backends.
    pub serves: Serves,
    /// The incident's two programs, instead of steps.
    pub programs: Option<Programs>,
}

/// Who serves a lane's backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Serves {
    /// The steps, or the incident's agents.
    Steps,
    /// The built-in HTTP server, which answers after so many milliseconds.
    BuiltIn(u64),
    /// A process of the job.
    Process,
}

/// Who translates the virtual address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Table {
    Ipvs,
    /// `nf_conntrack`, by a DNAT rule of `nf_tables`.
    Conntrack,
}

/// One step of a timeline.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Step {
    pub at_ms: u64,
    pub who: End,
    pub connection: usize,
    pub does: Does,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Does {
    Connect,
    Send(usize),
    Shutdown,
    Close,
    SetKeepalive(Option<Keepalive>),
    SetIdleTimeout(u32),
}

/// The agent in each pod, and the job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Programs {
    /// For `lab agent --script`, one for each pod.
    pub script: String,
    pub rounds: u32,
    pub agent_concurrency: usize,
    pub documents: Vec<(String, String)>,
    pub job_concurrency: usize,
    pub timeout_s: u64,
    pub retry_after_s: u64,
    pub max_attempts: u32,
}

/// One line of the guest.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Line {
    /// The guest is up; virtual milliseconds since its boot.
    Booted { at_ms: u64 },
    /// What is in force in a lane's node, read back over netlink: established, after a FIN, UDP.
    Timeouts { lane: u8, seconds: [u32; 3] },
    /// Set-up is done; the scenario starts at this virtual time, on a border of the timer wheel, when the
    /// time of day is `epoch_ms` since 1970.
    Ready { at_ms: u64, start_ms: u64, epoch_ms: u64 },
    /// What time it is, now and then; since the start.
    Clock { at_ms: u64 },
    /// What a program saw.
    Saw { lane: u8, connection: usize, who: End, what: String, bytes: usize, at_ms: u64 },
    /// A step's send came to this.
    Sent { lane: u8, connection: usize, who: End, bytes: usize, at_ms: u64, error: Option<String> },
    /// A step's end or close was done.
    Ended { lane: u8, connection: usize, at_ms: u64 },
    /// The entry of this client port was there at `alive_ms`, as `row` of `/proc/net/ip_vs_conn`, and was not
    /// at `at_ms`.
    Died { lane: u8, port: u16, alive_ms: u64, at_ms: u64, row: String },
    /// All of that file at the end.
    Dump { lane: u8, at_ms: u64, text: String },
    /// A packet at a lane's node.
    Packet(Packet),
    /// A process of the job, by its number there, runs.
    Started { process: usize, at_ms: u64 },
    /// It could not be started.
    NotStarted { process: usize, error: String },
    /// It was not started, since nobody served it; where something listened.
    NotServed { process: usize, waited_ms: u64, listens: Vec<std::net::SocketAddr> },
    /// It wrote this.
    Said { process: usize, to: Stream, text: Bytes },
    /// It has ended: its exit status, or the signal that ended it.
    Exited { process: usize, at_ms: u64, status: Option<u8>, signal: Option<u8> },
    /// It has not ended in its time.
    OverTime { process: usize, at_ms: u64 },
    /// A line of a program's log.
    Log { lane: u8, program: String, text: String },
    /// What the clock said at the end.
    Done { at_ms: u64 },
    /// It cannot go on.
    Failed { what: String },
}

/// Where a program writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// A TCP segment (or the one that an ICMP error quotes) as it entered or left the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Packet {
    pub lane: u8,
    pub at_ms: u64,
    /// Who put it on the wire: `c`lient, `p`od, or the node towards one of them: `C`, `P`.
    pub by: char,
    pub from: std::net::SocketAddr,
    pub to: std::net::SocketAddr,
    /// As tcpdump has them: `S`, `F`, `R`, `P`, `.`; `!` an ICMP error.
    pub flags: String,
    pub seq: u32,
    pub ack: u32,
    pub payload: usize,
}

impl From<Packet> for String {
    fn from(p: Packet) -> Self {
        let Packet { lane, at_ms, by, from, to, flags, seq, ack, payload } = p;
        format!("{lane} {at_ms} {by} {from} {to} {flags} {seq} {ack} {payload}")
    }
}

impl TryFrom<String> for Packet {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let mut words = text.split(' ');
        let mut next = || words.next().ok_or("a packet line is cut short");
        let bad = "a packet line has a bad number";
        Ok(Self {
            lane: next()?.parse().map_err(|_| bad)?,
            at_ms: next()?.parse().map_err(|_| bad)?,
            by: next()?.chars().next().ok_or(bad)?,
            from: next()?.parse().map_err(|_| bad)?,
            to: next()?.parse().map_err(|_| bad)?,
            flags: next()?.to_owned(),
            seq: next()?.parse().map_err(|_| bad)?,
            ack: next()?.parse().map_err(|_| bad)?,
            payload: next()?.parse().map_err(|_| bad)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_says_may_be_any_bytes() {
        let all: Vec<u8> = (0..=255).collect();
        let line = Line::Said { process: 0, to: Stream::Err, text: Bytes(all.clone()) };
        let line = serde_json::to_string(&line).unwrap();
        let Line::Said { text, .. } = serde_json::from_str(&line).unwrap() else {
            panic!("{line}")
        };
        assert_eq!(text.0, all);
    }

    #[test]
    fn a_packet_is_one_short_string() {
        let packet = Packet {
            lane: 3,
            at_ms: 900_123,
            by: 'p',
            from: "10.3.2.2:8000".parse().unwrap(),
            to: "[fd00::1]:20000".parse().unwrap(),
            flags: "P.".into(),
            seq: u32::MAX,
            ack: 7,
            payload: 500,
        };
        let line = serde_json::to_string(&Line::Packet(packet.clone())).unwrap();
        let Line::Packet(read) = serde_json::from_str(&line).unwrap() else { panic!("{line}") };
        assert_eq!(read, packet);
        for bad in ["", "3 1 p", "3 1 p a b c d e f"] {
            assert!(Packet::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
