//! Scenarios on real Linux TCP in real time against the model: both must agree on what each end's program saw, who
//! was told, and when; and a model that is wrong on purpose is found out.
//!
//! All of them run side by side. Tolerance: `netns::tolerance`.
#![cfg(all(target_os = "linux", not(stillopen_portable)))]

use std::thread;

use stillopen_lab::{
    agreement::Model,
    embedded,
    netns::{self, TimelineError},
    result::RunResult,
    run::RunOptions,
    scenario::{RealTime, Scenario},
};

/// A tick that had begun when the packet came counts: at 250 a second, 4 ms.
const JIFFY_S: f64 = 0.004;

/// A scenario and how to run it.
struct Asked {
    scenario: Scenario,
    options: RunOptions,
}

struct Ran {
    asked: Asked,
    result: RunResult,
}

fn asked(id: &str, profile: Option<&str>, ipv6: bool) -> Asked {
    let scenario = Scenario::parse(embedded::scenario(id).unwrap().text).unwrap();
    let (id, profile) = (id.to_owned(), profile.map(str::to_owned));
    Asked { scenario, options: RunOptions { scenario: id, profile, ipv6, ..RunOptions::default() } }
}

/// Runs them side by side.
fn on_the_kernel(all: Vec<Asked>) -> Vec<Ran> {
    thread::scope(|scope| {
        let runs = all.into_iter().map(|asked| {
            scope.spawn(move || match netns::run_scenario(&asked.scenario, &asked.options) {
                Ok(run) => Ran { result: run.result, asked },
                Err(error) => panic!("{:?}: {error}", asked.options),
            })
        });
        let runs: Vec<_> = runs.collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    })
}

/// Where the kernel's run and this model's differ.
fn differences(ran: &Ran, model: Model) -> Vec<String> {
    let Asked { scenario, options } = &ran.asked;
    let RealTime { faster, watch } = scenario.netns.unwrap();
    let watched = Scenario { watch: watch.or(scenario.watch), ..scenario.clone() };
    let model = model.run(&watched, options).unwrap();
    let differ = netns::tolerance(faster).differences(&watched, &model, &ran.result);
    differ.into_iter().map(|what| format!("{options:?}\n{what}")).collect()
}

#[test]
fn every_marked_scenario_agrees_with_the_model_and_a_wrong_model_does_not() {
    let marked = embedded::SCENARIOS.iter().filter(|embedded| embedded.text.contains("[netns]"));
    let all = marked.flat_map(|of| [false, true].map(|ipv6| asked(of.id, None, ipv6))).collect();
    let all = on_the_kernel(all);
    assert_eq!(all.len(), 14);
    let mut differ = Vec::new();
    for ran in &all {
        differ.extend(differences(ran, Model::Right));
        differ.extend(ran.result.failures.clone());
        let faster = ran.result.real_time.as_ref().unwrap().faster;
        let lasts = ran.result.virtual_s / f64::from(faster);
        assert!(lasts <= 10.5, "{} lasts {lasts} s", ran.result.scenario);
        // A client's FIN shortens it.
        let least =
            if ran.result.scenario == "half-close" { 60.0 } else { ran.result.path.idle_timeout_s };
        let lives = ran.result.per_attempt.iter().flat_map(|a| [a.entry_lived_s, a.entry_due_s]);
        let shorter: Vec<_> = lives.flatten().filter(|lived| *lived < least - JIFFY_S).collect();
        assert!(shorter.is_empty(), "{}: {shorter:?}", ran.result.scenario);
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    for (wrong, found_by) in [
        (Model::DropsUntranslated, &["half-close", "server-speaks-first"][..]),
        (Model::LivesForADay, &["pooled-connection-reused", "two-backends", "half-close"]),
    ] {
        for id in found_by {
            let ran = all.iter().find(|ran| ran.result.scenario == *id).unwrap();
            assert!(!differences(ran, wrong).is_empty(), "{wrong:?} {id}");
        }
    }
    let kept = all.iter().find(|ran| ran.result.scenario == "keepalive-in-time").unwrap();
    assert_eq!(kept.result.probes, [3, 3]);
}

#[test]
fn a_middlebox_that_is_no_kernel_tells_whom_the_model_says() {
    let profiles = ["lb-reset-both", "nat-reset", "firewall-drop", "l7-proxy"];
    let all = ["server-speaks-first", "pooled-connection-reused"].iter();
    let all = all.flat_map(|id| profiles.map(|profile| asked(id, Some(profile), false)));
    let all = on_the_kernel(all.collect());
    let differ: Vec<_> = all.iter().flat_map(|ran| differences(ran, Model::Right)).collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    let told: Vec<_> = all.iter().map(|ran| ran.result.told_at_cut).collect();
    assert_eq!(told[0], 2, "both ends of {:?}", all[0].result.path);
}

#[test]
fn what_is_not_for_real_time_is_refused_before_anything_is_made() {
    for (id, says) in [
        ("keepalive-too-late", "75 times faster at most"),
        ("keepalive-on-one-side", "30 times faster at most"),
        ("llm-agent-behind-ipvs", "programs"),
    ] {
        let Asked { scenario, options } = asked(id, None, false);
        let error = netns::run_scenario(&scenario, &options).unwrap_err();
        assert!(matches!(error, TimelineError::Refused(_)), "{error}");
        let text = error.to_string();
        assert!(text.contains("not marked for --driver netns") && text.contains(says), "{text}");
    }
}

/// A connection on which the client sends at 100 ms, and what follows.
fn written(path: &str, faster: u32, watch: &str, rest: &str) -> Asked {
    let text = format!(
        "name = \"A sentence.\"\nwatch = \"{watch}\"\n[path]\n{path}\n[netns]\nfaster = {faster}\n{}{}{rest}",
        step("0s", "client", "\"connect\""),
        step("100ms", "client", "{ send = { bytes = 500 } }"),
    );
    Asked { scenario: Scenario::parse(&text).unwrap(), options: RunOptions::default() }
}

fn step(at: &str, who: &str, does: &str) -> String {
    format!("[[timeline]]\nat = \"{at}\"\nwho = \"{who}\"\ndoes = {does}\n")
}

fn expect(who: &str, sees: &str, at: &str) -> String {
    format!("[[expect]]\nwho = \"{who}\"\nsees = \"{sees}\"\nat = \"{at}\"\n")
}

#[test]
fn what_could_not_be_told_from_its_opposite_is_refused_with_a_factor_that_works() {
    let answers = step("10s", "server", "{ send = { bytes = 4000 } }");
    let silent = answers + &expect("client", "nothing", "1s");
    let in_time = step("15s", "server", "{ send = { bytes = 4000 } }")
        + &step("30s", "client", "{ send = { bytes = 40 } }");
    let nat = "profile = \"nat-reset\"\nidle_timeout = \"20s\"";
    let ipvs = "profile = \"ipvs\"";
    for (path, faster, watch, rest, most) in [
        (ipvs, 1000, "100s", &silent, 18),
        (ipvs, 100, "40s", &silent, 18),
        (nat, 1000, "60s", &in_time, 10),
    ] {
        let Asked { scenario, options } = written(path, faster, watch, rest);
        let error = netns::run_scenario(&scenario, &options).unwrap_err();
        assert!(matches!(error, TimelineError::Refused(_)), "{error}");
        assert!(error.to_string().contains(&format!("`faster = {most}`")), "{error}");
    }
    let all = vec![written(ipvs, 18, "40s", &silent), written(nat, 10, "60s", &in_time)];
    let all = on_the_kernel(all);
    let differ: Vec<_> = all.iter().flat_map(|ran| differences(ran, Model::Right)).collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert_eq!(all[0].result.failures.len(), 1, "{:?}", all[0].result.failures);
    assert_eq!(all[1].result.answered, 3);
}

#[test]
fn a_closed_client_is_forgotten_by_its_own_host_when_the_model_says() {
    let asked = |faster, keepalive: &str| {
        let closes = step("20s", "client", "\"close\"");
        let later = step("200s", "server", "{ send = { bytes = 500 } }");
        let path = format!("profile = \"ipvs\"\n[server]\nkeepalive = \"{keepalive}\"");
        written(&path, faster, "210s", &(closes + &later))
    };
    let all = on_the_kernel(vec![asked(20, "40/20/3")]);
    let differ = differences(&all[0], Model::Right);
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    let told = all[0].result.saw.iter().find(|saw| saw.what == "EPIPE").map(|saw| saw.at_s);
    assert!(told.is_some_and(|at| (70.0..150.0).contains(&at)), "{told:?}");
    let Asked { scenario, options } = asked(8, "off");
    let error = netns::run_scenario(&scenario, &options).unwrap_err().to_string();
    assert!(error.contains("FIN_WAIT2 for 60 s"), "{error}");
}
