//! What the tests read of `--json`.

use serde::Deserialize;

use crate::socket::{Connection, Values};

#[derive(Debug, Deserialize)]
pub(crate) struct Report {
    pub(crate) left_out: LeftOut,
    pub(crate) connections: Vec<Row>,
    pub(crate) gaps: Vec<Gap>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct LeftOut {
    pub(crate) loopback: usize,
    pub(crate) same_namespace: usize,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Row {
    pub(crate) local: String,
    pub(crate) peer: String,
    pub(crate) netns: String,
    pub(crate) state: String,
    pub(crate) waiting: String,
    pub(crate) quiet_s: Option<f64>,
    pub(crate) keepalive: Keepalive,
    pub(crate) owner: Option<Owner>,
    pub(crate) verdict: String,
    pub(crate) proof: Option<String>,
    pub(crate) missing: Option<String>,
    pub(crate) cut_in_s: Option<f64>,
    pub(crate) limit: Option<Limit>,
    pub(crate) findings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Keepalive {
    pub(crate) state: String,
    pub(crate) idle_s: Option<f64>,
    pub(crate) interval_s: Option<f64>,
    pub(crate) count: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    pub(crate) command: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Limit {
    pub(crate) id: String,
    pub(crate) idle_timeout_s: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Gap {
    pub(crate) source: String,
    pub(crate) reason: String,
    pub(crate) how: String,
}

impl Report {
    /// The row of a connection that the client's namespace was read for.
    #[track_caller]
    pub(crate) fn row(&self, connection: &Connection) -> &Row {
        self.row_between(&connection.local(), &connection.peer())
    }

    /// The one row with these ends.
    #[track_caller]
    pub(crate) fn row_between(&self, local: &str, peer: &str) -> &Row {
        let is_it = |row: &&Row| row.local == local && row.peer == peer;
        let rows: Vec<&Row> = self.connections.iter().filter(is_it).collect();
        let [row] = rows[..] else { panic!("{} rows of {local} -> {peer}: {self:#?}", rows.len()) };
        row
    }

    /// The gap of a source.
    #[track_caller]
    pub(crate) fn gap(&self, source: &str) -> &Gap {
        let gap = self.gaps.iter().find(|gap| gap.source == source);
        gap.unwrap_or_else(|| panic!("no gap says that {source} are missing: {:?}", self.gaps))
    }
}

impl Row {
    pub(crate) fn has(&self, finding: &str) -> bool {
        self.findings.iter().any(|id| id == finding)
    }

    /// The verdict, the limit that decides and the findings, all at once.
    #[track_caller]
    pub(crate) fn is(&self, verdict: &str, limit: &str, findings: &[&str]) {
        let got = (self.verdict.as_str(), self.limit.as_ref().map(|limit| limit.id.as_str()));
        assert_eq!(got, (verdict, Some(limit)), "{self:#?}");
        assert_eq!(self.findings, findings, "{self:#?}");
    }
}

impl Keepalive {
    /// With all its values known.
    pub(crate) fn known(state: &str, Values(idle, interval, count): Values) -> Self {
        let seconds = |s: u64| Some(std::time::Duration::from_secs(s).as_secs_f64());
        Self {
            state: state.to_owned(),
            idle_s: seconds(idle),
            interval_s: seconds(interval),
            count: Some(count),
        }
    }
}
