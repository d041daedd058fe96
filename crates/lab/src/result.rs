//! What came of a run: numbers and what each end saw, to be serialised or rendered.

use serde::Serialize;

/// One run of one scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunResult {
    /// The scenario's file name without its ending.
    pub scenario: String,
    /// Its sentence.
    pub name: String,
    /// What ran it.
    pub driver: &'static str,
    /// What was drawn at random follows from this.
    pub seed: u64,
    /// What was between the ends.
    pub path: PathResult,
    /// The clients' keepalive, `idle/interval/count`; `null`: off.
    pub client_keepalive: Option<String>,
    /// The servers' keepalive.
    pub server_keepalive: Option<String>,
    /// What was asked for: documents, or sends of a timeline.
    pub requests: u32,
    /// How often: a request that is sent again is one more.
    pub attempts: u32,
    /// Attempts whose answer arrived.
    pub answered: u32,
    /// Attempts whose answer did not.
    pub lost: u32,
    /// Ends that got anything when their entry died.
    pub told_at_cut: u32,
    /// Ends whose program saw an error or an end of file because of it afterwards, its own timer apart.
    pub told_later: u32,
    /// Attempts that followed a lost one.
    pub retried: u32,
    /// Requests that were given up.
    pub gave_up: u32,
    /// What the agent worked for nothing.
    pub wasted_s: f64,
    /// Keepalive probes of the clients, of the attempt with the fewest and the most.
    pub probes: [u32; 2],
    /// How long it took on the simulated clock.
    pub virtual_s: f64,
    /// How long it took on the caller's clock, where the caller says.
    pub wall_s: Option<f64>,
    /// What ran it, where that was a real kernel.
    pub kernel: Option<KernelResult>,
    /// How it ran, where that was in real time.
    pub real_time: Option<RealTimeResult>,
    /// Each attempt.
    pub per_attempt: Vec<AttemptResult>,
    /// One lost request, as each place saw it.
    pub lost_request: Option<LostRequest>,
    /// What each end's program of a timeline saw.
    pub saw: Vec<Saw>,
    /// Expectations that did not hold: empty is good.
    pub failures: Vec<String>,
}

/// What was between the ends.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathResult {
    /// The profile.
    pub profile: &'static str,
    /// What it is, for people.
    pub about: &'static str,
    /// kube-proxy's mode, where its configuration was read.
    pub kube_proxy_mode: Option<&'static str>,
    /// `ipvs.tcpTimeout` as it is written there.
    pub tcp_timeout: Option<String>,
    /// Idle timeout of an established connection.
    pub idle_timeout_s: f64,
    /// Ticks a second of the kernels.
    pub hz: u32,
    /// Whom clients connect to.
    pub vip: String,
    /// How many serve it.
    pub backends: usize,
}

/// A real kernel that ran it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelResult {
    /// Its version.
    pub version: String,
    /// Timeouts of IPVS that were in force, read back over netlink: established, after a FIN, UDP.
    pub ipvs_timeouts_s: Option<[u32; 3]>,
    /// Virtual time of boot, set-up and scenario.
    pub virtual_s: [f64; 3],
    /// Wall time of the same; the guest's image belongs to the boot.
    pub wall_s: [f64; 3],
    /// The commands that were run on its node meanwhile.
    pub on_node: Vec<OnNodeResult>,
}

/// A run in real time. Every time of its result is multiplied back.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RealTimeResult {
    /// What every duration was divided by.
    pub faster: u32,
    /// How late a step, and what came of it, may be.
    pub tolerance_s: f64,
}

/// A command of this program that was run on the node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OnNodeResult {
    /// When it was asked for, from the start.
    pub at_s: f64,
    /// Its words, without the program's name.
    pub command: Vec<String>,
    /// Its exit status; `null`: it was not run, or ended by a signal, or was not done at the end.
    pub status: Option<u8>,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttemptResult {
    /// The request.
    pub id: String,
    /// Which attempt of it; the first is 1.
    pub attempt: u32,
    /// When it was sent, from the start.
    pub sent_s: f64,
    /// From the last packet of the request to its answer, both at the middlebox; to the end of the attempt
    /// where no answer came there.
    pub silent_s: f64,
    /// How long the agent's own log says that it worked: queueing is not in it.
    pub agent_took_s: Option<f64>,
    /// How long the entry lived after the last packet; `null` where it did not die before the answer.
    pub entry_lived_s: Option<f64>,
    /// How long it would have lived from the last packet before the answer on; `null` where it was dead.
    pub entry_due_s: Option<f64>,
    /// Whether the answer arrived.
    pub outcome: Outcome,
    /// What the client's program saw: `answer`, `own_timer`, `eof`, or an error by its name.
    pub client_saw: &'static str,
    /// What the server's program saw of the cut: `nothing`, `eof`, or an error by its name.
    pub server_saw: &'static str,
    /// Keepalive probes that the client sent.
    pub probes: u32,
}

/// Whether an answer arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It did.
    Answered,
    /// It did not.
    Lost,
}

/// One lost request, as each place saw it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LostRequest {
    /// Which.
    pub id: String,
    /// Which attempt of it.
    pub attempt: u32,
    /// What happened where, from when it was sent.
    pub events: Vec<LostEvent>,
}

/// What one place saw.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LostEvent {
    /// From when the request was sent.
    pub at_s: f64,
    /// Where.
    pub place: &'static str,
    /// What.
    pub what: String,
    /// What that means.
    pub note: String,
}

/// What an end's program of a timeline saw.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Saw {
    /// When, from the start.
    pub at_s: f64,
    /// Which connection.
    pub connection: usize,
    /// `client` or `server`.
    pub who: &'static str,
    /// `data`, `eof`, or an error by its name.
    pub what: &'static str,
    /// How much, of data.
    pub bytes: usize,
}
