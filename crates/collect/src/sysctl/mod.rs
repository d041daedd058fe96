//! `net.ipv4.tcp_*` of one network namespace, which a new one does not inherit.

mod parse;
pub(crate) mod read;
