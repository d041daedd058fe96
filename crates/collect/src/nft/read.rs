//! Reads the rules of the calling thread's network namespace.

use std::collections::{HashMap, hash_map::Entry as Slot};

use rustix::{io::Errno, net::netlink::NETFILTER};

use super::{
    Rules,
    expression::Expression,
    parse::{Chain, Element, Name, Rule, SUBSYSTEM, take_chains, take_elements, take_rules},
};
use crate::{
    budget::Spending,
    netlink::{
        Block, NetlinkError,
        read::{Buffer, dump},
        write::Body,
    },
};

/// `NFT_MSG_GETCHAIN`
const GET_CHAINS: u16 = SUBSYSTEM | 4;
/// `NFT_MSG_GETRULE`
const GET_RULES: u16 = SUBSYSTEM | 7;
/// `NFT_MSG_GETSETELEM`
const GET_ELEMENTS: u16 = SUBSYSTEM | 0xd;
/// `NFTA_SET_ELEM_LIST_TABLE`
const TABLE: u16 = 1;
/// `NFTA_SET_ELEM_LIST_SET`
const SET: u16 = 2;

/// What follows from them.
///
/// A list that changed under the dump is asked for again; what is then still missing makes no rule more
/// than it is.
pub(crate) fn rules(buffer: &mut Buffer, spending: &Spending) -> Result<Rules, NetlinkError> {
    // struct nfgenmsg: every family.
    let every = Body::new(&[0; 4]);
    let chains: Vec<Chain> = match list(GET_CHAINS, &every, buffer, spending, take_chains) {
        Err(error) if has_no_tables(&error) => return Ok(Rules::default()),
        other => other?,
    };
    if chains.iter().all(|chain| chain.hook.is_none()) {
        return Ok(Rules::default());
    }
    let rules: Vec<Rule> = list(GET_RULES, &every, buffer, spending, take_rules)?;
    let mut sets = HashMap::new();
    for rule in &rules {
        for expression in &rule.expressions {
            let Expression::Lookup { set, .. } = expression else { continue };
            let set = Name { own: set.clone(), ..rule.chain.clone() };
            if let Slot::Vacant(slot) = sets.entry(set) {
                let elements = elements(slot.key(), buffer, spending)?;
                slot.insert(elements);
            }
        }
    }
    Ok(Rules::of(&chains, &rules, &|set: &Name| sets.get(set).cloned().unwrap_or_default()))
}

/// Whether this kernel has no `nf_tables` (`nfnetlink_rcv_msg`), or not even what it is asked by
/// (`netlink_create`): then no rules are in force. Opening the socket would have loaded that.
fn has_no_tables(error: &NetlinkError) -> bool {
    let (cause, errno) = match error {
        NetlinkError::Refused { cause } => (cause, Errno::INVAL),
        NetlinkError::Io { call: "socket", cause } => (cause, Errno::PROTONOSUPPORT),
        _ => return false,
    };
    cause.raw_os_error() == Some(errno.raw_os_error())
}

fn elements(
    set: &Name,
    buffer: &mut Buffer,
    spending: &Spending,
) -> Result<Vec<Element>, NetlinkError> {
    let request =
        Body::new(&[set.family, 0, 0, 0]).with_text(TABLE, &set.table).with_text(SET, &set.own);
    match list(GET_ELEMENTS, &request, buffer, spending, take_elements) {
        // It has gone meanwhile.
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        other => other,
    }
}

fn list<T>(
    kind: u16,
    request: &Body,
    buffer: &mut Buffer,
    spending: &Spending,
    take: impl Fn(&[u8], &mut Vec<T>) -> Result<Block, NetlinkError>,
) -> Result<Vec<T>, NetlinkError> {
    let mut found = Vec::new();
    dump(Some(NETFILTER), kind, request.bytes(), buffer, &mut found, Vec::clear, |block, into| {
        spending.check()?;
        take(block, into)
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_kernel_without_rules_is_no_gap_and_one_that_refuses_is() {
        let io = |call, errno: Errno| NetlinkError::Io {
            call,
            cause: io::Error::from_raw_os_error(errno.raw_os_error()),
        };
        assert!(has_no_tables(&io("socket", Errno::PROTONOSUPPORT)));
        assert!(!has_no_tables(&io("socket", Errno::MFILE)));
        assert!(!has_no_tables(&io("recv", Errno::PROTONOSUPPORT)));
        let refused = |errno: Errno| NetlinkError::Refused {
            cause: io::Error::from_raw_os_error(errno.raw_os_error()),
        };
        assert!(has_no_tables(&refused(Errno::INVAL)) && !has_no_tables(&refused(Errno::PERM)));
    }
}
