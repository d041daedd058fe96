//! A block of a netlink dump, as a kernel may send it or cut it short: an answer or an error.

use stillopen_collect::{NetlinkError, ParsedBlock};

/// What the kernel's messages need at least: no block gives more items than it has room for.
const LEAST_MESSAGE: usize = 16;

/// Reads `data` with each parser of netlink blocks.
pub(crate) fn run(data: &[u8]) {
    check(data, stillopen_collect::parse_connections);
    check(data, stillopen_collect::parse_listeners);
    check(data, stillopen_collect::parse_addresses);
}

fn check<T>(data: &[u8], parse: impl Fn(&[u8]) -> Result<ParsedBlock<T>, NetlinkError>) {
    if let Ok(block) = parse(data) {
        assert!(block.items.len() <= data.len() / LEAST_MESSAGE);
        assert!(!block.done || data.len() >= LEAST_MESSAGE, "an end that nothing said");
    }
}
