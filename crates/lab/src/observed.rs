//! What was observed of a timeline's connections, whoever ran them, and what it adds up to.

use std::time::Duration;

use crate::{
    middlebox::Side,
    result::{AttemptResult, Outcome, RunResult, Saw},
    scenario::{Expect, Scenario, Sees, Who},
    sim::Crossing,
};

/// A timeline that has been run.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) connections: Vec<Connection>,
    pub(crate) sent: Vec<Sent>,
    pub(crate) saw: Vec<(Duration, Saw)>,
}

/// One connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connection {
    /// Its packets at the middlebox.
    pub(crate) crossings: Vec<Crossing>,
    /// When the path forgot it, and its last packet before that.
    pub(crate) forgot: Option<(Duration, Duration)>,
    /// Keepalive probes that its client sent.
    pub(crate) probes: u32,
    /// Whether client and server got anything when the path forgot it.
    pub(crate) told: [bool; 2],
    /// Whether their programs learnt of it afterwards.
    pub(crate) told_later: [bool; 2],
}

/// One send, to be matched with what arrives.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) connection: usize,
    pub(crate) by: Who,
    pub(crate) at: Duration,
    /// The sender's last byte of it, counted from its first send.
    pub(crate) last_byte: usize,
    pub(crate) refused: bool,
}

impl Observed {
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
            entry_lived_s: dead.map(|(at, last)| at.saturating_sub(last).as_secs_f64()),
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
