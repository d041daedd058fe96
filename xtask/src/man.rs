//! `cargo xtask man`: manual pages and shell completions from the command line's own definition.
//!
//! They are not committed: nobody reads roff in a review, and `cargo xtask dist` puts them beside the
//! binary that they belong to.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::{CommandFactory as _, ValueEnum as _};
use clap_complete::Shell;
use stillopen::cli::Cli;

use crate::sh;

/// Writes them into `dir`, or `target/man`.
pub(crate) fn run(dir: Option<PathBuf>) -> Result<()> {
    let dir = match dir {
        Some(dir) => dir,
        None => sh::target_dir()?.join("man"),
    };
    write(&dir)?;
    println!("{}", dir.display());
    Ok(())
}

/// Writes the manual pages into `dir` and the completions into `dir/completions`.
pub(crate) fn write(dir: &Path) -> Result<()> {
    let completions = dir.join("completions");
    fs::create_dir_all(&completions)
        .with_context(|| format!("create {}", completions.display()))?;
    clap_mangen::generate_to(Cli::command(), dir)
        .with_context(|| format!("write manual pages to {}", dir.display()))?;
    for &shell in Shell::value_variants() {
        clap_complete::generate_to(shell, &mut Cli::command(), "stillopen", &completions)
            .with_context(|| format!("write completions to {}", completions.display()))?;
    }
    Ok(())
}
