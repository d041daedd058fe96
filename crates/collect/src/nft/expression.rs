//! The expressions of a rule that matter here. Pure.
//!
//! A rule is a little program: expressions load a part of the packet into registers, compare registers, and
//! at last give a verdict.

use super::parse::{big_endian, data, text};
use crate::netlink::{Attributes, NetlinkError};

/// `NFTA_EXPR_NAME`
const NAME: u16 = 1;
/// `NFTA_EXPR_DATA`
const DATA: u16 = 2;
/// `NFTA_VERDICT_CODE`
const VERDICT_CODE: u16 = 1;
/// `NFTA_VERDICT_CHAIN`
const VERDICT_CHAIN: u16 = 2;
/// `NFTA_DATA_VERDICT`
const DATA_VERDICT: u16 = 2;
/// `NFT_REG_1` to `NFT_REG_4` are four words each, beginning at `NFT_REG32_00`.
const FIRST_WORD: u32 = 8;
const WORDS_OF_OLD: u32 = 4;

/// One step of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expression {
    /// Puts something into a register.
    Load { into: u32, what: Part },
    /// Compares a register with a value: equal, or not.
    Compare { register: u32, equal: bool, value: Vec<u8> },
    /// Keeps the bits of a register that the mask has.
    Mask { from: u32, into: u32, mask: Vec<u8> },
    /// Looks a register up in a set; a verdict map answers with a verdict.
    Lookup { register: u32, set: Vec<u8>, inverted: bool, gives_verdict: bool },
    /// Ends the rule.
    Verdict(Verdict),
    /// Translates the destination.
    DestinationNat,
    /// Drops the packet and says so, or another end of the way.
    Reject,
    /// iptables: the ports of TCP.
    TcpPort(u16),
    /// iptables: the state of connection tracking is one of these bits.
    State(u32),
    /// It matches every packet, and changes none: a counter, a comment.
    Neutral,
    /// Anything else may match or not.
    Other,
}

/// A part of a packet, or what is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Destination4,
    Destination6,
    DestinationPort,
    /// The protocol above IP.
    Protocol,
    /// The family: what the chain sees is of it, or the rule is not for us.
    Family,
    /// The state of connection tracking, in bits.
    State,
    /// A random number, or another choice between ways that are all taken.
    Choice,
    Unknown,
}

/// What a rule does with the packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accept,
    Drop,
    /// To a chain, and back or not.
    Chain(Vec<u8>),
    Return,
    /// Goes on.
    Continue,
}

impl Expression {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, NetlinkError> {
        let (mut name, mut inner) = (vec![], &bytes[..0]);
        for attribute in Attributes(bytes) {
            match attribute? {
                (NAME, value) => name = text(value),
                (DATA, value) => inner = value,
                _ => {}
            }
        }
        match name.as_slice() {
            b"payload" => payload(inner),
            b"meta" => meta(inner),
            b"ct" => ct(inner),
            b"cmp" => compare(inner),
            b"bitwise" => bitwise(inner),
            b"lookup" => lookup(inner),
            b"immediate" => immediate(inner),
            b"nat" => nat(inner),
            b"match" => xt_match(inner),
            b"target" => xt_target(inner),
            // NFTA_NG_DREG, NFTA_HASH_DREG
            b"numgen" => choice(inner, 1),
            b"hash" => choice(inner, 2),
            b"reject" => Ok(Self::Reject),
            b"counter" | b"log" | b"last" => Ok(Self::Neutral),
            _ => Ok(Self::Other),
        }
    }
}

/// `NFTA_PAYLOAD_DREG`, `_BASE`, `_OFFSET`, `_LEN`
fn payload(bytes: &[u8]) -> Result<Expression, NetlinkError> {
    const NETWORK: u32 = 1;
    const TRANSPORT: u32 = 2;
    let [into, base, offset, length] = numbers(bytes, [1, 2, 3, 4])?;
    // struct iphdr, struct ipv6hdr, struct tcphdr.
    let what = match (base, offset, length) {
        (NETWORK, 16, 4) => Part::Destination4,
        (NETWORK, 24, 16) => Part::Destination6,
        (NETWORK, 9, 1) => Part::Protocol,
        (TRANSPORT, 2, 2) => Part::DestinationPort,
        _ => Part::Unknown,
    };
    Ok(if into == 0 { Expression::Other } else { Expression::Load { into: word(into), what } })
}

/// `NFTA_META_DREG`, `_KEY`
fn meta(bytes: &[u8]) -> Result<Expression, NetlinkError> {
    const FAMILY: u32 = 15;
    const PROTOCOL: u32 = 16;
    let [into, key] = numbers(bytes, [1, 2])?;
    let what = match key {
        FAMILY => Part::Family,
        PROTOCOL => Part::Protocol,
        _ => Part::Unknown,
    };
    // Without a register to load it sets something, as a mark.
    Ok(if into == 0 { Expression::Neutral } else { Expression::Load { into: word(into), what } })
}

/// `NFTA_CT_DREG`, `_KEY`; key 0: `NFT_CT_STATE`
fn ct(bytes: &[u8]) -> Result<Expression, NetlinkError> {
    let [into, key] = numbers(bytes, [1, 2])?;
    let what = if key == 0 { Part::State } else { Part::Unknown };
    Ok(if into == 0 { Expression::Neutral } else { Expression::Load { into: word(into), what } })
}

/// `NFTA_CMP_SREG`, `_OP`, `_DATA`
fn compare(bytes: &[u8]) -> Result<Expression, NetlinkError> {
    const EQUAL: u32 = 0;
    const NOT_EQUAL: u32 = 1;
    let [register, operation] = numbers(bytes, [1, 2])?;
    if operation > NOT_EQUAL {
        return Ok(Expression::Other);
    }
    let value = data(nested(bytes, 3)?)?.to_vec();
    Ok(Expression::Compare { register: word(register), equal: operation == EQUAL, value })
}

/// `NFTA_BITWISE_SREG`, `_DREG`, `_MASK`, `_XOR`
fn bitwise(bytes: &[u8]) -> Result<Expression, NetlinkError> {
    let [from, into] = numbers(bytes, [1, 2])?;
    let (mask, xor) = (data(nested(bytes, 4)?)?, data(nested(bytes, 5)?)?);
    if mask.is_empty() || xor.iter().any(|&byte| byte != 0) {
        return Ok(Expression::Load { into: word(into), what: Part::Unknown });
    }
    Ok(Expression::Mask { from: word(from), into: word(into), mask: mask.to_vec() })
}

fn choice(bytes: &[u8], register: u16) -> Result<Expression, NetlinkError> {
    let [into] = numbers(bytes, [register])?;
    Ok(Expression::Load { into: word(into), what: Part::Choice })
}

/// `NFTA_LOOKUP_SET`, `_SREG`, `_DREG`, `_FLAGS`
fn lookup(bytes: &[u8]) -> Result<Expression, NetlinkError> {
    let set = text(nested(bytes, 1)?);
    let [register, flags] = numbers(bytes, [2, 5])?;
    let into = nested(bytes, 3)?;
    // NFT_REG_VERDICT
    let gives_verdict = into == [0, 0, 0, 0];
    if !into.is_empty() && !gives_verdict {
        return Ok(Expression::Other);
    }
    let inverted = flags & 1 != 0;
    Ok(Expression::Lookup { register: word(register), set, inverted, gives_verdict })
}

/// `NFTA_IMMEDIATE_DREG`, `_DATA`
fn immediate(bytes: &[u8]) -> Result<Expression, NetlinkError> {
    for attribute in Attributes(nested(bytes, 2)?) {
        if let (DATA_VERDICT, value) = attribute? {
            return verdict(value).map(Expression::Verdict);
        }
    }
    let [into] = numbers(bytes, [1])?;
    Ok(Expression::Load { into: word(into), what: Part::Unknown })
}

/// `NFTA_NAT_TYPE`; 1: `NFT_NAT_DNAT`
fn nat(bytes: &[u8]) -> Result<Expression, NetlinkError> {
    let [kind] = numbers(bytes, [1])?;
    Ok(if kind == 1 { Expression::DestinationNat } else { Expression::Other })
}

/// A match of iptables in `NFTA_MATCH_NAME`, `_REV`, `_INFO`.
fn xt_match(bytes: &[u8]) -> Result<Expression, NetlinkError> {
    let name = text(nested(bytes, 1)?);
    let [revision] = numbers(bytes, [2])?;
    let info = nested(bytes, 3)?;
    Ok(match (name.as_slice(), revision) {
        (b"comment", _) => Expression::Neutral,
        (b"tcp", _) => tcp_port(info).map_or(Expression::Other, Expression::TcpPort),
        (b"conntrack", 2 | 3) => state_of(info).map_or(Expression::Other, Expression::State),
        _ => Expression::Other,
    })
}

/// `struct xt_tcp`: one destination port, and nothing else.
fn tcp_port(info: &[u8]) -> Option<u16> {
    let info: &[u8; 12] = info.first_chunk()?;
    let at = |at: usize| u16::from_ne_bytes([info[at], info[at + 1]]);
    let (from, to) = ((at(0), at(2)), (at(4), at(6)));
    let [option, _mask, flags, inverted] = [info[8], info[9], info[10], info[11]];
    (from == (0, u16::MAX) && to.0 == to.1 && option == 0 && flags == 0 && inverted == 0)
        .then_some(to.0)
}

/// `struct xt_conntrack_mtinfo2` and `3`: the state, and nothing else.
fn state_of(info: &[u8]) -> Option<u32> {
    let info: &[u8; 154] = info.first_chunk()?;
    let at = |at: usize| u16::from_ne_bytes([info[at], info[at + 1]]);
    let (wanted, inverted, states) = (at(146), at(148), at(150));
    // XT_CONNTRACK_STATE
    (wanted == 1 && inverted == 0).then_some(states.into())
}

/// A target of iptables in `NFTA_TARGET_NAME`.
fn xt_target(bytes: &[u8]) -> Result<Expression, NetlinkError> {
    Ok(match text(nested(bytes, 1)?).as_slice() {
        b"DNAT" => Expression::DestinationNat,
        b"REJECT" => Expression::Reject,
        b"MARK" | b"LOG" => Expression::Neutral,
        _ => Expression::Other,
    })
}

/// `NFTA_VERDICT_CODE`, `_CHAIN`
pub(super) fn verdict(bytes: &[u8]) -> Result<Verdict, NetlinkError> {
    let code = big_endian("NFTA_VERDICT_CODE", nested(bytes, VERDICT_CODE)?)?;
    // NFT_JUMP, NFT_GOTO, NFT_RETURN; NF_DROP, NF_ACCEPT.
    Ok(match code.cast_signed() {
        -3 | -4 => Verdict::Chain(text(nested(bytes, VERDICT_CHAIN)?)),
        -5 => Verdict::Return,
        0 => Verdict::Drop,
        1 => Verdict::Accept,
        _ => Verdict::Continue,
    })
}

/// The value of one attribute; empty: it is not there.
fn nested(bytes: &[u8], wanted: u16) -> Result<&[u8], NetlinkError> {
    for attribute in Attributes(bytes) {
        let (kind, value) = attribute?;
        if kind == wanted {
            return Ok(value);
        }
    }
    Ok(&[])
}

/// The big-endian values of attributes; 0: not there.
fn numbers<const N: usize>(bytes: &[u8], wanted: [u16; N]) -> Result<[u32; N], NetlinkError> {
    let mut found = [0; N];
    for attribute in Attributes(bytes) {
        let (kind, value) = attribute?;
        if let Some(at) = wanted.iter().position(|&wanted| wanted == kind) {
            found[at] = big_endian("a number", value)?;
        }
    }
    Ok(found)
}

/// The first word of a register. 0 is the verdict's, which has none.
fn word(register: u32) -> u32 {
    match register {
        1..FIRST_WORD => FIRST_WORD + (register - 1) * WORDS_OF_OLD,
        _ => register,
    }
}
