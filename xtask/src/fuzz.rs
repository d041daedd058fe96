//! `cargo xtask fuzz`: one target of fuzz/, started from what is known of its input.

use std::process::Command;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::sh;

/// `cargo xtask fuzz`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to fuzz.
    target: Target,
    /// For how long.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    seconds: u32,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Target {
    /// Blocks of netlink dumps.
    SockDiag,
    /// Blocks and texts of the kernel's tables.
    Tables,
    /// Snapshot files.
    Snapshot,
    /// Packets, as the lab's middlebox looks at them.
    PacketView,
    /// Sequences of operations on the lab's middlebox.
    Middlebox,
    /// Logs of a client and a server.
    Logs,
}

impl Target {
    /// Its name, and the folders of its seeds.
    fn name_and_seeds(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::SockDiag => (
                "sock_diag",
                &["crates/collect/src/sock_diag/testdata", "crates/collect/src/address/testdata"],
            ),
            Self::Tables => (
                "tables",
                &[
                    "crates/collect/src/ipvs/testdata",
                    "crates/collect/src/conntrack/testdata",
                    "crates/collect/src/nft/testdata",
                    "crates/collect/src/route/testdata",
                ],
            ),
            Self::Snapshot => ("snapshot", &["crates/model/tests/cases"]),
            Self::PacketView => ("packet_view", &[]),
            Self::Middlebox => ("middlebox", &[]),
            Self::Logs => ("logs", &[]),
        }
    }
}

impl Target {
    /// The longest input in bytes, where longer ones say no more and take much longer.
    fn longest(self) -> Option<u32> {
        // Some twenty lines a side.
        matches!(self, Self::Logs).then_some(4096)
    }
}

/// Fuzzes until the time is up or something is found. A finding goes to `fuzz/artifacts`; minimise it
/// (`cargo +nightly fuzz tmin`), repair the cause, and keep it in `fuzz/findings`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let (name, seeds) = args.target.name_and_seeds();
    let (corpus, findings) = (format!("fuzz/corpus/{name}"), format!("fuzz/findings/{name}"));
    std::fs::create_dir_all(sh::root().join(&corpus))
        .with_context(|| format!("create {corpus}"))?;
    // Not the cargo that runs this: only rustup's understands +nightly.
    let longest = args.target.longest().map(|bytes| format!("-max_len={bytes}"));
    sh::run(
        Command::new("cargo")
            .current_dir(sh::root())
            .args(["+nightly", "fuzz", "run", name, &corpus, &findings])
            .args(seeds)
            .arg("--")
            .arg(format!("-max_total_time={}", args.seconds))
            .args(longest)
            .args(["-timeout=10", "-rss_limit_mb=4096", "-print_final_stats=1"]),
    )
    .context("is cargo-fuzz installed (cargo install cargo-fuzz), and a nightly toolchain?")
}
