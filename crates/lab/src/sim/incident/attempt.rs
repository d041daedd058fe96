//! One attempt of one request: what is known of it while it runs, and what came of it.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use stillopen_model::human;

use crate::{
    middlebox::Side,
    observed::{Crossing, Met},
    result::{AttemptResult, LostEvent, LostRequest, Outcome, RunResult},
    sim::{SocketId, World},
};

/// The packets of one exchange follow each other within this; a probe or an answer comes later.
const EXCHANGE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) document: u32,
    /// The first is 1.
    pub(super) number: u32,
    pub(super) sent: Duration,
    pub(super) client: SocketId,
    pub(super) server: Option<SocketId>,
    /// How long each model call that is left takes.
    pub(super) thoughts: VecDeque<Duration>,
    /// Model calls done: the extraction is 0, then the reviews.
    pub(super) round: u32,
    /// How long the model call that is running takes.
    pub(super) thinks: Duration,
    /// Bytes of the request that the server has.
    pub(super) request: usize,
    /// Bytes of the answer that the client has.
    pub(super) arrived: usize,
    pub(super) received: Option<Duration>,
    pub(super) started: Option<Duration>,
    pub(super) finished: Option<Duration>,
    pub(super) outcome: Option<Outcome>,
    pub(super) ended: Duration,
    pub(super) own_timer: bool,
    pub(super) client_saw: &'static str,
    pub(super) server_saw: &'static str,
    /// When the entry's last packet came, and when it was forgotten.
    pub(super) forgot: Option<(Duration, Duration)>,
    pub(super) told_at_cut: BTreeSet<SocketId>,
    pub(super) told_later: BTreeSet<SocketId>,
}

impl Attempt {
    pub(super) fn new(
        document: u32,
        number: u32,
        sent: Duration,
        client: SocketId,
        thoughts: VecDeque<Duration>,
    ) -> Self {
        Self {
            document,
            number,
            sent,
            client,
            server: None,
            thoughts,
            round: 0,
            thinks: Duration::ZERO,
            request: 0,
            arrived: 0,
            received: None,
            started: None,
            finished: None,
            outcome: None,
            ended: Duration::ZERO,
            own_timer: false,
            client_saw: "nothing",
            server_saw: "nothing",
            forgot: None,
            told_at_cut: BTreeSet::new(),
            told_later: BTreeSet::new(),
        }
    }

    /// How long the agent let it wait.
    pub(super) fn queued(&self) -> Duration {
        let both = self.started.zip(self.received);
        both.map_or(Duration::ZERO, |(started, received)| started.saturating_sub(received))
    }

    pub(super) fn id(&self) -> String {
        format!("extract-{:03}", self.document)
    }

    /// The program at `socket` saw an end; if that is because of the cut and it was not told then, it counts.
    pub(super) fn note_told_later(&mut self, socket: SocketId) {
        if self.forgot.is_some() && !self.told_at_cut.contains(&socket) {
            self.told_later.insert(socket);
        }
    }

    pub(super) fn result(&self, world: &World) -> AttemptResult {
        let crossings = world.crossings(world.local(self.client));
        let asked = asked(crossings).unwrap_or(self.sent);
        let answer = crossings.iter().position(|c| c.from == Side::Server && c.payload > 0);
        let until = answer.map_or(self.ended, |at| crossings[at].at);
        let dead = self.forgot.filter(|&(_, at)| at <= until);
        let due = answer.and_then(|at| {
            let last = at.checked_sub(1).map(|before| crossings[before].at)?;
            Some(crossings[at].due?.saturating_sub(last))
        });
        let took = self.started.zip(self.finished).map(|(from, to)| to.saturating_sub(from));
        AttemptResult {
            id: self.id(),
            attempt: self.number,
            sent_s: self.sent.as_secs_f64(),
            silent_s: until.saturating_sub(asked).as_secs_f64(),
            agent_took_s: took.map(|took| took.as_secs_f64()),
            entry_lived_s: dead.map(|(last, at)| at.saturating_sub(last).as_secs_f64()),
            entry_due_s: due.map(|due| due.as_secs_f64()),
            outcome: self.outcome.unwrap_or(Outcome::Lost),
            client_saw: self.client_saw,
            server_saw: self.server_saw,
            probes: world.probes(self.client),
        }
    }
}

/// When the last packet of the request crossed the middlebox: its acknowledgment, mostly.
fn asked(crossings: &[Crossing]) -> Option<Duration> {
    let answer = crossings.iter().position(|c| c.from == Side::Server && c.payload > 0);
    let before = &crossings[..answer.unwrap_or(crossings.len())];
    let request = before.iter().rfind(|c| c.from == Side::Client && c.payload > 0)?.at;
    before.iter().rfind(|c| c.at <= request + EXCHANGE).map(|c| c.at)
}

/// The lost attempt whose agent worked the least: its own log looks the most innocent.
pub(super) fn story(
    attempts: &[Attempt],
    world: &World,
    result: &RunResult,
) -> Option<LostRequest> {
    let lost = attempts.iter().filter(|attempt| attempt.outcome == Some(Outcome::Lost));
    let worked = lost.filter(|a| a.forgot.is_some() && a.finished.is_some());
    let attempt = worked
        .min_by_key(|a| a.finished.zip(a.started).map(|(to, from)| to.saturating_sub(from)))?;
    let mut events = events(attempt, world, result);
    events.sort_by_key(|(at, _)| *at);
    let events = events.into_iter().map(|(at, event)| {
        let at_s = at.saturating_sub(attempt.sent).as_secs_f64();
        LostEvent { at_s, ..event }
    });
    Some(LostRequest { id: attempt.id(), attempt: attempt.number, events: events.collect() })
}

fn events(attempt: &Attempt, world: &World, result: &RunResult) -> Vec<(Duration, LostEvent)> {
    let event = |place, what: &str, note: &str| LostEvent {
        at_s: 0.0,
        place,
        what: what.to_owned(),
        note: note.to_owned(),
    };
    let mut events = Vec::new();
    let crossings = world.crossings(world.local(attempt.client));
    let asked = asked(crossings).unwrap_or(attempt.sent);
    events.push((asked, event("job", "sends the document", "last packet that crosses the node")));
    if let Some(started) = attempt.started {
        let queued = attempt.queued();
        let note = if queued.is_zero() {
            String::new()
        } else {
            format!("it had queued {}", human(queued))
        };
        events.push((started, event("agent", "starts", &note)));
    }
    if let Some((last, at)) = attempt.forgot {
        let limit = Duration::from_secs_f64(result.path.idle_timeout_s);
        events.push((last + limit, event("node", &format!("{} of silence", human(limit)), "")));
        let note = match attempt.told_at_cut.len() {
            0 => "sends no FIN, no RST; both ends are ESTABLISHED".to_owned(),
            told => format!("tells {told} ends"),
        };
        let lived = format!("drops the entry, {} old", human(at.saturating_sub(last)));
        events.push((at, event("node", &lived, &note)));
    }
    if let (Some(finished), Some(started)) = (attempt.finished, attempt.started) {
        let what = format!("answers, \"took {}\"", human(finished.saturating_sub(started)));
        let told = attempt.server.is_some_and(|server| attempt.told_at_cut.contains(&server));
        let saw = match attempt.server_saw {
            _ if told => "too late: it was told at the cut".to_owned(),
            "nothing" => "its program sees no error".to_owned(),
            error => format!("its program sees {error}"),
        };
        events.push((finished, event("agent", &what, &saw)));
    }
    if let Some(answer) = crossings.iter().find(|c| c.from == Side::Server && c.payload > 0) {
        let (what, note) = match answer.met {
            Met::Translated => ("passes the answer on", ""),
            Met::Untranslated => {
                ("passes it on untranslated", "as from the pod itself; the job's host resets it")
            }
            Met::Dropped => ("drops the answer", "the agent's host sends it again, for 939 s"),
            Met::Answered => ("resets the agent", "it knows no such connection"),
        };
        events.push((answer.at, event("node", what, note)));
    }
    let note = if attempt.own_timer { "log: nothing in between" } else { "" };
    let what = match attempt.client_saw {
        "own_timer" => "its own timer ends the wait".to_owned(),
        error => format!("sees {error}"),
    };
    events.push((attempt.ended, event("job", &what, note)));
    events
}
