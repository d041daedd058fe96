//! One request from its arrival to its answer, each step in the log.

use std::{num::NonZeroUsize, time::Duration};

use tokio::{sync::Semaphore, time::Instant};

use super::{
    AgentConfig, AgentError, ModelConfig, ModelError, openai::OpenAi, review::Model, script::Script,
};
use crate::{
    Clock,
    http::{Answer, Question},
    log::{Event, Log, Record, Service, rounded_secs},
};

/// The agent without its listening socket.
#[derive(Debug)]
pub struct Agent {
    model: Model,
    rounds: u32,
    turns: Semaphore,
    log: Log,
    clock: Clock,
}

/// A request that gets no list.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0}")]
    BadRequest(String),
    #[error("{0}")]
    TooLarge(String),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("the agent is stopping; ask again later")]
    Stopping,
}

impl Failure {
    pub(super) fn status(&self) -> u16 {
        match self {
            Self::BadRequest(_) => 400,
            Self::TooLarge(_) => 413,
            Self::Model(_) => 502,
            Self::Stopping => 503,
        }
    }
}

impl Agent {
    /// An agent with `config`'s model, rounds and concurrency, that writes to `log`.
    ///
    /// # Errors
    /// The model can't be used.
    pub fn new(config: &AgentConfig, log: Log, clock: Clock) -> Result<Self, AgentError> {
        let model = match &config.model {
            ModelConfig::OpenAi(endpoint) => Model::OpenAi(Box::new(OpenAi::new(endpoint)?)),
            ModelConfig::Script(path) => Model::Script(Script::read(path)?),
        };
        let turns = Semaphore::new(turns(config.concurrency));
        Ok(Self { model, rounds: config.rounds, turns, log, clock })
    }

    /// Refuses what queues and what still comes.
    pub(super) fn stop(&self) {
        self.turns.close();
    }

    /// Answers one question: waits for a turn, then works.
    pub(super) async fn answer(
        &self,
        id: &str,
        attempt: u32,
        question: &Question,
    ) -> Result<Answer, Failure> {
        let mut request = Request::received(self, id, attempt);
        match request.work(question).await {
            Ok(answer) => {
                request.sent(answer.issues.len());
                Ok(answer)
            }
            Err(failure) => {
                request.failed(Some(failure.status()), failure.to_string());
                Err(failure)
            }
        }
    }

    /// Logs a request that never became a question.
    pub(super) fn refuse(&self, id: &str, attempt: u32, failure: &Failure) {
        Request::new(self, id, attempt).failed(Some(failure.status()), failure.to_string());
    }
}

/// More turns than a semaphore can count are as good as no limit.
fn turns(concurrency: NonZeroUsize) -> usize {
    concurrency.get().min(Semaphore::MAX_PERMITS)
}

/// One request in the log. Dropped before its end, it says so: the client has gone, or the agent goes.
struct Request<'a> {
    agent: &'a Agent,
    id: &'a str,
    attempt: u32,
    received: Instant,
    started: Option<Instant>,
    ended: bool,
}

impl<'a> Request<'a> {
    fn new(agent: &'a Agent, id: &'a str, attempt: u32) -> Self {
        Self { agent, id, attempt, received: Instant::now(), started: None, ended: false }
    }

    fn received(agent: &'a Agent, id: &'a str, attempt: u32) -> Self {
        let request = Self::new(agent, id, attempt);
        agent.log.write(&request.record(Event::Received));
        request
    }

    async fn work(&mut self, question: &Question) -> Result<Answer, Failure> {
        let Question { id, text } = question;
        let (agent, of) = (self.agent, (id.as_str(), self.attempt));
        let _turn = agent.turns.acquire().await.map_err(|_| Failure::Stopping)?;
        let started = *self.started.insert(Instant::now());
        self.write(Record { queued_s: self.queued(), ..self.record(Event::Started) });

        let mut since = Instant::now();
        let mut list = agent.model.extract(of, text).await?;
        self.round(0, &mut since, list.len());
        for round in 1..=agent.rounds {
            list = agent.model.review(of, text, list, (round, agent.rounds)).await?;
            self.round(round, &mut since, list.len());
        }
        Ok(Answer {
            id: id.clone(),
            issues: list,
            rounds: agent.rounds,
            took_s: rounded_secs(started.elapsed()),
        })
    }

    fn round(&self, round: u32, since: &mut Instant, issues: usize) {
        self.write(Record {
            round: Some(round),
            took_s: Some(since.elapsed()),
            issues: Some(issues),
            ..self.record(Event::Round)
        });
        *since = Instant::now();
    }

    fn sent(&mut self, issues: usize) {
        self.end(Record { status: Some(200), issues: Some(issues), ..self.record(Event::Sent) });
    }

    fn failed(&mut self, status: Option<u16>, error: String) {
        self.end(Record { status, error: Some(error), ..self.record(Event::Failed) });
    }

    fn end(&mut self, record: Record) {
        self.ended = true;
        self.write(Record {
            queued_s: self.queued(),
            took_s: self.started.map(|started| started.elapsed()),
            ..record
        });
    }

    fn queued(&self) -> Option<Duration> {
        self.started.map(|started| started - self.received)
    }

    fn record(&self, event: Event) -> Record {
        Record::new(self.agent.clock.now(), Service::Agent, event, self.id, self.attempt)
    }

    #[allow(clippy::needless_pass_by_value)] // every caller makes the record here
    fn write(&self, record: Record) {
        self.agent.log.write(&record);
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let gone =
                "the client closed the connection before the answer, or the agent was stopped";
            self.failed(None, gone.into());
        }
    }
}
