//! What only a guest with the kernel's own IPVS can show. Each of these boots one under QEMU, so they are
//! ignored by `cargo test`; `cargo xtask test` and `cargo xtask test vm` run them.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod check;
mod exec;
mod rescue;

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vm")
}

/// Runs `stillopen lab` with these arguments.
fn lab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stillopen"))
        .arg("lab")
        .args(args)
        .current_dir(here())
        .stdin(Stdio::null())
        .output()
        .expect("start stillopen")
}
