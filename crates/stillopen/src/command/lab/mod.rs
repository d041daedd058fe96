//! `stillopen lab`: one file for each of its commands.

mod list;
mod programs;
mod run;

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::lab::{LabArgs, LabCommand};

/// Status as each command has it.
pub(crate) fn run(args: LabArgs) -> Result<ExitCode> {
    match args.command {
        LabCommand::Run(args) => run::run(&args),
        LabCommand::List(args) => list::list(&args),
        LabCommand::Sweep(args) => list::sweep(&args),
        LabCommand::Agent(args) => programs::agent(args),
        LabCommand::Job(args) => programs::job(args),
    }
}
