//! What is known of a host's TCP connections and of everything that forgets them, and what follows.
//!
//! Pure: no I/O, no clock, no unsafe. A [`Snapshot`] comes in from `stillopen-collect` or from a file;
//! [`diagnose`] gives each connection a [`Verdict`] and findings; [`plan`] proposes remedies and
//! [`predict`] tells the verdicts after one.
//!
//! Read first: `connection.rs`, `limit.rs`, then `diagnose.rs`.
#![forbid(unsafe_code)]

mod advise;
mod catalogue;
mod connection;
mod diagnose;
mod finding;
mod keepalive;
mod limit;
mod pair;
mod path;
mod peer;
mod plan;
mod platform;
mod program;
mod secs;
mod snapshot;
mod table;
mod ticks;
mod wheel;

pub use advise::{
    Cost, EqualsTimer, Judgement, PROBE_BYTES_IPV4, PROBE_BYTES_IPV6, equal_timers, judge,
    keepalive_under, tightest,
};
pub use catalogue::{Catalogue, Kind, NotALimit, Range, RefreshedBy, Row, Slack, Verified, WhyNot};
pub use connection::{
    Connection, Counters, FarEnd, LAST_PACKET_UNCERTAINTY, OnHost, Role, State, Timer, Waiting,
    Watch,
};
pub use diagnose::{Diagnosis, Missing, Proof, Verdict, diagnose};
pub use finding::{Finding, FindingSet};
pub use keepalive::{Keepalive, KeepaliveTimes, KeepaliveValues, ParseKeepaliveError};
pub use limit::{
    Direction, Evidence, EvidenceSource, Expiry, IdleLimit, Miss, Refresh, Selector, TimerSlack,
};
pub use pair::{ends_agree, pair_ends};
pub use peer::{probes_needed, probes_possible};
pub use plan::{DEFAULT_KEEPALIVE, Planned, Remedy, heals, plan, predict, recommended_keepalive};
pub use platform::{Platform, PlatformKind};
pub use program::{ProgramTimer, TimerKind, program_timers};
pub use secs::human;
pub use snapshot::{
    ConntrackSettings, Gap, Host, KnownService, Namespace, Pod, Process, Snapshot, SnapshotError,
    Sysctls,
};
pub use table::{Entry, OtherSide, TableId, TableKind, Witness};
pub use ticks::{Micros, Millis, Seconds, Ticks};
pub use wheel::{KernelHz, wheel_slack, wheel_slack_worst};
