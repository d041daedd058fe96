//! `cargo xtask dist`: the static release binary with its manual pages, tried where nothing else is.
#![allow(
    clippy::disallowed_methods,
    reason = "start time is wall-clock time, and is only reported"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{elf, man, sh};

/// How often the start time is measured.
const STARTS: usize = 20;

/// Builds `target/dist` and tries it.
pub(crate) fn run() -> Result<()> {
    let dist = sh::target_dir()?.join("dist");
    let binary = build(&dist)?;
    man::write(&dist.join("man"))?;

    let bytes = fs::read(&binary).with_context(|| format!("read {}", binary.display()))?;
    if !elf::is_static(&bytes)? {
        bail!("{} asks for a dynamic loader", binary.display());
    }
    let places = try_out(&binary)?;
    println!("{}", binary.display());
    println!("size        {} bytes", bytes.len());
    println!("start time  {:.1?} (median of {STARTS} runs of --version)", start_time(&binary)?);
    println!("static      no program interpreter");
    println!("tried       --version and check --json in {}", places.join(" and "));
    Ok(())
}

/// Builds it, stripped, and copies it to where it is handed out.
fn build(dist: &Path) -> Result<PathBuf> {
    let triple = sh::host_triple()?;
    let target = sh::target_dir()?;
    // With --target the flag reaches the binary only: build scripts and macros cannot be static.
    sh::run(
        sh::cargo()
            .args(["build", "--release", "--locked", "--package", "stillopen"])
            .args(["--target", &triple])
            .env("CARGO_TARGET_DIR", &target)
            .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
            .env("RUSTFLAGS", sh::rustflags_and("-C target-feature=+crt-static")),
    )?;
    let built = target.join(triple).join("release/stillopen");
    let binary = dist.join("stillopen");
    fs::create_dir_all(dist).with_context(|| format!("create {}", dist.display()))?;
    fs::copy(&built, &binary)
        .with_context(|| format!("copy {} to {}", built.display(), binary.display()))?;
    Ok(binary)
}

/// Runs it in an empty directory without an environment, as root also with that as its root directory.
fn try_out(binary: &Path) -> Result<Vec<&'static str>> {
    let empty = tempfile::tempdir().context("make an empty directory")?;
    let mut places = vec!["an empty directory"];
    answers(|| Command::new(binary), empty.path())?;
    if sh::is_root() {
        let inside = empty.path().join("stillopen");
        fs::copy(binary, &inside).with_context(|| format!("copy to {}", inside.display()))?;
        let proc = empty.path().join("proc");
        fs::create_dir(&proc).with_context(|| format!("create {}", proc.display()))?;
        // As in a container made from nothing: there is /proc and no other file.
        let container = || {
            let mut unshare = Command::new("/usr/bin/unshare");
            unshare.args(["--mount", "--pid", "--fork", "--mount-proc"]);
            unshare.arg(format!("--root={}", empty.path().display())).arg("/stillopen");
            unshare
        };
        answers(container, empty.path())?;
        places.push("a root directory with nothing but /proc");
    }
    Ok(places)
}

/// Whether `--version` and `check --json` give what they should.
fn answers(command: impl Fn() -> Command, directory: &Path) -> Result<()> {
    let output = |arguments: &[&str], most: i32| -> Result<Vec<u8>> {
        let mut command = command();
        command.args(arguments).env_clear().current_dir(directory).stderr(Stdio::inherit());
        let shown = sh::shown(&command);
        let output = command.output().with_context(|| format!("run {shown}"))?;
        match output.status.code() {
            Some(code) if code <= most => Ok(output.stdout),
            _ => bail!("{shown}: {}", output.status),
        }
    };
    let version = output(&["--version"], 0)?;
    let expected = format!("stillopen {}\n", env!("CARGO_PKG_VERSION"));
    if version != expected.as_bytes() {
        bail!("--version says {:?}", String::from_utf8_lossy(&version));
    }
    // Status 1: something on this host is at risk.
    let json: Value =
        serde_json::from_slice(&output(&["check", "--json"], 1)?).context("check --json")?;
    if !json["connections"].is_array() {
        bail!("check --json has no connections: {json}");
    }
    Ok(())
}

fn start_time(binary: &Path) -> Result<Duration> {
    let mut times = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        let start = Instant::now();
        let status = Command::new(binary).arg("--version").stdout(Stdio::null()).status()?;
        times.push(start.elapsed());
        if !status.success() {
            bail!("--version: {status}");
        }
    }
    times.sort_unstable();
    Ok(times[STARTS / 2])
}
