//! The arguments of `stillopen logs`.
#![allow(clippy::doc_markdown, reason = "the comments are the help's text, which has no markup")]

use std::path::PathBuf;

use clap::Args;

/// `stillopen logs`
#[derive(Debug, Args)]
#[command(after_help = LOGS_EXAMPLES)]
pub struct LogsArgs {
    /// The client's log: files that it is spread over, in any order; - is standard input. Plain, .gz or .zst.
    #[arg(long, value_name = "FILE", num_args = 1.., required_unless_present = "server")]
    pub client: Vec<PathBuf>,
    /// The server's log, likewise.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub server: Vec<PathBuf>,
    /// The field that holds the request's id. Here and below, client:VALUE or server:VALUE is for that side only.
    #[arg(long, value_name = "FIELD")]
    pub id: Vec<String>,
    /// The field that holds the time.
    #[arg(long, value_name = "FIELD")]
    pub time: Vec<String>,
    /// What the server's log says when it has sent an answer: a word of the event's field, or FIELD=WORD.
    #[arg(long, value_name = "WORD")]
    pub sent: Vec<String>,
    /// What the client's log says when it has got one.
    #[arg(long, value_name = "WORD")]
    pub received: Vec<String>,
    /// What a log says when a request begins: the client's send, the server's start.
    #[arg(long, value_name = "WORD")]
    pub started: Vec<String>,
    /// Read free text with this regular expression; its named groups are the fields: time, id, event, and where
    /// there are such attempt, status, error, took.
    #[arg(long, value_name = "REGEX")]
    pub pattern: Vec<String>,
    /// Also draw silence and outcome into this file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Also write the lost requests into this file.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write JSON (schema stillopen.logs/1, see docs/json.md).
    #[arg(long)]
    pub json: bool,
}

const LOGS_EXAMPLES: &str = "\
Examples:
  stillopen logs --client client.log --server agent.log
  stillopen logs --client job-*.log.gz --server /var/log/pods/mining_*/*/*.log
  kubectl logs agent-0 | stillopen logs --client client.log --server -
  stillopen logs --client a.log --server b.log --id client:call --id server:req
  stillopen logs --server agent.log    one side says less, and says so

Exit status: 0 no answer was lost, 1 some were, 2 error.";
