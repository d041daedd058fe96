//! `rescue --close-dead`: each connection is named first, then ended.

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::{Context, Result};
use serde::Serialize;
use stillopen_collect::{Collected, Handle};
use stillopen_model::{Connection, Diagnosis, Snapshot, Verdict};
use stillopen_remedy::{Closed, Refusal, Rescuer, batch_size, confirm, end, is_dead};

use super::{
    super::host::{asked_for, left_out},
    json::{Document, Place, SCHEMA, json_text},
    repeated,
    text::{ROWS_SHOWN, name_a_limit, not_seen, probe_meets, refused, said_of_each},
};
use crate::{
    cli::rescue::RescueArgs,
    clock, output,
    report::{last_line, table::wrap, words},
};

struct Dead {
    index: u32,
    handle: Option<Handle>,
    /// `None`: not tried.
    done: Option<Result<Closed, Refusal>>,
}

#[derive(Serialize)]
struct DeadRow<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    verdict: &'static str,
    because: String,
    done: bool,
    how: Option<&'static str>,
    error: Option<String>,
}

/// Status 0: all that are dead were ended, or would be; 1: one could not be.
pub(super) fn run(
    args: &RescueArgs,
    collected: &Collected,
    diagnoses: &[Diagnosis],
) -> Result<ExitCode> {
    let snapshot = &collected.snapshot;
    let mut dead: Vec<Dead> = asked_for(&args.select, collected, diagnoses)
        .filter(|(index, d)| is_dead(snapshot, &snapshot.connections[*index as usize], d))
        .map(|(index, _)| Dead { index, handle: collected.handle(index as usize), done: None })
        .collect();
    let mut said = Ok(());
    if !args.json {
        said = output::say(&named(args, collected, diagnoses, &dead));
    }
    if args.apply {
        // Who named them may be gone by now; what was asked for is done all the same.
        end_all(collected, &mut dead)?;
    }
    if args.json {
        let document = Document {
            schema: SCHEMA,
            taken_at: &snapshot.taken_at,
            action: "close",
            applied: args.apply,
            connections: dead.iter().map(|one| row(collected, diagnoses, one)).collect(),
            gaps: &snapshot.gaps,
        };
        said = output::say(&json_text(&document)?);
    } else if args.apply && !dead.is_empty() {
        said = said.and_then(|()| output::say(&outcome(collected, &dead)));
    }
    let refused = dead.iter().any(|one| matches!(one.done, Some(Err(_))));
    output::said(said, ExitCode::from(u8::from(refused)))
}

/// Asks each a last time, and ends those that are silent.
fn end_all(collected: &Collected, dead: &mut [Dead]) -> Result<()> {
    let mut rescuer = Rescuer::default();
    let bar = clock::bar(dead.len(), "Ending");
    for batch in dead.chunks_mut(batch_size()) {
        let mut asked: Vec<(&mut Dead, Handle)> = Vec::new();
        let mut sockets = Vec::new();
        for one in batch {
            let had = one.handle.ok_or(Refusal::NoOwner);
            match had.and_then(|handle| Ok((handle, rescuer.socket(handle)?))) {
                Ok((handle, socket)) => {
                    sockets.push(socket);
                    asked.push((one, handle));
                }
                Err(Refusal::Gone { .. }) => one.done = Some(Ok(Closed::ByItsProgram)),
                Err(refusal) => {
                    one.done = Some(Err(Refusal::Unconfirmed(Box::new(refusal))));
                }
            }
        }
        let confirmed = confirm(sockets).context("ask connections a last time")?;
        for ((one, handle), confirmed) in asked.into_iter().zip(confirmed) {
            bar.inc(1);
            one.done = Some(match confirmed {
                Ok(Some(closed)) => Ok(closed),
                Ok(None) => end_one(collected, one.index, handle, &mut rescuer),
                Err(refusal) => Err(refusal),
            });
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// No copy of it is kept while others are asked or ended.
fn end_one(
    collected: &Collected,
    index: u32,
    handle: Handle,
    rescuer: &mut Rescuer,
) -> Result<Closed, Refusal> {
    let c = &collected.snapshot.connections[index as usize];
    let socket = match rescuer.socket(handle) {
        Err(Refusal::Gone { .. }) => return Ok(Closed::ByItsProgram),
        had => had?,
    };
    let end = || end(c.local, c.peer, handle.cookie, socket);
    let ended = collected.in_namespace(c.netns, end);
    ended.unwrap_or_else(|cause| Err(Refusal::Kernel(cause.to_string())))
}

/// How it is known.
fn because(snapshot: &Snapshot, c: &Connection, d: &Diagnosis) -> String {
    match d.verdict {
        Verdict::Cut { .. } => words::because(snapshot, c, d),
        _ => words::unanswered(c),
    }
}

fn row<'a>(collected: &'a Collected, diagnoses: &[Diagnosis], one: &Dead) -> DeadRow<'a> {
    let snapshot = &collected.snapshot;
    let c = &snapshot.connections[one.index as usize];
    let d = &diagnoses[one.index as usize];
    let (how, error) = match &one.done {
        Some(Ok(Closed::Destroyed)) => (Some("destroyed"), None),
        Some(Ok(Closed::Probed)) => (Some("probed"), None),
        Some(Ok(Closed::ByItsProgram)) => (Some("closed"), None),
        Some(Err(refusal)) => (None, Some(refusal.to_string())),
        None => (None, None),
    };
    DeadRow {
        place: Place::of(snapshot, c, one.handle),
        verdict: d.verdict.name(),
        because: because(snapshot, c, d),
        done: how.is_some(),
        how,
        error,
    }
}

/// Which they are and how that is known; without `--apply` also how to end them.
fn named(
    args: &RescueArgs,
    collected: &Collected,
    diagnoses: &[Diagnosis],
    dead: &[Dead],
) -> String {
    if dead.is_empty() {
        return none(args, collected, diagnoses);
    }
    let snapshot = &collected.snapshot;
    let n = words::plural(dead.len(), "connection");
    let told = if dead.len() == 1 {
        "Its program gets an error at once and may send its request again"
    } else {
        "Their programs get an error at once and may send their requests again"
    };
    let headline = if args.apply {
        format!("Ending {n}; this cannot be undone:")
    } else {
        format!(
            "{n} would be asked a last time and, without an answer, ended, which cannot be undone. {told}. \
             Nothing was changed."
        )
    };
    let mut out = wrap(&headline, 0);
    out.push('\n');
    out.push_str(&table(snapshot, diagnoses, dead));
    out.push('\n');
    reasons(snapshot, diagnoses, dead, &mut out);
    out.push_str(&not_seen(snapshot));
    if !args.apply {
        let command = format!("stillopen rescue{} --close-dead --apply", repeated(args));
        out.push_str(&last_line("End them:", &command));
    }
    out
}

fn none(args: &RescueArgs, collected: &Collected, diagnoses: &[Diagnosis]) -> String {
    let mut out = "No dead connection was found; nothing was changed.\n".to_owned();
    if asked_for(&args.select, collected, diagnoses).next().is_none() {
        out.push_str(&left_out(&args.select, collected, diagnoses).lines());
    } else if collected.snapshot.limits.is_empty() {
        out.push_str(&wrap("No idle limit is known here, so nothing is called cut.", 0));
        out.push_str(&name_a_limit(&repeated(args), "--close-dead"));
    }
    // What can't be seen may be dead.
    out.push_str(&not_seen(&collected.snapshot));
    out
}

fn table(snapshot: &Snapshot, diagnoses: &[Diagnosis], dead: &[Dead]) -> String {
    let rows = dead.iter().take(ROWS_SHOWN).map(|one| {
        let c = &snapshot.connections[one.index as usize];
        (c, why(snapshot, c, &diagnoses[one.index as usize]))
    });
    let mut out = said_of_each(snapshot, "WHY", rows);
    if dead.len() > ROWS_SHOWN {
        let more = words::count(dead.len() - ROWS_SHOWN);
        out.push_str(&wrap(&format!("  … {more} more (--json lists them)."), 4));
    }
    out
}

/// How it is known, in a cell.
fn why(snapshot: &Snapshot, c: &Connection, d: &Diagnosis) -> String {
    match d.verdict {
        Verdict::Cut { .. } => words::verdict(snapshot, c, d),
        _ => "NO ANSWER".into(),
    }
}

/// The evidence of the first of each kind, and what the last question would meet.
fn reasons(snapshot: &Snapshot, diagnoses: &[Diagnosis], dead: &[Dead], out: &mut String) {
    let mut kinds: BTreeMap<(String, Option<u32>), (String, usize)> = BTreeMap::new();
    let mut meets: BTreeMap<&str, usize> = BTreeMap::new();
    for one in dead {
        let c = &snapshot.connections[one.index as usize];
        let d = &diagnoses[one.index as usize];
        let first = || format!("{}: {}", words::named(snapshot, c), because(snapshot, c, d));
        kinds.entry((why(snapshot, c, d), d.limit)).or_insert_with(|| (first(), 0)).1 += 1;
        if let Verdict::Cut { .. } = d.verdict {
            *meets.entry(probe_meets(words::limit(snapshot, d), c)).or_default() += 1;
        }
    }
    for ((why, _), (first, n)) in kinds {
        let others = match n - 1 {
            0 => String::new(),
            others => format!(" (and {} more for the same reason)", words::count(others)),
        };
        out.push_str(&wrap(&format!("Why {why}: {first}{others}."), 4));
    }
    for (meets, n) in meets {
        let n = words::plural(n, "cut connection");
        out.push_str(&wrap(&format!("The last question, for {n}: {meets}."), 4));
    }
}

fn outcome(collected: &Collected, dead: &[Dead]) -> String {
    let snapshot = &collected.snapshot;
    let count = |wanted: fn(&Closed) -> bool| {
        dead.iter().filter(|one| matches!(&one.done, Some(Ok(it)) if wanted(it))).count()
    };
    let ended = count(|it| matches!(it, Closed::Destroyed | Closed::Probed));
    let closed = match count(|it| matches!(it, Closed::ByItsProgram)) {
        0 => String::new(),
        n => format!("; {} closed by its program meanwhile", words::count(n)),
    };
    let (ended, of) = (words::count(ended), words::count(dead.len()));
    let mut out = format!("Ended {ended} of {of}{closed}.\n");
    for one in dead {
        if let Some(Err(refusal)) = &one.done {
            let c = &snapshot.connections[one.index as usize];
            out.push_str(&refused(snapshot, c, refusal));
        }
    }
    out
}
