//! `stillopen lab list` and `stillopen lab sweep`: what there is to run, and the table of all outcomes.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::{Context, Result};
use serde::Serialize;
use stillopen_lab::{embedded, middlebox::PROFILES, scenario::Scenario, sweep};

use crate::{
    cli::lab::{ListArgs, SweepArgs},
    output,
    report::table,
};

#[derive(Serialize)]
struct Lists {
    schema: &'static str,
    scenarios: Vec<Row>,
    profiles: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    id: &'static str,
    about: String,
}

/// Lists scenarios and profiles.
pub(crate) fn list(args: &ListArgs) -> Result<ExitCode> {
    let scenarios = embedded::SCENARIOS
        .iter()
        .map(|scenario| {
            let parsed = Scenario::parse(scenario.text);
            let about = parsed.with_context(|| format!("read scenario {}", scenario.id))?.name;
            Ok(Row { id: scenario.id, about })
        })
        .collect::<Result<_>>()?;
    let profiles = PROFILES
        .iter()
        .map(|profile| Row { id: profile.name, about: profile.about.to_owned() })
        .collect();
    let lists = Lists { schema: "stillopen.lab-list/1", scenarios, profiles };

    let mut stdout = output::stdout();
    if args.json {
        serde_json::to_writer(&mut stdout, &lists).map_err(io::Error::from)?;
        writeln!(stdout)?;
        return Ok(ExitCode::SUCCESS);
    }
    for (head, rows) in [("Scenarios", &lists.scenarios), ("Profiles", &lists.profiles)] {
        writeln!(stdout, "{head}")?;
        for row in rows {
            write!(stdout, "{}", table::wrap(&format!("  {}: {}", row.id, row.about), 6))?;
        }
    }
    writeln!(stdout, "Run one:  stillopen lab run {}", embedded::DEFAULT)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the sweep.
pub(crate) fn sweep(args: &SweepArgs) -> Result<ExitCode> {
    output::stdout().write_all(sweep::table(args.ipv6).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
