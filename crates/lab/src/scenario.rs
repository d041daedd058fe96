//! Scenario files: what happens, on which path, and what must come of it. TOML, one file a scenario.
//!
//! The simulator runs any file, and so can real endpoints; those that run in real time are told by how much faster. It
//! holds either a `[[timeline]]` (steps of the two ends of a few connections) or an `[incident]` (a job and its agent).
//! Read first: `scenarios/README.md`.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, de::Error as _};
use stillopen_model::KeepaliveValues;

use stillopen_collect::kube_proxy::go_duration;

use crate::{middlebox::Profile, sim::Errno};

/// One scenario.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// A sentence: what is shown.
    pub name: String,
    /// What is drawn at random follows from this.
    #[serde(default)]
    pub seed: u64,
    /// What time it is at the start, for the logs.
    #[serde(default = "start_of_logs")]
    pub start: jiff::Timestamp,
    /// What is between the two ends.
    pub path: Path,
    /// The ends that connect.
    #[serde(default)]
    pub client: EndSettings,
    /// The ends that are connected to.
    #[serde(default)]
    pub server: EndSettings,
    /// Steps, in the order of their times.
    #[serde(default)]
    pub timeline: Vec<Step>,
    /// How long to watch after the start; a timeline needs it.
    #[serde(default)]
    pub watch: Option<Span>,
    /// How it is run in real time; without it, it is not.
    #[serde(default)]
    pub netns: Option<RealTime>,
    /// A job and its agent.
    #[serde(default)]
    pub incident: Option<Incident>,
    /// What the ends must see.
    #[serde(default)]
    pub expect: Vec<Expect>,
    /// What the run must add up to.
    #[serde(default)]
    pub totals: Totals,
    /// Keepalive values that cure it, and what the run must add up to then.
    #[serde(default)]
    pub cure: Option<Cure>,
}

/// What is between the two ends.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// A profile by its name; or else `kube_proxy` says it.
    #[serde(default)]
    pub profile: Option<String>,
    /// A kube-proxy `ConfigMap`, as kubectl prints it: a file below `scenarios/`.
    #[serde(default)]
    pub kube_proxy: Option<String>,
    /// Idle timeout of an established connection, where it is not the profile's own.
    #[serde(default)]
    pub idle_timeout: Option<Span>,
    /// How many backends take turns.
    #[serde(default = "one")]
    pub backends: u8,
    /// Ticks a second of the kernels.
    #[serde(default = "usual_hz")]
    pub hz: u32,
}

/// The settings of one kind of end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndSettings {
    /// `off`, or idle/interval/count.
    #[serde(default)]
    pub keepalive: KeepaliveSetting,
}

/// Keepalive of a socket: `off`, or values such as `60/30/3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeepaliveSetting(pub Option<KeepaliveValues>);

/// A duration: `900s`, `15m`, `1h30m`, `250ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Span(pub Duration);

/// Client or server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// The end that connects.
    Client,
    /// The end that is connected to.
    Server,
    /// The middlebox between them.
    Path,
}

/// One step of a timeline.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// When, from the start.
    pub at: Span,
    /// Who does it.
    pub who: Who,
    /// On which connection; the first is 0.
    #[serde(default)]
    pub connection: usize,
    /// What is done: `"connect"`, `{ send = { bytes = 1000 } }`.
    pub does: Does,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Does {
    /// The client connects.
    Connect,
    /// The end sends.
    Send {
        /// How much.
        bytes: usize,
    },
    /// The end says that it will send no more.
    Shutdown,
    /// The end closes.
    Close,
    /// The end's program sets keepalive on its open socket.
    SetKeepalive {
        /// To what.
        keepalive: KeepaliveSetting,
    },
    /// The path's idle timeout is changed.
    SetIdleTimeout {
        /// To what.
        idle_timeout: Span,
    },
}

/// How a timeline is run in real time, by the driver `netns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RealTime {
    /// What every duration is divided by.
    pub faster: u32,
    /// How long to watch there, where that is shorter.
    #[serde(default)]
    pub watch: Option<Span>,
}

/// What one end must see.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Which end.
    pub who: Who,
    /// Of which connection.
    #[serde(default)]
    pub connection: usize,
    /// What.
    pub sees: Sees,
    /// From when on, from the start.
    pub at: Span,
    /// For how long after that it counts; for `nothing`, until the end where it is missing.
    #[serde(default)]
    pub within: Option<Span>,
}

/// What an end's program sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sees {
    /// Nothing at all.
    Nothing,
    /// Bytes of the peer.
    Data,
    /// The peer's close.
    Eof,
    /// An error.
    #[serde(untagged)]
    Error(Errno),
}

impl fmt::Display for Sees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::Data => "data",
            Self::Eof => "eof",
            Self::Error(errno) => errno.name(),
        })
    }
}

/// Bounds of what a run adds up to; what is missing is not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Attempts without an answer.
    #[serde(default)]
    pub lost: Option<Bounds>,
    /// Attempts with one.
    #[serde(default)]
    pub answered: Option<Bounds>,
    /// Ends that got anything when an entry died.
    #[serde(default)]
    pub told_at_cut: Option<Bounds>,
    /// Ends whose program learnt of it afterwards.
    #[serde(default)]
    pub told_later: Option<Bounds>,
}

/// A range, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Not fewer.
    pub least: u32,
    /// Not more.
    pub most: u32,
}

/// What cures a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cure {
    /// The clients' keepalive.
    pub keepalive: KeepaliveSetting,
    /// What the run must add up to.
    #[serde(default)]
    pub totals: Totals,
}

/// A job that sends documents to an agent, and the agent.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incident {
    /// How many documents.
    pub documents: u32,
    /// Bytes of one request.
    pub document_bytes: usize,
    /// Bytes of one answer.
    pub answer_bytes: usize,
    /// The job.
    pub job: Job,
    /// The agent, one in each backend.
    pub agent: Agent,
}

/// The job of an incident.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Requests at once.
    pub concurrency: u32,
    /// From one request to the next, at the start.
    pub send_every: Span,
    /// After how long without an answer its own timer ends an attempt.
    pub timeout: Span,
    /// After how long a request is sent again, from when it was sent.
    pub retry_after: Span,
    /// Attempts of one request before it gives up.
    pub max_attempts: u32,
}

/// The agent of an incident.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// Requests that it works on at once; the rest queue.
    pub concurrency: u32,
    /// Reviews of its own list, from and to; drawn for each attempt.
    pub rounds: [u32; 2],
    /// How long an attempt takes it, from the fewest rounds to the most.
    pub takes: [Span; 2],
    /// What it does after its answer.
    pub after_answer: AfterAnswer,
}

/// What a server does after its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterAnswer {
    /// It closes at once, and sees no error of what follows.
    Close,
    /// It waits for the next request on the same connection.
    KeepOpen,
}

/// Why a text is not a scenario.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Not TOML, or not of this shape.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// It is, and makes no sense.
    #[error("{0}")]
    Sense(String),
}

/// More than any request or answer that is worth simulating segment by segment.
const MOST_BYTES: usize = 10 << 20;

/// Durations divided by more are too short for a kernel's own timers.
const FASTEST: u32 = 1000;

impl Scenario {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// [`ScenarioError`], where the text is not TOML of this shape or makes no sense.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = toml::from_str(text)?;
        scenario.check().map_err(ScenarioError::Sense)?;
        Ok(scenario)
    }

    fn check(&self) -> Result<(), String> {
        match (&self.path.profile, &self.path.kube_proxy) {
            (Some(name), None) => {
                if Profile::named(name).is_none() {
                    let known = Profile::names().join(", ");
                    return Err(format!("path.profile {name:?} is not one of: {known}"));
                }
            }
            (None, Some(_)) => {}
            _ => return Err("path needs one of profile and kube_proxy".into()),
        }
        if self.path.backends == 0 || self.path.backends > 200 {
            return Err("path.backends is not 1 to 200".into());
        }
        if !(1..=1_000_000).contains(&self.path.hz) {
            return Err("path.hz is not 1 to 1000000".into());
        }
        if let Some(RealTime { faster, watch }) = self.netns {
            if !(1..=FASTEST).contains(&faster) {
                return Err(format!("netns.faster is not 1 to {FASTEST}"));
            }
            if watch > self.watch {
                return Err("netns.watch is longer than watch".into());
            }
        }
        match (&self.incident, self.timeline.is_empty(), self.watch) {
            (Some(_), ..) if !self.expect.is_empty() => {
                Err("expect is of a timeline; an incident has totals".into())
            }
            (Some(incident), true, None) => incident.check(),
            (None, false, Some(_)) => self.check_timeline(),
            (None, false, None) => Err("a timeline needs watch".into()),
            _ => Err("a scenario has either a timeline with watch or an incident".into()),
        }
    }

    /// How many connections its timeline has.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.timeline.iter().filter(|step| step.does == Does::Connect).count()
    }

    fn check_timeline(&self) -> Result<(), String> {
        if !self.timeline.is_sorted_by_key(|step| step.at) {
            return Err("the timeline is not in the order of its times".into());
        }
        let mut connections = 0;
        let mut closed = Vec::new();
        for (number, step) in (1..).zip(&self.timeline) {
            self.check_watched(&format!("step {number}"), step.at)?;
            let end = (step.connection, step.who);
            if closed.contains(&end) {
                let who = if step.who == Who::Client { "client" } else { "server" };
                return Err(format!(
                    "step {number}: the {who} has closed connection {}: its program has no socket for it",
                    step.connection
                ));
            }
            if step.does == Does::Close {
                closed.push(end);
            }
            let of_path = step.who == Who::Path;
            match step.does {
                Does::Connect if step.who != Who::Client || step.connection != connections => {
                    return Err(format!(
                        "step {number}: connections are numbered as clients connect"
                    ));
                }
                Does::Connect => connections += 1,
                Does::Send { bytes } if bytes > MOST_BYTES => {
                    return Err(format!("step {number}: sends more than {MOST_BYTES} bytes"));
                }
                Does::SetIdleTimeout { .. } if of_path => {}
                Does::SetIdleTimeout { .. } => {
                    return Err(format!("step {number}: only the path has an idle_timeout"));
                }
                _ if of_path || step.connection >= connections => {
                    return Err(format!("step {number}: no such connection yet"));
                }
                _ => {}
            }
        }
        for (number, expect) in (1..).zip(&self.expect) {
            self.check_watched(&format!("expect {number}"), expect.at)?;
        }
        let unknown =
            |expect: &&Expect| expect.who == Who::Path || expect.connection >= connections;
        match self.expect.iter().find(unknown) {
            Some(expect) => {
                Err(format!("no end of connection {} is {:?}", expect.connection, expect.who))
            }
            None => Ok(()),
        }
    }

    /// What comes after the end of the watch is not done, and not seen, by any driver.
    fn check_watched(&self, what: &str, at: Span) -> Result<(), String> {
        let ends =
            [("netns.watch", self.netns.and_then(|netns| netns.watch)), ("watch", self.watch)];
        match ends.into_iter().find(|(_, watch)| watch.is_some_and(|watch| at > watch)) {
            Some((name, _)) => Err(format!("{what}: its `at` is after the end of {name}")),
            None => Ok(()),
        }
    }
}

impl Incident {
    fn check(&self) -> Result<(), String> {
        let positive = [
            ("documents", u64::from(self.documents)),
            ("document_bytes", self.document_bytes as u64),
            ("answer_bytes", self.answer_bytes as u64),
            ("job.concurrency", self.job.concurrency.into()),
            ("job.max_attempts", self.job.max_attempts.into()),
            ("job.timeout", self.job.timeout.0.as_secs()),
            ("agent.concurrency", self.agent.concurrency.into()),
        ];
        if let Some((what, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(format!("incident: {what} is zero"));
        }
        if self.document_bytes > MOST_BYTES || self.answer_bytes > MOST_BYTES {
            return Err(format!(
                "incident: document_bytes and answer_bytes are at most {MOST_BYTES}"
            ));
        }
        // Ephemeral ports: every attempt has one of its own.
        if u64::from(self.documents) * u64::from(self.job.max_attempts) > 20_000 {
            return Err("incident: more than 20000 attempts are possible".into());
        }
        let [fewest, most] = self.agent.rounds;
        let [shortest, longest] = self.agent.takes;
        if fewest > most || most > 1000 || shortest > longest || shortest.0.is_zero() {
            return Err("incident: agent.rounds and agent.takes go from low to high".into());
        }
        Ok(())
    }
}

fn one() -> u8 {
    1
}

/// `CONFIG_HZ` of most distributions.
fn usual_hz() -> u32 {
    250
}

/// Any Monday.
fn start_of_logs() -> jiff::Timestamp {
    jiff::Timestamp::constant(1_772_442_000, 0)
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let span = go_duration(&text).filter(|span| *span < Duration::from_secs(365 * 86_400));
        span.map(Self).ok_or_else(|| {
            D::Error::custom(format!("{text:?} is not a duration such as 900s, 15m, 1h30m"))
        })
    }
}

impl<'de> Deserialize<'de> for KeepaliveSetting {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if text == "off" {
            return Ok(Self(None));
        }
        text.parse().map(|values| Self(Some(values))).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = "name = \"A sentence.\"\nwatch = \"1h\"\n[path]\nprofile = \"ipvs\"\n\
                           [[timeline]]\nat = \"0s\"\nwho = \"client\"\ndoes = \"connect\"\n";

    #[test]
    fn a_minimal_scenario_is_read() {
        let scenario = Scenario::parse(MINIMAL).unwrap();
        assert_eq!(scenario.watch, Some(Span(Duration::from_secs(3600))));
        assert_eq!(scenario.timeline[0].does, Does::Connect);
        assert_eq!(scenario.path.hz, 250);
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_named() {
        for (from, to, says) in [
            ("ipvs", "router", "not one of: ipvs"),
            ("watch = \"1h\"\n", "", "needs watch"),
            ("\"0s\"", "\"soon\"", "not a duration"),
            ("\"connect\"", "\"dance\"", "unknown variant"),
            ("\"connect\"", "{ send = { bytes = 1 } }", "no such connection"),
            ("\"connect\"", "{ send = { bytes = 1, colour = 1 } }", "unexpected keys"),
            ("name", "colour = 1\nname", "unknown field"),
            ("does = \"connect\"", "does = \"connect\"\ncolour = 1", "unknown field"),
            ("profile = \"ipvs\"", "", "one of profile and kube_proxy"),
            ("profile = \"ipvs\"", "profile = \"ipvs\"\nbackends = 0", "backends"),
            ("[path]", "netns = { faster = 0 }\n[path]", "netns.faster is not 1"),
            ("[path]", "netns = { faster = 2, watch = \"2h\" }\n[path]", "netns.watch is longer"),
        ] {
            let text = MINIMAL.replacen(from, to, 1);
            let error = Scenario::parse(&text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}\n{error}");
        }
    }

    fn step(at: &str, who: &str, does: &str) -> String {
        format!("[[timeline]]\nat = \"{at}\"\nwho = \"{who}\"\ndoes = {does}\n")
    }

    #[test]
    fn an_end_that_has_closed_does_no_more() {
        let closes = MINIMAL.to_owned() + &step("1s", "client", "\"close\"");
        let sends = "{ send = { bytes = 1 } }";
        for does in [sends, "\"close\"", "\"shutdown\""] {
            let text = closes.clone() + &step("2s", "client", does);
            let error = Scenario::parse(&text).unwrap_err().to_string();
            assert!(error.contains("step 3: the client has closed connection 0"), "{error}");
        }
        assert!(Scenario::parse(&(closes + &step("2s", "server", sends))).is_ok());
    }

    #[test]
    fn what_comes_after_the_watch_is_refused() {
        let netns = MINIMAL.replace("[path]", "netns = { faster = 1, watch = \"1s\" }\n[path]");
        let sends = "{ send = { bytes = 1 } }";
        let expect = "[[expect]]\nwho = \"client\"\nsees = \"nothing\"\nat = \"2h\"\n";
        for (text, says) in [
            (
                MINIMAL.to_owned() + &step("2h", "client", sends),
                "step 2: its `at` is after the end of watch",
            ),
            (
                netns + &step("950s", "client", sends),
                "step 2: its `at` is after the end of netns.watch",
            ),
            (MINIMAL.to_owned() + expect, "expect 1: its `at` is after the end of watch"),
        ] {
            let error = Scenario::parse(&text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
