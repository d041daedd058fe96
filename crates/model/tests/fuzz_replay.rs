//! What fuzzing found, and what it starts from, through the fuzz target's own body.

use std::fs;

#[path = "../../../fuzz/bodies/snapshot.rs"]
mod body;

#[test]
fn findings_and_cases() {
    for folder in ["../../fuzz/findings/snapshot", "tests/cases"] {
        let files = fs::read_dir(format!("{}/{folder}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        for file in files {
            let path = file.unwrap().path();
            println!("{}", path.display());
            body::run(&fs::read(path).unwrap());
        }
    }
}
