//! The `stillopen` command: see `cli.rs` for what it takes, `command/` for what each command does.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    stillopen::cli::main()
}
