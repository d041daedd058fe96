//! Netlink: the framing that `sock_diag` and `address` share, and the dump loop.

pub(crate) mod parse;
pub(crate) mod read;

pub use parse::NetlinkError;
pub(crate) use parse::{Attributes, Block, each_message, u32_at, u64_at};
