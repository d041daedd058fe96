//! `stillopen lab` as a process: runs of scenarios, and the incident's two programs against a fake
//! OpenAI-compatible endpoint.

mod endpoint;
mod programs;
mod runs;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod vm;

use std::process::{Command, Output};

/// The program with these arguments, in a folder without configuration.
fn stillopen(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stillopen"));
    command.args(args);
    command
}

fn output(args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = stillopen(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().expect("it ended by itself"), text(stdout), text(stderr))
}
