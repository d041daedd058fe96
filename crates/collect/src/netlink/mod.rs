//! Netlink: the framing that every source over it shares, the dump loop and the single question.

pub(crate) mod parse;
pub(crate) mod read;
pub(crate) mod write;

pub use parse::NetlinkError;
pub(crate) use parse::{Attributes, Block, each_message, exactly, u32_at, u64_at};
