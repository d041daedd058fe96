//! Parity: the same connections on a real kernel and in the model. Both must agree on what each end's program
//! saw: outcome, error, who was told, when. Where they differ, the kernel is right.
//!
//! Read first: `agreement.rs`, what it is to agree; then `set.rs`.

mod set;

use std::{
    fmt::Write as _,
    fs,
    path::{Path as FilePath, PathBuf},
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use self::set::Item;
use super::{Kernel, LIMIT, VmError, lane, millis, protocol::Line, qemu, report};
pub use crate::agreement::Model;
use crate::{
    agreement::{Event, Events, Tolerance, describe, of},
    path::{Addresses, Path},
    run,
};

/// What model and kernel may differ by.
const TOLERANCE: Tolerance = Tolerance { at_s: 1.5, giving_up_s: 6.0, one_answer_s: 1.0 };
/// What is watched for longer has a boot of its own.
const LONG: Duration = Duration::from_secs(4_500);
/// The seed of the set that tests run.
pub const SEED: u64 = 2457;

/// What a kernel did with the set.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Recorded {
    /// Whose connections.
    pub seed: u64,
    /// The kernel.
    pub kernel: String,
    /// Its ticks a second.
    pub hz: u32,
    /// Of the set as it was then: the model has a say in which random connections it takes.
    set: u64,
    /// What each program saw, by lane.
    lanes: Vec<Vec<(usize, String, Vec<Event>)>>,
}

/// A kernel's run of the set: what it did, and the evidence.
#[derive(Debug)]
pub struct OnKernel {
    /// What it did.
    pub recorded: Recorded,
    /// Wall time of its two boots, which run side by side.
    pub walls: [Duration; 2],
    /// Virtual time that each scenario of them was watched.
    pub virtual_time: [Duration; 2],
    lines: Vec<Line>,
}

/// Where model and kernel differ.
#[derive(Debug)]
pub struct Difference {
    /// The lane's name.
    pub lane: String,
    number: u8,
    /// Which connection of it.
    pub connection: usize,
    /// What both ends saw, in the model and on the kernel.
    pub text: String,
}

/// The comparison of one model.
#[derive(Debug)]
pub struct Comparison {
    /// A row for each lane, and the sum.
    pub table: String,
    /// Connections that were compared.
    pub connections: usize,
    /// Where they differ.
    pub differences: Vec<Difference>,
}

/// Runs the set on a kernel, in two boots side by side.
///
/// # Errors
/// The guest fails.
pub fn on_kernel(kernel: &Kernel, seed: u64) -> Result<OnKernel, VmError> {
    let items = set::set(seed, kernel.hz);
    let mut jobs = [super::job(), super::job()];
    let mut paths = Vec::new();
    for (number, item) in (0..).zip(&items) {
        let path = Path::decide(&item.scenario, &item.options)?;
        let mut lane = lane::lane(number, &item.scenario, &path, &item.options)?;
        let own =
            item.sysctls.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned()));
        lane.sysctls.extend(own);
        // Those that need long are watched apart from those that are many.
        let watch = item.scenario.watch.unwrap_or_default().0;
        let job = &mut jobs[usize::from(watch > LONG)];
        job.watch_ms = job.watch_ms.max(millis(watch));
        job.lanes.push(lane);
        paths.push(path);
    }
    let boots = thread::scope(|scope| {
        let boots = jobs
            .each_ref()
            .map(|job| scope.spawn(|| qemu::boot(kernel, job, None, LIMIT, Some, || false)));
        boots.map(|boot| boot.join().unwrap_or_else(|_| Err(VmError::Protocol("a panic".into()))))
    });
    let [many, long] = boots;
    let (many, long) = (many?, long?);
    let mut lines = many.lines;
    lines.extend(long.lines);
    let mut by_lane = Vec::new();
    for (number, (item, path)) in (0..).zip(items.iter().zip(&paths)) {
        let lane = jobs.iter().flat_map(|job| &job.lanes).find(|lane| lane.number == number);
        let Some(lane) = lane else { continue };
        let mut result = run::blank(&item.scenario, path, &item.options);
        report::observed(lane, path, &lines).sum_up(&item.scenario, &mut result);
        // Lanes of a boot are watched together, for as long as the longest needs.
        let watch = item.scenario.watch.unwrap_or_default().0.as_secs_f64();
        result.saw.retain(|saw| saw.at_s <= watch);
        by_lane.push(
            TOLERANCE.events(&result).into_iter().map(|((c, who), seen)| (c, who, seen)).collect(),
        );
    }
    let recorded = Recorded {
        seed,
        kernel: kernel.version.clone(),
        hz: kernel.hz,
        set: fingerprint(&items),
        lanes: by_lane,
    };
    let virtual_time = jobs.map(|job| Duration::from_millis(job.watch_ms));
    Ok(OnKernel { recorded, walls: [many.walls.ended, long.walls.ended], virtual_time, lines })
}

/// Holds a model against what a kernel did.
///
/// # Errors
/// A path cannot be decided.
pub fn compare(recorded: &Recorded, model: Model) -> Result<Comparison, VmError> {
    let items = set::set(recorded.seed, recorded.hz);
    if fingerprint(&items) != recorded.set {
        return Err(VmError::OtherSet);
    }
    let mut all = Comparison { table: String::new(), connections: 0, differences: Vec::new() };
    let _ = writeln!(all.table, "{:<36}{:>12}{:>12}", "LANE", "CONNECTIONS", "DIFFERENCES");
    for ((number, item), lane) in (0..).zip(&items).zip(&recorded.lanes) {
        let on_kernel: Events =
            lane.iter().map(|(c, who, seen)| ((*c, who.clone()), seen.clone())).collect();
        let in_model = TOLERANCE.events(&model.run(&item.scenario, &item.options)?);
        let connections = item.scenario.connections();
        let differ = (0..connections).filter_map(|connection| {
            let (kernel, model) = (of(&on_kernel, connection), of(&in_model, connection));
            (!TOLERANCE.agree(&model, &kernel)).then(|| {
                let text = describe(&item.scenario, connection, &model, &kernel);
                Difference { lane: item.name.clone(), number, connection, text }
            })
        });
        let differ: Vec<_> = differ.collect();
        let _ = writeln!(all.table, "{:<36}{connections:>12}{:>12}", item.name, differ.len());
        all.connections += connections;
        all.differences.extend(differ);
    }
    let (connections, differ) = (all.connections, all.differences.len());
    let _ = writeln!(all.table, "{:<36}{connections:>12}{differ:>12}", "all");
    Ok(all)
}

/// Leaves the evidence of each difference as a file: what both say, the packets at the node, the table.
///
/// # Errors
/// The folder cannot be written.
pub fn keep(
    on_kernel: &OnKernel,
    differences: &[Difference],
    folder: &FilePath,
) -> Result<Vec<PathBuf>, VmError> {
    fs::create_dir_all(folder).map_err(VmError::io("make folder", folder))?;
    let mut files = Vec::new();
    for difference in differences {
        let Difference { number, connection, lane, text } = difference;
        let mut text = format!("{lane}, connection {connection}\n\n{text}\nPackets at the node\n");
        let port = Addresses::new(*number, false, 1).client(*connection).port();
        for line in &on_kernel.lines {
            match line {
                Line::Packet(packet)
                    if packet.lane == *number
                        && [packet.from.port(), packet.to.port()].contains(&port) =>
                {
                    let _ = writeln!(text, "  {}", String::from(packet.clone()));
                }
                Line::Dump { lane, at_ms, text: dump } if lane == number => {
                    let hex = format!(" {port:04X} ");
                    let rows = dump.lines().filter(|row| row.contains(&hex));
                    for row in rows {
                        let _ = writeln!(text, "  {at_ms} ip_vs_conn: {row}");
                    }
                }
                Line::Died { lane, port: of, alive_ms, at_ms, row }
                    if lane == number && *of == port =>
                {
                    let _ = writeln!(text, "  {alive_ms} ip_vs_conn: {row}");
                    let _ = writeln!(text, "  {at_ms} ip_vs_conn: gone");
                }
                _ => {}
            }
        }
        let file = folder.join(format!("lane-{number}-connection-{connection}.txt"));
        fs::write(&file, text).map_err(VmError::io("write", &file))?;
        files.push(file);
    }
    Ok(files)
}

/// FNV-1a of all steps.
fn fingerprint(items: &[Item]) -> u64 {
    let steps: Vec<_> = items.iter().map(|item| &item.scenario.timeline).collect();
    format!("{steps:?}").bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
