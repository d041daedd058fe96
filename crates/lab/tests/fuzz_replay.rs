//! What fuzzing found, and what it starts from, through the fuzz targets' own functions.

use std::fs;

use stillopen_lab::middlebox::fuzz;

fn replay(folder: &str, run: impl Fn(&[u8])) {
    let files =
        fs::read_dir(format!("{}/../../fuzz/findings/{folder}", env!("CARGO_MANIFEST_DIR")));
    let mut replayed = 0;
    for file in files.unwrap() {
        let path = file.unwrap().path();
        println!("{}", path.display());
        run(&fs::read(path).unwrap());
        replayed += 1;
    }
    assert!(replayed > 0, "{folder} is empty");
}

#[test]
fn packets() {
    replay("packet_view", fuzz::packet_view);
}

#[test]
fn sequences_of_operations() {
    replay("middlebox", fuzz::operations);
}
