//! The parity set: the shipped timelines that a kernel can run, and random connections from a seed.
//!
//! A random connection is taken only where the model says the same of it when it starts a little later: the
//! guest's steps are some milliseconds late, and a timer at the border of a bucket of the wheel would be a
//! throw of dice.

use std::time::Duration;

use stillopen_model::KeepaliveValues;

use super::{Model, TOLERANCE};
use crate::{
    embedded,
    random::Random,
    run::RunOptions,
    scenario::{Does, EndSettings, KeepaliveSetting, Path, Scenario, Span, Step, Totals, Who},
};

/// One lane of the set.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) scenario: Scenario,
    /// Settings of the node that must not matter.
    pub(super) sysctls: &'static [(&'static str, &'static str)],
    pub(super) options: RunOptions,
}

/// A group of random connections that share a node.
struct Group {
    name: &'static str,
    profile: &'static str,
    backends: u8,
    idle_timeout_s: u64,
    /// Changed for all while they are quiet: when, and to what.
    changes: &'static [(u64, u64)],
    sysctls: &'static [(&'static str, &'static str)],
    ipv6: bool,
    connections: usize,
}

const PLAIN: Group = Group {
    name: "ipvs",
    profile: "ipvs",
    backends: 1,
    idle_timeout_s: 900,
    changes: &[],
    sysctls: &[],
    ipv6: false,
    connections: 40,
};

/// 200 connections.
const GROUPS: [Group; 14] = [
    PLAIN,
    Group { name: "ipvs, two backends, IPv6", backends: 2, ipv6: true, connections: 20, ..PLAIN },
    Group {
        name: "ipvs, timeout changed while quiet",
        changes: &[(600, 200), (1300, 1500)],
        connections: 20,
        ..PLAIN
    },
    Group {
        name: "ipvs, expire_nodest_conn=1",
        sysctls: &[("net/ipv4/vs/expire_nodest_conn", "1")],
        connections: 10,
        ..PLAIN
    },
    Group {
        name: "ipvs, conntrack=1, no rule",
        sysctls: &[("net/ipv4/vs/conntrack", "1")],
        connections: 10,
        ..PLAIN
    },
    Group { name: "sloppy_tcp", profile: "ipvs-sloppy", connections: 20, ..PLAIN },
    Group {
        name: "sloppy_tcp, two backends",
        profile: "ipvs-sloppy",
        backends: 2,
        connections: 15,
        ..PLAIN
    },
    Group { name: "nat_icmp_send", profile: "ipvs-icmp", connections: 10, ..PLAIN },
    Group { name: "INVALID rule, loose", profile: "ipvs-conntrack", connections: 15, ..PLAIN },
    Group {
        name: "INVALID rule, not loose",
        profile: "ipvs-conntrack-strict",
        connections: 10,
        ..PLAIN
    },
    Group { name: "DNAT, loose", profile: "conntrack", connections: 15, ..PLAIN },
    Group {
        name: "DNAT, loose, INVALID rule",
        profile: "conntrack-drop-invalid",
        connections: 5,
        ..PLAIN
    },
    Group { name: "DNAT, strict", profile: "conntrack-strict", connections: 5, ..PLAIN },
    Group { name: "DNAT, not loose", profile: "conntrack-not-loose", connections: 5, ..PLAIN },
];

/// When the last random connection begins, and how long all are watched.
const BEGINS_MS: u32 = 300_000;
const WATCH: Duration = Duration::from_secs(4_400);
/// How much later the model is asked again.
const LATER_MS: [u64; 4] = [15, 60, 200, 500];
/// Keepalive values of the random connections.
const KEEPALIVES: [&str; 8] = [
    "20/10/3",
    "60/30/3",
    "300/30/3",
    "600/75/9",
    "885/30/3",
    "895/75/9",
    "1000/75/9",
    "1500/30/3",
];

/// The whole set.
pub(super) fn set(seed: u64, hz: u32) -> Vec<Item> {
    let mut items = Vec::new();
    for embedded in embedded::SCENARIOS {
        let Ok(scenario) = Scenario::parse(embedded.text) else { continue };
        if scenario.incident.is_none() {
            let name = embedded.id.to_owned();
            let options = RunOptions { hz: Some(hz), ..RunOptions::default() };
            items.push(Item { name, scenario, sysctls: &[], options });
        }
    }
    for (number, group) in (0..).zip(&GROUPS) {
        let options = RunOptions { hz: Some(hz), ipv6: group.ipv6, ..RunOptions::default() };
        let mut scripts: Vec<Vec<Step>> = Vec::new();
        let mut tries = 0;
        while scripts.len() < group.connections {
            let mut random = Random::new(seed, &[number, tries]);
            tries += 1;
            let script = script(&mut random);
            if is_stable(group, &script, &options) {
                scripts.push(script);
            }
        }
        // Connections are numbered as they connect.
        scripts.sort_by_key(|script| script[0].at);
        for (connection, script) in scripts.iter_mut().enumerate() {
            for step in script {
                step.connection = connection;
            }
        }
        let scenario = scenario(group, scripts.concat());
        let name = group.name.to_owned();
        items.push(Item { name, scenario, sysctls: group.sysctls, options });
    }
    items
}

fn scenario(group: &Group, mut steps: Vec<Step>) -> Scenario {
    steps.extend(group.changes.iter().map(|&(at_s, idle_timeout_s)| {
        let idle_timeout = Span(Duration::from_secs(idle_timeout_s));
        let at = Span(Duration::from_secs(at_s));
        Step { at, who: Who::Path, connection: 0, does: Does::SetIdleTimeout { idle_timeout } }
    }));
    steps.sort_by_key(|step| step.at);
    Scenario {
        name: group.name.to_owned(),
        seed: 0,
        start: jiff::Timestamp::UNIX_EPOCH,
        path: Path {
            profile: Some(group.profile.to_owned()),
            kube_proxy: None,
            idle_timeout: Some(Span(Duration::from_secs(group.idle_timeout_s))),
            backends: group.backends,
            hz: 250,
        },
        client: EndSettings::default(),
        server: EndSettings::default(),
        timeline: steps,
        watch: Some(Span(WATCH)),
        netns: None,
        incident: None,
        expect: Vec::new(),
        totals: Totals::default(),
        cure: None,
    }
}

/// Whether the model says the same of it whenever it starts within half a second.
fn is_stable(group: &Group, script: &[Step], options: &RunOptions) -> bool {
    let at = |later_ms: u64| {
        let later = Duration::from_millis(later_ms);
        let steps = script.iter().map(|step| Step { at: Span(step.at.0 + later), ..step.clone() });
        let result = Model::Right.run(&scenario(group, steps.collect()), options).ok()?;
        let mut events = TOLERANCE.events(&result);
        events.values_mut().flatten().for_each(|event| event.at_s -= later.as_secs_f64());
        Some(events)
    };
    let Some(now) = at(0) else { return false };
    LATER_MS.into_iter().all(|later| at(later).is_some_and(|then| TOLERANCE.agree(&now, &then)))
}

/// One random connection: who speaks when, gaps, keepalive, half-close.
fn script(random: &mut Random) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut at_ms = u64::from(random.between(0, BEGINS_MS));
    let mut add = |at_ms: u64, who: Who, does: Does| {
        steps.push(Step { at: Span(Duration::from_millis(at_ms)), who, connection: 0, does });
    };
    let sizes = [1, 500, 4_000, 30_000];
    add(at_ms, Who::Client, Does::Connect);
    for who in [Who::Client, Who::Server] {
        if random.between(1, 10) <= 3 {
            let values = KEEPALIVES[pick(random, KEEPALIVES.len())];
            let values = values.parse::<KeepaliveValues>().ok();
            let does = Does::SetKeepalive { keepalive: KeepaliveSetting(values) };
            add(at_ms + 50, who, does);
        }
    }
    // Who asks, and whether there is an answer at once.
    at_ms += u64::from(random.between(100, 2_000));
    let asks = one_of(random);
    add(at_ms, asks, Does::Send { bytes: sizes[pick(random, 4)] });
    if random.between(0, 2) == 0 {
        at_ms += u64::from(random.between(500, 20_000));
        add(at_ms, other(asks), Does::Send { bytes: sizes[pick(random, 4)] });
    }
    if random.between(0, 5) == 0 {
        at_ms += u64::from(random.between(500, 5_000));
        add(at_ms, one_of(random), Does::Shutdown);
    }
    // One or two silences, each broken by somebody, who says one thing more.
    for _ in 0..random.between(1, 2) {
        let [from, to] =
            [[5, 50], [50, 140], [150, 880], [880, 935], [950, 1_500]][pick(random, 5)];
        at_ms += u64::from(random.between(from * 1_000, to * 1_000));
        let speaks = one_of(random);
        add(at_ms, speaks, Does::Send { bytes: sizes[pick(random, 4)] });
        at_ms += u64::from(random.between(900, 3_000));
        let again = if random.between(0, 2) == 0 { other(speaks) } else { speaks };
        add(at_ms, again, Does::Send { bytes: sizes[pick(random, 4)] });
    }
    if random.between(0, 3) == 0 {
        at_ms += u64::from(random.between(1_000, 5_000));
        let closes = one_of(random);
        add(at_ms, closes, Does::Close);
    }
    steps
}

fn one_of(random: &mut Random) -> Who {
    if random.between(0, 1) == 0 { Who::Client } else { Who::Server }
}

fn other(who: Who) -> Who {
    if who == Who::Client { Who::Server } else { Who::Client }
}

fn pick(random: &mut Random, of: usize) -> usize {
    let last = u32::try_from(of.saturating_sub(1)).unwrap_or(0);
    usize::try_from(random.between(0, last)).unwrap_or(0)
}
