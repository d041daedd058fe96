//! `stillopen lab vm`, and the guest's side of `lab run --driver vm`.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::{Context, Result};
use stillopen_lab::vm;

use crate::cli::lab::{VmArgs, VmCommand};

/// Status 0: it is ready.
pub(crate) fn run(args: &VmArgs) -> Result<ExitCode> {
    match args.command {
        VmCommand::Prepare => prepare(),
    }
}

fn prepare() -> Result<ExitCode> {
    let kernel = vm::prepare(|what| {
        // Progress; nobody may read it.
        let _ = writeln!(io::stderr(), "stillopen: {what}");
    })
    .context("prepare a kernel for --driver vm")?;
    writeln!(io::stdout(), "{} {}", kernel.version, kernel.image.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Does not return where it is process 1.
pub(crate) fn guest() -> Result<ExitCode> {
    vm::guest::main()?;
    Ok(ExitCode::SUCCESS)
}
