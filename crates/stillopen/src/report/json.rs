//! The report for programs: schema `stillopen.check/1`, described in `docs/json.md`.
//!
//! It is written as a stream: a host may have a million connections.

use std::{io, time::Duration};

use serde::{Serialize, Serializer, ser::SerializeStruct};
use stillopen_model::{
    Connection, Diagnosis, Entry, Finding, FindingSet, Gap, IdleLimit, Keepalive, KeepaliveValues,
    Pod, Remedy, Snapshot, State, TableId, TableKind, Verdict, Waiting,
};

use super::{Counts, LeftOut, Report, words};

const SCHEMA: &str = "stillopen.check/1";

/// Writes the report and a line break.
pub(crate) fn write(report: &Report<'_>, mut to: impl io::Write) -> anyhow::Result<()> {
    // serde_json wraps an I/O error; a closed pipe must stay recognisable.
    serde_json::to_writer(&mut to, &Document(report)).map_err(io::Error::from)?;
    writeln!(to)?;
    to.flush()?;
    Ok(())
}

struct Document<'a>(&'a Report<'a>);

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let report = self.0;
        let snapshot = report.snapshot;
        let mut document = to.serialize_struct("report", 12)?;
        document.serialize_field("schema", SCHEMA)?;
        document.serialize_field("taken_at", &snapshot.taken_at)?;
        document.serialize_field("summary", &report.counts)?;
        document.serialize_field("left_out", &report.left_out as &LeftOut)?;
        document.serialize_field("limits", &limits(snapshot))?;
        document.serialize_field("services", &snapshot.services)?;
        document.serialize_field("platforms", &snapshot.host.platforms)?;
        document.serialize_field("connections", &Rows(report))?;
        document.serialize_field("findings", &findings(report))?;
        document.serialize_field("advice", &advice(report))?;
        document.serialize_field("gaps", &snapshot.gaps as &Vec<Gap>)?;
        document.end()
    }
}

/// The limits as the snapshot has them, but with the names of network namespaces.
pub(crate) fn limits(snapshot: &Snapshot) -> Vec<LimitInFull<'_>> {
    let table = |table: TableId| TableOf {
        kind: table.kind,
        netns: snapshot.namespace(table.netns).map_or("", |namespace| namespace.name.as_str()),
    };
    let limits = snapshot.limits.iter();
    limits.map(|limit| LimitInFull { limit, table: limit.table.map(table) }).collect()
}

/// One element of `limits`.
#[derive(Serialize)]
pub(crate) struct LimitInFull<'a> {
    #[serde(flatten, serialize_with = "without_table")]
    limit: &'a IdleLimit,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<TableOf<'a>>,
}

#[derive(Serialize)]
struct TableOf<'a> {
    kind: TableKind,
    netns: &'a str,
}

fn without_table<S: Serializer>(limit: &IdleLimit, to: S) -> Result<S::Ok, S::Error> {
    IdleLimit { table: None, ..limit.clone() }.serialize(to)
}

struct Rows<'a>(&'a Report<'a>);

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let report = self.0;
        to.collect_seq(report.rows.iter().map(|&row| {
            let (c, d) = report.row(row);
            Row { if_ipvs: if_ipvs(report, row), ..Row::new(report, c, d) }
        }))
    }
}

/// One element of `connections`.
#[derive(Serialize)]
struct Row<'a> {
    local: std::net::SocketAddr,
    peer: std::net::SocketAddr,
    netns: &'a str,
    state: State,
    role: stillopen_model::Role,
    waiting: Waiting,
    quiet_s: Option<f64>,
    keepalive: KeepaliveRow,
    user_timeout_s: Option<f64>,
    owner: Option<Owner<'a>>,
    verdict: &'static str,
    proof: Option<&'static str>,
    missing: Option<&'static str>,
    cut_in_s: Option<f64>,
    margin_s: Option<f64>,
    limit: Option<LimitRow<'a>>,
    findings: FindingSet,
    because: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tables: Vec<TableRow<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    if_ipvs: Option<IfIpvs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    far_end: Option<FarEndRow<'a>>,
}

/// What a table that the connection passes says of it.
#[derive(Serialize)]
struct TableRow<'a> {
    kind: TableKind,
    netns: &'a str,
    #[serde(flatten)]
    entry: Entry,
}

/// What would become of a connection to a Service if kube-proxy ran in IPVS mode.
#[derive(Serialize)]
struct IfIpvs {
    verdict: &'static str,
    cut_in_s: Option<f64>,
}

fn if_ipvs(report: &Report<'_>, row: u32) -> Option<IfIpvs> {
    let (verdict, _) = report.assumed.trouble(row)?;
    let cut_in_s = match verdict {
        Verdict::AtRisk { cut_in } => Some(seconds(cut_in)),
        _ => None,
    };
    Some(IfIpvs { verdict: verdict.name(), cut_in_s })
}

/// Keepalive of one end.
#[derive(Serialize)]
pub(crate) struct KeepaliveRow {
    state: &'static str,
    idle_s: Option<f64>,
    interval_s: Option<f64>,
    count: Option<u32>,
}

#[derive(Serialize)]
struct Owner<'a> {
    pid: u32,
    command: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<&'a Pod>,
}

#[derive(Serialize)]
struct LimitRow<'a> {
    id: &'a str,
    idle_timeout_s: f64,
}

#[derive(Serialize)]
struct FarEndRow<'a> {
    netns: &'a str,
    owner: Option<Owner<'a>>,
    keepalive: KeepaliveRow,
}

impl<'a> Row<'a> {
    fn new(report: &'a Report<'a>, c: &'a Connection, d: &'a Diagnosis) -> Self {
        let snapshot = report.snapshot;
        let (proof, missing, cut_in, margin) = match d.verdict {
            Verdict::Safe { margin } => (None, None, None, margin),
            Verdict::AtRisk { cut_in } => (None, None, Some(cut_in), None),
            Verdict::Cut { proof } => (Some(proof.name()), None, None, None),
            Verdict::Unknown { missing } => (None, Some(missing.name()), None, None),
        };
        Self {
            local: c.local,
            peer: c.peer,
            netns: namespace(report, c.netns),
            state: c.state,
            role: c.role,
            waiting: c.waiting(),
            quiet_s: c.quiet().map(seconds),
            keepalive: c.keepalive.into(),
            user_timeout_s: c.user_timeout.map(|time| seconds(time.get())),
            owner: owner(report, c.owner),
            verdict: d.verdict.name(),
            proof,
            missing,
            cut_in_s: cut_in.map(seconds),
            margin_s: margin.map(seconds),
            limit: words::limit(snapshot, d).map(|limit| LimitRow {
                id: &limit.id,
                idle_timeout_s: seconds(limit.timeout_of(c)),
            }),
            findings: d.findings,
            because: words::because(snapshot, c, d),
            tables: c
                .tables
                .iter()
                .map(|witness| TableRow {
                    kind: witness.table.kind,
                    netns: namespace(report, witness.table.netns),
                    entry: witness.entry,
                })
                .collect(),
            if_ipvs: None,
            far_end: c.far_end.as_deref().map(|far| FarEndRow {
                netns: namespace(report, far.netns),
                owner: owner(report, far.owner),
                keepalive: far.keepalive.into(),
            }),
        }
    }
}

impl From<Keepalive> for KeepaliveRow {
    fn from(keepalive: Keepalive) -> Self {
        let (state, times) = match keepalive {
            Keepalive::Off(times) => ("off", times),
            Keepalive::On(times) => ("on", times),
            Keepalive::Unknown => ("unknown", stillopen_model::KeepaliveTimes::default()),
        };
        Self {
            state,
            idle_s: times.idle.map(|time| seconds(time.get())),
            interval_s: times.interval.map(|time| seconds(time.get())),
            count: times.count,
        }
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn namespace<'a>(report: &'a Report<'a>, index: u32) -> &'a str {
    report.snapshot.namespace(index).map(|namespace| namespace.name.as_str()).unwrap_or_default()
}

fn owner<'a>(report: &'a Report<'a>, index: Option<u32>) -> Option<Owner<'a>> {
    let process = report.snapshot.process(index)?;
    Some(Owner { pid: process.pid, command: &process.command, pod: process.pod.as_ref() })
}

/// One element of `findings`.
#[derive(Serialize)]
struct FindingRow {
    id: &'static str,
    connections: usize,
    title: &'static str,
    cure: &'static str,
}

fn findings(report: &Report<'_>) -> Vec<FindingRow> {
    let row = |&(finding, connections): &(Finding, usize)| FindingRow {
        id: finding.id(),
        connections,
        title: finding.title(),
        cure: finding.cure(),
    };
    report.findings.iter().map(row).collect()
}

/// One element of `advice`.
#[derive(Serialize)]
struct AdviceRow {
    remedy: &'static str,
    connections: usize,
    keepalive: Option<KeepaliveValues>,
    predicted: Option<Counts>,
    can_be_undone: bool,
}

fn advice(report: &Report<'_>) -> Vec<AdviceRow> {
    report
        .proposals
        .iter()
        .map(|proposal| {
            let remedy = proposal.planned.remedy;
            AdviceRow {
                remedy: remedy.name(),
                connections: proposal.planned.connections.len(),
                keepalive: match remedy {
                    Remedy::EnableKeepalive(values) | Remedy::SendAgain(values) => Some(values),
                    Remedy::SendPayload | Remedy::CloseInProgram => None,
                },
                predicted: proposal.predicted,
                can_be_undone: remedy.can_be_undone(),
            }
        })
        .collect()
}
