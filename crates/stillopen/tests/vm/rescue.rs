//! `stillopen rescue` on the node, while the incident's job waits.

use serde_json::Value;

use crate::lab;

const RUN: [&str; 2] = ["run", "one_waits.toml"];

#[test]
#[ignore = "boots a kernel under QEMU: cargo xtask test vm"]
fn a_job_that_is_rescued_at_minute_10_has_its_answer_at_minute_16() {
    // Left alone, it is lost: the model says so, and holds on this kernel (lab vm parity).
    let alone = lab(&RUN);
    assert_eq!(alone.status.code(), Some(1), "{}", String::from_utf8_lossy(&alone.stdout));

    rescued_at("10m", "safe");
}

/// With `TCP_KEEPIDLE` set last, the probe of a connection that has been quiet for so long leaves at once.
#[test]
#[ignore = "boots a kernel under QEMU: cargo xtask test vm"]
fn a_job_that_is_rescued_a_fifth_of_a_second_before_the_cut_has_its_answer() {
    rescued_at("899800ms", "at_risk");
}

/// `predicted`: whether its first probe is sure to be in time.
fn rescued_at(time: &str, predicted: &str) {
    let command = format!("{time} rescue --at-risk --apply --json");
    let rescued = ["--driver", "vm", "--on-node", &command, "--json"];
    let output = lab(&[&RUN[..], &rescued].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("it writes JSON");
    let said = document["kernel"]["on_node"][0]["stdout"].as_str().expect("text");
    let rescue: Value = serde_json::from_str(said).expect("rescue writes JSON");
    let [row] = rescue["connections"].as_array().expect("a list").as_slice() else {
        panic!("the job has one connection: {rescue:#}")
    };
    assert_eq!((&row["verdict"], &row["predicted"]), (&"at_risk".into(), &predicted.into()));
    assert_eq!(row["done"], true, "{row:#}");
    let virtual_s = document["virtual_s"].as_f64().expect("how long it took");
    assert!((960.0..965.0).contains(&virtual_s), "{virtual_s}");
}
