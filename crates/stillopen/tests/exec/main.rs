//! `stillopen lab exec` as an ordinary user: clients behind a path that forgets, in real time, on IPv4 and IPv6;
//! `lab run --driver netns`, scenarios on the same; and what cannot run.
//!
//! Read first: `user.rs`. As root, everything is run as another user. Needs setpriv and unshare, Debian's own
//! python3 (one that every user may run), curl, Node.js, and httpx from the package index; what is missing fails.
#![cfg(target_os = "linux")]

mod clients;
mod programs;
mod record;
mod refusals;
mod rescue;
mod scenarios;
mod shortage;
mod user;
