//! `stillopen check` on the node of the incident.
//!
//! `STILLOPEN_BLESS=1` writes `three_wait.txt` anew; the difference is then read in the commit.

use std::{env, fs};

use serde_json::Value;

use crate::{here, lab};

/// On the guest's virtual clock. The half second keeps what is printed away from the borders of seconds.
const TIMES: [&str; 3] = ["620500ms", "840500ms", "930500ms"];

#[test]
#[ignore = "boots a kernel under QEMU: cargo xtask test vm"]
fn check_counts_a_live_connection_down_and_proves_the_lost_one_cut() {
    let checks = TIMES.map(|time| format!("{time} check"));
    let checks = checks.iter().flat_map(|check| ["--on-node", check.as_str()]);
    let run = ["run", "three_wait.toml", "--driver", "vm", "--json"];
    let output = lab(&run.into_iter().chain(checks).collect::<Vec<_>>());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("it writes JSON");
    let mut said = String::new();
    for ran in document["kernel"]["on_node"].as_array().expect("what ran on the node") {
        assert_eq!((&ran["status"], &ran["stderr"]), (&1.into(), &"".into()), "{ran}");
        let stdout = ran["stdout"].as_str().expect("text");
        said.extend([&format!("After {} s\n\n", ran["at_s"]), stdout, "\n"]);
    }
    let path = here().join("three_wait.txt");
    if env::var_os("STILLOPEN_BLESS").is_some() {
        fs::write(&path, &said).expect("write the file");
    }
    assert_eq!(said, fs::read_to_string(&path).expect("read the file"));
}
