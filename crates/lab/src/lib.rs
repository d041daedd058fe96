//! The incident in a laboratory: something on the way that forgets connections, ends that behave as Linux
//! does, scenario files that say what happens and what must come of it, and the incident's two programs.
//!
//! Read first: `middlebox/mod.rs`, then `scenario.rs`, then `sim/mod.rs`; for the two programs `log.rs`
//! (what both say they did) and `http.rs` (what they say to each other), then `agent/mod.rs` and
//! `job/mod.rs`; for anyone's own client behind a path that forgets `exec/mod.rs`.
#![deny(unsafe_code)]

#[cfg(feature = "programs")]
pub mod agent;
#[cfg(all(feature = "programs", target_os = "linux", not(stillopen_portable)))]
pub mod agreement;
#[cfg(feature = "programs")]
mod clock;
pub mod descriptor;
pub mod embedded;
#[cfg(all(feature = "programs", target_os = "linux", not(stillopen_portable)))]
mod ends;
#[cfg(feature = "programs")]
pub mod exec;
#[cfg(feature = "programs")]
mod http;
#[cfg(feature = "programs")]
pub mod job;
pub mod log;
pub mod middlebox;
#[cfg(all(feature = "programs", target_os = "linux", not(stillopen_portable)))]
mod netlink;
#[cfg(all(feature = "programs", target_os = "linux", not(stillopen_portable)))]
pub mod netns;
mod observed;
mod path;
mod random;
pub mod render;
pub mod result;
pub mod run;
pub mod scenario;
mod sim;
pub mod sweep;
#[cfg(all(feature = "programs", target_os = "linux", not(stillopen_portable)))]
pub mod vm;

#[cfg(feature = "programs")]
pub use clock::Clock;
#[cfg(feature = "programs")]
pub use http::{Answer, Issue};
pub use sim::Errno;
