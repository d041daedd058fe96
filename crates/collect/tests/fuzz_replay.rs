//! What fuzzing found, and what it starts from, through the fuzz targets' own bodies.
#![cfg(all(target_os = "linux", not(stillopen_portable)))]

use std::fs;

#[path = "../../../fuzz/bodies/sock_diag.rs"]
mod sock_diag;
#[path = "../../../fuzz/bodies/tables.rs"]
mod tables;

fn each_file(folders: &[&str], run: impl Fn(&[u8])) {
    for folder in folders {
        let files = fs::read_dir(format!("{}/{folder}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        for file in files {
            let path = file.unwrap().path();
            println!("{}", path.display());
            run(&fs::read(path).unwrap());
        }
    }
}

#[test]
fn findings_and_recorded_dumps() {
    each_file(
        &["../../fuzz/findings/sock_diag", "src/sock_diag/testdata", "src/address/testdata"],
        sock_diag::run,
    );
}

#[test]
fn findings_and_recorded_tables() {
    each_file(
        &[
            "../../fuzz/findings/tables",
            "src/ipvs/testdata",
            "src/conntrack/testdata",
            "src/nft/testdata",
            "src/route/testdata",
        ],
        tables::run,
    );
}
