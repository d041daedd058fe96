//! `cargo xtask bench`: CPU and memory against other tools, as ratios measured in one run.
//!
//! Read first: `check.rs`, `lab.rs` and `logs.rs`. `network.rs` makes what is measured, through `hold.rs`; `drain.rs` is the floor.

pub(crate) mod arm;
mod armed;
mod check;
pub(crate) mod drain;
pub(crate) mod hold;
mod lab;
pub(crate) mod logs;
mod measure;
mod netns;
mod network;
mod remedy;
mod rescue;

use anyhow::Result;
use clap::Subcommand;

/// `cargo xtask bench`
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// `stillopen check` against a bare dump and against ss. Needs root.
    Check(check::Args),
    /// The lab's middlebox with 1,000,000 entries, and the incident on virtual time.
    Lab,
    /// `stillopen rescue` against the plain way, and what `stillopen run` costs. Needs root.
    Remedy(remedy::Args),
    /// Throughput through the path of `stillopen lab exec` against DNAT by nftables. Needs root.
    Netns(netns::Args),
    /// `stillopen logs` on large logs against `wc -l` and DuckDB.
    Logs(logs::Args),
}

pub(crate) fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Check(args) => check::run(args),
        Bench::Lab => lab::run(),
        Bench::Remedy(args) => remedy::run(args),
        Bench::Netns(args) => netns::run(args),
        Bench::Logs(args) => logs::run(args),
    }
}
