//! `stillopen run`: what a program under it has, and what it does not notice.
//!
//! Read first: `program.rs` (how one is started), then `arms.rs`, `same.rs` (what stays as it was), `alone.rs`
//! (whom it leaves alone) and `storm.rs`. They need root, to become an ordinary user; a C compiler, python3 and
//! setpriv. The clients of other languages are in `tests/clients`.
#![cfg(target_os = "linux")]

mod alone;
mod arms;
#[path = "../end_to_end/deadline.rs"]
mod deadline;
mod program;
mod refused;
mod same;
mod storm;
