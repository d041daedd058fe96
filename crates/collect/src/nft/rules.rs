//! What the rules do with a TCP connection, as far as that can be said for certain. Pure.
//!
//! A rule counts only where every one of its conditions is understood: one that looks at a mark or a link
//! may or may not hold for a connection.

use std::{
    collections::{BTreeSet, HashMap},
    net::{IpAddr, SocketAddr},
};

use super::{
    expression::{Expression, Part, Verdict},
    parse::{Chain, Element, Name, Rule},
};
use crate::flow::ip;

/// `NF_INET_PRE_ROUTING` (`include/uapi/linux/netfilter.h`)
const PREROUTING: u32 = 0;
/// `NF_INET_LOCAL_IN`
const INPUT: u32 = 1;
/// `NF_INET_FORWARD`
const FORWARD: u32 = 2;
/// `NF_INET_LOCAL_OUT`
const OUTPUT: u32 = 3;
/// `NF_CT_STATE_INVALID_BIT` (`include/uapi/linux/netfilter/nf_conntrack_common.h`)
const INVALID: u32 = 1;
/// `NF_CT_STATE_BIT(IP_CT_NEW)`
const NEW: u32 = 1 << 3;
/// `IPPROTO_TCP`
const TCP: u8 = 6;
/// Chains may call chains so often (`NFT_JUMP_STACK_SIZE`).
const DEPTH: usize = 16;
/// More steps than any ruleset should need: the rest is not known then.
const STEPS: usize = 1 << 20;
/// More destinations than one rule should need.
const MOST: usize = 1 << 16;

/// What follows from the rules of one namespace.
#[allow(clippy::struct_excessive_bools, reason = "each is an answer of its own")]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Rules {
    /// Destinations of packets from elsewhere that are certain to be translated.
    pub from_elsewhere: BTreeSet<Destination>,
    /// Those of the namespace's own packets.
    pub from_here: BTreeSet<Destination>,
    /// Whether any chain may translate something.
    pub has_nat: bool,
    /// Whether what passes through and is INVALID or NEW is dropped.
    pub drop_forwarded: bool,
    /// Whether what comes in for the namespace's own sockets and is INVALID or NEW is dropped.
    pub drop_incoming: bool,
    /// Whether one of those drops NEW: with `tcp_loose` nothing of a connection is INVALID that it picks up.
    pub drops_new: bool,
}

/// An address, and a port or every port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Destination {
    pub ip: IpAddr,
    pub port: Option<u16>,
}

impl Rules {
    /// `elements` gives those of a set.
    pub(crate) fn of(
        chains: &[Chain],
        rules: &[Rule],
        elements: &dyn Fn(&Name) -> Vec<Element>,
    ) -> Self {
        let mut of_chain: HashMap<&Name, Vec<&Rule>> = HashMap::new();
        for rule in rules {
            of_chain.entry(&rule.chain).or_default().push(rule);
        }
        let mut walk = Walk {
            of_chain,
            elements,
            found: Self::default(),
            steps: 0,
            translating: HashMap::new(),
        };
        for chain in chains {
            if let Some(hook) = chain.hook {
                walk.found.has_nat |= chain.is_nat;
                let base = Base { hook, is_nat: chain.is_nat };
                walk.chain(base, &chain.name, &Condition::default(), 0);
            }
        }
        walk.found
    }

    /// Whether the destination of a packet is certain to be translated.
    pub(crate) fn translate(&self, to: SocketAddr, from_here: bool) -> bool {
        let named = if from_here { &self.from_here } else { &self.from_elsewhere };
        [Some(to.port()), None].into_iter().any(|port| {
            let ip = to.ip();
            named.contains(&Destination { ip, port })
        })
    }
}

/// A chain that the kernel calls.
#[derive(Clone, Copy)]
struct Base {
    hook: u32,
    is_nat: bool,
}

/// An address and a port; `None`: every one.
type To = (Option<IpAddr>, Option<u16>);

/// For which packets a rule is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    /// Any of these destinations.
    to: Vec<To>,
    /// The states of connection tracking; `None`: all.
    states: Option<u32>,
    /// Not for TCP.
    never: bool,
    /// And something else that is not understood.
    other: bool,
}

/// What both allow; `None`: nothing.
fn both((ip, port): To, (other_ip, other_port): To) -> Option<To> {
    let ips_differ = ip.zip(other_ip).is_some_and(|(a, b)| a != b);
    let ports_differ = port.zip(other_port).is_some_and(|(a, b)| a != b);
    (!ips_differ && !ports_differ).then(|| (ip.or(other_ip), port.or(other_port)))
}

impl Default for Condition {
    fn default() -> Self {
        Self { to: vec![(None, None)], states: None, never: false, other: false }
    }
}

impl Condition {
    /// Only to these destinations.
    fn to(&mut self, wanted: &[To]) {
        if self.to.len() * wanted.len() > MOST {
            self.other = true;
            return;
        }
        let pairs = self.to.iter().flat_map(|&a| wanted.iter().map(move |&b| (a, b)));
        self.to = pairs.filter_map(|(a, b)| both(a, b)).collect();
        self.never |= self.to.is_empty();
    }

    fn states(&mut self, bits: u32) {
        self.states = Some(self.states.unwrap_or(u32::MAX) & bits);
    }

    fn and(&self, inner: &Self) -> Self {
        let mut both = self.clone();
        both.to(&inner.to);
        if let Some(bits) = inner.states {
            both.states(bits);
        }
        both.never |= inner.never;
        both.other |= inner.other;
        both
    }

    fn is_for_every_destination(&self) -> bool {
        self.to == [(None, None)]
    }
}

enum Outcome {
    Verdict(Verdict),
    DestinationNat,
    Reject,
}

struct Walk<'a> {
    of_chain: HashMap<&'a Name, Vec<&'a Rule>>,
    elements: &'a dyn Fn(&Name) -> Vec<Element>,
    found: Rules,
    steps: usize,
    /// Whether a chain may translate the destination.
    translating: HashMap<Name, bool>,
}

impl Walk<'_> {
    fn chain(&mut self, base: Base, name: &Name, outer: &Condition, depth: usize) {
        let Some(rules) = self.of_chain.get(name).cloned() else { return };
        if depth > DEPTH {
            return;
        }
        // What an earlier rule takes out of this chain.
        let mut exempt: BTreeSet<Destination> = BTreeSet::new();
        let mut perhaps_exempt = false;
        for rule in rules {
            for (inner, outcome) in outcomes(rule, self.elements) {
                self.steps += 1;
                if self.steps > STEPS {
                    return;
                }
                let mut condition = outer.and(&inner);
                if condition.never {
                    continue;
                }
                condition.other |= perhaps_exempt && base.is_nat;
                match outcome {
                    Outcome::DestinationNat => self.translated(base, &condition, &exempt),
                    Outcome::Reject | Outcome::Verdict(Verdict::Drop) => {
                        self.dropped(base, &condition);
                    }
                    Outcome::Verdict(Verdict::Chain(target)) => {
                        let target = Name { own: target, ..name.clone() };
                        let names = condition.to.iter().all(|(ip, _)| ip.is_some());
                        if base.is_nat && names {
                            if self.translates(&target, 0) {
                                self.translated(base, &condition, &exempt);
                            }
                        } else {
                            self.chain(base, &target, &condition, depth + 1);
                        }
                    }
                    Outcome::Verdict(Verdict::Accept | Verdict::Return) => {
                        if condition.to.iter().all(|(ip, _)| ip.is_some()) {
                            exempt.extend(destinations(&condition));
                        } else if condition.states.is_none_or(|states| states & NEW != 0) {
                            perhaps_exempt = true;
                        }
                    }
                    Outcome::Verdict(Verdict::Continue) => {}
                }
            }
        }
    }

    fn translated(&mut self, base: Base, condition: &Condition, exempt: &BTreeSet<Destination>) {
        if condition.other || !base.is_nat {
            return;
        }
        let into = match base.hook {
            PREROUTING => &mut self.found.from_elsewhere,
            OUTPUT => &mut self.found.from_here,
            _ => return,
        };
        let is_exempt = |to: &Destination| {
            exempt.contains(to) || exempt.contains(&Destination { port: None, ..*to })
        };
        into.extend(destinations(condition).filter(|to| !is_exempt(to)));
    }

    fn dropped(&mut self, base: Base, condition: &Condition) {
        let states = condition.states.unwrap_or_default();
        if condition.other || !condition.is_for_every_destination() || states & (INVALID | NEW) == 0
        {
            return;
        }
        self.found.drops_new |= states & NEW != 0;
        match base.hook {
            FORWARD => self.found.drop_forwarded = true,
            INPUT => self.found.drop_incoming = true,
            PREROUTING => {
                self.found.drop_forwarded = true;
                self.found.drop_incoming = true;
            }
            _ => {}
        }
    }

    /// Whether `chain`, or one that it calls, translates the destination of some packet.
    fn translates(&mut self, chain: &Name, depth: usize) -> bool {
        if let Some(&known) = self.translating.get(chain) {
            return known;
        }
        if depth > DEPTH {
            return false;
        }
        self.translating.insert(chain.clone(), false);
        let rules = self.of_chain.get(chain).cloned().unwrap_or_default();
        let known = rules.iter().any(|rule| {
            outcomes(rule, self.elements).into_iter().any(|(_, outcome)| match outcome {
                Outcome::DestinationNat => true,
                Outcome::Verdict(Verdict::Chain(target)) => {
                    self.translates(&Name { own: target, ..chain.clone() }, depth + 1)
                }
                Outcome::Verdict(_) | Outcome::Reject => false,
            })
        });
        self.translating.insert(chain.clone(), known);
        known
    }
}

fn destinations(condition: &Condition) -> impl Iterator<Item = Destination> {
    condition.to.iter().filter_map(|&(ip, port)| Some(Destination { ip: ip?, port }))
}

/// For which packets a rule does what.
fn outcomes(rule: &Rule, elements: &dyn Fn(&Name) -> Vec<Element>) -> Vec<(Condition, Outcome)> {
    let mut condition = Condition::default();
    let mut registers: HashMap<u32, Part> = HashMap::new();
    let mut masks: HashMap<u32, u32> = HashMap::new();
    let mut found = Vec::new();
    for expression in &rule.expressions {
        match expression {
            Expression::Load { into, what } => {
                registers.insert(*into, *what);
                masks.remove(into);
            }
            Expression::Mask { from, into, mask } => {
                let is_state = registers.get(from) == Some(&Part::State);
                let part = if is_state { Part::State } else { Part::Unknown };
                registers.insert(*into, part);
                masks.extend(native(mask).map(|bits| (*into, bits)));
            }
            Expression::Compare { register, equal, value } => {
                let part = registers.get(register).copied().unwrap_or(Part::Unknown);
                compare(&mut condition, part, *equal, value, masks.get(register).copied());
            }
            Expression::Lookup { register, set, inverted, gives_verdict } => {
                let set = Name { own: set.clone(), ..rule.chain.clone() };
                let elements = elements(&set);
                let keys = elements.iter().map(|e| (e, key(&registers, *register, e)));
                if *gives_verdict {
                    for (element, key) in keys {
                        if let Some(verdict) = &element.verdict {
                            found.push((condition.and(&key), Outcome::Verdict(verdict.clone())));
                        }
                    }
                } else if *inverted {
                    condition.other = true;
                } else {
                    any_of(&mut condition, keys.map(|(_, key)| key));
                }
            }
            Expression::TcpPort(port) => condition.to(&[(None, Some(*port))]),
            Expression::State(bits) => condition.states(*bits),
            Expression::Verdict(verdict) => {
                found.push((condition.clone(), Outcome::Verdict(verdict.clone())));
            }
            Expression::DestinationNat => found.push((condition.clone(), Outcome::DestinationNat)),
            Expression::Reject => found.push((condition.clone(), Outcome::Reject)),
            Expression::Neutral => {}
            Expression::Other => condition.other = true,
        }
    }
    found
}

fn compare(condition: &mut Condition, part: Part, equal: bool, value: &[u8], mask: Option<u32>) {
    match (part, equal) {
        (Part::Destination4 | Part::Destination6, true) => match ip(value) {
            Some(ip) => condition.to(&[(Some(ip), None)]),
            None => condition.other = true,
        },
        (Part::DestinationPort, true) => match <[u8; 2]>::try_from(value) {
            Ok(bytes) => condition.to(&[(None, Some(u16::from_be_bytes(bytes)))]),
            Err(_) => condition.other = true,
        },
        (Part::Protocol, equal) => condition.never |= (value.first() == Some(&TCP)) != equal,
        (Part::Family, true) | (Part::Choice, _) => {}
        // `ct state invalid`: the masked bits are not zero.
        (Part::State, false) if native(value) == Some(0) && mask.is_some() => {
            condition.states(mask.unwrap_or_default());
        }
        (Part::State, true) if mask.is_none() => {
            condition.states(native(value).unwrap_or_default());
        }
        _ => condition.other = true,
    }
}

/// One of the keys of a set.
fn any_of(condition: &mut Condition, keys: impl Iterator<Item = Condition>) {
    let (mut to, mut states, mut others) = (Vec::new(), None, 0);
    for key in keys.filter(|key| !key.never) {
        if key.other {
            others += 1;
        } else if let Some(bits) = key.states {
            states = Some(states.unwrap_or_default() | bits);
        } else {
            to.extend(key.to);
        }
    }
    if let Some(bits) = states {
        condition.states(bits);
    }
    if !to.is_empty() {
        condition.to(&to);
    } else if states.is_none() {
        // A set of other protocols, or one that could not be read.
        condition.other = true;
    }
    condition.other |= others > 0;
}

/// What an element's key says of the packets that it is for.
fn key(registers: &HashMap<u32, Part>, register: u32, element: &Element) -> Condition {
    let mut condition = Condition::default();
    if element.is_range {
        condition.other = true;
        return condition;
    }
    let mut rest = element.key.as_slice();
    let mut word = register;
    while !rest.is_empty() {
        let part = registers.get(&word).copied().unwrap_or(Part::Unknown);
        let length = match part {
            Part::Destination6 => 16,
            Part::DestinationPort if rest.len() < 4 => 2,
            Part::Protocol | Part::Family if rest.len() < 4 => 1,
            _ => 4,
        };
        let Some((value, after)) = rest.split_at_checked(length) else {
            condition.other = true;
            return condition;
        };
        let value = if part == Part::DestinationPort { &value[..2] } else { value };
        compare(&mut condition, part, true, value, None);
        rest = after;
        word = word.wrapping_add(if length == 16 { 4 } else { 1 });
    }
    condition
}

fn native(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_ne_bytes)
}
