//! `stillopen lab`: one file for each of its commands.

#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod exec;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod exec_vm;
mod list;
mod programs;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod progress;
mod run;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod vm;

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::lab::{LabArgs, LabCommand};

/// Status as each command has it.
pub(crate) fn run(args: LabArgs) -> Result<ExitCode> {
    match args.command {
        LabCommand::Run(args) => run::run(&args),
        #[cfg(all(target_os = "linux", not(stillopen_portable)))]
        LabCommand::Exec(args) => Ok(exec::run(args)),
        #[cfg(all(target_os = "linux", not(stillopen_portable)))]
        LabCommand::Vm(args) => vm::run(&args),
        #[cfg(all(target_os = "linux", not(stillopen_portable)))]
        LabCommand::Guest => vm::guest(),
        LabCommand::List(args) => list::list(&args),
        LabCommand::Sweep(args) => list::sweep(&args),
        LabCommand::Agent(args) => programs::agent(args),
        LabCommand::Job(args) => programs::job(args),
    }
}
