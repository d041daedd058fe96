//! What a kernel says of its tables: netlink blocks, cut short or of another kind, and the text of
//! `/proc/net/ip_vs_conn`.

use stillopen_collect::{NetlinkError, ParsedBlock};

/// What the kernel's messages need at least: no block gives more items than it has room for.
const LEAST_MESSAGE: usize = 16;
/// `TCP 0A000102 B2D4 0A60000A 0050 0A000202 1F90 X 0`: the shortest row.
const LEAST_ROW: usize = 30;

/// Reads `data` with each parser of tables.
pub(crate) fn run(data: &[u8]) {
    check(data, stillopen_collect::parse_conntrack);
    check(data, stillopen_collect::parse_nft);
    if let Ok(Some(_link)) = stillopen_collect::parse_route(data) {
        assert!(data.len() >= LEAST_MESSAGE, "a route that nothing said");
    }
    if let Ok(block) = stillopen_collect::parse_ipvs_services(data) {
        // One message may hold several services.
        assert!(block.items.len() <= data.len() / LEAST_MESSAGE);
    }
    if let Ok(timeouts) = stillopen_collect::parse_ipvs_timeouts(data) {
        assert!(timeouts.iter().all(|time| time.as_secs() <= u32::MAX.into()));
    }
    assert!(stillopen_collect::parse_ipvs_entries(data).len() <= data.len() / LEAST_ROW);
}

fn check<T>(data: &[u8], parse: impl Fn(&[u8]) -> Result<ParsedBlock<T>, NetlinkError>) {
    if let Ok(block) = parse(data) {
        assert!(block.items.len() <= data.len() / LEAST_MESSAGE);
        assert!(!block.done || data.len() >= LEAST_MESSAGE, "an end that nothing said");
    }
}
