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
