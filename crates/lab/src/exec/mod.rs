//! `lab exec`: anyone's own client behind a path that forgets. What is asked for, the built-in server, and
//! what came of it; drivers do the rest.
//!
//! Read first: [`Request`], then `summary.rs`. `server.rs` is what answers where the caller has no server of
//! their own.

#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod error;
mod summary;
mod tally;

#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub(crate) mod said;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub mod server;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub(crate) mod waiting;

use std::{ffi::OsString, time::Duration};

#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub use self::error::ServerError;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub(crate) use self::error::places;
pub use self::{
    summary::{Counts, Forgotten, NextProbe, Packets, SCHEMA, ServerEnded, Status, Summary},
    tally::Tally,
};

/// Where the client finds the way in: host and port of the virtual address, `[host]:port` for IPv6.
pub const SERVER_VARIABLE: &str = "STILLOPEN_SERVER";
/// Where the server's command finds the port that it must listen on.
pub const PORT_VARIABLE: &str = "PORT";

/// Where commands are looked for without `PATH` in the environment.
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A client to run, who serves it, and what is between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The client's program and its arguments. It finds the way in in [`SERVER_VARIABLE`].
    pub command: Vec<OsString>,
    /// Who serves it.
    pub server: Server,
    /// The kind of middlebox, by its name ([`crate::middlebox::PROFILES`]).
    pub profile: String,
    /// Its idle timeout, where it is not the profile's own.
    pub idle_timeout: Option<Duration>,
    /// On IPv6.
    pub ipv6: bool,
}

impl Request {
    /// `command` behind IPVS with its own idle timeout, on IPv4, served by the built-in server without delay.
    #[must_use]
    pub fn new<W: Into<OsString>>(command: impl IntoIterator<Item = W>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            server: Server::AnswerAfter(Duration::ZERO),
            profile: "ipvs".into(),
            idle_timeout: None,
            ipv6: false,
        }
    }
}

/// Who serves the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// This command, run by `/bin/sh -c`, with its port in [`PORT_VARIABLE`].
    Command(OsString),
    /// The built-in one, which answers so long after it has read a request.
    AnswerAfter(Duration),
}
