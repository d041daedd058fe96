//! `rescue --undo`: puts back what `--save-undo` kept.

use std::{fs::File, io::Read as _, net::SocketAddr, path::Path, process::ExitCode};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use stillopen_remedy::{Rescuer, Undo, UndoRow, Undone};

use super::json::{Document, Options, SCHEMA, json_text};
use crate::{
    cli::rescue::RescueArgs,
    clock,
    input::quoted,
    output,
    report::{last_line, table::wrap, words},
};

/// More than the undo file of a million connections.
const LARGEST: u64 = 1 << 30;

#[derive(Serialize)]
struct Row {
    pid: u32,
    fd: u32,
    local: SocketAddr,
    peer: SocketAddr,
    after: Options,
    done: bool,
    gone: bool,
    error: Option<String>,
}

/// Status 0: all that still are there were restored; 1: one could not be.
pub(super) fn run(file: &Path, args: &RescueArgs) -> Result<ExitCode> {
    let undo = load(file).with_context(|| format!("read undo file {}", file.display()))?;
    let mut rescuer = Rescuer::default();
    let mut put_back = |row: &UndoRow| args.apply.then(|| row.put_back(&mut rescuer));
    let undone: Vec<(UndoRow, Option<Undone>)> =
        undo.sockets.iter().map(|row| (*row, put_back(row))).collect();
    let refused = undone.iter().any(|(_, undone)| matches!(undone, Some(Undone::Refused(_))));
    let status = ExitCode::from(u8::from(refused));
    let text = if args.json {
        json_text(&Document {
            schema: SCHEMA,
            taken_at: &clock::now(),
            action: "undo",
            applied: args.apply,
            connections: undone.iter().map(|(row, undone)| json(row, undone.as_ref())).collect(),
            gaps: &[],
        })?
    } else {
        text(file, &undone, args.apply)
    };
    output::said(output::say(&text), status)
}

fn load(path: &Path) -> Result<Undo> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == LARGEST {
        bail!("it is larger than {LARGEST} bytes");
    }
    Ok(Undo::from_json(&bytes)?)
}

fn json(row: &UndoRow, undone: Option<&Undone>) -> Row {
    Row {
        pid: row.handle.pid,
        fd: row.handle.fd,
        local: row.local,
        peer: row.peer,
        after: row.before.into(),
        done: matches!(undone, Some(Undone::Restored)),
        gone: matches!(undone, Some(Undone::Gone)),
        error: match undone {
            Some(Undone::Refused(refusal)) => Some(refusal.to_string()),
            _ => None,
        },
    }
}

fn text(file: &Path, undone: &[(UndoRow, Option<Undone>)], applied: bool) -> String {
    let of = words::plural(undone.len(), "connection");
    if !applied {
        let mut out = format!("What {of} had before would be put back. Nothing was changed.\n");
        let file = quoted(&file.to_string_lossy());
        let command = format!("stillopen rescue --undo {file} --apply");
        out.push_str(&last_line("Do it:", &command));
        return out;
    }
    let count = |wanted: fn(&Undone) -> bool| {
        undone.iter().filter(|(_, undone)| undone.as_ref().is_some_and(wanted)).count()
    };
    let restored = count(|undone| matches!(undone, Undone::Restored));
    let gone = count(|undone| matches!(undone, Undone::Gone));
    let mut out = format!(
        "Put back what {} of {of} had before; {} gone meanwhile.\n",
        words::count(restored),
        words::count(gone)
    );
    for (row, undone) in undone {
        if let Some(Undone::Refused(refusal)) = undone {
            let line = format!("Refused: port {} -> {}: {refusal}.", row.local.port(), row.peer);
            out.push_str(&wrap(&line, 4));
        }
    }
    out
}
