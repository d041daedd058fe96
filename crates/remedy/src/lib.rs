//! What changes a connection: keepalive on sockets of other programs and its undo, one probe on demand, and
//! the end of connections that are dead. Nothing here acts without being called for it.
//!
//! Read first: `choose.rs` (what is to be done), then `rescue.rs`, `arm.rs`, `ask.rs` and `close.rs` (doing it), `first_probe.rs`
//! (what came of it), with `held.rs` (what they hold meanwhile); `run/` stands by itself.
#![deny(unsafe_code)]

#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod arm;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod ask;
mod choose;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod close;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod first_probe;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod held;
#[cfg(unix)]
mod keepalive;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod options;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod refusal;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod rescue;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod signals;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod socket;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod undo;

#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub mod run;

pub use choose::{Choice, Left, choose, is_dead};
#[cfg(unix)]
pub use keepalive::turn_on;

#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub use {
    arm::{MANY, arm_here},
    ask::{Answer, BATCH, Stakes, ask, batch_size, open_at_once},
    close::{Closed, confirm, end},
    first_probe::{FirstProbe, Probed, first_probes},
    held::Held,
    refusal::Refusal,
    rescue::Rescuer,
    undo::{SCHEMA as UNDO_SCHEMA, Undo, UndoError, UndoRow, Undone},
};
