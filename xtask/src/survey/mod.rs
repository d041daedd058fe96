//! `cargo xtask survey`: which HTTP clients get an answer that takes longer than the path remembers.
//!
//! Each client asks through `stillopen lab exec --driver vm`, so behind a stock kernel's own IPVS at its own
//! timeout: out of the box, with its own timer raised, and with the setting of `stillopen advise --client`. What it
//! saw is written to a data file, which `cargo xtask docs` makes a table of.
//!
//! Read first: `clients.rs`, then `runner.py`, which starts them in the guest.

mod clients;
mod made;
pub(crate) mod table;

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use self::{
    clients::CLIENTS,
    made::Made,
    table::{Outcome, Row, Survey},
};
use crate::{
    sh,
    tools::{self, CURL, JAVAC, PYTHON, QEMU, VENV},
};

/// The data file.
pub(crate) const FILE: &str = "docs/clients-survey.json";
/// When the server answers, in seconds.
const ANSWER_AFTER: u32 = 1000;
/// When a client that still waits is ended: after the hour that the settings give.
const PATIENCE: u32 = 3900;

/// One run of one client, for the runner.
#[derive(Debug, Serialize)]
struct Run {
    client: &'static str,
    mode: Mode,
    words: Vec<String>,
    folder: String,
}

/// How a client is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// As it comes.
    Default,
    /// With its own timer raised to an hour.
    Patient,
    /// With the setting that is advised, timer included.
    Setting,
}

/// What the runner writes of each run.
#[derive(Debug, Deserialize)]
struct Ran {
    client: String,
    mode: Mode,
    after_s: f64,
    /// `None`: it was ended.
    status: Option<i32>,
    /// The last line of its standard error.
    saw: String,
}

/// The part of `lab exec --summary` that is kept.
#[derive(Debug, Deserialize)]
struct Summary {
    path: PathOf,
}

#[derive(Debug, Deserialize)]
struct PathOf {
    idle_timeout_s: f64,
}

/// Runs all of them and writes the data file.
pub(crate) fn run() -> Result<()> {
    tools::require(&[QEMU, CURL, JAVAC, PYTHON, VENV])?;
    sh::run(sh::cargo().args(["build", "--package", "stillopen", "--locked"]))?;
    let target = sh::target_dir()?;
    let stillopen = target.join("debug/stillopen");
    let kernel = sh::output(Command::new(&stillopen).args(["lab", "vm", "prepare"]))?;
    let kernel = kernel.split_whitespace().next().unwrap_or_default().to_owned();
    let made = Made::below(&target.join("survey"))?;

    let mut runs = Vec::new();
    for client in &CLIENTS {
        for (mode, words) in client.commands(&made)? {
            let folder = made.node_modules.to_string_lossy().into_owned();
            runs.push(Run { client: client.name, mode, words, folder });
        }
    }
    let [plan, runner, summary] =
        ["plan.json", "runner.py", "summary.json"].map(|name| made.folder.join(name));
    fs::write(&plan, serde_json::to_vec(&runs)?).context("write the plan")?;
    fs::write(&runner, include_str!("runner.py")).context("write the runner")?;

    let mut exec = Command::new(&stillopen);
    exec.args(["lab", "exec", "--driver", "vm", "--for", "1d"])
        .args(["--answer-after", &format!("{ANSWER_AFTER}s")])
        .arg("--summary")
        .arg(&summary);
    for path in made.programs() {
        exec.arg("--include").arg(path);
    }
    exec.arg("--").arg(&made.python).args([&runner, &plan]).arg(PATIENCE.to_string());
    eprintln!("+ {}", sh::shown(&exec));
    let said = sh::output(&mut exec)?;
    let summary: Summary = serde_json::from_slice(&fs::read(&summary)?)?;
    let survey = Survey {
        kernel,
        idle_timeout_s: summary.path.idle_timeout_s,
        answer_after_s: ANSWER_AFTER,
        patience_s: PATIENCE,
        clients: rows(&said, &made)?,
    };
    let text = serde_json::to_string_pretty(&survey)? + "\n";
    fs::write(sh::root().join(FILE), text).with_context(|| format!("write {FILE}"))?;
    eprintln!("wrote {FILE}; `cargo xtask docs` makes the table of it");
    Ok(())
}

fn rows(said: &str, made: &Made) -> Result<Vec<Row>> {
    let mut ran: BTreeMap<(String, Mode), Outcome> = BTreeMap::new();
    for line in said.lines() {
        let Ran { client, mode, after_s, status, saw } =
            serde_json::from_str(line).with_context(|| format!("what the runner said: {line}"))?;
        let own = CLIENTS.iter().find(|of| of.name == client && mode == Mode::Default);
        let gives_up_s = own.map_or(0, |of| of.gives_up_s);
        let outcome = Outcome::of(after_s, status, &saw, ANSWER_AFTER.max(gives_up_s));
        ran.insert((client, mode), outcome);
    }
    let mut rows = Vec::new();
    for client in &CLIENTS {
        let mut take = |mode| ran.remove(&(client.name.to_owned(), mode));
        rows.push(Row {
            client: client.name.to_owned(),
            version: (client.version)(made)?,
            advise: client.advise.map(str::to_owned),
            default: take(Mode::Default).with_context(|| format!("{} did not run", client.name))?,
            patient: take(Mode::Patient),
            setting: take(Mode::Setting),
        });
    }
    Ok(rows)
}

/// The data file as it is.
pub(crate) fn read() -> Result<Survey> {
    let path: &Path = &sh::root().join(FILE);
    let text = fs::read(path).with_context(|| format!("read {FILE}"))?;
    serde_json::from_slice(&text).with_context(|| format!("read {FILE}"))
}
