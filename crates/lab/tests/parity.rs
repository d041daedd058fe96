//! The model against what a real kernel did with the shipped timelines and 200 random connections, recorded by
//! `stillopen lab vm parity --record`; `cargo xtask test vm` does the same with the kernel itself.
#![cfg(all(target_os = "linux", not(stillopen_portable)))]

use stillopen_lab::vm::parity::{Model, Recorded, compare};

fn recorded() -> Recorded {
    serde_json::from_str(include_str!("parity/linux-6.1.json")).unwrap()
}

#[test]
fn model_and_kernel_agree() {
    let comparison = compare(&recorded(), Model::Right).unwrap();
    let texts: Vec<_> =
        comparison.differences.iter().map(|d| (&d.lane, d.connection, &d.text)).collect();
    assert!(texts.is_empty(), "{texts:#?}");
    assert!(comparison.connections >= 209, "{}", comparison.table);
}

#[test]
fn a_model_that_is_wrong_on_purpose_is_found_out() {
    for wrong in [Model::TenSecondsLess, Model::DropsUntranslated, Model::LivesForADay] {
        let comparison = compare(&recorded(), wrong).unwrap();
        assert!(!comparison.differences.is_empty(), "{wrong:?}");
    }
}
