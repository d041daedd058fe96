//! The incident on the simulator: what is lost, who is told, and what cures it.
// Seconds, as everywhere in the lab.
#![allow(clippy::duration_suboptimal_units)]

use std::time::Duration;

use stillopen_lab::{
    embedded,
    middlebox::ExpiryRule,
    result::{Outcome, RunResult},
    run::{Run, RunOptions, run},
    scenario::Scenario,
};

fn scenario(id: &str) -> Scenario {
    Scenario::parse(embedded::scenario(id).expect(id).text).expect(id)
}

fn run_incident(options: &RunOptions) -> Run {
    run(&scenario(embedded::DEFAULT), options).expect("the incident runs")
}

fn keepalive(text: &str) -> RunOptions {
    RunOptions { keepalive: Some(text.parse().unwrap()), ..RunOptions::default() }
}

/// The incident's `ConfigMap` with other values.
fn kube_proxy(from: &str, to: &str) -> RunOptions {
    let text = embedded::kube_proxy("llm-agent-behind-ipvs/kube-proxy.yaml").unwrap();
    assert!(text.contains(from));
    RunOptions { kube_proxy: Some(text.replace(from, to)), ..RunOptions::default() }
}

/// Every attempt that is silent for longer than its entry lives is lost, and no other.
fn assert_lost_by_the_wheel(result: &RunResult, timeout: Duration, hz: u32) {
    for attempt in &result.per_attempt {
        let lost = attempt.outcome == Outcome::Lost;
        assert_eq!(lost, attempt.entry_lived_s.is_some(), "{attempt:?}");
        // The same from the rule alone: the last packet is the request's acknowledgment.
        let asked = Duration::from_secs_f64(attempt.sent_s + ASKED_AFTER_S);
        let lives = ExpiryRule::Wheel { hz }.dies_at(asked, timeout).checked_sub(asked).unwrap();
        let margin = attempt.silent_s - lives.as_secs_f64();
        assert!(margin.abs() > 0.001, "too near to tell: {attempt:?}");
        assert_eq!(lost, margin > 0.0, "{attempt:?} against {lives:?}");
        if let Some(lived) = attempt.entry_lived_s {
            assert!((lived - lives.as_secs_f64()).abs() < 0.001, "{lived} {lives:?}");
        }
    }
}

/// From `connect` to the acknowledgment of the document at the middlebox: three crossings of the path.
const ASKED_AFTER_S: f64 = 0.001_75;

#[test]
fn it_loses_what_is_silent_for_longer_than_its_entry_lived_and_nothing_else() {
    for ipv6 in [false, true] {
        let Run { result, .. } = run_incident(&RunOptions { ipv6, ..RunOptions::default() });
        assert_eq!(result.failures, [""; 0]);
        assert!(result.lost >= 8, "{}", result.lost);
        assert_eq!(result.answered, 40);
        assert_eq!(result.attempts, result.answered + result.lost);
        assert_eq!(result.retried, result.lost);
        assert_eq!((result.told_at_cut, result.told_later), (0, 0));
        assert!(result.virtual_s > 7200.0, "{}", result.virtual_s);
        assert_lost_by_the_wheel(&result, Duration::from_secs(900), 250);
        for attempt in &result.per_attempt {
            if let Some(lived) = attempt.entry_lived_s {
                assert!((900.0..=916.4).contains(&lived), "{lived}");
                assert_eq!((attempt.client_saw, attempt.server_saw), ("own_timer", "nothing"));
            }
        }
        // The agent's own log counts from the start of work: the shortest loss looks like 13 minutes.
        let lost = result.per_attempt.iter().filter(|a| a.outcome == Outcome::Lost);
        let shortest = lost.filter_map(|a| a.agent_took_s).fold(f64::MAX, f64::min);
        assert!(shortest < 900.0, "{shortest}");
    }
}

#[test]
fn keepalive_60_30_3_loses_none() {
    for ipv6 in [false, true] {
        let Run { result, .. } = run_incident(&RunOptions { ipv6, ..keepalive("60/30/3") });
        assert_eq!(result.failures, [""; 0]);
        assert_eq!((result.attempts, result.answered, result.lost), (40, 40, 0));
        assert!(result.probes[1] >= 20, "{:?}", result.probes);
    }
}

#[test]
fn keepalive_890_survives_or_loses_exactly_as_the_wheel_says() {
    let Run { result, .. } = run_incident(&keepalive("890/30/3"));
    let wheel = ExpiryRule::Wheel { hz: 250 };
    let at = Duration::from_secs_f64;
    let (mut survived, mut lost) = (0, 0);
    for attempt in &result.per_attempt {
        let asked = at(attempt.sent_s + ASKED_AFTER_S);
        let dies = wheel.dies_at(asked, Duration::from_secs(900));
        // Armed when the connection opened (one round trip after connect); at its first look the socket has
        // been quiet for a little less than 890 s, or more: then it probes, or looks again for the rest.
        let opened = at(attempt.sent_s + 0.001);
        let acknowledged = at(attempt.sent_s + 0.002);
        let mut probe = wheel.dies_at(opened, Duration::from_secs(890));
        let quiet = probe.checked_sub(acknowledged).unwrap();
        if let Some(rest) = Duration::from_secs(890).checked_sub(quiet).filter(|r| !r.is_zero()) {
            probe = wheel.dies_at(probe, rest);
        }
        let probed_in_time = probe + Duration::from_micros(250) < dies;
        let silent = at(attempt.silent_s);
        if asked + silent < dies.min(probe) {
            assert_eq!(attempt.outcome, Outcome::Answered, "{attempt:?}");
        } else if probed_in_time && silent < Duration::from_secs(1780) {
            assert_eq!(attempt.outcome, Outcome::Answered, "{attempt:?} {probe:?} {dies:?}");
            survived += 1;
        } else if !probed_in_time {
            assert_eq!(attempt.outcome, Outcome::Lost, "{attempt:?} {probe:?} {dies:?}");
            lost += 1;
        }
    }
    assert!(survived > 0 && lost > 0, "both happen: {survived} {lost}");
    assert!(result.lost > 0);
}

#[test]
fn the_clusters_own_configuration_decides() {
    let as_it_is = run_incident(&RunOptions::default()).result;
    let longer = run_incident(&kube_proxy("tcpTimeout: 0s", "tcpTimeout: 3600s")).result;
    assert_eq!((longer.lost, longer.path.idle_timeout_s), (0, 3600.0));
    let shorter = run_incident(&kube_proxy("tcpTimeout: 0s", "tcpTimeout: 350s")).result;
    assert!(shorter.lost > as_it_is.lost, "{} {}", shorter.lost, as_it_is.lost);
    assert_lost_by_the_wheel(&shorter, Duration::from_secs(350), 250);
    let iptables = run_incident(&kube_proxy("mode: ipvs", "mode: iptables")).result;
    assert_eq!((iptables.lost, iptables.path.profile), (0, "conntrack"));
    for result in [longer, shorter, iptables] {
        assert_eq!(result.failures, [""; 0]);
    }
}

#[test]
fn other_tick_rates_follow_the_same_rule() {
    for hz in [100, 300, 1000] {
        let options = RunOptions { hz: Some(hz), ..RunOptions::default() };
        let Run { result, .. } = run_incident(&options);
        assert_lost_by_the_wheel(&result, Duration::from_secs(900), hz);
    }
}

#[test]
fn who_is_told_is_counted_from_what_the_ends_saw() {
    let both = run(&scenario("llm-agent-behind-a-load-balancer"), &RunOptions::default()).unwrap();
    let cut = both.result.per_attempt.iter().filter(|a| a.entry_lived_s.is_some()).count();
    assert!(cut > 0);
    assert_eq!(both.result.told_at_cut as usize, 2 * cut);
    assert_eq!(both.result.told_later, 0);

    let sender = run(&scenario("llm-agent-behind-a-nat-gateway"), &RunOptions::default()).unwrap();
    let cut = sender.result.per_attempt.iter().filter(|a| a.entry_lived_s.is_some());
    let cut: Vec<_> = cut.collect();
    assert!(!cut.is_empty());
    assert_eq!(sender.result.told_at_cut, 0);
    assert_eq!(sender.result.told_later as usize, cut.len());
    for attempt in cut {
        assert_eq!((attempt.client_saw, attempt.server_saw), ("own_timer", "ECONNRESET"));
    }
    for result in [both.result, sender.result] {
        assert_eq!(result.failures, [""; 0]);
    }
}

#[test]
fn the_same_seed_is_the_same_run_and_another_is_not() {
    let options = RunOptions::default();
    assert_eq!(run_incident(&options), run_incident(&options));
    let other = RunOptions { seed: Some(2), ..RunOptions::default() };
    assert_ne!(run_incident(&options).result.per_attempt, run_incident(&other).result.per_attempt);
}

#[test]
fn the_logs_are_json_lines_that_agree_with_the_result() {
    let Run { result, job_log, agent_log } = run_incident(&RunOptions::default());
    let events = |log: &str, name: &str| {
        let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
        let of = lines.filter(|line: &serde_json::Value| line["event"] == name);
        u32::try_from(of.count()).unwrap()
    };
    assert_eq!(events(&job_log, "sent"), result.attempts);
    assert_eq!(events(&job_log, "received"), result.answered);
    assert_eq!(events(&job_log, "lost"), result.lost);
    assert_eq!(events(&job_log, "retry"), result.retried);
    assert_eq!(events(&agent_log, "received"), result.attempts);
    assert_eq!(events(&agent_log, "sent"), result.attempts, "it believes that all were sent");
    let first: serde_json::Value = serde_json::from_str(job_log.lines().next().unwrap()).unwrap();
    let ts: jiff::Timestamp = first["ts"].as_str().unwrap().parse().unwrap();
    assert_eq!(ts.to_string(), "2026-03-02T09:00:00.001Z");
}
