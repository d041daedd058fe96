//! `stillopen check`: read or load a snapshot, diagnose it, print it.

use std::{
    io::{self, BufWriter, Write as _},
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
    input::{self, quoted},
    output,
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
    args.kube_proxy.apply(&mut snapshot)?;
    if let Some(path) = &args.save {
        output::file(path, |to| Ok(snapshot.to_json(to)?))
            .with_context(|| format!("write snapshot {}", path.display()))?;
    }
    let diagnoses = diagnose(&snapshot);
    let report = Report::new(&snapshot, &diagnoses, repeat(args));

    let mut stdout = BufWriter::new(io::stdout().lock());
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
        limits: &args.limits,
        owners: !args.no_owners,
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
    if !args.limits.is_empty() {
        snapshot.limits.retain(|limit| limit.table.is_some());
        snapshot.limits.extend(args.limits.iter().map(|arg| arg.limit.clone()));
    }
    Ok(snapshot)
}

/// The options of this run that a repetition needs, as they were given.
fn repeat(args: &CheckArgs) -> Repeat {
    let mut options = Vec::new();
    let mut add = |name: &str, value: &str| options.push(format!(" {name} {}", quoted(value)));
    for limit in &args.limits {
        add("--limit", &limit.text);
    }
    args.kube_proxy.repeated(&mut add);
    args.select.repeated(&mut add);
    if args.horizon != DEFAULT_HORIZON {
        add("--horizon", &words::limit_time(args.horizon));
    }
    for (given, flag) in [
        (args.select.all_netns, " --all-netns"),
        (args.no_owners, " --no-owners"),
        (args.all, " --all"),
        (args.fail_on == Some(FailOn::Unknown), " --fail-on unknown"),
    ] {
        if given {
            options.push(flag.to_owned());
        }
    }
    if let Some(time) = args.sample {
        options.push(format!(" --sample {}", words::limit_time(time)));
    }
    let from = args.from.as_deref().map(Path::to_string_lossy);
    Repeat {
        options: options.concat(),
        from: from.map(|path| format!(" --from {}", quoted(&path))).unwrap_or_default(),
        filtered: host::filter(&args.select) != Filter::default(),
        sampled: args.sample.is_some(),
        horizon: args.horizon,
    }
}
