//! `stillopen check`: read or load a snapshot, diagnose it, print it.

use std::{
    io::{BufWriter, Write as _},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result};
use stillopen_collect::Filter;
use stillopen_model::{Snapshot, diagnose};

use super::host::{self, Look};
use crate::{
    cli::{CheckArgs, FailOn, SelectArgs},
    input, output,
    paste::Options,
    report::{Repeat, Report, json, text, words},
};

/// The default of `--horizon`.
const DEFAULT_HORIZON: Duration = Duration::from_secs(2 * 3600);

/// Status 0: nothing is at risk; 1: something is cut or will be; errors are the caller's.
pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode> {
    let mut snapshot = match &args.from {
        Some(path) => load(path, args)?,
        None => read_host(args)?,
    };
    args.path.kube_proxy.apply(&mut snapshot)?;
    if let Some(path) = &args.save {
        output::file(path, |to| Ok(snapshot.to_json(to)?))
            .with_context(|| format!("write snapshot {}", path.display()))?;
    }
    let diagnoses = diagnose(&snapshot);
    let report = Report::new(&snapshot, &diagnoses, repeat(args));

    let mut stdout = BufWriter::new(output::stdout());
    if args.json {
        json::write(&report, &mut stdout)?;
    } else {
        stdout.write_all(text::render(&report, args.all).as_bytes())?;
    }
    stdout.flush()?;

    let unknown = args.fail_on == Some(FailOn::Unknown) && report.counts.unknown > 0;
    Ok(ExitCode::from(u8::from(unknown || report.is_trouble(args.horizon))))
}

/// Reads this host.
fn read_host(args: &CheckArgs) -> Result<Snapshot> {
    let look = Look {
        select: &args.select,
        limits: &args.path.limits,
        owners: !args.no_owners,
        iterators_from: None,
        sample: args.sample,
        only_holder: false,
    };
    let mut snapshot = host::read(&look)?.snapshot;
    keep_matching(&mut snapshot, &args.select);
    Ok(snapshot)
}

/// Leaves out what the filters of the command line do not name.
fn keep_matching(snapshot: &mut Snapshot, select: &SelectArgs) {
    let filter = host::filter(select);
    if filter == Filter::default() {
        return;
    }
    let mut connections = std::mem::take(&mut snapshot.connections);
    connections.retain(|c| host::matches(snapshot, c, &filter));
    snapshot.connections = connections;
}

/// Loads a snapshot; limits of the command line replace those that it holds, but for the timeouts of the
/// tables that were read.
fn load(path: &Path, args: &CheckArgs) -> Result<Snapshot> {
    let context = || format!("read snapshot {}", path.display());
    let file = input::read_snapshot_file(path).with_context(context)?;
    let mut snapshot = Snapshot::from_json(&file).with_context(context)?;
    keep_matching(&mut snapshot, &args.select);
    if !args.path.limits.is_empty() {
        snapshot.limits.retain(|limit| limit.table.is_some());
        snapshot.limits.extend(args.path.limits.iter().map(|arg| arg.limit.clone()));
    }
    Ok(snapshot)
}

/// The options of this run that a repetition needs, as they were given.
fn repeat(args: &CheckArgs) -> Repeat {
    let mut options = Options::default();
    args.path.repeat(&mut options);
    args.select.repeat(&mut options);
    let chosen = options.to_string();
    if args.horizon != DEFAULT_HORIZON {
        options.add("--horizon", &words::limit_time(args.horizon));
    }
    options.flag("--no-owners", args.no_owners);
    options.flag("--all", args.all);
    options.flag("--fail-on unknown", args.fail_on == Some(FailOn::Unknown));
    if let Some(time) = args.sample {
        options.add("--sample", &words::limit_time(time));
    }
    let mut from = Options::default();
    if let Some(path) = &args.from {
        from.add("--from", &path.to_string_lossy());
    }
    Repeat {
        options: options.to_string(),
        chosen,
        from: from.to_string(),
        filtered: host::filter(&args.select) != Filter::default(),
        sampled: args.sample.is_some(),
        fail_on_unknown: args.fail_on == Some(FailOn::Unknown),
        horizon: args.horizon,
    }
}
