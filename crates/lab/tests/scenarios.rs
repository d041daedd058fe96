//! Every scenario that comes with the program: it is read, it runs on both families, and what it expects holds.

use stillopen_lab::{
    embedded,
    run::{RunOptions, run},
    scenario::Scenario,
};

#[test]
fn every_scenario_does_what_its_file_expects() {
    for embedded in embedded::SCENARIOS {
        let scenario = Scenario::parse(embedded.text).expect(embedded.id);
        for ipv6 in [false, true] {
            let options = RunOptions { ipv6, ..RunOptions::default() };
            let result = run(&scenario, &options).expect(embedded.id).result;
            assert_eq!(result.failures, [""; 0], "{} (ipv6: {ipv6})", embedded.id);
        }
        if let Some(cure) = scenario.cure {
            let options = RunOptions { keepalive: cure.keepalive.0, ..RunOptions::default() };
            let result = run(&scenario, &options).expect(embedded.id).result;
            assert_eq!(result.failures, [""; 0], "{} cured", embedded.id);
        }
    }
}

#[test]
fn every_file_is_embedded() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files: Vec<String> = (std::fs::read_dir(folder).unwrap())
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_suffix(".toml")?.to_owned()))
        .collect();
    let mut embedded: Vec<&str> = embedded::SCENARIOS.iter().map(|s| s.id).collect();
    files.sort();
    embedded.sort_unstable();
    assert_eq!(files, embedded);
}

#[test]
fn every_name_is_a_sentence() {
    for embedded in embedded::SCENARIOS {
        let name = Scenario::parse(embedded.text).unwrap().name;
        assert!(name.ends_with('.') && name.starts_with(char::is_uppercase), "{name}");
    }
}

#[test]
fn an_expectation_that_does_not_hold_is_said() {
    let text = embedded::scenario("server-speaks-first").unwrap().text;
    let wrong = text.replacen("ECONNRESET", "ETIMEDOUT", 1);
    let scenario = Scenario::parse(&wrong).unwrap();
    let result = run(&scenario, &RunOptions::default()).unwrap().result;
    assert_eq!(result.failures.len(), 1, "{:?}", result.failures);
    assert!(result.failures[0].contains("must see ETIMEDOUT"), "{}", result.failures[0]);
    assert!(result.failures[0].contains("saw ECONNRESET at 950"), "{}", result.failures[0]);
}
