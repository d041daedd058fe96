//! The incident in a laboratory: something on the way that forgets connections, ends that behave as Linux
//! does, and scenario files that say what happens and what must come of it.
//!
//! Read first: `middlebox/mod.rs`, then `scenario.rs`, then `sim/mod.rs`.
// Timeouts are written in seconds, as kernels and their documentation write them.
#![allow(clippy::duration_suboptimal_units)]
#![forbid(unsafe_code)]

pub mod embedded;
pub mod kube_proxy;
pub mod middlebox;
mod path;
pub mod render;

pub mod result;
pub mod run;
pub mod scenario;
mod sim;
pub mod sweep;

pub use sim::Errno;
