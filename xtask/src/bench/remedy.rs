//! `cargo xtask bench remedy`: what it costs to arm connections.

use anyhow::{Result, bail};

use super::{
    armed,
    check::{Built, build},
    rescue,
};
use crate::{
    sh,
    tools::{self, CC, IP, NSENTER, UNSHARE},
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
    tools::require(&[CC, IP, UNSHARE, NSENTER])?;
    let Built { stillopen, xtask } = build()?;
    let rescue = rescue::run(args.connections, args.rounds, &stillopen, &xtask)?;
    let run = armed::run(&stillopen)?;
    match (rescue, run) {
        (true, true) => Ok(()),
        (false, true) => bail!("missed: rescue"),
        (true, false) => bail!("missed: run"),
        (false, false) => bail!("missed: rescue and run"),
    }
}
