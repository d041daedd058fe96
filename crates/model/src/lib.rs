//! What is known of a host's TCP connections and of everything that forgets them, and what follows.
//!
//! Pure: no I/O, no clock, no unsafe. A [`Snapshot`] comes in from `stillopen-collect` or from a file.
//!
//! Read first: `connection.rs`, `limit.rs`, then `diagnose.rs`.
#![forbid(unsafe_code)]

mod catalogue;
mod connection;
mod keepalive;
mod limit;
mod program;
mod secs;
mod snapshot;
mod wheel;

pub use catalogue::{Catalogue, Kind, NotALimit, Range, RefreshedBy, Row, Slack, Verified, WhyNot};
pub use connection::{
    Connection, Counters, FarEnd, LAST_PACKET_UNCERTAINTY, OnHost, Role, State, Timer, Waiting,
    Watch,
};
pub use keepalive::{Keepalive, KeepaliveTimes, KeepaliveValues, ParseKeepaliveError};
pub use limit::{
    Direction, Evidence, EvidenceSource, Expiry, IdleLimit, Miss, Refresh, Selector, TimerSlack,
};
pub use program::{ProgramTimer, TimerKind, program_timers};
pub use secs::human;
pub use snapshot::{Gap, Host, Namespace, Process, Snapshot, SnapshotError, Sysctls};
pub use wheel::{KernelHz, wheel_slack, wheel_slack_worst};
