//! The incident's own logs, as the simulation writes them, in every wrapping: the lost attempts and the limit.

mod common;

use std::{collections::BTreeSet, io::Write as _, time::Duration};

use common::{both, incident, source};
use stillopen_lab::{
    result::{Outcome, RunResult},
    run::Run,
};
use stillopen_logs::{Analysis, Class, Join, Overrides, Source, analyse};

/// The slack of a 900 s timer at 250 ticks a second.
const SLACK_S: f64 = 16.4;

fn lost_of(result: &RunResult) -> BTreeSet<(String, u32)> {
    let lost = result.per_attempt.iter().filter(|a| a.outcome == Outcome::Lost);
    lost.map(|a| (a.id.clone(), a.attempt)).collect()
}

fn assert_is_the_incident(analysis: &Analysis, result: &RunResult) {
    let found: BTreeSet<_> = analysis.lost.iter().map(|l| (l.id.clone(), l.attempt)).collect();
    assert_eq!(found, lost_of(result));
    assert_eq!(analysis.counts.matched, u64::from(result.attempts));
    assert_eq!(analysis.counts.received, u64::from(result.answered));
    assert_eq!(analysis.counts.lost, u64::from(result.lost));
    assert_eq!(analysis.counts.retried, u64::from(result.retried));
    assert!((analysis.wasted.as_secs_f64() - result.wasted_s).abs() < 1.0);
    assert_eq!(analysis.class, Class::IdleLimit);
    let timer = analysis.client_timer.expect("the job has a timer");
    assert_eq!(timer.after, Duration::from_secs(3600));

    let limit = analysis.limit.expect("a limit");
    assert_eq!(limit.best, Duration::from_secs(900));
    assert_eq!(limit.contradictions(), 0);
    let (low, high) = (limit.low.as_secs_f64(), limit.high.as_secs_f64());
    assert!(low <= 900.0 && high >= 900.0, "{low} {high}");
    let silent = |outcome| {
        let of = result.per_attempt.iter().filter(move |a| a.outcome == outcome);
        of.map(|a| a.silent_s)
    };
    let longest = silent(Outcome::Answered).fold(0.0, f64::max);
    // What the table decides by: the answer's own silence, not the wait of its client.
    let shortest = analysis.shortest_lost.unwrap().high.as_secs_f64();
    assert!(high - low <= shortest - longest + SLACK_S + 0.1, "{low} {high} {longest} {shortest}");
}

fn of(client: &[Source], server: &[Source]) -> Analysis {
    analyse(client, server, &Overrides::default(), &|_| ()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn as_they_are_written() {
    for seed in [None, Some(1), Some(2), Some(3), Some(4)] {
        let Run { result, job_log, agent_log } = incident(seed);
        let analysis = both(&job_log, &agent_log);
        assert_is_the_incident(&analysis, &result);
        assert_eq!(analysis.join, Join::IdAndAttempt);
        assert_eq!(analysis.unreadable(), 0);
    }
}

#[test]
fn with_clocks_that_are_apart() {
    let Run { result, job_log, agent_log } = incident(None);
    for ahead_s in [7, -7] {
        let analysis = both(&job_log, &moved(&agent_log, ahead_s));
        assert_is_the_incident(&analysis, &result);
        let (skew, uncertainty) = analysis.skew.unwrap();
        assert!((skew - ahead_s * 1000).abs() <= 5, "{skew}");
        assert!(uncertainty <= 5);
    }
}

#[test]
fn shuffled_and_split_and_said_twice() {
    let Run { result, job_log, agent_log } = incident(None);
    let shuffled = |log: &str, part: usize| {
        let mut lines: Vec<&str> = log.lines().collect();
        // Any fixed disorder will do.
        lines.sort_by_key(|line| {
            line.bytes().rev().map(u64::from).fold(0, |a, b| (a * 31 + b) % 9973)
        });
        let half = lines.len() / 2;
        let lines = if part == 0 { &lines[..half + 3] } else { &lines[half..] };
        source(&format!("part {part}"), lines.join("\n"))
    };
    let two = |log: &str| [shuffled(log, 1), shuffled(log, 0)];
    let analysis = of(&two(&job_log), &two(&agent_log));
    assert_is_the_incident(&analysis, &result);
    assert!(analysis.counts.duplicates >= 2, "three lines of each log are in both of its parts");
}

#[test]
fn wrapped_and_compressed() {
    let Run { result, job_log, agent_log } = incident(None);
    let cri = |log: &str| {
        each_line(log, |line| {
            let (head, tail) = line.split_at(line.len() / 2);
            format!(
                "2026-03-02T12:00:00.1Z stdout P {head}\n2026-03-02T12:00:00.1Z stdout F {tail}"
            )
        })
    };
    let docker = |log: &str| {
        each_line(log, |line| {
            let line = line.replace('"', "\\\"");
            format!(
                "{{\"log\":\"{line}\\n\",\"stream\":\"stderr\",\"time\":\"2026-03-02T12:00:00Z\"}}"
            )
        })
    };
    let gzip = |log: &str| {
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        to.write_all(log.as_bytes()).unwrap();
        to.finish().unwrap()
    };
    let analysis = of(
        &[source("job.log.gz", gzip(&cri(&job_log)))],
        &[source("agent.log", docker(&agent_log))],
    );
    assert_is_the_incident(&analysis, &result);
    let prefixed = each_line(&agent_log, |line| format!("2026-03-02T12:00:00.123Z {line}"));
    assert_is_the_incident(&both(&cri(&job_log), &prefixed), &result);
}

#[test]
fn an_agent_that_does_not_say_when_a_request_came_still_gives_900_s() {
    let Run { result, job_log, agent_log } = incident(None);
    let without: Vec<&str> =
        agent_log.lines().filter(|line| !line.contains("\"received\"")).collect();
    let without = without.join("\n");
    let analysis = both(&job_log, &without);
    assert_is_the_incident(&analysis, &result);
    let silent = analysis.lost.iter().filter_map(|lost| lost.silent);
    let queued = silent.min_by_key(|silent| silent.low).unwrap();
    assert!(queued.low < Duration::from_secs(840), "{queued:?}");
    assert!(queued.high > Duration::from_secs(900), "{queued:?}");
}

/// The same log by a clock that is ahead.
fn moved(log: &str, seconds: i64) -> String {
    each_line(log, |line| {
        let (head, rest) = line.split_at("{\"ts\":\"".len());
        let (ts, rest) = rest.split_at(rest.find('"').unwrap());
        let ts: jiff::Timestamp = ts.parse().unwrap();
        let ts = ts + jiff::SignedDuration::from_secs(seconds);
        format!("{head}{ts:.3}{rest}")
    })
}

/// The log with each of its lines written anew.
fn each_line(log: &str, anew: impl Fn(&str) -> String) -> String {
    let lines: Vec<String> = log.lines().map(anew).collect();
    lines.join("\n") + "\n"
}
