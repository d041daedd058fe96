//! Runs the incident: a job that sends documents and waits, and an agent that thinks for long.
//!
//! Owns the two programs; what their logs say is in `logs.rs`, what came of each attempt in `attempt.rs`.
//! Read first: `scenarios/README.md`.

mod attempt;
mod logs;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use self::{
    attempt::Attempt,
    logs::{Event, Logs},
};
use super::{Notice, SocketId, World, tcp::Seen};
use crate::{
    middlebox::End,
    path::Path,
    random::Random,
    result::{Outcome, RunResult},
    run::{Run, RunOptions, blank, client_keepalive},
    scenario::{AfterAnswer, Agent, Incident, Scenario},
};

/// How long a run goes on after the last answer: the kernel gives up an unanswered segment at 939 s.
const AFTERMATH: Duration = Duration::from_secs(1200);

/// How soon the job sends again what it was told of at once.
const TOLD_RETRY_AFTER: Duration = Duration::from_secs(5);

/// What a wake-up is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wake {
    /// The job sends the next document, if it may.
    NextDocument,
    /// The job's own timer for this attempt.
    OwnTimer(usize),
    /// The job sends this document again.
    Retry { document: u32, number: u32 },
    /// The agent has the answer of a model call for this attempt.
    Thought(usize),
}

/// One pod of the agent.
#[derive(Debug, Default)]
struct Pod {
    working: u32,
    queue: VecDeque<usize>,
}

struct Programs<'a> {
    incident: &'a Incident,
    path: &'a Path,
    options: &'a RunOptions,
    scenario: &'a Scenario,
    seed: u64,
    world: World,
    logs: Logs,
    wakes: Vec<Wake>,
    attempts: Vec<Attempt>,
    by_client_end: BTreeMap<End, usize>,
    by_socket: BTreeMap<SocketId, usize>,
    pods: BTreeMap<End, Pod>,
    /// Documents that wait for their first attempt, in their order.
    unsent: VecDeque<u32>,
    in_flight: u32,
    gave_up: u32,
    open: u32,
    finished: Duration,
}

pub(crate) fn run(
    scenario: &Scenario,
    incident: &Incident,
    path: &Path,
    options: &RunOptions,
) -> Run {
    let mut world = World::new(
        path.middlebox(incident.documents.saturating_mul(incident.job.max_attempts)),
        path.vip,
        path.hz,
    );
    for &backend in &path.backends {
        world.listen(backend, scenario.server.keepalive.0);
    }
    let mut programs = Programs {
        incident,
        path,
        options,
        scenario,
        seed: options.seed.unwrap_or(scenario.seed),
        world,
        logs: Logs::new(scenario.start),
        wakes: Vec::new(),
        attempts: Vec::new(),
        by_client_end: BTreeMap::new(),
        by_socket: BTreeMap::new(),
        pods: path.backends.iter().map(|&backend| (backend.into(), Pod::default())).collect(),
        unsent: (1..=incident.documents).collect(),
        in_flight: 0,
        gave_up: 0,
        open: incident.documents,
        finished: Duration::ZERO,
    };
    for number in 0..incident.documents {
        programs.wake(incident.job.send_every.0 * number, Wake::NextDocument);
    }
    while let Some(notice) = programs.world.next(programs.horizon()) {
        programs.handle(notice);
    }
    programs.sum_up()
}

impl Programs<'_> {
    /// Until every request is settled there is no end; then a while for what follows.
    fn horizon(&self) -> Duration {
        if self.open > 0 { Duration::MAX } else { self.finished + AFTERMATH }
    }

    fn wake(&mut self, at: Duration, wake: Wake) {
        self.world.wake_at(at, self.wakes.len() as u64);
        self.wakes.push(wake);
    }

    fn handle(&mut self, notice: Notice) {
        match notice {
            Notice::Wake(token) => {
                let wake = usize::try_from(token).ok().and_then(|at| self.wakes.get(at).copied());
                match wake {
                    Some(Wake::NextDocument) => self.next_document(),
                    Some(Wake::OwnTimer(attempt)) => self.own_timer(attempt),
                    Some(Wake::Retry { document, number }) => self.send(document, number),
                    Some(Wake::Thought(attempt)) => self.thought(attempt),
                    None => {}
                }
            }
            Notice::Accepted(socket) => {
                if let Some(&attempt) = self.by_client_end.get(&self.world.peer(socket)) {
                    self.by_socket.insert(socket, attempt);
                    self.attempts[attempt].server = Some(socket);
                }
            }
            Notice::Told(socket) => {
                if let Some(&attempt) = self.by_socket.get(&socket) {
                    self.attempts[attempt].told_at_cut.insert(socket);
                }
            }
            Notice::Forgot { client, last } => {
                let at = self.world.now();
                if let Some(&attempt) = self.by_client_end.get(&client) {
                    self.attempts[attempt].forgot.get_or_insert((last, at));
                }
            }
            Notice::Seen(socket, seen) => {
                let Some(&attempt) = self.by_socket.get(&socket) else { return };
                if self.attempts[attempt].client == socket {
                    self.client_sees(attempt, seen);
                } else {
                    self.server_sees(attempt, seen);
                }
            }
        }
    }

    // The job.

    fn next_document(&mut self) {
        if self.in_flight < self.incident.job.concurrency
            && let Some(document) = self.unsent.pop_front()
        {
            self.in_flight += 1;
            self.send(document, 1);
        }
    }

    fn send(&mut self, document: u32, number: u32) {
        let from = self.path.client(self.attempts.len());
        let keepalive = client_keepalive(self.scenario, self.options);
        let client = self.world.connect(from, keepalive);
        let attempt = self.attempts.len();
        self.by_client_end.insert(self.world.local(client), attempt);
        self.by_socket.insert(client, attempt);
        let now = self.world.now();
        let draw = draw(&self.incident.agent, self.seed, document, number);
        self.attempts.push(Attempt::new(document, number, now, client, draw));
        if number > 1 {
            self.log(attempt, Event::Retry);
        }
        self.wake(now + self.incident.job.timeout.0, Wake::OwnTimer(attempt));
    }

    fn client_sees(&mut self, index: usize, seen: Seen) {
        let attempt = &mut self.attempts[index];
        if attempt.outcome.is_some() {
            return;
        }
        match seen {
            Seen::Open => {
                let client = attempt.client;
                let sent = self.world.send(client, self.incident.document_bytes);
                self.log(index, Event::Asked);
                if let Err(errno) = sent {
                    self.lose(index, errno.name());
                }
            }
            Seen::Data(bytes) => {
                attempt.arrived += bytes;
                if attempt.arrived >= self.incident.answer_bytes {
                    self.answered(index);
                }
            }
            Seen::Eof => {
                attempt.note_told_later(attempt.client);
                self.lose(index, "eof");
            }
            Seen::Error(errno) => {
                attempt.note_told_later(attempt.client);
                self.lose(index, errno.name());
            }
        }
    }

    fn answered(&mut self, index: usize) {
        let attempt = &mut self.attempts[index];
        (attempt.outcome, attempt.client_saw) = (Some(Outcome::Answered), "answer");
        attempt.ended = self.world.now();
        let client = attempt.client;
        self.world.close(client);
        let silent = self.waited(index);
        self.log(index, Event::Answered { silent });
        self.settled();
    }

    fn own_timer(&mut self, index: usize) {
        if self.attempts[index].outcome.is_none() {
            self.attempts[index].own_timer = true;
            self.lose(index, "own_timer");
        }
    }

    fn lose(&mut self, index: usize, saw: &'static str) {
        let now = self.world.now();
        let attempt = &mut self.attempts[index];
        (attempt.outcome, attempt.client_saw, attempt.ended) = (Some(Outcome::Lost), saw, now);
        let (client, document, number) = (attempt.client, attempt.document, attempt.number);
        let forced = attempt.sent + self.incident.job.retry_after.0;
        self.world.close(client);
        let silent = self.waited(index);
        self.log(index, Event::Lost { silent, saw });
        if number >= self.incident.job.max_attempts {
            self.gave_up += 1;
            self.log(index, Event::GaveUp);
            self.settled();
            return;
        }
        // An error is answered soon; only silence waits for the forced retry.
        let soon = (now + TOLD_RETRY_AFTER).min(forced);
        let at = if self.attempts[index].own_timer { forced } else { soon }.max(now);
        self.wake(at, Wake::Retry { document, number: number + 1 });
    }

    fn settled(&mut self) {
        self.open -= 1;
        self.in_flight -= 1;
        self.finished = self.world.now();
        self.next_document();
    }

    // The agent.

    fn server_sees(&mut self, index: usize, seen: Seen) {
        let attempt = &mut self.attempts[index];
        let Some(server) = attempt.server else { return };
        let saw = match seen {
            Seen::Open => return,
            Seen::Data(bytes) => {
                attempt.request += bytes;
                if attempt.request == self.incident.document_bytes {
                    self.receive(index);
                }
                return;
            }
            Seen::Eof => "eof",
            Seen::Error(errno) => errno.name(),
        };
        // After an answer that arrived, or the job's own timer, an end is no news of the path.
        if attempt.outcome.is_none() || attempt.outcome == Some(Outcome::Lost) && !attempt.own_timer
        {
            if attempt.forgot.is_some() && attempt.server_saw == "nothing" {
                attempt.server_saw = saw;
            }
            attempt.note_told_later(server);
        }
        if seen == Seen::Eof && attempt.thoughts.is_empty() {
            self.world.close(server);
        }
    }

    fn receive(&mut self, index: usize) {
        let pod = self.pod_of(index);
        self.attempts[index].received = Some(self.world.now());
        self.log(index, Event::Received);
        self.pods.entry(pod).or_default().queue.push_back(index);
        self.work(pod);
    }

    fn pod_of(&self, index: usize) -> End {
        self.attempts[index].server.map_or_else(|| self.path.vip.into(), |s| self.world.local(s))
    }

    /// Starts what may start.
    fn work(&mut self, at: End) {
        while let Some(pod) = self.pods.get_mut(&at) {
            if pod.working >= self.incident.agent.concurrency {
                return;
            }
            let Some(index) = pod.queue.pop_front() else { return };
            pod.working += 1;
            self.attempts[index].started = Some(self.world.now());
            let queued = self.attempts[index].queued();
            self.log(index, Event::Started { queued });
            self.think(index);
        }
    }

    fn think(&mut self, index: usize) {
        if let Some(takes) = self.attempts[index].thoughts.pop_front() {
            self.attempts[index].thinks = takes;
            self.wake(self.world.now() + takes, Wake::Thought(index));
        }
    }

    fn thought(&mut self, index: usize) {
        let attempt = &mut self.attempts[index];
        let (round, took) = (attempt.round, attempt.thinks);
        attempt.round += 1;
        self.log(index, Event::Round { round, took });
        if self.attempts[index].thoughts.is_empty() {
            self.answer(index);
        } else {
            self.think(index);
        }
    }

    fn answer(&mut self, index: usize) {
        let now = self.world.now();
        let attempt = &mut self.attempts[index];
        let (Some(server), Some(started)) = (attempt.server, attempt.started) else { return };
        attempt.finished = Some(now);
        let (queued, took) = (attempt.queued(), now.saturating_sub(started));
        match self.world.send(server, self.incident.answer_bytes) {
            Ok(()) => {
                self.log(index, Event::Sent { queued, took });
                if self.incident.agent.after_answer == AfterAnswer::Close {
                    self.world.close(server);
                }
            }
            Err(errno) => {
                self.log(index, Event::Failed { queued, took, error: errno.name() });
                self.world.close(server);
            }
        }
        let pod = self.pod_of(index);
        if let Some(pod) = self.pods.get_mut(&pod) {
            pod.working -= 1;
        }
        self.work(pod);
    }

    /// How long the job has waited for this attempt.
    fn waited(&self, index: usize) -> Duration {
        self.world.now().saturating_sub(self.attempts[index].sent)
    }

    fn log(&mut self, index: usize, event: Event) {
        let attempt = &self.attempts[index];
        let (id, number) = (attempt.id(), attempt.number);
        self.logs.write(self.world.now(), &id, number, event);
    }

    fn sum_up(self) -> Run {
        let mut result = blank(self.scenario, self.path, self.options);
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        result.requests = self.incident.documents;
        result.attempts = number(self.attempts.len());
        result.gave_up = self.gave_up;
        result.virtual_s = self.finished.as_secs_f64();
        result.per_attempt =
            self.attempts.iter().map(|attempt| attempt.result(&self.world)).collect();
        result.told_at_cut = number(self.attempts.iter().map(|a| a.told_at_cut.len()).sum());
        result.told_later = number(self.attempts.iter().map(|a| a.told_later.len()).sum());
        result.retried = number(self.attempts.iter().filter(|a| a.number > 1).count());
        summarise(&mut result);
        result.lost_request = attempt::story(&self.attempts, &self.world, &result);
        let (job_log, agent_log) = self.logs.finish();
        Run { result, job_log, agent_log }
    }
}

/// How long each model call of an attempt takes: the extraction, then each review. More rounds take
/// longer; the seed, the document and the attempt decide.
pub(crate) fn draw(agent: &Agent, seed: u64, document: u32, number: u32) -> VecDeque<Duration> {
    let mut random = Random::new(seed, &[document.into(), number.into()]);
    let [fewest, most] = agent.rounds;
    let rounds = random.between(fewest, most);
    let place = (f64::from(rounds - fewest) + random.unit()) / f64::from(most - fewest + 1);
    let [shortest, longest] = agent.takes.map(|span| span.0.as_secs_f64());
    let total = shortest * (longest / shortest).powf(place);
    let weights: Vec<f64> = (0..=rounds).map(|_| 0.6 + 0.8 * random.unit()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| Duration::from_secs_f64(total * weight / sum)).collect()
}

/// The sums over the attempts.
pub(crate) fn summarise(result: &mut RunResult) {
    let of = |outcome| result.per_attempt.iter().filter(move |a| a.outcome == outcome);
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let (answered, lost) = (of(Outcome::Answered).count(), of(Outcome::Lost).count());
    // The sum of nothing is -0.0.
    let wasted =
        of(Outcome::Lost).filter_map(|attempt| attempt.agent_took_s).fold(0.0, |a, b| a + b);
    let probes = result.per_attempt.iter().map(|attempt| attempt.probes);
    let probes = [probes.clone().min().unwrap_or(0), probes.max().unwrap_or(0)];
    (result.answered, result.lost) = (number(answered), number(lost));
    (result.wasted_s, result.probes) = (wasted, probes);
}
