//! `stillopen limits`: what is configured for this host, or what known components do by default.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::{Result, bail};
use serde::Serialize;
use stillopen_model::{Catalogue, Kind, RefreshedBy, Row};

use crate::{
    cli::LimitsArgs,
    config,
    report::{
        table::{self, Column, Shrink},
        text, words,
    },
};

const SCHEMA: &str = "stillopen.limits/1";

#[derive(Serialize)]
struct Document<T> {
    schema: &'static str,
    limits: T,
}

/// Prints the limits; a search of the catalogue that finds nothing is an error.
pub(crate) fn run(args: &LimitsArgs) -> Result<ExitCode> {
    match &args.catalogue {
        Some(wanted) => print_catalogue(wanted, args.json)?,
        None => print_configured(args.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print_configured(json: bool) -> Result<()> {
    let config::Configured { limits, gaps } = config::read()?;
    if json {
        return print_json(&limits);
    }
    let mut stdout = io::stdout().lock();
    if limits.is_empty() {
        writeln!(stdout, "No idle limit is configured for this host. Looked for:")?;
        for place in config::places() {
            writeln!(stdout, "  {}", place.display())?;
        }
        for gap in &gaps {
            write!(
                stdout,
                "{}",
                table::wrap(&format!("Not seen: {} ({}).", gap.reason, gap.how), 2)
            )?;
        }
        writeln!(stdout, "Those of known components:  stillopen limits --catalogue")?;
        return Ok(());
    }
    for limit in &limits {
        write!(stdout, "{}", table::wrap(&text::describe(limit), 2))?;
    }
    writeln!(stdout, "Diagnose with them:  stillopen check")?;
    Ok(())
}

fn print_catalogue(wanted: &str, json: bool) -> Result<()> {
    let rows: Vec<&Row> = Catalogue::builtin().search(wanted).collect();
    if rows.is_empty() {
        bail!(
            "nothing in the catalogue matches {wanted:?}; stillopen limits --catalogue lists all"
        );
    }
    if json {
        return print_json(&rows);
    }
    let columns = [
        Column { head: "ID", shrink: Shrink::Never, right: false },
        Column { head: "FORGETS AFTER", shrink: Shrink::Never, right: true },
        Column { head: "REFRESHED BY", shrink: Shrink::Never, right: false },
        Column { head: "COMPONENT", shrink: Shrink::To(16), right: false },
    ];
    let cells: Vec<Vec<String>> = rows.iter().map(|row| cells(row)).collect();
    let mut stdout = io::stdout().lock();
    write!(stdout, "{}", table::lay_out(&columns, &cells))?;
    writeln!(
        stdout,
        "\nDefaults, as of their dates: a value that was measured or read on your network"
    )?;
    writeln!(stdout, "beats them. Sources and what happens at expiry: --json, or docs/limits.md.")?;
    let usable = || rows.iter().filter(|row| row.to_limit().is_ok());
    let named = || usable().find(|row| !wanted.is_empty() && row.id.contains(wanted));
    if let Some(row) = named().or_else(|| usable().next()) {
        writeln!(stdout, "Diagnose with one:  stillopen check --limit {}", row.id)?;
    }
    Ok(())
}

fn cells(row: &Row) -> Vec<String> {
    let value = match (row.kind, row.idle_timeout) {
        (Kind::Idle, Some(time)) => words::limit_time(time),
        _ => "-".into(),
    };
    let refreshed_by = match (row.kind, row.refreshed_by) {
        (Kind::Idle, Some(RefreshedBy::AnyPacket)) => "any packet",
        (Kind::Idle, Some(RefreshedBy::PayloadOnly)) => "payload only",
        (Kind::Idle, Some(RefreshedBy::Disputed)) => "disputed",
        (Kind::Idle, None) => "not known",
        (Kind::HalfClosed, _) => "(half-closed)",
        (Kind::DurationCap, _) => "(duration cap)",
        (Kind::ProgramTimer, _) => "(program)",
        (Kind::Keepalive, _) => "(keepalive)",
        (Kind::Setting, _) => "(no idle timer)",
    };
    vec![row.id.clone(), value, refreshed_by.into(), row.component.clone()]
}

fn print_json<T: Serialize>(limits: T) -> Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, &Document { schema: SCHEMA, limits })
        .map_err(io::Error::from)?;
    writeln!(stdout)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configured_limit_is_described_in_a_line() {
        let limit = &Catalogue::builtin().find("aws-nat-gateway").unwrap().to_limit().unwrap();
        assert!(text::describe(limit).starts_with("aws-nat-gateway, 350s for every peer; "));
    }
}
