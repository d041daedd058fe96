//! `stillopen rescue`: keepalive for connections that are open now, its undo, and an end for dead ones.
//!
//! What is to be done is decided in `stillopen-remedy`; here it is said, and done where `--apply` is given.

mod close;
mod first;
mod json;
mod text;
mod undo;

use std::{collections::BTreeMap, fs, process::ExitCode};

use anyhow::{Context, Result, bail};
use stillopen_collect::{BpfError, Collected, Handle, SocketOptions};
use stillopen_model::{
    Connection, Diagnosis, Gap, Keepalive, KeepaliveValues, Millis, Verdict, diagnose,
};
use stillopen_remedy::{
    Choice, FirstProbe, Left, MANY, Probed, Refusal, Rescuer, Undo, UndoRow, arm_here, choose,
};

use self::first::{First, is_asked_first};
use super::host::{self, Look};
use crate::{cli::rescue::RescueArgs, clock, output, paste::Options};
pub(super) use json::{Place, json_text};
pub(super) use text::{refused, said_of_each};

/// One connection, with what is, would be or was done about it.
struct Row {
    /// Its position in the snapshot.
    index: u32,
    handle: Option<Handle>,
    act: Act,
}

impl Row {
    /// Its socket's cookie with its values.
    fn to_arm(&self) -> Option<(u64, KeepaliveValues)> {
        let Act::Arm { values, .. } = self.act else { return None };
        Some((self.handle?.cookie, values))
    }

    fn is_refused(&self) -> bool {
        matches!(self.act, Act::Arm { done: Some(Err(_)), .. })
    }

    /// Its first probe went out at once, and ended it.
    fn has_ended(&self) -> bool {
        self.has_met(FirstProbe::Ended)
    }

    /// Its first probe went out at once, and met this.
    fn has_met(&self, wanted: FirstProbe) -> bool {
        matches!(self.act, Act::Arm { met: Some(met), .. } if met == wanted)
    }

    /// What is known of a probe that goes out at once, or went.
    fn first_probe(&self, c: &Connection) -> Option<&'static str> {
        match self.act {
            Act::Arm { met: Some(met), .. } => Some(met.name()),
            Act::Arm { values, done: None, .. } => {
                first::probed_at_once(c, values).map(|_| "at_once")
            }
            _ => None,
        }
    }

    /// Whether its program's `TCP_USER_TIMEOUT` ends it at one lost probe of the new values.
    fn one_lost_probe_kills(&self, c: &Connection) -> bool {
        let Act::Arm { values, .. } = self.act else { return false };
        c.user_timeout.is_some_and(|time| values.one_lost_probe_kills(time.get()))
    }
}

enum Act {
    Arm {
        values: KeepaliveValues,
        predicted: Verdict,
        /// `None`: not tried.
        done: Option<Result<SocketOptions, Refusal>>,
        /// What the probe met that went out at once; `None`: none did, or that is not known.
        met: Option<FirstProbe>,
    },
    Leave(Left),
}

/// What was read and what is done about it.
struct Rescue<'a> {
    args: &'a RescueArgs,
    collected: Collected,
    diagnoses: Vec<Diagnosis>,
    rows: Vec<Row>,
}

/// Status 0: done, or nothing to do; 1: something was refused, or ended by its first probe.
pub(crate) fn run(args: &RescueArgs) -> Result<ExitCode> {
    if let Some(file) = &args.undo {
        return undo::run(file, args);
    }
    let (collected, diagnoses) = read(args)?;
    if args.close_dead {
        return close::run(args, &collected, &diagnoses);
    }
    let mut rescue = Rescue { args, collected, diagnoses, rows: Vec::new() };
    rescue.choose();
    if args.apply {
        rescue.save_undo()?;
        rescue.arm();
    }
    let status = ExitCode::from(u8::from(rescue.is_refused()));
    let text = if args.json { json::text(&rescue)? } else { text::render(&rescue) };
    output::said(output::say(&text), status)
}

fn read(args: &RescueArgs) -> Result<(Collected, Vec<Diagnosis>)> {
    let look = Look {
        select: &args.select,
        limits: &args.path.limits,
        owners: true,
        iterators_from: Some(MANY),
        sample: None,
        only_holder: true,
    };
    let mut collected = host::read(&look)?;
    args.path.kube_proxy.apply(&mut collected.snapshot)?;
    let diagnoses = diagnose(&collected.snapshot);
    Ok((collected, diagnoses))
}

/// The options of this run that other commands take too, as they were given.
fn repeated(args: &RescueArgs) -> Options {
    let mut options = Options::default();
    args.path.repeat(&mut options);
    args.select.repeat(&mut options);
    options
}

impl Rescue<'_> {
    fn choose(&mut self) {
        let Self { args, collected, diagnoses, rows, .. } = self;
        for (index, diagnosis) in host::asked_for(&args.select, collected, diagnoses) {
            let chosen =
                choose(&collected.snapshot, index, diagnosis, args.keepalive, !args.at_risk);
            let act = match chosen {
                Choice::Arm(values, predicted) => {
                    Act::Arm { values, predicted, done: None, met: None }
                }
                Choice::Leave(left) => Act::Leave(left),
            };
            rows.push(Row { index, handle: collected.handle(index as usize), act });
        }
    }

    /// Writes what is there before anything is changed.
    fn save_undo(&self) -> Result<()> {
        let Some(path) = &self.args.save_undo else { return Ok(()) };
        let snapshot = &self.collected.snapshot;
        let to_be_armed = self.rows.iter().filter(|row| matches!(row.act, Act::Arm { .. }));
        let sockets = to_be_armed.filter_map(|row| {
            let c = &snapshot.connections[row.index as usize];
            let before = SocketOptions { keepalive: c.keepalive, user_timeout: c.user_timeout? };
            Some(UndoRow { handle: row.handle?, local: c.local, peer: c.peer, before })
        });
        let sockets: Vec<UndoRow> = sockets.collect();
        if sockets.is_empty() {
            return Ok(());
        }
        // What is in there may be all that is left of what was there.
        if fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0) {
            bail!(
                "undo file {} is there already; nothing was changed: undo what it holds (stillopen rescue \
                 --undo), or give another name",
                path.display()
            );
        }
        let undo = Undo::new(clock::now(), sockets)?;
        output::file(path, |to| Ok(serde_json::to_writer_pretty(to, &undo)?))
            .with_context(|| format!("write undo file {}; nothing was changed", path.display()))
    }

    fn arm(&mut self) {
        self.arm_many();
        let mut rescuer = Rescuer::default();
        let mut first = First::default();
        self.look_at_many(&mut rescuer, &mut first);
        let is_left = |at: &usize| matches!(self.rows[*at].act, Act::Arm { done: None, .. });
        let left: Vec<usize> = (0..self.rows.len()).filter(is_left).collect();
        let bar = clock::bar(left.len(), "Turning keepalive on");
        let connection = |at: usize| {
            let index = self.rows[at].index;
            &self.collected.snapshot.connections[index as usize]
        };
        let (asked, others): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|&at| is_asked_first(connection(at)));
        for at in others {
            bar.inc(1);
            self.arm_one(at, &mut rescuer, &mut first);
            first.settle_if_full(&mut self.rows);
        }
        for at in asked {
            // While it is asked, nobody looks whether the programs of others have closed theirs.
            first.settle(&mut self.rows);
            bar.inc(1);
            self.arm_one(at, &mut rescuer, &mut first);
        }
        bar.finish_and_clear();
        first.settle(&mut self.rows);
    }

    fn arm_one(&mut self, at: usize, rescuer: &mut Rescuer, first: &mut First) {
        let row = &mut self.rows[at];
        let Act::Arm { values, done, .. } = &mut row.act else { return };
        let handle = row.handle.ok_or(Refusal::NoOwner);
        let armed = handle.and_then(|handle| rescuer.arm(handle, *values));
        *done = Some(armed.map(|(options, probed)| {
            first.add(at, probed);
            options
        }));
    }

    /// Of what was armed at once: what is probed at once, too.
    fn look_at_many(&mut self, rescuer: &mut Rescuer, first: &mut First) {
        let snapshot = &self.collected.snapshot;
        for at in 0..self.rows.len() {
            let Row { index, handle: Some(handle), act } = &mut self.rows[at] else { continue };
            let Act::Arm { values, done: Some(Ok(_)), met, .. } = act else { continue };
            let c = &snapshot.connections[*index as usize];
            let Some(heard) = first::probed_at_once(c, *values) else { continue };
            match rescuer.socket(*handle) {
                Ok(socket) => first.add(at, Some(Probed::new(socket, heard))),
                // Its program has closed what had ended.
                Err(Refusal::Gone { .. }) => *met = Some(FirstProbe::Ended),
                Err(_) => {}
            }
            first.settle_if_full(&mut self.rows);
        }
    }

    /// Those of each namespace that has many, at once where that is permitted.
    fn arm_many(&mut self) {
        let Self { collected, rows, .. } = self;
        let mut by_namespace: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, row) in rows.iter().enumerate().filter(|(_, row)| row.to_arm().is_some()) {
            let netns = collected.snapshot.connections[row.index as usize].netns;
            by_namespace.entry(netns).or_default().push(at);
        }
        by_namespace.retain(|_, places| places.len() >= MANY);
        for (netns, places) in by_namespace {
            let chosen: Vec<_> = places.iter().filter_map(|&at| rows[at].to_arm()).collect();
            let armed = match collected.in_namespace(netns, || arm_here(&chosen)) {
                Ok(Ok(armed)) => armed,
                Ok(Err(error)) => {
                    collected.snapshot.gaps.push(one_by_one(&error));
                    continue;
                }
                // It is said of each, one by one.
                Err(_) => continue,
            };
            for (at, armed) in places.into_iter().zip(armed) {
                let Act::Arm { values, done, .. } = &mut rows[at].act else { continue };
                // Each was accepted, and TCP_USER_TIMEOUT was not set.
                let keepalive = Keepalive::On(values.times());
                let after = SocketOptions { keepalive, user_timeout: Millis::default() };
                *done = armed.then_some(Ok(after));
            }
        }
    }

    fn is_refused(&self) -> bool {
        self.rows.iter().any(|row| match &row.act {
            Act::Arm { .. } => row.is_refused() || row.has_ended(),
            Act::Leave(left) => matches!(left, Left::TooLate | Left::TooTight),
        })
    }
}

/// Why many sockets were not armed at once.
fn one_by_one(error: &BpfError) -> Gap {
    Gap {
        source: "bpf".into(),
        reason: format!(
            "no BPF iterator was used, and sockets were armed one by one, which takes longer: {error}"
        ),
        how: String::new(),
    }
}
