//! The JSON-lines records that agent and job write, one a line, as real services do.
//!
//! Free of the async runtime: the simulated incident writes the same records.

use std::{
    fmt,
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Who writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// The server of the incident.
    Agent,
    /// Its client.
    Job,
}

/// What happened to one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Agent: the request is here. Job: the answer is here.
    Received,
    /// Agent: work begins; `queued_s` says after how long.
    Started,
    /// Agent: round `round` is done; 0 is the first list.
    Round,
    /// Job: the request is on its way. Agent: so is the answer.
    Sent,
    /// Agent: there is no good answer; `status` says what was sent instead, if anything.
    Failed,
    /// Job: the attempt ended without an answer.
    Lost,
    /// Job: the next attempt begins.
    Retry,
    /// Job: no further attempt will be made.
    GaveUp,
}

/// What ended the job's wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientSaw {
    /// An HTTP answer, whatever its status.
    Answer,
    /// Nothing: the client's own timer.
    OwnTimer,
    /// A reset.
    Reset,
    /// The end of the stream before the answer's.
    Eof,
    /// No connection: refused.
    Refused,
    /// Any other error; the record's `error` names it.
    Error,
}

impl fmt::Display for ClientSaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answer => "answer",
            Self::OwnTimer => "own_timer",
            Self::Reset => "reset",
            Self::Eof => "eof",
            Self::Refused => "refused",
            Self::Error => "error",
        })
    }
}

/// One line of a log. What does not apply is left out of the line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// RFC 3339, to the millisecond.
    #[serde(serialize_with = "millis")]
    pub ts: Timestamp,
    /// Who writes.
    pub service: Service,
    /// What happened.
    pub event: Event,
    /// The request's id.
    pub id: String,
    /// Which attempt at it, from 1.
    pub attempt: u32,
    /// Agent: which round is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// Agent: from the request to the start of the work.
    #[serde(default, with = "seconds", skip_serializing_if = "Option::is_none")]
    pub queued_s: Option<Duration>,
    /// Agent: of the whole from the start of the work; at a round, of that round.
    #[serde(default, with = "seconds", skip_serializing_if = "Option::is_none")]
    pub took_s: Option<Duration>,
    /// Job: from the send to the answer or to the end of the wait.
    #[serde(default, with = "seconds", skip_serializing_if = "Option::is_none")]
    pub silent_s: Option<Duration>,
    /// The HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Job: what ended the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_saw: Option<ClientSaw>,
    /// Agent: how many issues are on the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issues: Option<usize>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Record {
    /// A record with nothing but what every record has.
    #[must_use]
    pub fn new(ts: Timestamp, service: Service, event: Event, id: &str, attempt: u32) -> Self {
        Self {
            ts,
            service,
            event,
            id: id.to_owned(),
            attempt,
            round: None,
            queued_s: None,
            took_s: None,
            silent_s: None,
            status: None,
            client_saw: None,
            issues: None,
            error: None,
        }
    }

    /// The record as its line, without the line's end.
    #[must_use]
    pub fn line(&self) -> String {
        // Strings, numbers and a timestamp: nothing in it can fail to be JSON.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A log that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("can't open the log {}: {source}", path.display())]
pub struct LogError {
    path: PathBuf,
    source: io::Error,
}

/// Where records go; each is written whole and flushed.
pub struct Log {
    out: Mutex<Out>,
}

struct Out {
    to: Box<dyn Write + Send>,
    failed: bool,
}

impl Log {
    /// A log into any writer.
    #[must_use]
    pub fn to(out: impl Write + Send + 'static) -> Self {
        Self { out: Mutex::new(Out { to: Box::new(out), failed: false }) }
    }

    /// A log at the end of a file, or on standard error.
    ///
    /// # Errors
    /// The file can't be opened.
    pub fn open(path: Option<&Path>) -> Result<Self, LogError> {
        let Some(path) = path else { return Ok(Self::to(io::stderr())) };
        match OpenOptions::new().append(true).create(true).open(path) {
            Ok(file) => Ok(Self::to(file)),
            Err(source) => Err(LogError { path: path.to_owned(), source }),
        }
    }

    /// Writes one record. The work matters more than its log: a line that can't be written is said
    /// once on standard error, and the work goes on.
    pub fn write(&self, record: &Record) {
        let line = record.line() + "\n";
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = out.to.write_all(line.as_bytes()).and_then(|()| out.to.flush())
            && !out.failed
        {
            out.failed = true;
            let _ = writeln!(io::stderr(), "the log can't be written, lines are missing: {error}");
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

// The signature is serde's.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn millis<S: serde::Serializer>(ts: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{ts:.3}"))
}

/// Seconds with at most three decimals.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    // The signature is serde's.
    #[allow(clippy::ref_option)]
    pub(super) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => to.serialize_f64(super::rounded_secs(*value)),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<f64>::deserialize(from)?;
        seconds.map(Duration::try_from_secs_f64).transpose().map_err(D::Error::custom)
    }
}

/// Seconds, rounded to the millisecond.
#[must_use]
pub fn rounded_secs(value: Duration) -> f64 {
    (value.as_secs_f64() * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let ts = "2026-11-29T09:00:00.1204Z".parse().unwrap();
        Record {
            silent_s: Some(Duration::from_micros(904_300_499)),
            client_saw: Some(ClientSaw::OwnTimer),
            ..Record::new(ts, Service::Job, Event::Lost, "extract-017", 1)
        }
    }

    #[test]
    fn a_line_has_only_what_applies() {
        assert_eq!(
            record().line(),
            r#"{"ts":"2026-11-29T09:00:00.120Z","service":"job","event":"lost","id":"extract-017","attempt":1,"silent_s":904.3,"client_saw":"own_timer"}"#
        );
    }

    #[test]
    fn a_line_is_read_back() {
        let read: Record = serde_json::from_str(&record().line()).unwrap();
        assert_eq!(read.line(), record().line());
    }

    #[test]
    fn a_log_that_cant_be_opened_names_its_file() {
        let error = Log::open(Some(Path::new("/nonexistent/job.log"))).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/job.log"), "{error}");
    }
}
