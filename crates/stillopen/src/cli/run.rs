//! The arguments of `stillopen run`.
#![allow(clippy::doc_markdown, reason = "the comments are the help's text, which has no markup")]

use std::ffi::OsString;

use clap::Args;
use stillopen_model::KeepaliveValues;

use crate::input::{self, LimitArg};

/// `stillopen run`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// Something on the path forgets idle connections: a duration (350s, 15m) or an id of the catalogue
    /// (aws-nat-gateway); @CIDR says for which peers. Can be given more than once. The values are those for the
    /// tightest. Without it, those of stillopen.toml.
    #[arg(long = "limit", value_name = "TIME|ID[@CIDR]", value_parser = input::limit_arg)]
    pub limits: Vec<LimitArg>,
    /// These values instead: idle/interval/count. Without it and without a limit they are 60/30/3.
    #[arg(long, value_name = "I/I/C")]
    pub keepalive: Option<KeepaliveValues>,
    /// Start CMD without keepalive where it can't be had, and say so, instead of not starting it.
    #[arg(long)]
    pub best_effort: bool,
    /// Say on standard error, once CMD and all that it started have ended, how many sockets got keepalive and
    /// which did not.
    #[arg(long)]
    pub report: bool,
    /// The program and its arguments.
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  stillopen run -- python3 job.py         60/30/3 on every TCP connection
  stillopen run --limit aws-nat-gateway -- java -jar app.jar
  stillopen run --keepalive 40/20/3 --report -- ./server

CMD keeps its process id, its terminal, its signals and its exit status. What it sets on a socket \
itself wins. It need not run as root, but is then started with no_new_privs: sudo and other setuid \
programs inside get no privilege. A process of CMD's in another network namespace or cgroup, or of \
another user, is left alone. More in docs/run.md.

Exit status: that of CMD; 125 it was not started, 126 it could not be executed, 127 there is none.";
