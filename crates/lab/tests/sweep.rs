//! The sweep's table against the one that is kept. `STILLOPEN_BLESS=1` keeps the new one.

use std::{env, fs, path::Path};

use stillopen_lab::sweep;

#[test]
fn the_sweep_is_as_it_was_on_both_families() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/sweep.txt");
    let table = sweep::table(false);
    assert_eq!(table, sweep::table(true), "IPv6 differs");
    if env::var_os("STILLOPEN_BLESS").is_some() {
        fs::write(&kept, &table).unwrap();
    }
    let before = fs::read_to_string(&kept).unwrap();
    assert_eq!(before, table, "if this is meant: STILLOPEN_BLESS=1 cargo test -p stillopen-lab");
}
