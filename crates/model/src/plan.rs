//! What to do about a diagnosis, and what it would lead to: proposed, predicted, never applied here.

use std::time::Duration;

use crate::{
    Connection, Diagnosis, Finding, IdleLimit, Keepalive, KeepaliveValues, KernelHz, Miss, Proof,
    Refresh, Role, Snapshot, Timer, Verdict,
    diagnose::{Probing, verdicts_of_changed},
};

/// The advice wherever the limit allows it: survives two lost probes where the limit is above 120 s plus
/// the timers' slack, and notices a dead peer after 150 s.
pub const DEFAULT_KEEPALIVE: KeepaliveValues =
    KeepaliveValues { idle: Duration::from_secs(60), interval: Duration::from_secs(30), count: 3 };

/// How many lost probes in a row advised values survive.
const LOST_PROBES_TO_SURVIVE: u32 = 2;

/// Something that can be done about connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Turn keepalive on with these values. Can be undone: the old values are put back (a `TCP_KEEPIDLE`
    /// that was never set comes back as its number).
    EnableKeepalive(KeepaliveValues),
    /// Have the program send payload in time, or raise the proxy's timer: no socket option helps.
    SendPayload,
    /// Have the program read the end of the stream and close.
    CloseInProgram,
    /// Have the program end the request and send it again, on a connection with these keepalive values.
    SendAgain(KeepaliveValues),
}

impl Remedy {
    /// The word of the JSON output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::EnableKeepalive(_) => "enable_keepalive",
            Self::SendPayload => "send_payload",
            Self::CloseInProgram => "close_in_program",
            Self::SendAgain(_) => "send_again",
        }
    }

    /// What is lost comes first, then what will be; equal ones by their values.
    fn rank(self) -> (u8, Option<(Duration, Duration, u32)>) {
        let key = |values: KeepaliveValues| Some((values.idle, values.interval, values.count));
        match self {
            Self::SendAgain(values) => (0, key(values)),
            Self::EnableKeepalive(values) => (1, key(values)),
            Self::SendPayload => (2, None),
            Self::CloseInProgram => (3, None),
        }
    }

    /// Whether what it does can be undone.
    #[must_use]
    pub fn can_be_undone(self) -> bool {
        matches!(self, Self::EnableKeepalive(_))
    }
}

/// A remedy with the connections that it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// What to do.
    pub remedy: Remedy,
    /// Positions of the connections in the snapshot.
    pub connections: Vec<u32>,
}

/// Proposes remedies for what `diagnoses` found; each connection is in one of them at most.
///
/// Keepalive is proposed for what is at risk, and where no limit is known at all for what is unprotected; for
/// what is cut only where a probe makes the entry anew: behind IPVS it draws a reset. Nothing irreversible
/// is ever proposed but to the program itself.
#[must_use]
pub fn plan(snapshot: &Snapshot, diagnoses: &[Diagnosis]) -> Vec<Planned> {
    let mut planned: Vec<Planned> = Vec::new();
    let recommended = |limit| Recommended::under(limit, snapshot.host.hz);
    let limits: Vec<_> = snapshot.limits.iter().map(recommended).collect();
    for (index, (c, diagnosis)) in (0..).zip(snapshot.connections.iter().zip(diagnoses)) {
        let Some(remedy) = remedy_for(&limits, c, diagnosis) else { continue };
        match planned.iter_mut().find(|planned| planned.remedy == remedy) {
            Some(planned) => planned.connections.push(index),
            None => planned.push(Planned { remedy, connections: vec![index] }),
        }
    }
    // The kernel lists sockets in any order: what is proposed first does not follow from that.
    planned.sort_by_key(|planned| planned.remedy.rank());
    planned
}

/// A limit with what is advised under it.
struct Recommended<'a> {
    limit: &'a IdleLimit,
    keepalive: Option<KeepaliveValues>,
}

impl<'a> Recommended<'a> {
    fn under(limit: &'a IdleLimit, hz: KernelHz) -> Self {
        Self { limit, keepalive: recommended_keepalive(limit.idle_timeout, hz) }
    }
}

fn remedy_for(limits: &[Recommended<'_>], c: &Connection, diagnosis: &Diagnosis) -> Option<Remedy> {
    let has = |finding| diagnosis.findings.contains(finding);
    if has(Finding::PeerClosed) {
        return Some(Remedy::CloseInProgram);
    }
    let decides = diagnosis.limit.and_then(|index| limits.get(index as usize));
    if decides.is_some_and(|decides| decides.limit.refreshed_by == Refresh::PayloadOnly) {
        return (!matches!(diagnosis.verdict, Verdict::Safe { .. })).then_some(Remedy::SendPayload);
    }
    if has(Finding::Unanswered) || has(Finding::DeadPeer) {
        return None;
    }
    let values = match (diagnosis.verdict, decides) {
        (Verdict::AtRisk { .. }, Some(decides)) => decides.keepalive?,
        (Verdict::Cut { proof: Proof::NoEntry }, Some(decides)) if heals(c, decides.limit) => {
            decides.keepalive?
        }
        (Verdict::Cut { .. }, Some(decides)) => return decides.keepalive.map(Remedy::SendAgain),
        (Verdict::Unknown { .. }, None) if has(Finding::KeepaliveOff) && limits.is_empty() => {
            DEFAULT_KEEPALIVE
        }
        _ => return None,
    };
    (c.keepalive.on_values() != Some(values)).then_some(Remedy::EnableKeepalive(values))
}

/// Whether a packet of this end makes a forgotten entry anew.
#[must_use]
pub fn heals(c: &Connection, limit: &IdleLimit) -> bool {
    limit.client_meets == Some(Miss::Recreate) && c.role == Role::Client && c.send_queue == 0
}

/// Keepalive values for a path that forgets after `idle_timeout`: the default where it survives two lost
/// probes in a row, tighter only where the limit demands it; `None` where no whole second is short enough.
///
/// Neither idle nor interval ever equals the limit.
#[must_use]
pub fn recommended_keepalive(idle_timeout: Duration, hz: KernelHz) -> Option<KeepaliveValues> {
    let fits = |values: &KeepaliveValues, lost: u32| {
        values.lost_probes_survived(idle_timeout, hz).is_some_and(|survived| survived >= lost)
    };
    let tighter = |divisor: u64| {
        let interval = Duration::from_secs((idle_timeout.as_secs() / divisor).max(1));
        KeepaliveValues { idle: interval * 2, interval, count: DEFAULT_KEEPALIVE.count }
    };
    let second = Duration::from_secs(1);
    let shortest =
        KeepaliveValues { idle: second, interval: second, count: DEFAULT_KEEPALIVE.count };
    // idle + 2 intervals is 4 intervals where idle is 2: a fifth or less of the limit leaves room for slack.
    let ladder = [DEFAULT_KEEPALIVE, tighter(5), tighter(6), shortest];
    ladder
        .into_iter()
        .find(|values| fits(values, LOST_PROBES_TO_SURVIVE))
        .or_else(|| Some(shortest).filter(|values| fits(values, 0)))
}

/// The verdicts of a planned remedy's connections after it, in their order; `None` where it is not for a
/// socket option to do, so that nothing can be promised.
#[must_use]
pub fn predict<'a>(
    snapshot: &'a Snapshot,
    planned: &'a Planned,
) -> Option<impl Iterator<Item = Verdict> + 'a> {
    let Remedy::EnableKeepalive(values) = planned.remedy else { return None };
    let changed = planned
        .connections
        .iter()
        .filter_map(|&index| snapshot.connections.get(index as usize))
        .map(move |c| (c, enabled(c, values)));
    Some(verdicts_of_changed(snapshot, changed))
}

/// Keepalive after it was turned on with `TCP_KEEPIDLE` set last: its first probe is due `idle` after the
/// last packet, at once where that has passed (measured).
fn enabled(c: &Connection, values: KeepaliveValues) -> Probing {
    let quiet = c.quiet().unwrap_or_default();
    Probing {
        keepalive: Keepalive::On(values.times()),
        timer: Timer::Keepalive,
        expires: Some(values.idle.saturating_sub(quiet)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_advised_down_to_where_it_no_longer_survives_two_lost_probes() {
        let hz = KernelHz::Known(250);
        for (limit_s, advised) in [
            (900, Some("60/30/3")),
            (240, Some("60/30/3")),
            (130, Some("60/30/3")),
            (120, Some("48/24/3")),
            (60, Some("24/12/3")),
            (20, Some("8/4/3")),
            (10, Some("4/2/3")),
            (3, Some("1/1/3")),
            (2, Some("1/1/3")),
            (1, None),
        ] {
            let values = recommended_keepalive(Duration::from_secs(limit_s), hz);
            assert_eq!(values.map(|v| v.to_string()).as_deref(), advised, "{limit_s} s");
        }
    }
}
