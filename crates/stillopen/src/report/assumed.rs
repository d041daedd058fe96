//! What would become of connections to Services if kube-proxy ran in IPVS mode: a conditional, for where its
//! mode can't be read. It is no verdict, and never counts as trouble.

use std::net::IpAddr;

use stillopen_model::{
    Catalogue, Connection, Diagnosis, IdleLimit, KnownService, Missing, Selector, Snapshot,
    TimerSlack, Verdict, diagnose,
};

/// The row of the catalogue that is assumed.
const IPVS: &str = "kubernetes-ipvs";

/// The connections that the assumption is made for.
#[derive(Default)]
pub(crate) struct Assumed {
    /// Positions in the snapshot, ascending, each with its verdict under the assumption.
    rows: Vec<(u32, Verdict)>,
    limit: Option<IdleLimit>,
}

impl Assumed {
    pub(super) fn of(snapshot: &Snapshot, diagnoses: &[Diagnosis], rows: &[u32]) -> Self {
        if snapshot.services.is_empty() || snapshot.kube_proxy.is_some() {
            return Self::default();
        }
        let no_limit = Verdict::Unknown { missing: Missing::Limit };
        let positions: Vec<u32> = rows
            .iter()
            .copied()
            .filter(|&row| diagnoses[row as usize].verdict == no_limit)
            .filter(|&row| service(snapshot, &snapshot.connections[row as usize]).is_some())
            .collect();
        if positions.is_empty() {
            return Self::default();
        }
        let limit = limit(snapshot);
        let assuming = Snapshot {
            connections: positions
                .iter()
                .map(|&row| snapshot.connections[row as usize].clone())
                .collect(),
            namespaces: snapshot.namespaces.clone(),
            processes: snapshot.processes.clone(),
            limits: vec![limit.clone()],
            ..Snapshot::new(snapshot.taken_at.clone(), snapshot.host.clone())
        };
        let verdicts = diagnose(&assuming).into_iter().map(|diagnosis| diagnosis.verdict);
        Self { rows: positions.into_iter().zip(verdicts).collect(), limit: Some(limit) }
    }

    /// The verdict of a row under the assumption, where it is one that matters.
    pub(super) fn trouble(&self, row: u32) -> Option<(Verdict, &IdleLimit)> {
        let at = self.rows.binary_search_by_key(&row, |assumed| assumed.0).ok()?;
        let verdict = self.rows[at].1;
        let is_trouble = matches!(verdict, Verdict::AtRisk { .. } | Verdict::Cut { .. });
        self.limit.as_ref().filter(|_| is_trouble).map(|limit| (verdict, limit))
    }

    /// The rows that would be in trouble.
    pub(super) fn in_trouble(&self) -> impl Iterator<Item = u32> {
        self.rows.iter().map(|&(row, _)| row).filter(|&row| self.trouble(row).is_some())
    }
}

/// The Service that a connection is to.
pub(super) fn service<'a>(snapshot: &'a Snapshot, c: &Connection) -> Option<&'a KnownService> {
    let peer: IpAddr = c.peer.ip().to_canonical();
    snapshot.services.iter().find(|service| service.network.contains(&peer))
}

fn limit(snapshot: &Snapshot) -> IdleLimit {
    let row = Catalogue::builtin().find(IPVS).expect("a row of the catalogue, by a test");
    let limit = row.to_limit().expect("it is an idle limit, by a test");
    let peers = snapshot.services.iter().map(|service| service.network).collect();
    let selector = Selector { peers, ..Selector::default() };
    // A pod runs on the kernel that would have the table.
    IdleLimit { selector, slack: TimerSlack::Wheel { hz: snapshot.host.hz }, ..limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_assumed_is_in_the_catalogue() {
        assert!(Catalogue::builtin().find(IPVS).unwrap().to_limit().is_ok());
    }
}
