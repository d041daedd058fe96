//! What changes a connection: keepalive on sockets of other programs and its undo, and the supervisor that
//! gives a program armed sockets. Nothing here acts without being called for it.
//!
//! Read first: `keepalive.rs`.
#![deny(unsafe_code)]

#[cfg(unix)]
mod keepalive;

#[cfg(unix)]
pub use keepalive::turn_on;
