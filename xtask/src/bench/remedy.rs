//! `cargo xtask bench remedy`: what it costs to arm connections.

use anyhow::{Result, bail};

use super::{
    check::{Built, build},
    rescue,
};
use crate::{
    sh,
    tools::{self, IP, NSENTER, UNSHARE},
};

/// `cargo xtask bench remedy`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many open connections to rescue.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: u32,
    /// How often to measure each; the best counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if !sh::is_root() {
        bail!("bench remedy makes network namespaces: run it as root");
    }
    tools::require(&[IP, UNSHARE, NSENTER])?;
    let Built { stillopen, xtask } = build()?;
    if !rescue::run(args.connections, args.rounds, &stillopen, &xtask)? {
        bail!("missed: rescue");
    }
    Ok(())
}
