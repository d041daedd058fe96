//! The arguments of `stillopen rescue` and `stillopen ask`.
#![allow(clippy::doc_markdown, reason = "the comments are the help's text, which has no markup")]

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use stillopen_model::KeepaliveValues;

use super::{PathArgs, SelectArgs};

/// `stillopen rescue`
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, Args)]
#[command(
    after_help = RESCUE_EXAMPLES,
    override_usage = RESCUE_USAGE,
    group(ArgGroup::new("which").required(true).multiple(true).args(
        ["at_risk", "pid", "ports", "peers", "close_dead", "undo"])),
)]
pub struct RescueArgs {
    /// Turn keepalive on for what is at risk of being cut.
    #[arg(long)]
    pub at_risk: bool,
    /// Which connections: what is named here gets keepalive where its verdict is unknown, too.
    #[command(flatten)]
    pub select: SelectArgs,
    /// What is known of the path.
    #[command(flatten)]
    pub path: PathArgs,
    /// These values: idle/interval/count. Without it 60/30/3, or what a shorter limit demands.
    #[arg(long, value_name = "I/I/C")]
    pub keepalive: Option<KeepaliveValues>,
    /// End connections that are cut, or whose peer answers neither data nor probes, so that their programs
    /// get an error now. It cannot be undone.
    #[arg(long, conflicts_with_all = ["at_risk", "keepalive", "save_undo", "undo"])]
    pub close_dead: bool,
    /// Do it. Without it, what would be done is printed and nothing is changed.
    #[arg(long)]
    pub apply: bool,
    /// Keep what was there in FILE, for --undo.
    #[arg(long, value_name = "FILE", requires = "apply", conflicts_with = "undo")]
    pub save_undo: Option<PathBuf>,
    /// Put back what --save-undo kept.
    #[arg(long, value_name = "FILE", conflicts_with_all =
          ["at_risk", "netns", "all_netns", "pid", "ports", "peers", "limits", "keepalive",
           "kube_proxy_config", "service_cidrs"])]
    pub undo: Option<PathBuf>,
    /// Write JSON (schema stillopen.rescue/1, see docs/json.md).
    #[arg(long)]
    pub json: bool,
}

const RESCUE_USAGE: &str = "\
stillopen rescue <--at-risk|--pid PID|--port PORT|--peer CIDR> [OPTIONS]
       stillopen rescue --close-dead [OPTIONS]
       stillopen rescue --undo FILE [--apply]";

const RESCUE_EXAMPLES: &str = "\
The process that holds a connection is not stopped, traced or restarted: only its socket's options \
change. A connection that is cut already is not revived by any option, and gets none.

Examples:
  sudo stillopen rescue --at-risk                 what would be done
  sudo stillopen rescue --at-risk --apply --save-undo before.json
  sudo stillopen rescue --undo before.json --apply
  stillopen rescue --pid 4711 --limit 350s --apply
  sudo stillopen rescue --close-dead              which; --apply ends them

Exit status: 0, 1 something was refused, could not be done or was ended by its first probe, 2 error.";

/// `stillopen ask`
#[derive(Debug, Args)]
#[command(
    after_help = ASK_EXAMPLES,
    group(ArgGroup::new("which").required(true).multiple(true).args(["pid", "ports", "peers"])),
)]
pub struct AskArgs {
    /// Which connections.
    #[command(flatten)]
    pub select: SelectArgs,
    /// Do it. Without it, what would be asked is printed and nothing is sent.
    #[arg(long)]
    pub apply: bool,
    /// Write JSON (schema stillopen.ask/1, see docs/json.md).
    #[arg(long)]
    pub json: bool,
}

const ASK_EXAMPLES: &str = "\
WARNING: on a path that has forgotten the connection a probe may draw a reset, which ends it: its \
program gets an error then.

Each try makes the kernel send one keepalive probe on a quiet connection, up to three tries a second \
apart. A live peer's kernel answers it; no program notices anything. The socket's own options are put \
back afterwards, also if this command is killed (a TCP_KEEPIDLE that was never set comes back as its \
number). Connections with data in flight are left alone.

Examples:
  stillopen ask --pid 4711                     which would be asked
  stillopen ask --pid 4711 --apply
  sudo stillopen ask --peer 10.96.0.0/12 --apply --json

Exit status: 0 all that were asked answer, 1 one does not or could not be asked, 2 error.";
