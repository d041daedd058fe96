//! The arguments of `stillopen lab`.
#![allow(clippy::doc_markdown, reason = "the comments are the help's text, which has no markup")]

#[cfg(all(target_os = "linux", not(stillopen_portable)))]
use std::ffi::OsString;
use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

#[cfg(all(target_os = "linux", not(stillopen_portable)))]
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use stillopen_lab::job::{DEFAULT_MAX_ATTEMPTS, ServerAddress};
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
use stillopen_lab::middlebox::Profile;
use stillopen_model::KeepaliveValues;

use crate::input;

/// `stillopen lab`
#[derive(Debug, Args)]
pub struct LabArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: LabCommand,
}

/// The commands of the laboratory.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Run a scenario, on virtual time or on a real kernel: the failure, and its cure.
    Run(RunArgs),
    /// Run your own client behind a path that forgets, and end as it does.
    #[cfg(all(target_os = "linux", not(stillopen_portable)))]
    Exec(ExecArgs),
    /// Get ready for runs on a real kernel (--driver vm of lab run and lab exec).
    #[cfg(all(target_os = "linux", not(stillopen_portable)))]
    Vm(VmArgs),
    /// Process 1 of a guest of --driver vm.
    #[cfg(all(target_os = "linux", not(stillopen_portable)))]
    #[command(hide = true)]
    Guest,
    /// List the scenarios and the kinds of middlebox.
    List(ListArgs),
    /// Keepalive idle × idle timeout × kind of middlebox × who speaks first, as one table.
    Sweep(SweepArgs),
    /// The agent of the incident: an HTTP service that thinks for long before it answers.
    Agent(AgentArgs),
    /// The job of the incident: sends documents to an agent and waits for its answers.
    Job(JobArgs),
}

/// `stillopen lab run`
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// A scenario (stillopen lab list), or the path of a scenario file.
    #[arg(default_value = stillopen_lab::embedded::DEFAULT)]
    pub scenario: String,
    /// What runs it: the model, this host's TCP in real time, or a real kernel in a virtual machine on warped time.
    #[arg(long, value_enum, default_value_t = Driver::Sim)]
    pub driver: Driver,
    /// For --driver vm: the folder of another kernel, with boot/vmlinuz-VERSION and lib/modules/VERSION.
    #[arg(long, value_name = "DIR")]
    pub kernel: Option<PathBuf>,
    /// For --driver vm: run a stillopen command on the node at a time after the start, such as '14m check'; the
    /// scenario then runs as asked alone. Repeatable.
    #[arg(long, value_name = "TIME COMMAND", value_parser = OnNodeArg::parse)]
    pub on_node: Vec<OnNodeArg>,
    /// TCP keepalive of the clients: idle/interval/count, such as 60/30/3.
    #[arg(long, value_name = "I/I/C")]
    pub keepalive: Option<KeepaliveValues>,
    /// The kube-proxy ConfigMap that decides the path, as `kubectl -n kube-system get cm kube-proxy
    /// -o yaml` prints it. Its mode and timeouts are read.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["profile", "idle_timeout"])]
    pub kube_proxy_config: Option<PathBuf>,
    /// Another kind of middlebox (stillopen lab list).
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Another idle timeout.
    #[arg(long, value_name = "TIME", value_parser = input::duration)]
    pub idle_timeout: Option<Duration>,
    /// Another seed for what is drawn at random.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Timer ticks a second of the kernels.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub hz: Option<u32>,
    /// On IPv6.
    #[arg(long)]
    pub ipv6: bool,
    /// Also leave the incident's job.log and agent.log in this folder.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write the run as asked as JSON (schema stillopen.lab-run/1, see docs/lab.md).
    #[arg(long)]
    pub json: bool,
}

/// A command of this program, and when it runs on the node of --driver vm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnNodeArg {
    /// After the scenario's start.
    pub at: Duration,
    /// Its words, without the program's name.
    pub words: Vec<String>,
}

impl OnNodeArg {
    /// Reads `14m check --all`.
    ///
    /// # Errors
    /// There is no time or no command, or its first word is another program.
    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut words = text.split_whitespace().map(str::to_owned);
        let at = input::duration(&words.next().unwrap_or_default())?;
        let words: Vec<String> = words.collect();
        match words.first().map(String::as_str) {
            None => anyhow::bail!("{text:?} has no command after the time, such as '14m check'"),
            Some("stillopen") => {
                anyhow::bail!("{text:?}: leave out stillopen: no other program is on the node")
            }
            Some(_) => Ok(Self { at, words }),
        }
    }
}

/// What runs a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Driver {
    /// The model: any system, some milliseconds.
    Sim,
    /// This host's own TCP at both ends, in network namespaces without root, in real time: scenarios with a
    /// table [netns], which says how many times faster.
    Netns,
    /// The kernel's own IPVS and conntrack, under QEMU (Linux on x86-64; see `stillopen lab vm`).
    Vm,
}

/// `stillopen lab exec`
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
#[derive(Debug, Args)]
#[command(after_help = EXEC_EXAMPLES)]
pub struct ExecArgs {
    /// The client and its arguments. It finds the way in, host:port, in STILLOPEN_SERVER.
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
    /// What is between the ends.
    #[arg(long, value_enum, default_value_t = ExecDriver::Netns)]
    pub driver: ExecDriver,
    /// The kind of middlebox (stillopen lab list).
    #[arg(long, value_name = "NAME", default_value = "ipvs",
          value_parser = PossibleValuesParser::new(Profile::names()), hide_possible_values = true)]
    pub profile: String,
    /// Its idle timeout, where it is not the profile's own (ipvs: 15m). Keepalive helps only where it probes sooner:
    /// 60/30/3 is lost behind 3s and good behind 15m.
    #[arg(long, value_name = "TIME", value_parser = input::duration)]
    pub idle_timeout: Option<Duration>,
    /// Run this server, by /bin/sh: it must listen on the port that it finds in PORT, on all addresses.
    #[arg(long, value_name = "CMD", conflicts_with = "answer_after")]
    pub server: Option<OsString>,
    /// The built-in server answers each HTTP request so long after it has read it. At once without this.
    #[arg(long, value_name = "TIME", value_parser = input::duration)]
    pub answer_after: Option<Duration>,
    /// For --driver netns: how long each packet is under way, each way.
    #[arg(long, value_name = "TIME", value_parser = input::duration)]
    pub delay: Option<Duration>,
    /// For --driver netns: the share of packets that is lost, such as 1%. Each end then sends its segments
    /// one by one.
    #[arg(long, value_name = "PERCENT", value_parser = input::share)]
    pub loss: Option<f64>,
    /// Which packets are lost follows from this. 0 without it.
    #[arg(long, requires = "loss")]
    pub seed: Option<u64>,
    /// On IPv6.
    #[arg(long)]
    pub ipv6: bool,
    /// Write what the path did to FILE as JSON (schema stillopen.lab-exec/1, see docs/lab-exec.md).
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// For --driver netns: write what crosses the path to FILE, for Wireshark or tcpdump (pcapng).
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// For --driver vm: the folder of another kernel, with boot/vmlinuz-VERSION and lib/modules/VERSION.
    #[arg(long, value_name = "DIR")]
    pub kernel: Option<PathBuf>,
    /// For --driver vm: a file or folder that the client needs in the guest beside what is found of itself.
    /// Repeatable.
    #[arg(long, value_name = "PATH")]
    pub include: Vec<PathBuf>,
    /// For --driver vm: kill the client after so long on the guest's clock, with status 124. 2h without this.
    #[arg(long = "for", value_name = "TIME", value_parser = input::duration)]
    pub longest: Option<Duration>,
}

/// What runs a client.
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExecDriver {
    /// Network namespaces of this host with real Linux TCP at both ends, and a middlebox in real time; no root.
    Netns,
    /// A guest with the kernel's own IPVS or conntrack, on warped time (Linux on x86-64; see `stillopen lab vm`).
    Vm,
}

#[cfg(all(target_os = "linux", not(stillopen_portable)))]
const EXEC_EXAMPLES: &str = "\
With --driver netns, the default, the client runs on this host in a network namespace of its own: it \
reaches STILLOPEN_SERVER and its own loopback, and nothing else; there is no way out to the host or the \
network. Files are the host's, the user is you. Time is real: choose a short --idle-timeout. What still \
runs when the client ends is killed.

With --driver vm the client runs in a guest, as root, on a clock that jumps over idle time: 15 real \
minutes of IPVS pass in seconds. It has this host's environment and folder, and of its files what is \
found to be needed: programs with their libraries, what their language keeps beside them, files that \
the arguments name (see docs/lab.md); the rest is for --include. Nothing that it writes there is kept.

Examples:
  stillopen lab exec --idle-timeout 3s --answer-after 6s -- python3 my_client.py
  stillopen lab exec --idle-timeout 3s --answer-after 6s -- \\
    sh -c 'curl http://$STILLOPEN_SERVER/'
  stillopen lab exec --idle-timeout 5s --server './my-server --port $PORT' -- \\
    pytest tests/slow_answers.py
  stillopen lab exec --profile nat-reset --idle-timeout 5s \\
    --summary path.json -- ./my-client
  stillopen lab exec --driver vm --answer-after 1000s -- python3 my_client.py
  stillopen lab exec --driver vm --server './my-server --port $PORT' \\
    --include my-server -- ./my-client

Exit status: the client's own, 128 and the signal's number where one ended it; 127 where it is not \
found, 126 where it can't be run, 125 for errors of stillopen's own, 124 where --for killed it, 2 for \
wrong arguments.";

/// `stillopen lab vm`
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
#[derive(Debug, Args)]
pub struct VmArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: VmCommand,
}

/// The commands of `stillopen lab vm`.
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
#[derive(Debug, Subcommand)]
pub enum VmCommand {
    /// Download Debian's cloud kernel with apt-get and unpack it into the cache; nothing is installed.
    #[command(after_help = PREPARE_EXAMPLES)]
    Prepare,
    /// Hold the model against a real kernel: the shipped timelines and 200 random connections, on both.
    #[command(after_help = PARITY_EXAMPLES)]
    Parity(ParityArgs),
}

/// `stillopen lab vm parity`
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
#[derive(Debug, Args)]
pub struct ParityArgs {
    /// Another seed for the random connections.
    #[arg(long, default_value_t = stillopen_lab::vm::parity::SEED)]
    pub seed: u64,
    /// The folder of another kernel, with boot/vmlinuz-VERSION and lib/modules/VERSION.
    #[arg(long, value_name = "DIR")]
    pub kernel: Option<PathBuf>,
    /// Leave the evidence of each difference in this folder: packets at the node, its table's entries.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Also write down what the kernel did, as JSON, for a comparison without it.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

#[cfg(all(target_os = "linux", not(stillopen_portable)))]
const PARITY_EXAMPLES: &str = "\
Examples:
  stillopen lab vm parity
  stillopen lab vm parity --seed 7 --out differences

Exit status: 0 model and kernel agree, 1 they differ, 2 error.";

#[cfg(all(target_os = "linux", not(stillopen_portable)))]
const PREPARE_EXAMPLES: &str = "\
The cache is $XDG_CACHE_HOME/stillopen/vm (or ~/.cache/stillopen/vm). Needed only where this host's own \
kernel cannot be booted: where /boot is not readable, or its kernel has no ip_vs. QEMU itself comes from \
your distribution (Debian, Ubuntu: apt install qemu-system-x86).

Examples:
  stillopen lab vm prepare
  stillopen lab run --driver vm";

const RUN_EXAMPLES: &str = "\
Examples:
  stillopen lab run                             an LLM agent behind IPVS
  stillopen lab run --keepalive 60/30/3         its cure alone
  stillopen lab run --kube-proxy-config kube-proxy.yaml    your own timeouts
  stillopen lab run half-close --json
  stillopen lab run half-close --driver netns   on this host's TCP, in 10 s
  stillopen lab run half-close --driver vm      on a real kernel
  stillopen lab run --driver vm --on-node '14m check'    what check says then
  stillopen lab run my-scenario.toml

Exit status: 0 the expectations hold, 1 one fails, 2 error.";

/// `stillopen lab list`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  stillopen lab list")]
pub struct ListArgs {
    /// Write JSON.
    #[arg(long)]
    pub json: bool,
}

/// `stillopen lab sweep`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  stillopen lab sweep")]
pub struct SweepArgs {
    /// On IPv6.
    #[arg(long)]
    pub ipv6: bool,
}

/// `stillopen lab agent`
#[derive(Debug, Args)]
#[command(after_help = AGENT_EXAMPLES)]
pub struct AgentArgs {
    /// Where to listen.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8000")]
    pub listen: SocketAddr,
    /// How often the agent reviews its own list: a document costs 1 + N calls of the model.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub rounds: u32,
    /// How many requests are worked on at once; the others queue.
    #[arg(long, value_name = "K", default_value = "16")]
    pub concurrency: NonZeroUsize,
    /// Think times and edits from this file, instead of a language model.
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Append the log to FILE, JSON lines; without it, to standard error.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
}

const AGENT_EXAMPLES: &str = "\
Without --script the model is any OpenAI-compatible endpoint: OPENAI_BASE_URL, OPENAI_MODEL and, where \
it needs one, OPENAI_API_KEY.

Examples:
  stillopen lab agent --script examples/agent-script.toml
  OPENAI_BASE_URL=http://127.0.0.1:11434/v1 OPENAI_MODEL=qwen3 \\
    stillopen lab agent
  curl -H 'content-type: application/json' -d '{\"id\":\"a\",\"text\":\"…\"}' \\
    127.0.0.1:8000/v1/issues";

/// `stillopen lab job`
#[derive(Debug, Args)]
#[command(after_help = JOB_EXAMPLES)]
pub struct JobArgs {
    /// The agent, or the Service in front of it.
    #[arg(long, value_name = "HOST:PORT")]
    pub server: ServerAddress,
    /// A folder with documents: *.txt and *.md.
    #[arg(long, value_name = "DIR")]
    pub documents: PathBuf,
    /// How many requests are under way at once.
    #[arg(long, value_name = "C", default_value = "8")]
    pub concurrency: NonZeroUsize,
    /// The client's own timer: an attempt without an answer ends then.
    #[arg(long, value_name = "TIME", value_parser = input::duration, default_value = "3600s")]
    pub timeout: Duration,
    /// A silent attempt is made again this long after its send.
    #[arg(long, value_name = "TIME", value_parser = input::duration, default_value = "60m")]
    pub retry_after: Duration,
    /// How often a document is sent at most.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MAX_ATTEMPTS)]
    pub max_attempts: NonZeroU32,
    /// TCP keepalive of each connection: idle/interval/count. Off without it.
    #[arg(long, value_name = "I/I/C")]
    pub keepalive: Option<KeepaliveValues>,
    /// Append the log to FILE, JSON lines; without it, to standard error.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// A file for each answer in this folder; without it, answers are lines on standard output.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

const JOB_EXAMPLES: &str = "\
Example:
  stillopen lab job --server 127.0.0.1:8000 --documents examples/documents

Exit status: 0 every document has its answer, 1 one has none, 2 error.";
