//! `cargo xtask test`: every level of tests on a machine that has cargo and little else.

use anyhow::Result;

use crate::{
    sh,
    tools::{
        self, CONNTRACK, CURL, IP, JAVAC, NFT, PGJDBC, PYTHON, SETPRIV, SYSCTL, Tool, UNSHARE, VENV,
    },
};

/// What still has to compile where there is no Linux.
const PORTABLE: [&str; 5] =
    ["stillopen-model", "stillopen-collect", "stillopen-lab", "stillopen-logs", "stillopen"];

/// What the tests call.
const TOOLS: [Tool; 11] =
    [IP, NFT, CONNTRACK, PYTHON, VENV, SETPRIV, UNSHARE, CURL, JAVAC, PGJDBC, SYSCTL];

pub(crate) fn run() -> Result<()> {
    tools::require(&TOOLS)?;
    check_portable()?;
    // Last, so that its own summary closes the output.
    sh::run(sh::cargo().args(["test", "--workspace", "--locked"]))
}

/// Compiles without the Linux parts, in a target directory of its own: other flags would make cargo
/// build everything again each time.
fn check_portable() -> Result<()> {
    sh::run(
        sh::cargo()
            .args(["check", "--locked"])
            .args(PORTABLE.iter().flat_map(|package| ["--package", package]))
            .env("RUSTFLAGS", sh::rustflags_and("--cfg stillopen_portable"))
            .env("CARGO_TARGET_DIR", sh::target_dir()?.join("portable")),
    )
}
