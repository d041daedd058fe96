//! What `check` found, ready to be printed: which rows, how many of each verdict, and what to do.
//!
//! `text.rs` and `json.rs` print it; `words.rs` has the sentences that both use.

mod advice;
mod assumed;
mod headline;
pub(crate) mod json;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod words;

use std::time::Duration;

pub(crate) use advice::last_line;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub(crate) use advice::last_lines;
use assumed::Assumed;
use stillopen_model::{
    Connection, Diagnosis, Finding, OnHost, Planned, Snapshot, Verdict, plan, predict,
};

/// A diagnosed snapshot.
pub(crate) struct Report<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) diagnoses: &'a [Diagnosis],
    /// Positions of the connections that are reported, in the order of the snapshot.
    pub(crate) rows: Vec<u32>,
    pub(crate) left_out: LeftOut,
    pub(crate) counts: Counts,
    /// The findings that there are, each with how many connections have it.
    pub(crate) findings: Vec<(Finding, usize)>,
    pub(crate) proposals: Vec<Proposal>,
    /// Connections to Services that no limit is known for, and what would become of them behind IPVS.
    pub(crate) assumed: Assumed,
    pub(crate) repeat: Repeat,
}

/// What this run was given and a command in advice repeats, each with a blank before it.
pub(crate) struct Repeat {
    /// What holds on a host as well.
    pub(crate) options: String,
    /// Those of them that name a path and connections.
    pub(crate) chosen: String,
    /// `--from FILE`; empty where this host was read.
    pub(crate) from: String,
    /// Whether not all connections were asked for.
    pub(crate) filtered: bool,
    /// Whether a second look was taken.
    pub(crate) sampled: bool,
    /// Whether an unknown verdict is a failure, too.
    pub(crate) fail_on_unknown: bool,
    /// How near a cut must be to count.
    pub(crate) horizon: Duration,
}

/// Connections that are not reported since nothing can forget them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct LeftOut {
    pub(crate) loopback: usize,
    pub(crate) same_namespace: usize,
}

/// How many of the reported connections have each verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Counts {
    pub(crate) connections: usize,
    pub(crate) safe: usize,
    pub(crate) at_risk: usize,
    pub(crate) cut: usize,
    pub(crate) unknown: usize,
}

/// A remedy with what it would lead to.
pub(crate) struct Proposal {
    pub(crate) planned: Planned,
    /// The verdicts afterwards; `None` where no socket option brings them about.
    pub(crate) predicted: Option<Counts>,
}

impl LeftOut {
    /// Counts a connection that nothing between its ends can forget.
    pub(crate) fn add(&mut self, c: &Connection) {
        match c.on_host {
            OnHost::Loopback => self.loopback += 1,
            _ => self.same_namespace += 1,
        }
    }

    /// A line for each kind that there is.
    pub(crate) fn lines(self) -> String {
        let line = |n: usize, what| match n {
            0 => String::new(),
            n => format!("Left out: {} {what}.\n", words::count(n)),
        };
        line(self.loopback, "on loopback")
            + &line(self.same_namespace, "to an address of their own network namespace")
    }
}

impl Counts {
    fn of(verdicts: impl Iterator<Item = Verdict>) -> Self {
        let mut counts = Self::default();
        for verdict in verdicts {
            counts.connections += 1;
            match verdict {
                Verdict::Safe { .. } => counts.safe += 1,
                Verdict::AtRisk { .. } => counts.at_risk += 1,
                Verdict::Cut { .. } => counts.cut += 1,
                Verdict::Unknown { .. } => counts.unknown += 1,
            }
        }
        counts
    }
}

impl<'a> Report<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, diagnoses: &'a [Diagnosis], repeat: Repeat) -> Self {
        let mut left_out = LeftOut::default();
        let mut rows = Vec::new();
        for (index, diagnosis) in (0..).zip(diagnoses) {
            if diagnosis.findings.contains(Finding::OnThisHost) {
                left_out.add(&snapshot.connections[index as usize]);
            } else {
                rows.push(index);
            }
        }
        let counts = Counts::of(rows.iter().map(|&row| diagnoses[row as usize].verdict));
        let proposals = plan(snapshot, diagnoses)
            .into_iter()
            .filter_map(|mut planned| {
                planned.connections.retain(|index| rows.binary_search(index).is_ok());
                (!planned.connections.is_empty()).then_some(planned)
            })
            .map(|planned| Proposal {
                predicted: predict(snapshot, &planned).map(Counts::of),
                planned,
            })
            .collect();
        let mut findings: Vec<(Finding, usize)> =
            Finding::all().map(|finding| (finding, 0)).collect();
        for &row in &rows {
            for finding in diagnoses[row as usize].findings.iter() {
                findings[finding as usize].1 += 1;
            }
        }
        findings.retain(|(_, n)| *n > 0);
        let assumed = Assumed::of(snapshot, diagnoses, &rows);
        Self { snapshot, diagnoses, rows, left_out, counts, findings, proposals, assumed, repeat }
    }

    /// A reported connection with its diagnosis.
    pub(crate) fn row(&self, index: u32) -> (&'a Connection, &'a Diagnosis) {
        (&self.snapshot.connections[index as usize], &self.diagnoses[index as usize])
    }

    /// Whether something is cut, or at risk within `horizon`.
    pub(crate) fn is_trouble(&self, horizon: Duration) -> bool {
        self.rows.iter().any(|&row| match self.row(row).1.verdict {
            Verdict::Cut { .. } => true,
            Verdict::AtRisk { cut_in } => cut_in <= horizon,
            Verdict::Safe { .. } | Verdict::Unknown { .. } => false,
        })
    }
}
