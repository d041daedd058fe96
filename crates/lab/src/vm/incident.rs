//! The incident on a real kernel: the two real programs, `lab agent` in each pod and `lab job` at the client.
//!
//! What came of each attempt is in their logs; how long each entry lived was observed at the node. A log names
//! no port, so the connection of an attempt is the one on which the agent's answer, whose time its log has,
//! appeared at the node.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    time::Duration,
};

use stillopen_model::human;

use super::{
    VmError, millis,
    protocol::{Lane, Line, Packet, Programs, Table},
};
use crate::{
    log::{ClientSaw, Event, Record, Service},
    middlebox::ExpiryRule,
    path::{Addresses, Path},
    result::{AttemptResult, LostEvent, LostRequest, Outcome, RunResult},
    run::{Run, RunOptions, entry_seen_late},
    scenario::{Incident, Scenario},
    sim::incident::{draw, summarise},
};

/// From the agent's log to its answer at the node.
const ANSWER_FOLLOWS: Duration = Duration::from_secs(2);
/// Packets of one exchange follow each other within this.
const EXCHANGE: Duration = Duration::from_secs(1);
/// What belongs to the request has ended by then.
const SETTLED: Duration = Duration::from_secs(5);

/// What the guest's programs are asked: the think times that the simulation draws, as a script.
pub(super) fn programs(asked: &Incident, scenario: &Scenario, options: &RunOptions) -> Programs {
    let seed = options.seed.unwrap_or(scenario.seed);
    let id = |number: u32| format!("extract-{number:03}");
    let mut script = String::from("[default]\nissues = []\n");
    for attempt in 1..=asked.job.max_attempts {
        for document in 1..=asked.documents {
            let section = format!("attempt.{attempt}.{}", id(document));
            let mut thinks = draw(&asked.agent, seed, document, attempt).into_iter();
            let first = thinks.next().unwrap_or_default();
            let _ = writeln!(
                script,
                "[{section}]\nissues = [\"one\"]\nthink = \"{}ms\"",
                millis(first)
            );
            // The agent reviews as often as the longest: what is over takes no time.
            for think in thinks.chain([Duration::ZERO]) {
                let _ = writeln!(script, "[[{section}.round]]\nthink = \"{}ms\"", millis(think));
            }
        }
    }
    let text = |number| (id(number), "x".repeat(asked.document_bytes));
    let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    Programs {
        script,
        rounds: asked.agent.rounds[1],
        agent_concurrency: count(asked.agent.concurrency),
        documents: (1..=asked.documents).map(text).collect(),
        job_concurrency: count(asked.job.concurrency),
        timeout_s: asked.job.timeout.0.as_secs(),
        retry_after_s: asked.job.retry_after.0.as_secs(),
        max_attempts: asked.job.max_attempts,
    }
}

/// Longer than the job can take.
pub(super) fn longest_ms(asked: &Incident) -> u64 {
    let attempt = asked.job.timeout.0.max(asked.job.retry_after.0) + asked.agent.takes[1].0;
    millis(attempt * (asked.job.max_attempts + 1))
}

/// One connection at the node.
#[derive(Debug, Default, Clone)]
struct Connection {
    /// Packets that came into the node.
    came: Vec<Packet>,
    /// When the node sent something to either end.
    left: Vec<(Duration, char)>,
    /// Entry there, and gone.
    died: Vec<(Duration, Duration)>,
}

/// Sums up a lane's logs and packets.
pub(super) fn sum_up(
    asked: &Incident,
    (lane, path): (&Lane, &Path),
    lines: &[Line],
    run: &mut Run,
) -> Result<(), VmError> {
    let rule = match lane.table {
        Table::Ipvs => ExpiryRule::Wheel { hz: path.hz },
        Table::Conntrack => ExpiryRule::Exact,
    };
    let started = lines.iter().find_map(|line| match line {
        Line::Ready { epoch_ms, .. } => Some(*epoch_ms),
        _ => None,
    });
    let started = started.ok_or_else(|| VmError::Protocol("no start".into()))?;
    let mut records: Vec<(Duration, Record)> = Vec::new();
    for line in lines {
        let Line::Log { lane: of, program, text } = line else { continue };
        if *of != lane.number {
            continue;
        }
        let log = if program == "job" { &mut run.job_log } else { &mut run.agent_log };
        log.push_str(text);
        log.push('\n');
        let record: Record = serde_json::from_str(text)
            .map_err(|error| VmError::Protocol(format!("a log's line: {error}: {text}")))?;
        let at = u64::try_from(record.ts.as_millisecond()).unwrap_or(0);
        records.push((Duration::from_millis(at.saturating_sub(started)), record));
    }
    let connections = connections(lane, lines);
    let mut used = BTreeSet::new();
    let mut attempts: BTreeMap<(String, u32), Vec<(Duration, Record)>> = BTreeMap::new();
    for (at, record) in records {
        attempts.entry((record.id.clone(), record.attempt)).or_default().push((at, record));
    }
    let result = &mut run.result;
    let mut stories = Vec::new();
    for ((id, number), records) in &attempts {
        let dies_at = |last| rule.dies_at(last, path.idle_timeout());
        let Some(attempt) = attempt(id, *number, records, &connections, &mut used, dies_at) else {
            continue;
        };
        stories.push((story(&attempt, records, result), attempt.clone()));
        result.per_attempt.push(attempt);
    }
    result.per_attempt.sort_by(|a, b| a.sent_s.total_cmp(&b.sent_s));
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    result.requests = asked.documents;
    result.attempts = number(result.per_attempt.len());
    result.retried = number(result.per_attempt.iter().filter(|a| a.attempt > 1).count());
    let all = attempts.values().flatten();
    result.gave_up = number(all.clone().filter(|(_, r)| r.event == Event::GaveUp).count());
    let ended = all.filter(|(_, r)| r.service == Service::Job).map(|(at, _)| *at).max();
    result.virtual_s = ended.unwrap_or_default().as_secs_f64();
    // An end that was told: a reset or an end of file that its program logged.
    let told = result.per_attempt.iter().filter(|a| a.entry_lived_s.is_some());
    result.told_later = number(
        told.map(|a| {
            usize::from(!matches!(a.client_saw, "answer" | "own_timer"))
                + usize::from(a.server_saw != "nothing")
        })
        .sum(),
    );
    result.told_at_cut = number(connections.values().map(told_at_cut).sum());
    summarise(result);
    let lost = stories
        .into_iter()
        .filter(|(_, attempt)| attempt.outcome == Outcome::Lost && attempt.entry_lived_s.is_some());
    let took = |attempt: &AttemptResult| attempt.agent_took_s.unwrap_or(f64::MAX);
    let least = lost.min_by(|(_, a), (_, b)| took(a).total_cmp(&took(b)));
    result.lost_request = least.map(|(story, _)| story);
    Ok(())
}

/// The connections of a lane's node, by the client's port.
fn connections(lane: &Lane, lines: &[Line]) -> BTreeMap<u16, Connection> {
    let client = Addresses::new(lane.number, lane.v6, lane.backends).client(0).ip();
    let mut connections: BTreeMap<u16, Connection> = BTreeMap::new();
    for line in lines {
        match line {
            Line::Packet(packet) if packet.lane == lane.number => {
                let end = [packet.from, packet.to].into_iter().find(|end| end.ip() == client);
                let Some(end) = end else { continue };
                let of = connections.entry(end.port()).or_default();
                match packet.by {
                    'c' | 'p' => of.came.push(packet.clone()),
                    node => of.left.push((at(packet), node)),
                }
            }
            Line::Died { lane: of, port, alive_ms, at_ms, .. } if *of == lane.number => {
                let both = (Duration::from_millis(*alive_ms), Duration::from_millis(*at_ms));
                connections.entry(*port).or_default().died.push(both);
            }
            _ => {}
        }
    }
    connections
}

/// How many ends the node told when it forgot: what it sent then of its own.
fn told_at_cut(of: &Connection) -> usize {
    of.died
        .iter()
        .filter_map(|&(alive, gone)| {
            let came = of.came.iter().map(at).any(|came| came > alive && came <= gone);
            let told =
                |end| of.left.iter().any(|(at, to)| *to == end && *at > alive && *at <= gone);
            (!came).then(|| usize::from(told('C')) + usize::from(told('P')))
        })
        .sum()
}

fn attempt(
    id: &str,
    number: u32,
    records: &[(Duration, Record)],
    connections: &BTreeMap<u16, Connection>,
    used: &mut BTreeSet<u16>,
    rule: impl Fn(Duration) -> Duration,
) -> Option<AttemptResult> {
    let find =
        |service, event| records.iter().find(|(_, r)| (r.service, r.event) == (service, event));
    let (sent, _) = find(Service::Job, Event::Sent)?;
    let answered = find(Service::Job, Event::Received);
    let lost = find(Service::Job, Event::Lost);
    let (ended, end) = answered.or(lost)?;
    let answer = find(Service::Agent, Event::Sent);
    let failed = find(Service::Agent, Event::Failed);
    // The connection on which that answer came to the node.
    let mut connection = None;
    if let Some((at, _)) = answer {
        let near = connections.iter().filter(|(port, _)| !used.contains(*port)).filter_map(
            |(port, of)| {
                let came = first_answer(of)?;
                Some((came.abs_diff(*at), port, of)).filter(|(apart, ..)| *apart <= ANSWER_FOLLOWS)
            },
        );
        connection = near.min_by_key(|(apart, ..)| *apart).map(|(_, port, of)| (*port, of));
        used.extend(connection.map(|(port, _)| port));
    }
    let asked = connection.and_then(|(_, of)| asked(of)).unwrap_or(*sent);
    let until = connection.and_then(|(_, of)| first_answer(of)).unwrap_or(*ended);
    let seen_late = entry_seen_late("vm");
    let dead = connection.and_then(|(_, of)| {
        of.died.iter().find(|(alive, gone)| *alive <= until && *gone <= until + seen_late)
    });
    let latest = connection
        .and_then(|(_, of)| of.came.iter().map(at).take_while(|came| *came < until).last());
    let lived = dead.map(|(_, gone)| gone.saturating_sub(latest.unwrap_or(asked)));
    // The scenario starts on a border of the wheel, so the rule holds from there.
    let due = latest.filter(|_| dead.is_none()).map(|last| rule(last).saturating_sub(last));
    let probes = connection.map_or(0, |(_, of)| probes(of, until));
    let took = answer.or(failed).and_then(|(_, record)| record.took_s);
    Some(AttemptResult {
        id: id.to_owned(),
        attempt: number,
        sent_s: sent.as_secs_f64(),
        silent_s: until.saturating_sub(asked).as_secs_f64(),
        agent_took_s: took.map(|took| took.as_secs_f64()),
        entry_lived_s: lived.map(|lived| lived.as_secs_f64()),
        entry_due_s: due.map(|due| due.as_secs_f64()),
        outcome: if answered.is_some() { Outcome::Answered } else { Outcome::Lost },
        client_saw: end.client_saw.map_or("answer", client_saw),
        server_saw: if failed.is_some() && dead.is_some() { "error" } else { "nothing" },
        probes,
    })
}

fn client_saw(saw: ClientSaw) -> &'static str {
    match saw {
        ClientSaw::Answer => "answer",
        ClientSaw::OwnTimer => "own_timer",
        ClientSaw::Reset => "ECONNRESET",
        ClientSaw::Eof => "eof",
        ClientSaw::Refused => "ECONNREFUSED",
        ClientSaw::Error => "error",
    }
}

fn at(packet: &Packet) -> Duration {
    Duration::from_millis(packet.at_ms)
}

/// When the server's first data came to the node.
fn first_answer(of: &Connection) -> Option<Duration> {
    of.came.iter().find(|packet| packet.by == 'p' && packet.payload > 0).map(at)
}

/// When the last packet of the request's exchange came to the node.
fn asked(of: &Connection) -> Option<Duration> {
    let until = first_answer(of).unwrap_or(Duration::MAX);
    let before = || of.came.iter().filter(|packet| at(packet) < until);
    let request = before().rfind(|packet| packet.by == 'c' && packet.payload > 0).map(at)?;
    before().map(at).rfind(|came| *came <= request + EXCHANGE)
}

/// The client's keepalive probes in the silence: one byte before what comes next, and nothing in it
/// (`tcp_xmit_probe_skb`). Its end, a reset and what it acknowledges are none. Where the node's log lost a part of the
/// request's burst, what comes next is not known.
fn probes(of: &Connection, until: Duration) -> u32 {
    let from = asked(of).unwrap_or_default();
    let clients = || of.came.iter().filter(|packet| packet.by == 'c');
    let request = clients().rfind(|packet| packet.payload > 0 && at(packet) < until);
    let next = request
        .map(|packet| packet.seq.wrapping_add(u32::try_from(packet.payload).unwrap_or(u32::MAX)));
    let probes = clients().filter(|packet| {
        packet.flags == "."
            && packet.payload == 0
            && Some(packet.seq) != next
            && at(packet) > from + SETTLED
            && at(packet) < until
    });
    u32::try_from(probes.count()).unwrap_or(u32::MAX)
}

/// One attempt as each place saw it.
fn story(
    attempt: &AttemptResult,
    records: &[(Duration, Record)],
    result: &RunResult,
) -> LostRequest {
    let event = |at_s: f64, place, what: String, note: &str| LostEvent {
        at_s: (at_s - attempt.sent_s).max(0.0),
        place,
        what,
        note: note.to_owned(),
    };
    let mut events = Vec::new();
    let sent = attempt.sent_s;
    events.push(event(
        sent,
        "job",
        "sends the document".into(),
        "last packet that crosses the node",
    ));
    for (at, record) in records {
        let at = at.as_secs_f64();
        let took = human(record.took_s.unwrap_or_default());
        match (record.service, record.event) {
            (Service::Agent, Event::Started) => {
                let queued = record.queued_s.filter(|queued| queued.as_secs() > 0);
                let note = queued.map(|queued| format!("it had queued {}", human(queued)));
                events.push(event(at, "agent", "starts".into(), &note.unwrap_or_default()));
            }
            (Service::Agent, Event::Sent) => {
                let what = format!("answers, \"took {took}\"");
                events.push(event(at, "agent", what, "its program sees no error"));
            }
            (Service::Job, Event::Lost) => {
                let what = "its own timer ends the wait".into();
                events.push(event(at, "job", what, "log: nothing in between"));
            }
            _ => {}
        }
    }
    if let Some(lived) = attempt.entry_lived_s {
        let limit = result.path.idle_timeout_s;
        let silence = format!("{} of silence", human(Duration::from_secs_f64(limit)));
        events.push(event(sent + limit, "node", silence, ""));
        let what = format!("drops the entry, {} old", human(Duration::from_secs_f64(lived)));
        events.push(event(sent + lived, "node", what, "sends no FIN, no RST; seen in ip_vs_conn"));
        let what = "passes it on untranslated".into();
        let note = "as from the pod itself; the job's host resets it";
        events.push(event(sent + attempt.silent_s, "node", what, note));
    }
    events.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    LostRequest { id: attempt.id.clone(), attempt: attempt.attempt, events }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the client's kernel says when its program ends the wait was counted too.
    #[test]
    fn probes_are_one_byte_before_what_comes_next_and_nothing_else_is_one() {
        let (client, vip) = ("10.0.1.2:20000", "10.96.14.3:8000");
        let mut of = Connection::default();
        for (at_ms, by, flags, seq, payload) in [
            (1_000, 'c', "S", 99, 0),
            (1_001, 'c', "P.", 100, 500),
            (1_002, 'p', ".", 7, 0),
            (61_000, 'c', ".", 599, 0),
            (121_000, 'c', ".", 599, 0),
            (122_000, 'c', ".", 600, 0),
            (123_000, 'c', "F.", 600, 0),
            (124_000, 'c', "R", 600, 0),
        ] {
            let (from, to) = if by == 'c' { (client, vip) } else { (vip, client) };
            let text = format!("0 {at_ms} {by} {from} {to} {flags} {seq} 0 {payload}");
            of.came.push(Packet::try_from(text).unwrap());
        }
        assert_eq!(probes(&of, Duration::from_secs(200)), 2);
        assert_eq!(probes(&of, Duration::from_secs(100)), 1);
    }
}
