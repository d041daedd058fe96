//! Asks the kernel for the addresses of the calling thread's network namespace.

use super::{Addresses, parse::take};
use crate::netlink::{
    NetlinkError,
    read::{Buffer, dump},
};

/// `RTM_GETADDR`
const GET_ADDRESSES: u16 = 22;
/// `sizeof(struct ifaddrmsg)`; all zero: every family and link.
const REQUEST: [u8; 8] = [0; 8];

/// The namespace's own addresses. One that changes under the dump is asked for again; what is then
/// still missing makes a connection look remote, never safe.
pub(crate) fn addresses(buffer: &mut Buffer) -> Result<Addresses, NetlinkError> {
    let mut found = Vec::new();
    dump(None, GET_ADDRESSES, &REQUEST, buffer, &mut found, Vec::clear, |block, into| {
        take(block, into)
    })?;
    Ok(Addresses::new(found))
}
