//! `stillopen findings`: what each finding means, and what cures it.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::{Result, bail};
use serde::Serialize;
use stillopen_model::Finding;

use crate::{cli::FindingsArgs, output, report::table};

#[derive(Serialize)]
struct Row {
    id: &'static str,
    title: &'static str,
    cure: &'static str,
}

/// Lists them all, or explains one.
pub(crate) fn run(args: &FindingsArgs) -> Result<ExitCode> {
    let wanted = |finding: &Finding| args.id.as_ref().is_none_or(|id| finding.id() == id);
    let rows: Vec<Row> = Finding::all()
        .filter(wanted)
        .map(|finding| Row { id: finding.id(), title: finding.title(), cure: finding.cure() })
        .collect();
    if rows.is_empty() {
        let id = args.id.as_deref().unwrap_or_default();
        bail!("{id:?} is not the id of a finding; stillopen findings lists them");
    }
    let mut stdout = output::stdout();
    if args.json {
        serde_json::to_writer(&mut stdout, &rows).map_err(io::Error::from)?;
        writeln!(stdout)?;
        return Ok(ExitCode::SUCCESS);
    }
    for row in rows {
        write!(
            stdout,
            "{}\n{}{}",
            row.id,
            table::wrap(&format!("    {}.", row.title), 4),
            table::wrap(&format!("    Cure: {}.", row.cure), 4)
        )?;
    }
    Ok(ExitCode::SUCCESS)
}
