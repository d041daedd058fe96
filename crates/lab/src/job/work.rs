//! One document through its attempts, each step in the log; and all documents at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use hyper::StatusCode;
use tokio::{
    net::lookup_host,
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep_until},
};

use super::{
    Document, JobConfig, JobError, Results, ResultsError, Summary, TOLD_RETRY_AFTER,
    attempt::{Attempt, End},
    documents,
    progress::Progress,
};
use crate::{
    Clock,
    http::Question,
    log::{ClientSaw, Event, Log, Record, Service},
};

/// What every document's task needs.
struct Job {
    config: JobConfig,
    turns: Semaphore,
    log: Log,
    clock: Clock,
    results: Results,
    progress: Progress,
    lost: AtomicUsize,
}

/// Sends every document; `config`'s own `log` and `out` are not looked at.
///
/// # Errors
/// The documents can't be read, the server's name leads nowhere, or an answer can't be kept.
///
/// # Panics
/// Where a task of this job does.
pub async fn ask_all(
    config: &JobConfig,
    log: Log,
    clock: Clock,
    results: Results,
) -> Result<Summary, JobError> {
    let documents = documents::read(&config.documents)?;
    // Once before any work: a name that leads nowhere is a mistake in the command.
    if let Err(source) = lookup_host(config.server.as_str()).await {
        return Err(JobError::Lookup { server: config.server.clone(), source });
    }
    let count = documents.len();
    let job = Arc::new(Job {
        turns: Semaphore::new(config.concurrency.get().min(Semaphore::MAX_PERMITS)),
        progress: Progress::new(count, config.log.is_some()),
        config: config.clone(),
        log,
        clock,
        results,
        lost: AtomicUsize::new(0),
    });
    let mut tasks = JoinSet::new();
    for document in documents {
        let job = Arc::clone(&job);
        tasks.spawn(async move { (job.ask(&document).await, document.id) });
    }
    let mut unanswered = Vec::new();
    while let Some(task) = tasks.join_next().await {
        let (answered, id) = task.expect("a task of the job panicked");
        if !answered? {
            unanswered.push(id);
        }
        job.progress.done();
    }
    unanswered.sort();
    let lost_attempts = job.lost.load(Ordering::Relaxed);
    Ok(Summary { documents: count, lost_attempts, unanswered })
}

/// What follows an attempt that brought no list.
enum Next {
    /// The same would come of it again.
    GiveUp,
    /// At this moment.
    Again(Instant),
}

impl Job {
    /// One document; says whether its answer came.
    async fn ask(&self, document: &Document) -> Result<bool, ResultsError> {
        let question = Question { id: document.id.clone(), text: document.text.clone() };
        // Two texts: nothing in it can fail to be JSON.
        let body = Bytes::from(serde_json::to_vec(&question).unwrap_or_default());
        let most = self.config.max_attempts.get();
        let mut last = 1;
        for number in 1..=most {
            last = number;
            let (began, end) = self.attempt(&document.id, number, body.clone()).await;
            self.log_end(&document.id, number, &end);
            if let Ok(answer) = &end.answer {
                self.results.keep(&document.id, answer)?;
                return Ok(true);
            }
            match next(&end, began, self.config.retry_after) {
                Next::GiveUp => break,
                Next::Again(at) if number < most => sleep_until(at).await,
                Next::Again(_) => {}
            }
        }
        self.log.write(&self.record(Event::GaveUp, &document.id, last));
        Ok(false)
    }

    /// Waits for a turn, then makes one attempt; says when it was sent, or begun where it was not.
    async fn attempt(&self, id: &str, number: u32, body: Bytes) -> (Instant, End) {
        let _turn = self.turns.acquire().await;
        if number > 1 {
            self.log.write(&self.record(Event::Retry, id, number));
        }
        let mut began = Instant::now();
        let attempt = Attempt {
            server: &self.config.server,
            keepalive: self.config.keepalive,
            id,
            number,
            body,
            limit: self.limit(number),
        };
        let end = attempt
            .run(|| {
                began = Instant::now();
                self.log.write(&self.record(Event::Sent, id, number));
            })
            .await;
        (began, end)
    }

    /// The forced retry ends an attempt that is still waiting; after the last there is none.
    fn limit(&self, number: u32) -> Duration {
        if number < self.config.max_attempts.get() {
            self.config.timeout.min(self.config.retry_after)
        } else {
            self.config.timeout
        }
    }

    fn log_end(&self, id: &str, number: u32, end: &End) {
        let event = if end.saw == ClientSaw::Answer { Event::Received } else { Event::Lost };
        if event == Event::Lost {
            self.progress.lost(self.lost.fetch_add(1, Ordering::Relaxed) + 1);
        }
        self.log.write(&Record {
            silent_s: end.silent,
            status: end.status.map(|status| status.as_u16()),
            client_saw: Some(end.saw),
            error: end.answer.as_ref().err().cloned().flatten(),
            ..self.record(event, id, number)
        });
    }

    fn record(&self, event: Event, id: &str, attempt: u32) -> Record {
        Record::new(self.clock.now(), Service::Job, event, id, attempt)
    }
}

fn next(end: &End, began: Instant, retry_after: Duration) -> Next {
    let told = || Next::Again(Instant::now() + retry_after.min(TOLD_RETRY_AFTER));
    match (end.saw, end.status) {
        (ClientSaw::OwnTimer, _) => Next::Again(began + retry_after),
        (_, Some(status)) if is_final(status) => Next::GiveUp,
        _ => told(),
    }
}

/// The server says that this request is wrong: it won't be right the next time.
fn is_final(status: StatusCode) -> bool {
    status.is_client_error()
        && status != StatusCode::REQUEST_TIMEOUT
        && status != StatusCode::TOO_MANY_REQUESTS
}
