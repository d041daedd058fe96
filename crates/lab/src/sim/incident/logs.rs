//! The logs of the job and the agent: JSON lines, as the real programs write them.

use std::time::Duration;

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Service {
    Job,
    Agent,
}

/// What happened, for one line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Event {
    Sent,
    Received,
    Retry { error: &'static str },
    GaveUp { error: &'static str },
    Started,
    Round { round: u32 },
    Answered { took: Duration },
    SendFailed { took: Duration, error: &'static str },
}

#[derive(Serialize)]
struct Line<'a> {
    ts: String,
    service: Service,
    event: &'static str,
    id: &'a str,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    round: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    took_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
}

/// Both logs as they grow.
#[derive(Debug)]
pub(super) struct Logs {
    start: jiff::Timestamp,
    job: String,
    agent: String,
}

impl Logs {
    pub(super) fn new(start: jiff::Timestamp) -> Self {
        Self { start, job: String::new(), agent: String::new() }
    }

    pub(super) fn write(
        &mut self,
        now: Duration,
        service: Service,
        id: &str,
        attempt: u32,
        event: Event,
    ) {
        let seconds = |took: Duration| (took.as_secs_f64() * 1000.0).round() / 1000.0;
        let (event, round, status, took_s, error) = match event {
            Event::Sent => ("sent", None, None, None, None),
            Event::Received if service == Service::Job => ("received", None, Some(200), None, None),
            Event::Received => ("received", None, None, None, None),
            Event::Retry { error } => ("retry", None, None, None, Some(error)),
            Event::GaveUp { error } => ("gave_up", None, None, None, Some(error)),
            Event::Started => ("started", None, None, None, None),
            Event::Round { round } => ("round", Some(round), None, None, None),
            Event::Answered { took } => ("sent", None, Some(200), Some(seconds(took)), None),
            Event::SendFailed { took, error } => {
                ("send_failed", None, None, Some(seconds(took)), Some(error))
            }
        };
        let ts = self
            .start
            .saturating_add(now)
            .map_or_else(|_| self.start.to_string(), |at| format!("{at:.3}"));
        let line = Line { ts, service, event, id, attempt, round, status, took_s, error };
        let log = match service {
            Service::Job => &mut self.job,
            Service::Agent => &mut self.agent,
        };
        // A line of strings and numbers cannot fail to be JSON.
        log.push_str(&serde_json::to_string(&line).unwrap_or_default());
        log.push('\n');
    }

    /// The job's and the agent's.
    pub(super) fn finish(self) -> (String, String) {
        (self.job, self.agent)
    }
}
