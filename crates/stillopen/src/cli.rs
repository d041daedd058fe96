//! The command line: one place that help, manual pages and completions are made from.

pub mod kube_proxy;
pub mod lab;
pub mod logs;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub mod rescue;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub mod run;

use std::{
    env,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Parser, Subcommand, ValueEnum};
use ipnet::IpNet;
use stillopen_model::KeepaliveValues;

use kube_proxy::KubeProxyArgs;

use crate::{
    command,
    input::{self, LimitArg},
    output,
    paste::Options,
    report::table::printable,
};

/// Finds TCP connections that the network has dropped without telling either end.
#[derive(Debug, Parser)]
#[command(name = "stillopen", version, long_about = LONG_ABOUT, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const LONG_ABOUT: &str = "\
Finds TCP connections that the network has dropped without telling either end.

Something between a client and a server (a Kubernetes node's IPVS table, a NAT gateway, a load \
balancer, a firewall) forgets a connection that carries no packet for some minutes, and tells nobody. \
Both ends still say ESTABLISHED; the answer is sent and never arrives.

Only `rescue`, `ask` and `run` change anything of this host: the first two only with --apply, options of \
sockets, which can be undone, or the end of a connection, which cannot; `run` only the program that it starts.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Which connections of this host are cut, or will be, who waits on them, and what to do.
    Check(Box<CheckArgs>),
    /// What on the way forgets idle connections, and after how long.
    Limits(LimitsArgs),
    /// What each finding of `check` means, and what cures it.
    Findings(FindingsArgs),
    /// Which TCP keepalive values, why, what they cost, and how to set them in a client.
    Advise(AdviseArgs),
    /// Start a program with TCP keepalive on for all its connections.
    #[cfg(all(target_os = "linux", not(stillopen_portable)))]
    Run(run::RunArgs),
    /// Which answers were sent and never arrived, by the logs of both sides, and the limit that fits.
    Logs(logs::LogsArgs),
    /// Turn keepalive on for connections that are open right now; end those that are dead.
    #[cfg(all(target_os = "linux", not(stillopen_portable)))]
    Rescue(Box<rescue::RescueArgs>),
    /// Is this connection still open? One keepalive probe tells.
    #[cfg(all(target_os = "linux", not(stillopen_portable)))]
    Ask(rescue::AskArgs),
    /// See the failure and its cure on virtual time; try your own client behind a path that forgets.
    Lab(lab::LabArgs),
}

/// `stillopen check`
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub struct CheckArgs {
    /// What is known of the path.
    #[command(flatten)]
    pub path: PathArgs,
    /// Which connections.
    #[command(flatten)]
    pub select: SelectArgs,
    /// Look a second time after so long: a peer's keepalive probes show only between two looks.
    #[arg(long, value_name = "TIME", value_parser = input::duration)]
    pub sample: Option<Duration>,
    /// Don't look up which process holds a connection, nor the keepalive values that only that shows.
    #[arg(long, conflicts_with = "pid")]
    pub no_owners: bool,
    /// At risk counts as a failure when the cut is nearer than this.
    #[arg(long, value_name = "TIME", value_parser = input::duration, default_value = "2h")]
    pub horizon: Duration,
    /// Also end with status 1 where a verdict is unknown.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub fail_on: Option<FailOn>,
    /// List every connection, the safe ones too.
    #[arg(long)]
    pub all: bool,
    /// Write JSON (schema stillopen.check/1, see docs/json.md).
    #[arg(long)]
    pub json: bool,
    /// Also keep what was read in FILE, for --from on any machine. It holds addresses and command names.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Diagnose what --save kept, instead of this host. --limit then replaces the limits that it holds.
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["netns", "all_netns", "sample", "save", "no_owners"])]
    pub from: Option<PathBuf>,
}

/// What is known of the path.
#[derive(Debug, Args)]
pub struct PathArgs {
    /// Something on the path forgets idle connections: a duration (350s, 15m) or an id of the catalogue
    /// (aws-nat-gateway); @CIDR says for which peers. Can be given more than once.
    #[arg(long = "limit", value_name = "TIME|ID[@CIDR]", value_parser = input::limit_arg)]
    pub limits: Vec<LimitArg>,
    /// What is known of the cluster.
    #[command(flatten)]
    pub kube_proxy: KubeProxyArgs,
}

impl PathArgs {
    /// Adds them as they were given.
    pub(crate) fn repeat(&self, options: &mut Options) {
        options.limits(&self.limits);
        self.kube_proxy.repeat(options);
    }
}

/// Which connections a command is about.
#[derive(Debug, Args)]
pub struct SelectArgs {
    /// Only the network namespace with this name (ip netns list), or of this process.
    #[arg(long, value_name = "NAME|PID", conflicts_with = "all_netns")]
    pub netns: Option<String>,
    /// Every network namespace of this host. The default for root.
    #[arg(long)]
    pub all_netns: bool,
    /// Only connections of this process.
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Only connections with this port at either end. Can be given more than once.
    #[arg(long = "port", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub ports: Vec<u16>,
    /// Only connections to this network. Can be given more than once.
    #[arg(long = "peer", value_name = "CIDR", value_parser = input::cidr)]
    pub peers: Vec<IpNet>,
}

impl SelectArgs {
    /// Adds them as they were given.
    pub(crate) fn repeat(&self, options: &mut Options) {
        if let Some(name) = &self.netns {
            options.add("--netns", name);
        }
        if let Some(pid) = self.pid {
            options.add("--pid", &pid.to_string());
        }
        for port in &self.ports {
            options.add("--port", &port.to_string());
        }
        for peer in &self.peers {
            options.add("--peer", &peer.to_string());
        }
        options.flag("--all-netns", self.all_netns);
    }
}

const CHECK_EXAMPLES: &str = "\
Examples:
  stillopen check                              what is quiet and unprotected
  stillopen check --limit aws-nat-gateway      the path has an AWS NAT gateway
  stillopen check --limit 900s@10.96.0.0/12    Services are behind IPVS
  stillopen check --limit 350s --sample 30s    also watch for the peers' probes
  sudo stillopen check --json                  every namespace, for a program
  stillopen check --save case.json             keep it, for a colleague
  stillopen check --from case.json --limit 350s
  kubectl -n kube-system get cm kube-proxy -o yaml |
    stillopen check --kube-proxy-config -

Exit status: 0 nothing is at risk, 1 something is cut or will be within --horizon, 2 error. What is \
unknown counts only with --fail-on unknown.";

/// What else makes `check` fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// A verdict is unknown.
    Unknown,
}

/// `stillopen limits`
#[derive(Debug, Args)]
#[command(after_help = LIMITS_EXAMPLES)]
pub struct LimitsArgs {
    /// List the idle limits of known components instead; with TEXT only those that it occurs in.
    #[arg(long, value_name = "TEXT", num_args = 0..=1, default_missing_value = "",
          conflicts_with_all = ["kube_proxy_config", "service_cidrs", "from"])]
    pub catalogue: Option<String>,
    /// What is known of the cluster.
    #[command(flatten)]
    pub kube_proxy: KubeProxyArgs,
    /// What check --save kept, instead of this host.
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Write JSON (schemas stillopen.limits/1 and stillopen.catalogue/1, see docs/json.md).
    #[arg(long)]
    pub json: bool,
}

const LIMITS_EXAMPLES: &str = "\
Examples:
  sudo stillopen limits                 what this host's kernel forgets
  stillopen limits --catalogue          what known components forget
  stillopen limits --catalogue azure    Azure's
  stillopen limits --kube-proxy-config kube-proxy.yaml";

/// `stillopen findings`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  stillopen findings\n  stillopen findings armed_but_off")]
pub struct FindingsArgs {
    /// Only this one, by the word that check prints.
    pub id: Option<String>,
    /// Write JSON.
    #[arg(long)]
    pub json: bool,
}

/// `stillopen advise`
#[derive(Debug, Args)]
#[command(after_help = ADVISE_EXAMPLES)]
pub struct AdviseArgs {
    /// Something on the path forgets idle connections: a duration (350s, 15m) or an id of the catalogue
    /// (aws-nat-gateway); @CIDR says for which peers. Can be given more than once. Without it, those
    /// of stillopen.toml and of this host's IPVS tables.
    #[arg(long = "limit", value_name = "TIME|ID[@CIDR]", value_parser = input::limit_arg)]
    pub limits: Vec<LimitArg>,
    /// What is known of the cluster.
    #[command(flatten)]
    pub kube_proxy: KubeProxyArgs,
    /// Judge these values instead: idle/interval/count, such as 60/30/3.
    #[arg(long, value_name = "I/I/C")]
    pub keepalive: Option<KeepaliveValues>,
    /// Say what the probes of so many quiet connections cost.
    #[arg(long, value_name = "N", default_value = "1000",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub connections: u64,
    /// How to set the values in this client, by its name or a word of its title; `list` lists those
    /// that are known.
    #[arg(long, value_name = "NAME")]
    pub client: Option<String>,
    /// Write JSON (schema stillopen.advise/1, see docs/json.md).
    #[arg(long)]
    pub json: bool,
}

const ADVISE_EXAMPLES: &str = "\
Examples:
  stillopen advise                         the default, and what it survives
  stillopen advise --limit aws-nat-gateway --limit 900s
  stillopen advise --limit 350s --keepalive 300/75/9    are these good enough?
  stillopen advise --client httpx          how to set them: code to paste
  stillopen advise --client list           the clients

Exit status: 0; with --keepalive 1 where its values come too late or a limit counts payload only; 2 error.";

/// Runs the command that the process was started with.
///
/// Status 0, 1 or 2 as `check` has it, `run`'s as env(1); a closed standard output is no error.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return said_by_clap(&error),
    };
    let outcome = match cli.command {
        Command::Check(args) => command::check::run(&args),
        Command::Limits(args) => command::limits::run(&args),
        Command::Findings(args) => command::findings::run(&args),
        Command::Advise(args) => command::advise::run(&args),
        #[cfg(all(target_os = "linux", not(stillopen_portable)))]
        Command::Run(args) => command::run::run(&args),
        Command::Logs(args) => command::logs::run(&args),
        #[cfg(all(target_os = "linux", not(stillopen_portable)))]
        Command::Rescue(args) => command::rescue::run(&args),
        #[cfg(all(target_os = "linux", not(stillopen_portable)))]
        Command::Ask(args) => command::ask::run(&args),
        Command::Lab(args) => command::lab::run(args),
    };
    outcome.unwrap_or_else(|error| failed(&error))
}

/// Help and version go to standard output with status 0, the rest to standard error with 2.
fn said_by_clap(error: &clap::Error) -> ExitCode {
    match (error.exit_code(), error.print()) {
        (0, Err(error)) => failed(&output::of_the_report(&error).into()),
        (0, Ok(())) => ExitCode::SUCCESS,
        _ => ExitCode::from(status_of_failure()),
    }
}

/// Says why, where somebody reads it; the status tells it in any case.
fn failed(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    // A message may quote a file that somebody else wrote.
    let message = format!("stillopen: {}", crate::output::reasons(error));
    for line in message.lines() {
        let _ = writeln!(io::stderr(), "{}", printable(line));
    }
    ExitCode::from(status_of_failure())
}

/// Of a command that becomes another program it must not look like that program's own; env(1) has it so.
fn status_of_failure() -> u8 {
    let becomes_another = env::args_os().nth(1).is_some_and(|command| command == "run");
    if becomes_another { 125 } else { 2 }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// The usual width of a terminal.
    const TERMINAL: usize = 80;

    /// Each command that does something, with the words that call it.
    fn leaves(command: &clap::Command, called: &str) -> Vec<(String, clap::Command)> {
        let called = format!("{called} {}", command.get_name());
        let below = command.get_subcommands().filter(|below| !below.is_hide_set());
        let leaves: Vec<_> = below.flat_map(|below| leaves(below, &called)).collect();
        if leaves.is_empty() { vec![(called, command.clone())] } else { leaves }
    }

    #[test]
    fn no_line_of_a_help_is_wider_than_a_terminal() {
        for (called, command) in leaves(&Cli::command(), "") {
            let help = command.term_width(TERMINAL).render_long_help().to_string();
            for line in help.lines() {
                assert!(line.chars().count() <= TERMINAL, "{called}: {line}");
            }
        }
    }

    #[test]
    fn every_help_ends_with_examples_that_no_terminal_breaks() {
        for (called, command) in leaves(&Cli::command(), "") {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Example"), "{called} has no example");
            let examples = after.lines().filter(|line| line.starts_with(' '));
            for line in examples {
                assert!(line.chars().count() <= TERMINAL, "{called}: {line}");
            }
            // A paragraph is one line: clap breaks it where the terminal ends.
            let lines: Vec<&str> = after.lines().collect();
            let broken =
                |pair: &&[&str]| pair.iter().all(|line| line.starts_with(char::is_alphanumeric));
            assert_eq!(lines.windows(2).find(broken), None, "{called}");
        }
    }
}
