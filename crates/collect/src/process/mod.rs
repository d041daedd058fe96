//! `/proc/PID/fd`: which process holds which socket, and through it the socket's keepalive.

mod iterate;
pub(crate) mod options;
mod parse;
pub(crate) mod read;
