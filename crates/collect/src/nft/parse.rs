//! The bytes of `nf_tables` dumps → chains, rules and set elements
//! (`include/uapi/linux/netfilter/nf_tables.h`). Pure.

use super::expression::{Expression, Verdict, verdict};
use crate::{
    netlink::{Attributes, Block, NetlinkError, each_message, exactly},
    sock_diag::parse::ParsedBlock,
};

/// `NFNL_SUBSYS_NFTABLES`
pub(super) const SUBSYSTEM: u16 = 10 << 8;
/// `NFT_MSG_NEWCHAIN`
const NEW_CHAIN: u16 = SUBSYSTEM | 3;
/// `NFT_MSG_NEWRULE`
const NEW_RULE: u16 = SUBSYSTEM | 6;
/// `NFT_MSG_NEWSETELEM`
const NEW_ELEMENTS: u16 = SUBSYSTEM | 0xc;
/// `sizeof(struct nfgenmsg)`
const MESSAGE: usize = 4;

/// `NFTA_CHAIN_TABLE`, `NFTA_RULE_TABLE`
const TABLE: u16 = 1;
/// `NFTA_CHAIN_NAME`
const CHAIN_NAME: u16 = 3;
/// `NFTA_CHAIN_HOOK`
const CHAIN_HOOK: u16 = 4;
/// `NFTA_HOOK_HOOKNUM`
const HOOK_NUMBER: u16 = 1;
/// `NFTA_CHAIN_TYPE`
const CHAIN_TYPE: u16 = 7;
/// `NFTA_RULE_CHAIN`
const RULE_CHAIN: u16 = 2;
/// `NFTA_RULE_EXPRESSIONS`
const RULE_EXPRESSIONS: u16 = 4;
/// `NFTA_SET_ELEM_LIST_ELEMENTS`
const ELEMENTS: u16 = 3;
/// `NFTA_LIST_ELEM`
const LIST_ELEMENT: u16 = 1;
/// `NFTA_SET_ELEM_KEY`
const ELEMENT_KEY: u16 = 1;
/// `NFTA_SET_ELEM_DATA`
const ELEMENT_DATA: u16 = 2;
/// `NFTA_SET_ELEM_FLAGS`
const ELEMENT_FLAGS: u16 = 3;
/// `NFTA_SET_ELEM_KEY_END`
const ELEMENT_KEY_END: u16 = 10;
/// `NFTA_DATA_VALUE`
const DATA_VALUE: u16 = 1;
/// `NFTA_DATA_VERDICT`
const DATA_VERDICT: u16 = 2;

/// A chain or a set belongs to a table of a family.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name {
    pub family: u8,
    pub table: Vec<u8>,
    pub own: Vec<u8>,
}

/// One chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chain {
    pub name: Name,
    /// Where the kernel calls it, of a base chain.
    pub hook: Option<u32>,
    pub is_nat: bool,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    pub chain: Name,
    pub expressions: Vec<Expression>,
}

/// One element of a set or map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Element {
    pub key: Vec<u8>,
    /// Of a verdict map.
    pub verdict: Option<Verdict>,
    /// It begins or ends a range.
    pub is_range: bool,
}

/// Takes one block of a dump of chains.
pub(crate) fn take_chains(block: &[u8], into: &mut Vec<Chain>) -> Result<Block, NetlinkError> {
    each(block, NEW_CHAIN, |family, attributes| {
        let (mut table, mut name, mut hook, mut is_nat) = (vec![], vec![], None, false);
        for attribute in attributes {
            match attribute? {
                (TABLE, value) => table = text(value),
                (CHAIN_NAME, value) => name = text(value),
                (CHAIN_TYPE, value) => is_nat = text(value) == b"nat",
                (CHAIN_HOOK, value) => {
                    for attribute in Attributes(value) {
                        if let (HOOK_NUMBER, value) = attribute? {
                            hook = Some(big_endian("NFTA_HOOK_HOOKNUM", value)?);
                        }
                    }
                }
                _ => {}
            }
        }
        into.push(Chain { name: Name { family, table, own: name }, hook, is_nat });
        Ok(())
    })
}

/// Takes one block of a dump of rules.
pub(crate) fn take_rules(block: &[u8], into: &mut Vec<Rule>) -> Result<Block, NetlinkError> {
    each(block, NEW_RULE, |family, attributes| {
        let (mut table, mut name, mut expressions) = (vec![], vec![], vec![]);
        for attribute in attributes {
            match attribute? {
                (TABLE, value) => table = text(value),
                (RULE_CHAIN, value) => name = text(value),
                (RULE_EXPRESSIONS, value) => {
                    for attribute in Attributes(value) {
                        if let (LIST_ELEMENT, value) = attribute? {
                            expressions.push(Expression::parse(value)?);
                        }
                    }
                }
                _ => {}
            }
        }
        into.push(Rule { chain: Name { family, table, own: name }, expressions });
        Ok(())
    })
}

/// Takes one block of a dump of a set's elements.
pub(crate) fn take_elements(block: &[u8], into: &mut Vec<Element>) -> Result<Block, NetlinkError> {
    each(block, NEW_ELEMENTS, |_, attributes| {
        for attribute in attributes {
            if let (ELEMENTS, value) = attribute? {
                for attribute in Attributes(value) {
                    if let (LIST_ELEMENT, value) = attribute? {
                        into.push(element(value)?);
                    }
                }
            }
        }
        Ok(())
    })
}

fn element(bytes: &[u8]) -> Result<Element, NetlinkError> {
    let mut element = Element { key: vec![], verdict: None, is_range: false };
    for attribute in Attributes(bytes) {
        match attribute? {
            (ELEMENT_KEY, value) => element.key = data(value)?.to_vec(),
            (ELEMENT_DATA, value) => {
                for attribute in Attributes(value) {
                    if let (DATA_VERDICT, value) = attribute? {
                        element.verdict = Some(verdict(value)?);
                    }
                }
            }
            (ELEMENT_FLAGS | ELEMENT_KEY_END, _) => element.is_range = true,
            _ => {}
        }
    }
    Ok(element)
}

/// The value inside `struct nft_data`'s attribute; empty: it is a verdict.
pub(super) fn data(bytes: &[u8]) -> Result<&[u8], NetlinkError> {
    for attribute in Attributes(bytes) {
        if let (DATA_VALUE, value) = attribute? {
            return Ok(value);
        }
    }
    Ok(&[])
}

fn each(
    block: &[u8],
    wanted: u16,
    mut each: impl FnMut(u8, Attributes<'_>) -> Result<(), NetlinkError>,
) -> Result<Block, NetlinkError> {
    each_message(block, |kind, body| {
        if kind != wanted {
            return Ok(());
        }
        let (head, attributes) = body.split_first_chunk::<MESSAGE>().ok_or({
            NetlinkError::Malformed { what: "nfgenmsg", got: body.len(), need: MESSAGE }
        })?;
        each(head[0], Attributes(attributes))
    })
}

/// Without the zero at its end.
pub(super) fn text(value: &[u8]) -> Vec<u8> {
    value.split(|&byte| byte == 0).next().unwrap_or(value).to_vec()
}

pub(super) fn big_endian(what: &'static str, value: &[u8]) -> Result<u32, NetlinkError> {
    exactly(what, value).map(u32::from_be_bytes)
}

/// Parses one received block of a dump of `nf_tables` chains, rules or set elements; the items are how many
/// of each there are.
///
/// # Errors
/// A message that is cut short or malformed, or one that says that the kernel refused.
pub fn parse_nft(block: &[u8]) -> Result<ParsedBlock<()>, NetlinkError> {
    let (mut chains, mut rules, mut elements) = (vec![], vec![], vec![]);
    let Block { done, interrupted } = take_chains(block, &mut chains)?;
    take_rules(block, &mut rules)?;
    take_elements(block, &mut elements)?;
    let count = chains.len() + rules.len();
    // What follows from them may be anything, but never a panic.
    super::Rules::of(&chains, &rules, &|_: &Name| elements.clone());
    Ok(ParsedBlock { items: vec![(); count], done, interrupted })
}
