//! The simulator against what a real Linux (6.1, IPVS and nftables DNAT) was measured to do when the entry is
//! gone: who sends first, what each program sees, and when.

use std::fmt::Write;

use stillopen_lab::{
    result::RunResult,
    run::{RunOptions, run},
    scenario::Scenario,
};

/// What was measured: at what time (s) which program saw what; `tolerance_s` for timers on the wheel.
struct Fact {
    profile: &'static str,
    keepalive: [&'static str; 2],
    /// Steps after the request at 0 s: when, who, what.
    steps: &'static [(u32, &'static str, &'static str)],
    client: &'static [(f64, &'static str)],
    server: &'static [(f64, &'static str)],
    tolerance_s: f64,
}

const OFF: [&str; 2] = ["off", "off"];
const SEND: &str = "{ send = { bytes = 500 } }";
const FIN: &str = "\"shutdown\"";
/// Gives up after `tcp_retries2=15`, measured.
const GIVEN_UP: f64 = 939.0;

#[rustfmt::skip]
const FACTS: &[Fact] = &[
    // The waiting client is never told; the server's write succeeds, then one ECONNRESET, then EPIPE.
    Fact { profile: "ipvs", keepalive: OFF, steps: &[(950, "server", SEND), (951, "server", SEND)],
        client: &[], server: &[(950.0, "ECONNRESET"), (951.0, "EPIPE")], tolerance_s: 0.1 },
    // A pooled connection: the node's own TCP resets the client; the server sees nothing.
    Fact { profile: "ipvs", keepalive: OFF, steps: &[(950, "client", SEND), (951, "client", SEND)],
        client: &[(950.0, "ECONNRESET"), (951.0, "EPIPE")], server: &[], tolerance_s: 0.1 },
    // Keepalive on either end: the answer arrives after an hour.
    Fact { profile: "ipvs", keepalive: ["60/30/3", "off"], steps: &[(3600, "server", SEND)],
        client: &[(3600.0, "data")], server: &[], tolerance_s: 0.1 },
    Fact { profile: "ipvs", keepalive: ["off", "60/30/3"], steps: &[(3600, "server", SEND)],
        client: &[(3600.0, "data")], server: &[], tolerance_s: 0.1 },
    // Keepalive that comes too late is reset itself: measured at 7240.8 s and 1014.9 s.
    Fact { profile: "ipvs", keepalive: ["7200/75/9", "off"], steps: &[],
        client: &[(7240.8, "ECONNRESET")], server: &[], tolerance_s: 131.1 },
    Fact { profile: "ipvs", keepalive: ["1000/75/9", "off"], steps: &[],
        client: &[(1014.9, "ECONNRESET")], server: &[], tolerance_s: 16.4 },
    Fact { profile: "ipvs", keepalive: ["off", "1000/75/9"], steps: &[],
        client: &[], server: &[(1014.9, "ECONNRESET")], tolerance_s: 16.4 },
    // Half-close: 60 s, then EPIPE (a reset in CLOSE_WAIT).
    Fact { profile: "ipvs", keepalive: OFF, steps: &[(1, "client", FIN), (90, "server", SEND)],
        client: &[], server: &[(1.0, "eof"), (90.0, "EPIPE")], tolerance_s: 0.1 },
    Fact { profile: "ipvs", keepalive: OFF, steps: &[(1, "client", FIN), (50, "server", SEND)],
        client: &[(50.0, "data")], server: &[(1.0, "eof")], tolerance_s: 0.1 },
    // conntrack beside IPVS: with tcp_loose the INVALID rule does not fire, without it there is true silence.
    Fact { profile: "ipvs-conntrack", keepalive: OFF, steps: &[(950, "server", SEND)],
        client: &[], server: &[(950.0, "ECONNRESET")], tolerance_s: 0.1 },
    Fact { profile: "ipvs-conntrack-strict", keepalive: OFF, steps: &[(950, "server", SEND)],
        client: &[], server: &[(950.0 + GIVEN_UP, "ETIMEDOUT")], tolerance_s: 5.0 },
    // sloppy_tcp, one pod: heals.
    Fact { profile: "ipvs-sloppy", keepalive: OFF, steps: &[(950, "client", SEND), (951, "server", SEND)],
        client: &[(951.0, "data")], server: &[(950.0, "data")], tolerance_s: 0.1 },
    // nat_icmp_send: the ICMP error is reported when the kernel gives up.
    Fact { profile: "ipvs-icmp", keepalive: OFF, steps: &[(950, "server", SEND)],
        client: &[], server: &[(950.0 + GIVEN_UP, "ECONNREFUSED")], tolerance_s: 5.0 },
    // DNAT by conntrack: the client's packet heals it, the server's does not.
    Fact { profile: "conntrack", keepalive: OFF, steps: &[(950, "server", SEND)],
        client: &[], server: &[(950.0, "ECONNRESET")], tolerance_s: 0.1 },
    Fact { profile: "conntrack", keepalive: OFF, steps: &[(950, "client", SEND), (951, "server", SEND)],
        client: &[(951.0, "data")], server: &[(950.0, "data")], tolerance_s: 0.1 },
    Fact { profile: "conntrack-strict", keepalive: OFF, steps: &[(950, "server", SEND)],
        client: &[], server: &[(950.0 + GIVEN_UP, "ETIMEDOUT")], tolerance_s: 5.0 },
];

fn scenario(fact: &Fact) -> Scenario {
    let [client, server] = fact.keepalive;
    let mut text = format!(
        "name = \"A measured fact.\"\nwatch = \"8000s\"\n[path]\nprofile = \"{}\"\n\
         idle_timeout = \"900s\"\n[client]\nkeepalive = \"{client}\"\n[server]\nkeepalive = \"{server}\"\n",
        fact.profile
    );
    let request = [("0s".to_owned(), "client", "\"connect\""), ("10ms".into(), "client", SEND)];
    let steps = fact.steps.iter().map(|&(at, who, does)| (format!("{at}s"), who, does));
    for (at, who, does) in request.into_iter().chain(steps) {
        text += "[[timeline]]\n";
        writeln!(text, "at = \"{at}\"\nwho = \"{who}\"\ndoes = {does}").unwrap();
    }
    Scenario::parse(&text).unwrap()
}

/// What a program saw, the request's own arrival left out.
fn saw(result: &RunResult, who: &str) -> Vec<(f64, &'static str)> {
    let of = result.saw.iter().filter(|saw| saw.who == who && saw.at_s > 0.5);
    of.map(|saw| (saw.at_s, saw.what)).collect()
}

#[test]
fn each_program_sees_what_was_measured() {
    for (number, fact) in FACTS.iter().enumerate() {
        for ipv6 in [false, true] {
            let options = RunOptions { ipv6, ..RunOptions::default() };
            let result = run(&scenario(fact), &options).unwrap().result;
            for (who, wanted) in [("client", fact.client), ("server", fact.server)] {
                let seen = saw(&result, who);
                let what = format!("fact {number} ({}), {who}: {seen:?}", fact.profile);
                assert_eq!(seen.len(), wanted.len(), "{what}");
                for (&(at, word), &(wanted_at, wanted_word)) in seen.iter().zip(wanted) {
                    assert_eq!(word, wanted_word, "{what}");
                    assert!((at - wanted_at).abs() <= fact.tolerance_s, "{what}");
                }
            }
        }
    }
}

#[test]
fn an_hour_of_keepalive_60_is_58_probes() {
    let fact = Fact { steps: &[(3600, "server", SEND)], ..FACTS[2] };
    let mut scenario = scenario(&fact);
    scenario.watch = scenario.timeline.last().map(|step| step.at);
    let result = run(&scenario, &RunOptions::default()).unwrap().result;
    assert!((57..=59).contains(&result.probes[1]), "{:?}", result.probes);
}
