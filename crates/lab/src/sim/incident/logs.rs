//! The logs of the job and the agent: JSON lines, the same records as the real programs write.

use std::time::Duration;

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Service {
    Job,
    Agent,
}

/// What happened, for one line; each knows who writes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Event {
    /// Job: the request is on its way.
    Asked,
    /// Job: the answer is here.
    Answered { silent: Duration },
    /// Job: the attempt ended without one.
    Lost { silent: Duration, saw: &'static str },
    /// Job: the next attempt begins.
    Retry,
    /// Job: no further attempt will be made.
    GaveUp,
    /// Agent: the request is here.
    Received,
    /// Agent: work begins.
    Started { queued: Duration },
    /// Agent: a model call is done; 0 is the first list.
    Round { round: u32, took: Duration },
    /// Agent: the answer is on its way.
    Sent { queued: Duration, took: Duration },
    /// Agent: the answer could not be sent.
    Failed { queued: Duration, took: Duration, error: &'static str },
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
    queued_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    took_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    silent_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_saw: Option<&'static str>,
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

    pub(super) fn write(&mut self, now: Duration, id: &str, attempt: u32, event: Event) {
        let ts = self.start.saturating_add(now).unwrap_or(self.start);
        let line = line(format!("{ts:.3}"), id, attempt, event);
        let log = match line.service {
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

fn line(ts: String, id: &str, attempt: u32, event: Event) -> Line<'_> {
    let seconds = |span: Duration| Some((span.as_secs_f64() * 1000.0).round() / 1000.0);
    let (service, name) = name(event);
    let mut line = Line {
        ts,
        service,
        event: name,
        id,
        attempt,
        round: None,
        queued_s: None,
        took_s: None,
        silent_s: None,
        status: None,
        client_saw: None,
        error: None,
    };
    match event {
        Event::Asked | Event::Retry | Event::GaveUp | Event::Received => {}
        Event::Answered { silent } => {
            line.silent_s = seconds(silent);
            (line.status, line.client_saw) = (Some(200), Some("answer"));
        }
        Event::Lost { silent, saw } => {
            line.silent_s = seconds(silent);
            let word = word(saw);
            line.client_saw = Some(word);
            line.error = (word != saw).then_some(saw);
        }
        Event::Started { queued } => line.queued_s = seconds(queued),
        Event::Round { round, took } => {
            (line.round, line.took_s) = (Some(round), seconds(took));
        }
        Event::Sent { queued, took } => {
            (line.queued_s, line.took_s) = (seconds(queued), seconds(took));
            line.status = Some(200);
        }
        Event::Failed { queued, took, error } => {
            (line.queued_s, line.took_s) = (seconds(queued), seconds(took));
            line.error = Some(error);
        }
    }
    line
}

fn name(event: Event) -> (Service, &'static str) {
    match event {
        Event::Asked => (Service::Job, "sent"),
        Event::Answered { .. } => (Service::Job, "received"),
        Event::Lost { .. } => (Service::Job, "lost"),
        Event::Retry => (Service::Job, "retry"),
        Event::GaveUp => (Service::Job, "gave_up"),
        Event::Received => (Service::Agent, "received"),
        Event::Started { .. } => (Service::Agent, "started"),
        Event::Round { .. } => (Service::Agent, "round"),
        Event::Sent { .. } => (Service::Agent, "sent"),
        Event::Failed { .. } => (Service::Agent, "failed"),
    }
}

/// What ended the job's wait, in its log's words.
fn word(saw: &'static str) -> &'static str {
    match saw {
        "own_timer" | "eof" => saw,
        "ECONNRESET" => "reset",
        "ECONNREFUSED" => "refused",
        _ => "error",
    }
}
