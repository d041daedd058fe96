//! `stillopen lab run`: load a scenario, run it as asked and with its cure, print both.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use stillopen_lab::{
    embedded, render,
    result::RunResult,
    run::{self, Run, RunOptions},
    scenario::Scenario,
};
use stillopen_model::KeepaliveValues;

use crate::{cli::lab::RunArgs, clock};

const SCHEMA: &str = "stillopen.lab-run/1";

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    #[serde(flatten)]
    run: &'a RunResult,
}

/// Status 0: the expectations hold; 1: one fails.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode> {
    let (id, text) = load(&args.scenario)?;
    let scenario = Scenario::parse(&text).with_context(|| format!("read scenario {id}"))?;
    let options = options(args, id)?;
    let asked = timed(&scenario, &options)?;
    if let Some(folder) = &args.out {
        write_logs(&asked, folder)?;
    }

    let mut stdout = io::stdout().lock();
    if args.json {
        let document = Document { schema: SCHEMA, run: &asked.result };
        serde_json::to_writer(&mut stdout, &document).map_err(io::Error::from)?;
        writeln!(stdout)?;
        return Ok(status(&[&asked.result]));
    }
    let cured = match cure(&scenario, args) {
        Some(keepalive) => {
            Some(timed(&scenario, &RunOptions { keepalive: Some(keepalive), ..options })?)
        }
        None => None,
    };
    let cured = cured.map(|run| run.result);
    write!(stdout, "{}", render::text(&scenario, &asked.result, cured.as_ref()))?;
    let results: Vec<&RunResult> = std::iter::once(&asked.result).chain(&cured).collect();
    Ok(status(&results))
}

fn status(results: &[&RunResult]) -> ExitCode {
    ExitCode::from(u8::from(results.iter().any(|result| !result.failures.is_empty())))
}

/// The id and the text of a scenario that comes with the program, or of a file.
fn load(name: &str) -> Result<(String, String)> {
    if let Some(scenario) = embedded::scenario(name) {
        return Ok((scenario.id.to_owned(), scenario.text.to_owned()));
    }
    let path = Path::new(name);
    let is_file = path.extension().is_some_and(|ending| ending == "toml") || name.contains('/');
    if !is_file {
        bail!("{name:?} is neither a scenario (stillopen lab list) nor the path of a .toml file");
    }
    let text = fs::read_to_string(path).with_context(|| format!("read scenario {name}"))?;
    let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok((id, text))
}

fn options(args: &RunArgs, scenario: String) -> Result<RunOptions> {
    let kube_proxy = args.kube_proxy_config.as_deref().map(|path| {
        fs::read_to_string(path)
            .with_context(|| format!("read kube-proxy configuration {}", path.display()))
    });
    Ok(RunOptions {
        scenario,
        keepalive: args.keepalive,
        kube_proxy: kube_proxy.transpose()?,
        profile: args.profile.clone(),
        idle_timeout: args.idle_timeout,
        seed: args.seed,
        hz: args.hz,
        ipv6: args.ipv6,
    })
}

/// The keepalive that cures the scenario, where this run was not asked for one.
fn cure(scenario: &Scenario, args: &RunArgs) -> Option<KeepaliveValues> {
    let cure = scenario.cure.as_ref()?;
    if args.keepalive.is_some() { None } else { cure.keepalive.0 }
}

fn timed(scenario: &Scenario, options: &RunOptions) -> Result<Run> {
    let (run, wall) = clock::timed(|| run::run(scenario, options));
    let mut run = run.with_context(|| format!("run scenario {}", options.scenario))?;
    run.result.wall_s = Some(wall.as_secs_f64());
    Ok(run)
}

fn write_logs(run: &Run, folder: &Path) -> Result<()> {
    if run.job_log.is_empty() {
        bail!("this scenario has no job and no agent, so there are no logs for --out");
    }
    fs::create_dir_all(folder).with_context(|| format!("make folder {}", folder.display()))?;
    for (name, log) in [("job.log", &run.job_log), ("agent.log", &run.agent_log)] {
        let path = folder.join(name);
        fs::write(&path, log).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}
