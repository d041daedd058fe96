//! What fuzzing found, and what it starts from, through the fuzz target's own body.

use std::fs;

#[path = "../../../fuzz/bodies/logs.rs"]
mod body;

#[test]
fn findings_and_seeds() {
    let folder = format!("{}/../../fuzz/findings/logs", env!("CARGO_MANIFEST_DIR"));
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        println!("{}", path.display());
        body::run(&fs::read(path).unwrap());
    }
}
