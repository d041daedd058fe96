//! What fuzzing found, and what it starts from, through the fuzz target's own body.
#![cfg(all(target_os = "linux", not(stillopen_portable)))]

use std::fs;

#[path = "../../../fuzz/bodies/sock_diag.rs"]
mod body;

#[test]
fn findings_and_recorded_dumps() {
    for folder in
        ["../../fuzz/findings/sock_diag", "src/sock_diag/testdata", "src/address/testdata"]
    {
        let files = fs::read_dir(format!("{}/{folder}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        for file in files {
            let path = file.unwrap().path();
            println!("{}", path.display());
            body::run(&fs::read(path).unwrap());
        }
    }
}
