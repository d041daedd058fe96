//! `NETLINK_SOCK_DIAG`: the TCP sockets of one network namespace.

pub(crate) mod listeners;
pub(crate) mod parse;
pub(crate) mod read;
pub(crate) mod wire;

pub(crate) use listeners::Listeners;
pub(crate) use parse::{Bystander, NO_FD, Sockets, View};
