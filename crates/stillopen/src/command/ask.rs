//! `stillopen ask`: is it still open?

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::{Context, Result};
use serde::Serialize;
use stillopen_collect::{Collected, Handle};
use stillopen_model::{Diagnosis, diagnose};
use stillopen_remedy::{Answer, Held, Refusal, Rescuer, Stakes, ask, batch_size};

use super::{
    host::{self, Look},
    rescue::{Place, json_text, refused, said_of_each},
};
use crate::{
    cli::rescue::AskArgs,
    clock, output,
    paste::Options,
    report::{LeftOut, last_line, table::wrap, words},
};

const SCHEMA: &str = "stillopen.ask/1";

const WARNING: &str = "Warning: on a path that has forgotten a connection, a probe may draw a reset, which \
                       ends it. Its program gets an error then.";

/// What `docs/verdicts.md` says at more length.
const COUNTED: &str =
    "These probes stay counted like the peer's own: check may say unknown where it said cut.";

struct Row {
    index: usize,
    handle: Option<Handle>,
    /// `None`: not asked.
    answer: Option<Answer>,
}

/// Status 0: all that were asked answer; 1: one does not, or could not be asked.
pub(crate) fn run(args: &AskArgs) -> Result<ExitCode> {
    let look = Look {
        select: &args.select,
        limits: &[],
        owners: true,
        iterators_from: None,
        sample: None,
        only_holder: true,
    };
    let collected = host::read(&look)?;
    let diagnoses = diagnose(&collected.snapshot);
    let mut rows = asked_for(args, &collected, &diagnoses);
    if !args.json && !rows.is_empty() {
        // Standard error may be closed; the answers are what was asked for.
        let _ = write!(io::stderr(), "{}", wrap(WARNING, 4));
    }
    if args.apply {
        ask_all(&mut rows)?;
    }
    let fails = |row: &Row| {
        matches!(row.answer, Some(Answer::NoAnswer { .. } | Answer::Reset | Answer::Refused(_)))
    };
    let status = ExitCode::from(u8::from(rows.iter().any(fails)));
    let text = if args.json {
        let snapshot = &collected.snapshot;
        json_text(&Document {
            schema: SCHEMA,
            taken_at: &snapshot.taken_at,
            applied: args.apply,
            connections: rows.iter().map(|row| json(&collected, row)).collect(),
            gaps: &snapshot.gaps,
        })?
    } else if rows.is_empty() {
        nothing_asked(host::left_out(&args.select, &collected, &diagnoses))
    } else {
        text(args, &collected, &rows)
    };
    output::said(output::say(&text), status)
}

fn nothing_asked(left_out: LeftOut) -> String {
    let headline = "No connection that leaves this host matches; nothing was sent.";
    wrap(headline, 0) + &left_out.lines()
}

fn asked_for(args: &AskArgs, collected: &Collected, diagnoses: &[Diagnosis]) -> Vec<Row> {
    host::asked_for(&args.select, collected, diagnoses)
        .map(|(index, _)| index as usize)
        .map(|index| Row { index, handle: collected.handle(index), answer: None })
        .collect()
}

fn ask_all(rows: &mut [Row]) -> Result<()> {
    let mut rescuer = Rescuer::default();
    let bar = clock::bar(rows.len(), "Asking");
    for batch in rows.chunks_mut(batch_size()) {
        let mut sockets: Vec<Held> = Vec::new();
        let mut asked = Vec::new();
        for row in batch.iter_mut() {
            let handle = row.handle.ok_or(Refusal::NoOwner);
            match handle.and_then(|handle| rescuer.socket(handle)) {
                Ok(socket) => {
                    sockets.push(socket);
                    asked.push(row);
                }
                Err(Refusal::Gone { .. }) => row.answer = Some(Answer::Closed),
                Err(refusal) => row.answer = Some(Answer::Refused(refusal)),
            }
        }
        let n = asked.len();
        let answers =
            ask(sockets, Stakes::Harmless).context("ask connections with a keepalive probe")?;
        for (row, answer) in asked.into_iter().zip(answers) {
            row.answer = Some(answer);
        }
        bar.inc(n as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    taken_at: &'a str,
    applied: bool,
    connections: Vec<AskedRow<'a>>,
    gaps: &'a [stillopen_model::Gap],
}

#[derive(Serialize)]
struct AskedRow<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    quiet_s: Option<f64>,
    answer: Option<&'static str>,
    probes: Option<u32>,
    error: Option<String>,
}

fn json<'a>(collected: &'a Collected, row: &Row) -> AskedRow<'a> {
    let snapshot = &collected.snapshot;
    let c = &snapshot.connections[row.index];
    let probes = match row.answer {
        Some(Answer::Answers { probes } | Answer::NoAnswer { probes }) => Some(probes),
        _ => None,
    };
    let error = match &row.answer {
        Some(Answer::Refused(refusal)) => Some(refusal.to_string()),
        _ => None,
    };
    AskedRow {
        place: Place::of(snapshot, c, row.handle),
        quiet_s: c.quiet().map(|quiet| quiet.as_secs_f64()),
        answer: row.answer.as_ref().map(name),
        probes,
        error,
    }
}

fn name(answer: &Answer) -> &'static str {
    match answer {
        Answer::Answers { .. } => "answers",
        Answer::NoAnswer { .. } => "no_answer",
        Answer::Reset => "reset",
        Answer::Closed => "closed",
        Answer::InFlight => "in_flight",
        Answer::NotEstablished => "not_established",
        Answer::OwnKeepalive => "own_keepalive",
        Answer::Refused(_) => "refused",
    }
}

fn cell(answer: Option<&Answer>) -> String {
    match answer {
        None => "not asked".into(),
        Some(Answer::Answers { probes: 0 }) => "answers: a packet came just now".into(),
        Some(Answer::Answers { probes: 1 }) => "answers".into(),
        Some(Answer::Answers { probes }) => format!("answers, to probe {probes}"),
        Some(Answer::NoAnswer { probes: 1 }) => "NO ANSWER to 1 probe".into(),
        Some(Answer::NoAnswer { probes }) => format!("NO ANSWER to {probes} probes"),
        Some(Answer::Reset) => "RESET: it has ended".into(),
        Some(Answer::Closed) => "its program closed it".into(),
        Some(Answer::InFlight) => "left alone: data in flight".into(),
        Some(Answer::OwnKeepalive) => "left alone: its keepalive asks".into(),
        Some(Answer::NotEstablished) => "left alone: not established".into(),
        Some(Answer::Refused(_)) => "REFUSED".into(),
    }
}

fn text(args: &AskArgs, collected: &Collected, rows: &[Row]) -> String {
    let snapshot = &collected.snapshot;
    let n = words::plural(rows.len(), "connection");
    let count = |wanted: fn(&Answer) -> bool| {
        rows.iter().filter(|row| row.answer.as_ref().is_some_and(wanted)).count()
    };
    let headline = if args.apply {
        let answer = count(|answer| matches!(answer, Answer::Answers { .. }));
        format!(
            "{} of {n} {}.",
            words::count(answer),
            if answer == 1 || rows.len() == 1 { "answers" } else { "answer" }
        )
    } else {
        format!("{n} would be asked. Nothing was sent.")
    };
    let mut out = wrap(&headline, 0);
    let cells =
        rows.iter().map(|row| (&snapshot.connections[row.index], cell(row.answer.as_ref())));
    out.push('\n');
    out.push_str(&said_of_each(snapshot, "ANSWER", cells));
    for row in rows {
        if let Some(Answer::Refused(refusal)) = &row.answer {
            out.push_str(&refused(snapshot, &snapshot.connections[row.index], refusal));
        }
    }
    next(args, rows, &mut out);
    out
}

/// What to know afterwards, and what can be done next.
fn next(args: &AskArgs, rows: &[Row], out: &mut String) {
    let mut options = Options::default();
    args.select.repeat(&mut options);
    if !args.apply {
        let command = format!("stillopen ask{options} --apply");
        out.push_str(&last_line("Ask them:", &command));
        return;
    }
    let probed = |row: &Row| matches!(&row.answer, Some(Answer::Answers { probes: 1.. }));
    if rows.iter().any(probed) {
        out.push_str(&wrap(COUNTED, 4));
    }
    if rows.iter().any(|row| matches!(row.answer, Some(Answer::NoAnswer { .. }))) {
        let command = format!("stillopen rescue{options} --close-dead");
        out.push_str(&last_line("End what does not answer:", &command));
    }
}
