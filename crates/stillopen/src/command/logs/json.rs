//! `--json`: schema `stillopen.logs/1`, documented in docs/json.md.

use std::{
    io::{self, Write},
    time::Duration,
};

use serde::Serialize;
use stillopen_logs::{Analysis, Between, Class, Join, Side, Timer, candidates, stamp};

const SCHEMA: &str = "stillopen.logs/1";

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    class: Class,
    matched: u64,
    sent: u64,
    received: u64,
    lost: u64,
    too_late: u64,
    unseen: u64,
    no_answer: u64,
    open: u64,
    answered_by_other: u64,
    client_only: u64,
    server_only: u64,
    duplicates: u64,
    retried: u64,
    wasted_s: f64,
    lost_requests: Vec<Lost<'a>>,
    limit: Option<Limit>,
    longest_received_s: Option<Interval>,
    shortest_lost_s: Option<Interval>,
    client_timer_s: Option<f64>,
    cap_s: Option<f64>,
    candidates: Vec<&'static str>,
    skew_s: Option<f64>,
    skew_uncertainty_s: Option<f64>,
    join: Join,
    one_sided: Option<OneSided>,
    histogram: Vec<Bin>,
    unreadable: u64,
    logs: Vec<Log<'a>>,
}

#[derive(Serialize)]
struct Lost<'a> {
    id: &'a str,
    attempt: u32,
    sent_at: String,
    silent_s: Option<f64>,
    silent_at_least_s: Option<f64>,
    server_took_s: Option<f64>,
    too_late: bool,
}

#[derive(Serialize)]
struct Limit {
    low_s: f64,
    best_s: f64,
    high_s: f64,
    contradictions: u64,
    lost_below: u64,
    received_above: u64,
    slack_s: f64,
    slack_worst_s: f64,
}

#[derive(Serialize)]
struct Interval {
    low: f64,
    high: f64,
}

#[derive(Serialize)]
struct OneSided {
    side: Side,
    attempts: u64,
    answered: u64,
    never_ended: u64,
    longest_answered_s: Option<f64>,
    repeated: u64,
    repeated_after_s: Option<f64>,
    ended_after_s: Option<f64>,
}

#[derive(Serialize)]
struct Bin {
    from_s: f64,
    to_s: f64,
    received: u64,
    lost: u64,
}

#[derive(Serialize)]
struct Log<'a> {
    name: &'a str,
    side: Side,
    layout: &'a str,
    lines: u64,
    events: u64,
    unreadable: u64,
    first_unreadable: Vec<BadLine<'a>>,
    cut_off: Option<&'a str>,
}

#[derive(Serialize)]
struct BadLine<'a> {
    line: u64,
    text: &'a str,
}

pub(super) fn write(analysis: &Analysis, to: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *to, &document(analysis)).map_err(io::Error::from)?;
    writeln!(to)
}

fn document(analysis: &Analysis) -> Document<'_> {
    let counts = &analysis.counts;
    Document {
        schema: SCHEMA,
        class: analysis.class,
        matched: counts.matched,
        sent: counts.sent,
        received: counts.received,
        lost: counts.lost,
        too_late: counts.too_late,
        unseen: counts.unseen,
        no_answer: counts.no_answer,
        open: counts.open,
        answered_by_other: counts.answered_by_other,
        client_only: counts.client_only,
        server_only: counts.server_only,
        duplicates: counts.duplicates,
        retried: counts.retried,
        wasted_s: s(analysis.wasted),
        lost_requests: analysis.lost.iter().map(lost).collect(),
        limit: analysis.limit.as_ref().map(limit),
        longest_received_s: analysis.longest_received.map(interval),
        shortest_lost_s: analysis.shortest_lost.map(interval),
        client_timer_s: analysis.client_timer.map(after),
        cap_s: analysis.cap.map(after),
        candidates: candidates(analysis).iter().map(|row| row.id.as_str()).collect(),
        skew_s: analysis.skew.map(|(ahead, _)| ms(ahead)),
        skew_uncertainty_s: analysis.skew.map(|(_, uncertainty)| ms(uncertainty)),
        join: analysis.join,
        one_sided: analysis.one_sided.as_ref().map(one_sided),
        histogram: analysis.histogram.iter().map(bin).collect(),
        unreadable: analysis.unreadable(),
        logs: analysis.logs.iter().map(log).collect(),
    }
}

fn lost(lost: &stillopen_logs::LostRequest) -> Lost<'_> {
    Lost {
        id: &lost.id,
        attempt: lost.attempt,
        sent_at: stamp(lost.sent_at),
        silent_s: lost.silent.map(|silent| s(silent.high)),
        silent_at_least_s: lost.silent.map(|silent| s(silent.low)),
        server_took_s: lost.server_took.map(s),
        too_late: lost.too_late,
    }
}

fn limit(limit: &stillopen_logs::Limit) -> Limit {
    Limit {
        low_s: s(limit.low),
        best_s: s(limit.best),
        high_s: s(limit.high),
        contradictions: limit.contradictions(),
        lost_below: limit.lost_below,
        received_above: limit.arrived_above,
        slack_s: s(limit.slack),
        slack_worst_s: s(limit.slack_worst),
    }
}

fn one_sided(one: &stillopen_logs::OneSided) -> OneSided {
    OneSided {
        side: one.side,
        attempts: one.attempts,
        answered: one.answered,
        never_ended: one.never_ended,
        longest_answered_s: one.longest_answered.map(s),
        repeated: one.repeated,
        repeated_after_s: one.repeated_after.map(after),
        ended_after_s: one.ended_after.map(after),
    }
}

fn bin(bin: &stillopen_logs::Bin) -> Bin {
    Bin { from_s: s(bin.from), to_s: s(bin.to), received: bin.received, lost: bin.lost }
}

fn log(log: &stillopen_logs::LogRead) -> Log<'_> {
    let bad = log.first_unreadable.iter();
    Log {
        name: &log.name,
        side: log.side,
        layout: &log.layout,
        lines: log.lines,
        events: log.events,
        unreadable: log.unreadable,
        first_unreadable: bad.map(|bad| BadLine { line: bad.line, text: &bad.text }).collect(),
        cut_off: log.cut_off.as_deref(),
    }
}

fn interval(between: Between) -> Interval {
    Interval { low: s(between.low), high: s(between.high) }
}

fn after(timer: Timer) -> f64 {
    s(timer.after)
}

fn s(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "a difference of clocks is far below 2^53 ms")]
fn ms(millis: i64) -> f64 {
    millis as f64 / 1000.0
}
