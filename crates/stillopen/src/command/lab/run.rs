//! `stillopen lab run`: load a scenario, run it as asked and with its cure, print both.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use clap::ValueEnum as _;
use serde::Serialize;
use stillopen_lab::{
    embedded, render,
    result::RunResult,
    run::{self, Run, RunOptions},
    scenario::Scenario,
};
use stillopen_model::KeepaliveValues;

use crate::{
    cli::lab::{Driver, OnNodeArg, RunArgs},
    clock,
    input::{self, quoted},
    output,
    report::{table::printable, words::limit_time},
};

const SCHEMA: &str = "stillopen.lab-run/1";

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    #[serde(flatten)]
    run: &'a RunResult,
}

/// Status 0: the expectations hold; 1: one fails.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode> {
    let Loaded { id, text, folder } = load(&args.scenario)?;
    let scenario =
        Scenario::parse(&text).with_context(|| format!("read scenario {}", args.scenario))?;
    if args.out.is_some() && scenario.incident.is_none() {
        bail!(
            "scenario {id} has no job and no agent, so there are no logs for --out: run it without"
        );
    }
    let own_kube_proxy = own_kube_proxy(&scenario, folder.as_deref())?;
    let options = RunOptions { own_kube_proxy, ..options(args, id)? };
    // JSON is of the run as asked alone; a node of another beside it would be seen by commands.
    let cure = cure(&scenario, args).filter(|_| !args.json && args.on_node.is_empty());
    let (asked, cured) = driven(args, &scenario, &options, cure)?;
    let written = args.out.as_deref().map(|folder| write_logs(&asked, folder)).transpose()?;

    let mut stdout = output::stdout();
    if args.json {
        let document = Document { schema: SCHEMA, run: &asked.result };
        serde_json::to_writer(&mut stdout, &document).map_err(io::Error::from)?;
        writeln!(stdout)?;
        return Ok(status(&[&asked.result]));
    }
    let cured = cured.map(|run| run.result);
    let text = render::text(&scenario, &asked.result, cured.as_ref(), &again(args));
    for line in text.lines() {
        // The file's sentences are its author's.
        writeln!(stdout, "{}", printable(line))?;
    }
    drop(stdout);
    tell(written.as_deref());
    let results: Vec<&RunResult> = std::iter::once(&asked.result).chain(&cured).collect();
    Ok(status(&results))
}

fn status(results: &[&RunResult]) -> ExitCode {
    ExitCode::from(u8::from(results.iter().any(|result| !result.failures.is_empty())))
}

/// A scenario's id and text, and where it is a file, its folder.
struct Loaded {
    id: String,
    text: String,
    folder: Option<PathBuf>,
}

/// A scenario that comes with the program, or a file.
fn load(name: &str) -> Result<Loaded> {
    if let Some(scenario) = embedded::scenario(name) {
        return Ok(Loaded { id: name.to_owned(), text: scenario.text.to_owned(), folder: None });
    }
    let path = Path::new(name);
    let is_file = path.extension().is_some_and(|ending| ending == "toml") || name.contains('/');
    if !is_file {
        bail!("{name:?} is neither a scenario (stillopen lab list) nor the path of a .toml file");
    }
    let text = input::read_text(path).with_context(|| format!("read scenario {name}"))?;
    let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Loaded { id, text, folder: path.parent().map(Path::to_owned) })
}

/// The `ConfigMap` that a scenario's file names, which stands beside it.
fn own_kube_proxy(scenario: &Scenario, folder: Option<&Path>) -> Result<Option<String>> {
    let (Some(folder), Some(name)) = (folder, &scenario.path.kube_proxy) else { return Ok(None) };
    let path = folder.join(name);
    let text = input::read_text(&path)
        .with_context(|| format!("read kube-proxy configuration {}", path.display()))?;
    Ok(Some(text))
}

/// What this run was given, for the command that the last line shows.
fn again(args: &RunArgs) -> String {
    let mut words = vec![quoted(&args.scenario)];
    let mut add = |option: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("{option} {}", quoted(&value))));
    };
    add("--keepalive", args.keepalive.map(|values| values.to_string()));
    let file = args.kube_proxy_config.as_deref();
    add("--kube-proxy-config", file.map(|path| path.to_string_lossy().into_owned()));
    add("--profile", args.profile.clone());
    add("--idle-timeout", args.idle_timeout.map(limit_time));
    add("--seed", args.seed.map(|seed| seed.to_string()));
    add("--hz", args.hz.map(|hz| hz.to_string()));
    let driver = args.driver.to_possible_value().filter(|_| args.driver != Driver::Sim);
    add("--driver", driver.map(|driver| driver.get_name().to_owned()));
    for OnNodeArg { at, words } in &args.on_node {
        add("--on-node", Some(format!("{} {}", limit_time(*at), words.join(" "))));
    }
    add("--kernel", args.kernel.as_deref().map(|path| path.to_string_lossy().into_owned()));
    if args.ipv6 {
        words.push("--ipv6".into());
    }
    words.join(" ")
}

fn options(args: &RunArgs, scenario: String) -> Result<RunOptions> {
    let kube_proxy = args.kube_proxy_config.as_deref().map(|path| {
        input::read_text(path)
            .with_context(|| format!("read kube-proxy configuration {}", path.display()))
    });
    Ok(RunOptions {
        scenario,
        keepalive: args.keepalive,
        kube_proxy: kube_proxy.transpose()?,
        profile: args.profile.clone(),
        own_kube_proxy: None,
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

/// The run as asked and the one that cures it, by the driver that was asked for.
fn driven(
    args: &RunArgs,
    scenario: &Scenario,
    options: &RunOptions,
    cure: Option<KeepaliveValues>,
) -> Result<(Run, Option<Run>)> {
    let run_one: fn(&Scenario, &RunOptions) -> Result<Run> = match args.driver {
        Driver::Vm => return on_kernel(args, scenario, options, cure),
        _ if args.kernel.is_some() => bail!("--kernel is of --driver vm"),
        _ if !args.on_node.is_empty() => {
            bail!("--on-node is of --driver vm: there alone is a node that a program could run on")
        }
        Driver::Sim => |scenario, options| Ok(run::run(scenario, options)?),
        Driver::Netns => in_real_time,
    };
    let cured = cure.map(|values| {
        timed(run_one, scenario, &RunOptions { keepalive: Some(values), ..options.clone() })
    });
    Ok((timed(run_one, scenario, options)?, cured.transpose()?))
}

#[cfg(all(target_os = "linux", not(stillopen_portable)))]
fn in_real_time(scenario: &Scenario, options: &RunOptions) -> Result<Run> {
    let _progress = super::progress::Progress::new("running on this host's TCP, in real time");
    Ok(stillopen_lab::netns::run_scenario(scenario, options)?)
}

#[cfg(not(all(target_os = "linux", not(stillopen_portable))))]
fn in_real_time(_: &Scenario, _: &RunOptions) -> Result<Run> {
    bail!("--driver netns runs on Linux only")
}

#[cfg(all(target_os = "linux", not(stillopen_portable)))]
fn on_kernel(
    args: &RunArgs,
    scenario: &Scenario,
    options: &RunOptions,
    cure: Option<KeepaliveValues>,
) -> Result<(Run, Option<Run>)> {
    use super::progress::Progress;
    use stillopen_lab::vm::{self, Kernel, OnNode};
    if args.hz.is_some() {
        bail!("--hz is the model's: with --driver vm the kernel has its own");
    }
    let on_node = args.on_node.iter().map(|arg| OnNode { at: arg.at, words: arg.words.clone() });
    let on_node: Vec<OnNode> = on_node.collect();
    let progress = Progress::new("packing the guest's image");
    let tell = |phase| progress.show(phase);
    Kernel::find(args.kernel.as_deref())
        .and_then(|kernel| vm::run(scenario, options, cure, &kernel, &on_node, tell))
        .with_context(|| format!("run scenario {} on a real kernel", options.scenario))
}

#[cfg(not(all(target_os = "linux", not(stillopen_portable))))]
fn on_kernel(
    _: &RunArgs,
    _: &Scenario,
    _: &RunOptions,
    _: Option<KeepaliveValues>,
) -> Result<(Run, Option<Run>)> {
    bail!("--driver vm runs on Linux only")
}

fn timed(
    run_one: fn(&Scenario, &RunOptions) -> Result<Run>,
    scenario: &Scenario,
    options: &RunOptions,
) -> Result<Run> {
    let (run, wall) = clock::timed(|| run_one(scenario, options));
    let mut run = run.with_context(|| format!("run scenario {}", options.scenario))?;
    run.result.wall_s = Some(wall.as_secs_f64());
    Ok(run)
}

/// Writes the logs, and says so and what can be done with them.
fn write_logs(run: &Run, folder: &Path) -> Result<String> {
    fs::create_dir_all(folder).with_context(|| format!("make folder {}", folder.display()))?;
    let [job, agent] = ["job.log", "agent.log"].map(|name| folder.join(name));
    let replaced = job.exists() || agent.exists();
    for (path, log) in [(&job, &run.job_log), (&agent, &run.agent_log)] {
        fs::write(path, log).with_context(|| format!("write {}", path.display()))?;
    }
    let [client, server] = [&job, &agent].map(|path| quoted(&path.to_string_lossy()));
    Ok(format!(
        "wrote the logs of the run as asked: {client} and {server}{}\nWhat they show:  stillopen logs --client \
         {client} --server {server}",
        if replaced { ", in place of older ones" } else { "" }
    ))
}

/// Standard output is the run's.
fn tell(what: Option<&str>) {
    for line in what.into_iter().flat_map(str::lines) {
        // Nobody may read it.
        let _ = writeln!(io::stderr(), "stillopen: {}", printable(line));
    }
}
