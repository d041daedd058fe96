//! Runs other programs, and knows where the workspace and its build output are.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The workspace.
pub(crate) fn root() -> &'static Path {
    // xtask is run where it was built.
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The cargo that runs this task, in the workspace.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir() -> Result<PathBuf> {
    #[derive(Deserialize)]
    struct Metadata {
        target_directory: PathBuf,
    }
    let json = output(cargo().args(["metadata", "--no-deps", "--format-version=1", "--locked"]))?;
    let metadata: Metadata = serde_json::from_str(&json).context("read cargo metadata")?;
    Ok(metadata.target_directory)
}

/// The triple that rustc builds for by default.
pub(crate) fn host_triple() -> Result<String> {
    let version = output(Command::new("rustc").arg("-vV").current_dir(root()))?;
    let triple = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(triple.context("rustc -vV names no host")?.to_owned())
}

/// The compiler flags that are in force, and one more.
pub(crate) fn rustflags_and(flag: &str) -> OsString {
    let mut flags = env::var_os("RUSTFLAGS").unwrap_or_default();
    if !flags.is_empty() {
        flags.push(" ");
    }
    flags.push(flag);
    flags
}

/// Whether this process is root's.
pub(crate) fn is_root() -> bool {
    #[cfg(unix)]
    return rustix::process::geteuid().is_root();
    #[cfg(not(unix))]
    false
}

/// Runs a program to its end; says first which.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    eprintln!("+ {}", shown(command));
    let status = command.status().with_context(|| format!("run {}", shown(command)))?;
    if !status.success() {
        bail!("{}: {status}", shown(command));
    }
    Ok(())
}

/// Runs a program to its end and gives its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("run {}", shown(command)))?;
    if !output.status.success() {
        bail!("{}: {}", shown(command), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("output of {}", shown(command)))
}

/// A command as one would type it, for messages.
pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
