//! The incident's two programs: an LLM agent that takes its time, and the job that waits for it.
//!
//! Read first: `log.rs` (what both say they did), `http.rs` (what they say to each other), then
//! `agent/mod.rs` and `job/mod.rs`.
#![forbid(unsafe_code)]

#[cfg(feature = "programs")]
pub mod agent;
#[cfg(feature = "programs")]
mod clock;
#[cfg(feature = "programs")]
mod http;
#[cfg(feature = "programs")]
pub mod job;
pub mod log;

#[cfg(feature = "programs")]
pub use clock::Clock;
#[cfg(feature = "programs")]
pub use http::{Answer, Issue};
