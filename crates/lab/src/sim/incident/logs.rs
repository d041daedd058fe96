//! The logs of the job and the agent: JSON lines, the same records as the real programs write.

use std::time::Duration;

use crate::log::{ClientSaw, Event as Name, Record, Service};

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
        let record = record(ts, id, attempt, event);
        let log = match record.service {
            Service::Job => &mut self.job,
            Service::Agent => &mut self.agent,
        };
        log.push_str(&record.line());
        log.push('\n');
    }

    /// The job's and the agent's.
    pub(super) fn finish(self) -> (String, String) {
        (self.job, self.agent)
    }
}

fn record(ts: jiff::Timestamp, id: &str, attempt: u32, event: Event) -> Record {
    let (service, name) = name(event);
    let mut record = Record::new(ts, service, name, id, attempt);
    match event {
        Event::Asked | Event::Retry | Event::GaveUp | Event::Received => {}
        Event::Answered { silent } => {
            record.silent_s = Some(silent);
            (record.status, record.client_saw) = (Some(200), Some(ClientSaw::Answer));
        }
        Event::Lost { silent, saw } => {
            record.silent_s = Some(silent);
            let word = word(saw);
            record.client_saw = Some(word);
            let named = matches!(word, ClientSaw::OwnTimer | ClientSaw::Eof);
            record.error = (!named).then(|| saw.to_owned());
        }
        Event::Started { queued } => record.queued_s = Some(queued),
        Event::Round { round, took } => {
            (record.round, record.took_s) = (Some(round), Some(took));
        }
        Event::Sent { queued, took } => {
            (record.queued_s, record.took_s) = (Some(queued), Some(took));
            record.status = Some(200);
        }
        Event::Failed { queued, took, error } => {
            (record.queued_s, record.took_s) = (Some(queued), Some(took));
            record.error = Some(error.to_owned());
        }
    }
    record
}

fn name(event: Event) -> (Service, Name) {
    match event {
        Event::Asked => (Service::Job, Name::Sent),
        Event::Answered { .. } => (Service::Job, Name::Received),
        Event::Lost { .. } => (Service::Job, Name::Lost),
        Event::Retry => (Service::Job, Name::Retry),
        Event::GaveUp => (Service::Job, Name::GaveUp),
        Event::Received => (Service::Agent, Name::Received),
        Event::Started { .. } => (Service::Agent, Name::Started),
        Event::Round { .. } => (Service::Agent, Name::Round),
        Event::Sent { .. } => (Service::Agent, Name::Sent),
        Event::Failed { .. } => (Service::Agent, Name::Failed),
    }
}

/// What ended the job's wait, in its log's words.
fn word(saw: &'static str) -> ClientSaw {
    match saw {
        "own_timer" => ClientSaw::OwnTimer,
        "eof" => ClientSaw::Eof,
        "ECONNRESET" => ClientSaw::Reset,
        "ECONNREFUSED" => ClientSaw::Refused,
        _ => ClientSaw::Error,
    }
}
