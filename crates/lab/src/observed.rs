//! What was observed of a timeline's connections, whoever ran them, and what it adds up to.

use std::{net::SocketAddr, time::Duration};

use crate::{
    middlebox::{Carried, End, Fate, Middlebox, Side, View},
    result::{AttemptResult, Outcome, RunResult, Saw},
    scenario::{Expect, Scenario, Sees, Who},
};

/// Segments of one answer, which come within this, are one event to its reader.
pub(crate) const ONE_EVENT: Duration = Duration::from_millis(100);

/// A packet of a connection at the middlebox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Crossing {
    pub(crate) at: Duration,
    pub(crate) from: Side,
    pub(crate) payload: usize,
    /// When the entry would have died if this packet had not come; `None`: there was no entry.
    pub(crate) due: Option<Duration>,
    /// What it met.
    pub(crate) met: Met,
}

/// What a packet met at the middlebox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Met {
    Translated,
    Untranslated,
    Dropped,
    Answered,
}

impl From<&Fate> for Met {
    fn from(fate: &Fate) -> Self {
        match fate {
            Fate::Forward { known: true } => Self::Translated,
            Fate::Forward { known: false } => Self::Untranslated,
            Fate::Drop(_) => Self::Dropped,
            Fate::Answer(_) => Self::Answered,
        }
    }
}

impl Crossing {
    /// Whose connection a packet is of, by its client's end, and what is known of it before it is handled.
    pub(crate) fn before(
        middlebox: &Middlebox,
        vip: SocketAddr,
        (at, from): (Duration, Side),
        view: &View,
    ) -> Option<(End, Self)> {
        let Carried::Tcp(segment) = view.carried else { return None };
        let client = match from {
            Side::Client => view.from(&segment),
            Side::Server => view.to(&segment),
        };
        let entry = middlebox.entry(client.into(), vip);
        let due = entry.map(|(_, due)| due).filter(|&due| due > at);
        Some((client, Self { at, from, payload: segment.payload, due, met: Met::Dropped }))
    }
}

/// A timeline that has been run.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) connections: Vec<Connection>,
    sent: Vec<Sent>,
    saw: Vec<(Duration, Saw)>,
    one_event: Duration,
}

/// One connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connection {
    /// Its packets at the middlebox.
    pub(crate) crossings: Vec<Crossing>,
    /// When the path forgot it, and how long its entry had lived since its last packet.
    pub(crate) forgot: Option<(Duration, Duration)>,
    /// Keepalive probes that its client sent.
    pub(crate) probes: u32,
    /// Whether client and server got anything when the path forgot it.
    pub(crate) told: [bool; 2],
    /// Whether their programs learnt of it afterwards.
    told_later: [bool; 2],
    /// Whether an end has closed or said that it will send no more: an end of file is then no news.
    pub(crate) closing: bool,
}

/// One send, to be matched with what arrives.
#[derive(Debug)]
struct Sent {
    connection: usize,
    by: Who,
    at: Duration,
    /// The sender's last byte of it, counted from its first send.
    last_byte: usize,
    refused: bool,
}

impl Observed {
    /// Nothing yet. What one end reads within `one_event` is one event: [`ONE_EVENT`] but where the clock is a
    /// divided one.
    pub(crate) fn new(connections: usize, one_event: Duration) -> Self {
        let connections = vec![Connection::default(); connections];
        Self { connections, sent: Vec::new(), saw: Vec::new(), one_event }
    }

    /// An end's program sent, or met this error instead.
    pub(crate) fn sent(
        &mut self,
        connection: usize,
        by: Who,
        bytes: usize,
        at: Duration,
        error: Option<&str>,
    ) {
        let before = (self.sent.iter())
            .filter(|sent| (sent.connection, sent.by, sent.refused) == (connection, by, false));
        let last_byte = before.map(|sent| sent.last_byte).max().unwrap_or_default() + bytes;
        self.sent.push(Sent { connection, by, at, last_byte, refused: error.is_some() });
        if let Some(error) = error {
            self.note(connection, by, error, 0, at);
        }
    }

    /// What an end's program saw: `data`, `eof`, or an error by its name.
    pub(crate) fn saw(
        &mut self,
        connection: usize,
        who: Who,
        what: &str,
        bytes: usize,
        at: Duration,
    ) {
        self.note(connection, who, what, bytes, at);
        if let Some(of) = self.connections.get_mut(connection) {
            let news = what.starts_with('E') || what == "eof" && !of.closing;
            let end = usize::from(who == Who::Server);
            of.told_later[end] |= of.forgot.is_some() && news && !of.told[end];
        }
    }

    fn note(&mut self, connection: usize, who: Who, what: &str, bytes: usize, at: Duration) {
        let who = if who == Who::Client { "client" } else { "server" };
        let of_end =
            |(_, saw): &&mut (Duration, Saw)| (saw.connection, saw.who) == (connection, who);
        if let Some((last, saw)) = self.saw.iter_mut().rev().find(of_end)
            && (what, saw.what) == ("data", "data")
            && at.saturating_sub(*last) < self.one_event
        {
            saw.bytes += bytes;
            return;
        }
        let saw = Saw { at_s: at.as_secs_f64(), connection, who, what: known(what), bytes };
        self.saw.push((at, saw));
    }

    pub(crate) fn sum_up(self, scenario: &Scenario, result: &mut RunResult) {
        let end = scenario.watch.unwrap_or_default().0;
        for expect in &scenario.expect {
            result.failures.extend(self.failed(expect, end));
        }
        result.per_attempt =
            (1..).zip(&self.sent).map(|(id, sent)| self.attempt(id, sent)).collect();
        let count = |outcome| result.per_attempt.iter().filter(|a| a.outcome == outcome).count();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        result.answered = number(count(Outcome::Answered));
        result.lost = number(count(Outcome::Lost));
        result.requests = number(self.sent.len());
        result.attempts = result.requests;
        let ends = |of: fn(&Connection) -> [bool; 2]| {
            number(self.connections.iter().flat_map(of).filter(|told| *told).count())
        };
        result.told_at_cut = ends(|connection| connection.told);
        result.told_later = ends(|connection| connection.told_later);
        let probes = self.connections.iter().map(|connection| connection.probes);
        result.probes = [probes.clone().min().unwrap_or(0), probes.max().unwrap_or(0)];
        result.saw = self.saw.into_iter().map(|(_, saw)| saw).collect();
    }

    fn attempt(&self, id: usize, sent: &Sent) -> AttemptResult {
        let connection = &self.connections[sent.connection];
        let by = if sent.by == Who::Client { Side::Client } else { Side::Server };
        let crossings = &connection.crossings;
        let crossing =
            crossings.iter().position(|c| c.at >= sent.at && c.from == by && c.payload > 0);
        // A send that was refused never got there.
        let at = crossing.map_or(sent.at, |at| crossings[at].at);
        let last = crossings.iter().take_while(|c| c.at < at).last().map_or(sent.at, |c| c.at);
        let due = crossing.and_then(|at| crossings[at].due).map(|due| due.saturating_sub(last));
        let dead = connection.forgot.filter(|&(dead, _)| dead <= at);
        let other = if sent.by == Who::Client { "server" } else { "client" };
        let arrived: usize = (self.saw.iter())
            .filter(|(_, saw)| (saw.connection, saw.who) == (sent.connection, other))
            .map(|(_, saw)| saw.bytes)
            .sum();
        let answered = !sent.refused && arrived >= sent.last_byte;
        let saw = |who: &str| {
            let of = |saw: &&(Duration, Saw)| {
                (saw.1.connection, saw.1.who) == (sent.connection, who) && saw.0 >= sent.at
            };
            self.saw.iter().find(of).map_or("nothing", |(_, saw)| saw.what)
        };
        AttemptResult {
            id: format!("send-{id}"),
            attempt: 1,
            sent_s: sent.at.as_secs_f64(),
            silent_s: at.saturating_sub(last).as_secs_f64(),
            agent_took_s: None,
            entry_lived_s: dead.map(|(_, lived)| lived.as_secs_f64()),
            entry_due_s: due.map(|due| due.as_secs_f64()),
            outcome: if answered { Outcome::Answered } else { Outcome::Lost },
            client_saw: saw("client"),
            server_saw: saw("server"),
            probes: connection.probes,
        }
    }

    /// Why an expectation does not hold.
    fn failed(&self, expect: &Expect, end: Duration) -> Option<String> {
        let from = expect.at.0;
        let until = expect.within.map_or(end, |within| from + within.0);
        let who = if expect.who == Who::Client { "client" } else { "server" };
        let seen: Vec<&Saw> = (self.saw.iter())
            .filter(|(at, saw)| {
                (saw.connection, saw.who) == (expect.connection, who) && (from..=until).contains(at)
            })
            .map(|(_, saw)| saw)
            .collect();
        let wanted = expect.sees.to_string();
        let holds = match expect.sees {
            Sees::Nothing => seen.is_empty(),
            _ => seen.iter().any(|saw| saw.what == wanted),
        };
        let what = |saw: &&Saw| format!("{} at {:.1}s", saw.what, saw.at_s);
        let instead = seen.iter().map(what).collect::<Vec<_>>().join(", ");
        let instead = if instead.is_empty() { "nothing".to_owned() } else { instead };
        let (from, until) = (from.as_secs_f64(), until.as_secs_f64());
        (!holds).then(|| {
            let connection = expect.connection;
            format!(
                "{who} of connection {connection} must see {wanted} from {from}s to {until}s, saw {instead}"
            )
        })
    }
}

/// The words of results are few.
fn known(what: &str) -> &'static str {
    const WORDS: [&str; 8] = [
        "data",
        "eof",
        "ECONNRESET",
        "EPIPE",
        "ETIMEDOUT",
        "ECONNREFUSED",
        "EHOSTUNREACH",
        "ENETUNREACH",
    ];
    WORDS.into_iter().find(|word| *word == what).unwrap_or("another error")
}
