//! The job of the incident: sends each document to the agent and waits, for an hour where it must.
//!
//! Each attempt has a connection of its own, so that one attempt is one entry of the path's table.
//! `examples/job_httpx.py` is the same program in Python.
//!
//! Read first: `work.rs` (one document through its attempts), then `attempt.rs` (one connection).

mod attempt;
mod documents;
mod progress;
mod results;
mod server;
mod work;

use std::{
    io,
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

use stillopen_model::KeepaliveValues;

pub use documents::{Document, DocumentsError};
pub use results::{Results, ResultsError};
pub use server::{NotAServer, ServerAddress};
pub use work::ask_all;

use crate::{
    Clock,
    log::{Log, LogError},
};

/// The forced retry, once.
pub const DEFAULT_MAX_ATTEMPTS: NonZeroU32 = NonZeroU32::new(2).unwrap();

/// What `lab job` is asked for.
#[derive(Debug, Clone)]
pub struct JobConfig {
    /// The agent, or the Service in front of it.
    pub server: ServerAddress,
    /// A folder with the documents: `*.txt` and `*.md`.
    pub documents: PathBuf,
    /// How many requests are under way at once.
    pub concurrency: NonZeroUsize,
    /// The client's own timer: an attempt without an answer ends this long after its send.
    pub timeout: Duration,
    /// The forced retry: an attempt without an answer is made again this long after its send, and
    /// ended then where `timeout` is longer. An attempt whose end was told (a reset, a refusal, an
    /// error of the server) is made again after [`TOLD_RETRY_AFTER`] at most: silence alone costs
    /// an hour.
    pub retry_after: Duration,
    /// How often a document is sent at most; the last attempt has `timeout` alone.
    pub max_attempts: NonZeroU32,
    /// TCP keepalive of each connection; off without.
    pub keepalive: Option<KeepaliveValues>,
    /// Where the log goes; standard error without.
    pub log: Option<PathBuf>,
    /// A folder that gets a file per answer; without, answers are lines on standard output.
    pub out: Option<PathBuf>,
}

/// How soon an attempt is made again whose end the client was told.
pub const TOLD_RETRY_AFTER: Duration = Duration::from_secs(5);

/// What a job came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// How many documents there were.
    pub documents: usize,
    /// How many attempts got no answer at all.
    pub lost_attempts: usize,
    /// The ids without an answer in the end, sorted; empty is success.
    pub unanswered: Vec<String>,
}

/// A job that can't start, or can't go on.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The documents can't be used.
    #[error(transparent)]
    Documents(#[from] DocumentsError),
    /// The server's name leads nowhere.
    #[error("can't look up the server {server}: {source}")]
    Lookup {
        /// Its name.
        server: ServerAddress,
        /// Why.
        source: io::Error,
    },
    /// The log can't be opened.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The answers can't be kept.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The system refuses what every program needs.
    #[error("can't start the runtime: {0}")]
    Runtime(#[source] io::Error),
}

impl JobError {
    /// Whether whoever read the answers has gone: for a command, no failure.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Results(error) if error.source.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Sends every document and waits until each has its answer or no attempt left.
///
/// # Errors
/// The input is bad, or answers or log can't be written. A document without an answer is no error:
/// see [`Summary::unanswered`].
pub fn run(config: &JobConfig) -> Result<Summary, JobError> {
    let log = Log::open(config.log.as_deref())?;
    let results = match &config.out {
        Some(folder) => Results::folder(folder)?,
        None => Results::lines(io::stdout()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(JobError::Runtime)?;
    runtime.block_on(ask_all(config, log, Clock::Wall, results))
}
