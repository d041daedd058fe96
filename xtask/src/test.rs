//! `cargo xtask test`: every level of tests on a machine that has cargo and little else.

use std::process::Command;

use anyhow::Result;
use clap::ValueEnum;

use crate::{
    sh,
    tools::{
        self, CC, CONNTRACK, CURL, IP, JAVAC, NFT, NODE, PGJDBC, PYTHON, PYTHON_FOR_ALL, QEMU,
        SETPRIV, SYSCTL, Tool, UNSHARE, VENV,
    },
};

/// What still has to compile where there is no Linux.
const PORTABLE: [&str; 5] =
    ["stillopen-model", "stillopen-collect", "stillopen-lab", "stillopen-logs", "stillopen"];

/// What the tests call.
const TOOLS: [Tool; 14] = [
    CC,
    IP,
    NFT,
    CONNTRACK,
    PYTHON,
    PYTHON_FOR_ALL,
    VENV,
    SETPRIV,
    UNSHARE,
    CURL,
    NODE,
    JAVAC,
    PGJDBC,
    SYSCTL,
];

/// A part that can be run alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The model against a real kernel under QEMU, and the incident on that kernel.
    Vm,
}

pub(crate) fn run(part: Option<Part>) -> Result<()> {
    if part == Some(Part::Vm) {
        return vm();
    }
    tools::require(&TOOLS)?;
    check_portable()?;
    sh::run(sh::cargo().args(["test", "--workspace", "--locked"]))?;
    vm()
}

/// What only a kernel with the real IPVS can say. QEMU needs no KVM; what it downloads stays in a cache.
fn vm() -> Result<()> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        eprintln!("xtask: NOT RUN: the tests on a real kernel need Linux on x86-64");
        return Ok(());
    }
    tools::require(&[QEMU])?;
    sh::run(sh::cargo().args(["build", "--package", "stillopen", "--locked"]))?;
    let target = sh::target_dir()?;
    let lab = |args: &[&str]| {
        let mut command = Command::new(target.join("debug/stillopen"));
        command.arg("lab").args(args);
        sh::run(&mut command)
    };
    lab(&["vm", "prepare"])?;
    let differences = target.join("vm-differences");
    lab(&["vm", "parity", "--out", &differences.to_string_lossy()])?;
    lab(&["run", "--driver", "vm"])?;
    let test = ["test", "--package", "stillopen", "--test", "vm", "--locked", "--"];
    // One guest at a time: each takes a processor.
    sh::run(sh::cargo().args(test).args(["--ignored", "--test-threads", "1"]))
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
