//! Reads this host's connections as a command line asks for them.

use std::{path::Path, time::Duration};

use anyhow::Result;
use stillopen_collect::{CollectError, Collected, Filter, Namespaces, Request, collect};
use stillopen_model::{Connection, Gap, Host, KernelHz, Snapshot};
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
use stillopen_model::{Diagnosis, Finding};

#[cfg(all(target_os = "linux", not(stillopen_portable)))]
use crate::report::LeftOut;
use crate::{cli::SelectArgs, clock, config, input::LimitArg};

/// How to read it.
pub(super) struct Look<'a> {
    pub(super) select: &'a SelectArgs,
    /// Those of the command line.
    pub(super) limits: &'a [LimitArg],
    pub(super) owners: bool,
    /// As in [`Request`].
    pub(super) iterators_from: Option<usize>,
    /// Look a second time after so long.
    pub(super) sample: Option<Duration>,
    /// Of a process that was named, read only the ends that it holds itself.
    pub(super) only_holder: bool,
}

/// Reads this host, a second time after [`Look::sample`].
///
/// Of every namespace all connections are read, and [`matches`] tells afterwards which were asked for: the
/// far end of a connection is evidence, whoever holds it.
pub(super) fn read(look: &Look<'_>) -> Result<Collected> {
    let configured = config::read()?;
    let namespaces = namespaces(look.select);
    let all = namespaces == Namespaces::All;
    let wanted = filter(look.select);
    let by_pid = look.only_holder && wanted.pid.is_some();
    let filter = match (all, by_pid) {
        (false, _) => wanted.clone(),
        (true, true) => Filter { pid: wanted.pid, ..Filter::default() },
        (true, false) => Filter::default(),
    };
    let Look { owners, iterators_from, .. } = *look;
    let request = Request { namespaces, owners, iterators_from, filter };
    let mut collected = collect(&request, clock::now())?;
    if let Some(time) = look.sample {
        clock::wait(time, "Watching for the peers' probes");
        collected.look_again()?;
    }
    let snapshot = &mut collected.snapshot;
    snapshot.limits.extend(look.limits.iter().map(|arg| arg.limit.clone()));
    snapshot.limits.extend(configured.limits);
    snapshot.gaps.extend(configured.gaps);
    collected.pair_ends();
    if all
        && let Some(pid) = wanted.pid
        && !Path::new("/proc").join(pid.to_string()).exists()
    {
        return Err(CollectError::NoProcess { pid }.into());
    }
    if request.namespaces == Namespaces::This {
        collected.snapshot.gaps.push(Gap {
            source: "namespace".into(),
            reason: "other network namespaces than this one were not looked at".into(),
            how: "as root every one is".into(),
        });
    }
    Ok(collected)
}

/// The filters of the command line.
pub(super) fn filter(select: &SelectArgs) -> Filter {
    Filter { pid: select.pid, ports: select.ports.clone(), peers: select.peers.clone() }
}

/// Whether a connection was asked for. A process is named by either end.
pub(super) fn matches(snapshot: &Snapshot, c: &Connection, filter: &Filter) -> bool {
    let far_owner = c.far_end.as_ref().and_then(|far| far.owner);
    let held = |pid| {
        [c.owner, far_owner]
            .into_iter()
            .any(|of| snapshot.process(of).is_some_and(|p| p.pid == pid))
    };
    filter.passes(c.local, c.peer) && filter.pid.is_none_or(held)
}

/// The connections that were asked for and leave this host, each with its diagnosis.
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub(super) fn asked_for<'a>(
    select: &SelectArgs,
    collected: &'a Collected,
    diagnoses: &'a [Diagnosis],
) -> impl Iterator<Item = (u32, &'a Diagnosis)> {
    named(select, collected, diagnoses).filter(|(_, d)| !d.findings.contains(Finding::OnThisHost))
}

/// What was asked for and is left out, since it ends where it starts.
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub(super) fn left_out(
    select: &SelectArgs,
    collected: &Collected,
    diagnoses: &[Diagnosis],
) -> LeftOut {
    let mut left_out = LeftOut::default();
    for (index, d) in named(select, collected, diagnoses) {
        if d.findings.contains(Finding::OnThisHost) {
            left_out.add(&collected.snapshot.connections[index as usize]);
        }
    }
    left_out
}

/// The connections that the filters name, each with its diagnosis.
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
fn named<'a>(
    select: &SelectArgs,
    collected: &'a Collected,
    diagnoses: &'a [Diagnosis],
) -> impl Iterator<Item = (u32, &'a Diagnosis)> {
    let filter = filter(select);
    let snapshot = &collected.snapshot;
    (0..)
        .zip(snapshot.connections.iter().zip(diagnoses))
        .filter(move |(_, (c, _))| matches(snapshot, c, &filter))
        .map(|(index, (_, d))| (index, d))
}

fn namespaces(select: &SelectArgs) -> Namespaces {
    match &select.netns {
        Some(name) => Namespaces::Named(name.clone()),
        None if select.all_netns => Namespaces::All,
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
