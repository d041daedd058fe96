//! The `stillopen` command as a library, so that `cargo xtask` can write its manual pages.
//!
//! Read first: `cli.rs` (arguments), then one file of `command/` for each command. `report/` prints.
#![forbid(unsafe_code)]

pub mod cli;
pub mod clients;
mod clock;
mod command;
mod config;
mod input;
mod kube_proxy;
mod output;
mod paste;
mod report;
mod terminal;
