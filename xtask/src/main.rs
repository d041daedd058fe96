//! Developer tasks: `cargo xtask` lists them. One file each; `sh.rs` runs other programs for them.
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod bench;
mod bpf;
mod dist;
mod docs;
mod elf;
mod fuzz;
mod man;
mod sh;
mod survey;
mod test;
mod tools;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Parser;

/// Developer tasks of stillopen.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
enum Task {
    /// Run every test; as root, install the Debian packages that they need.
    Test {
        /// Only this part.
        part: Option<test::Part>,
    },
    /// Ask with every surveyed client behind real IPVS, under QEMU; writes docs/clients-survey.json.
    Survey,
    /// Write the generated pages of docs/.
    Docs {
        /// Write nothing; fail where a page is not up to date.
        #[arg(long)]
        check: bool,
    },
    /// Compile the BPF objects; as root, install clang for it.
    Bpf {
        /// Write nothing; fail where a committed object is not that of its source.
        #[arg(long)]
        check: bool,
    },
    /// Write manual pages and shell completions.
    Man {
        /// Where to; target/man if not given.
        dir: Option<PathBuf>,
    },
    /// Build the static release binary and try it in an empty directory.
    Dist,
    /// Fuzz one target, from its seeds and earlier findings.
    Fuzz(fuzz::Args),
    /// Measure against other tools.
    #[cfg(target_os = "linux")]
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Part of `bench`: hold connections in the network namespace that it is started in.
    #[cfg(target_os = "linux")]
    #[command(hide = true, subcommand)]
    BenchHold(bench::hold::End),
    /// Part of `bench`: receive a dump of the connections of a process's network namespace.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    BenchDrain {
        /// The process.
        pid: u32,
    },
    /// Part of `bench`: arm every socket of some processes, the plain way.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    BenchArm {
        /// `TCP_KEEPIDLE`, seconds.
        idle_s: u64,
        /// The processes.
        pids: Vec<i32>,
    },
    /// Part of `bench`: write the logs of so many requests into a folder.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    BenchWriteLogs {
        /// How many.
        requests: u32,
        /// The folder.
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Task::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Test { part } => test::run(part),
        Task::Survey => survey::run(),
        Task::Docs { check } => docs::run(check),
        Task::Bpf { check } => bpf::run(check),
        Task::Man { dir } => man::run(dir),
        Task::Dist => dist::run(),
        Task::Fuzz(args) => fuzz::run(&args),
        #[cfg(target_os = "linux")]
        Task::Bench(bench) => bench::run(&bench),
        #[cfg(target_os = "linux")]
        Task::BenchHold(end) => bench::hold::run(&end),
        #[cfg(target_os = "linux")]
        Task::BenchDrain { pid } => bench::drain::run(pid),
        #[cfg(target_os = "linux")]
        Task::BenchArm { idle_s, pids } => bench::arm::run(idle_s, &pids),
        #[cfg(target_os = "linux")]
        Task::BenchWriteLogs { requests, folder } => bench::logs::write(requests, &folder),
    }
}
