//! `stillopen check`: read or load a snapshot, diagnose it, print it.

use std::{
    fs,
    io::{self, BufWriter, Write as _},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result};
use stillopen_collect::{CollectError, Filter, Namespaces, Request, collect};
use stillopen_model::{Gap, Host, KernelHz, Snapshot, diagnose, pair_ends};

use crate::{
    cli::{CheckArgs, FailOn},
    clock, config,
    input::{self, quoted},
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
        save(&snapshot, path)?;
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

/// Reads this host, a second time after `--sample`.
///
/// Of every namespace all connections are read, and the filters hold afterwards: the far end of a
/// connection is evidence, whoever holds it.
fn read_host(args: &CheckArgs) -> Result<Snapshot> {
    let configured = config::read()?;
    let namespaces = namespaces(args);
    let all = namespaces == Namespaces::All;
    let request = Request {
        namespaces,
        owners: !args.no_owners,
        filter: if all { Filter::default() } else { filter(args) },
    };
    let mut collected = collect(&request, clock::now())?;
    if let Some(time) = args.sample {
        clock::wait(time, "Watching for the peers' probes");
        collected.look_again()?;
    }
    let mut snapshot = collected.snapshot;
    snapshot.limits.extend(args.limits.iter().map(|arg| arg.limit.clone()));
    snapshot.limits.extend(configured.limits);
    snapshot.gaps.extend(configured.gaps);
    pair_ends(&mut snapshot);
    if all {
        keep_matching(&mut snapshot, args);
        if let Some(pid) = args.pid
            && !Path::new("/proc").join(pid.to_string()).exists()
        {
            return Err(CollectError::NoProcess { pid }.into());
        }
    }
    if request.namespaces == Namespaces::This {
        snapshot.gaps.push(Gap {
            source: "namespace".into(),
            reason: "other network namespaces than this one were not looked at".into(),
            how: "as root every one is".into(),
        });
    }
    Ok(snapshot)
}

fn filter(args: &CheckArgs) -> Filter {
    Filter { pid: args.pid, ports: args.ports.clone(), peers: args.peers.clone() }
}

/// Leaves out what the filters of the command line do not name. A process is named by either end.
fn keep_matching(snapshot: &mut Snapshot, args: &CheckArgs) {
    let filter = filter(args);
    if filter == Filter::default() {
        return;
    }
    let processes = std::mem::take(&mut snapshot.processes);
    let pid_of = |owner: Option<u32>| Some(processes.get(owner? as usize)?.pid);
    snapshot.connections.retain(|c| {
        let far_owner = c.far_end.as_ref().and_then(|far| far.owner);
        let held = |pid| pid_of(c.owner) == Some(pid) || pid_of(far_owner) == Some(pid);
        filter.passes(c.local, c.peer) && filter.pid.is_none_or(held)
    });
    snapshot.processes = processes;
}

fn namespaces(args: &CheckArgs) -> Namespaces {
    match &args.netns {
        Some(name) => Namespaces::Named(name.clone()),
        None if args.all_netns => Namespaces::All,
        None => default_namespaces(),
    }
}

/// Every namespace for root, this one for others.
pub(super) fn default_namespaces() -> Namespaces {
    if is_root() { Namespaces::All } else { Namespaces::This }
}

/// A snapshot of a system whose connections can't be read.
pub(super) fn nothing_read(taken_at: String) -> Snapshot {
    let host = Host {
        kernel: String::new(),
        hz: KernelHz::Foreign,
        all_namespaces: false,
        platforms: Vec::new(),
    };
    Snapshot::new(taken_at, host)
}

#[cfg(unix)]
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}

/// Loads a snapshot; limits of the command line replace those that it holds, but for the timeouts of the
/// tables that were read.
fn load(path: &Path, args: &CheckArgs) -> Result<Snapshot> {
    let context = || format!("read snapshot {}", path.display());
    let file = input::read_snapshot_file(path).with_context(context)?;
    let mut snapshot = Snapshot::from_json(&file).with_context(context)?;
    keep_matching(&mut snapshot, args);
    if !args.limits.is_empty() {
        snapshot.limits.retain(|limit| limit.table.is_some());
        snapshot.limits.extend(args.limits.iter().map(|arg| arg.limit.clone()));
    }
    Ok(snapshot)
}

/// Writes a snapshot beside its place and moves it there: the file is whole or not there, and nobody else
/// can read it. What is not a file (a pipe, `/dev/stdout`) is written to, never replaced, and of a
/// symbolic link the file that it leads to.
fn save(snapshot: &Snapshot, path: &Path) -> Result<()> {
    let context = || format!("write snapshot {}", path.display());
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        let file = fs::OpenOptions::new().write(true).open(path).with_context(context)?;
        return write_whole(snapshot, file).with_context(context);
    }
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let file = tempfile::NamedTempFile::new_in(folder).with_context(context)?;
    write_whole(snapshot, &file).with_context(context)?;
    file.persist(&path).map_err(|error| error.error).with_context(context)?;
    Ok(())
}

fn write_whole(snapshot: &Snapshot, to: impl io::Write) -> Result<()> {
    let mut buffered = BufWriter::new(to);
    snapshot.to_json(&mut buffered)?;
    writeln!(buffered)?;
    buffered.flush()?;
    Ok(())
}

/// The options of this run that a repetition needs, as they were given.
fn repeat(args: &CheckArgs) -> Repeat {
    let mut options = Vec::new();
    let mut add = |name: &str, value: &str| options.push(format!(" {name} {}", quoted(value)));
    for limit in &args.limits {
        add("--limit", &limit.text);
    }
    args.kube_proxy.repeated(&mut add);
    if let Some(name) = &args.netns {
        add("--netns", name);
    }
    if let Some(pid) = args.pid {
        add("--pid", &pid.to_string());
    }
    for port in &args.ports {
        add("--port", &port.to_string());
    }
    for peer in &args.peers {
        add("--peer", &peer.to_string());
    }
    if args.horizon != DEFAULT_HORIZON {
        add("--horizon", &words::limit_time(args.horizon));
    }
    for (given, flag) in [
        (args.all_netns, " --all-netns"),
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
        filtered: args.pid.is_some() || !args.ports.is_empty() || !args.peers.is_empty(),
        sampled: args.sample.is_some(),
        horizon: args.horizon,
    }
}
