//! Which connections a rescue arms, and why it leaves the others alone. Pure.

use stillopen_model::{
    Connection, DEFAULT_KEEPALIVE, Diagnosis, Finding, KeepaliveValues, Missing, Planned, Refresh,
    Remedy, Snapshot, Verdict, heals, predict, recommended_keepalive,
};

/// What is to be done about one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Turn keepalive on with these values; then the verdict is this.
    Arm(KeepaliveValues, Verdict),
    /// Leave it as it is.
    Leave(Left),
}

/// Why a connection is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It is refreshed in time, or nothing on its way forgets.
    Safe,
    /// The path has forgotten it: a probe does not bring it back.
    Cut,
    /// Its verdict is unknown, and only what is at risk was asked for.
    Unknown,
    /// Its limit counts payload only.
    PayloadOnly,
    /// The peer has closed it.
    PeerClosed,
    /// The peer answers neither data nor probes: keepalive would end it.
    Unanswered,
    /// It is not established yet.
    Handshake,
    /// No values in whole seconds come in time.
    TooTight,
    /// The values that were asked for come too late under its limit.
    TooLate,
    /// Keepalive is on, with these values or sooner.
    AlreadyOn,
}

impl Left {
    /// The word of the JSON output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Cut => "cut",
            Self::Unknown => "unknown",
            Self::PayloadOnly => "payload_only",
            Self::PeerClosed => "peer_closed",
            Self::Unanswered => "unanswered",
            Self::Handshake => "handshake",
            Self::TooTight => "too_tight",
            Self::TooLate => "too_late",
            Self::AlreadyOn => "already_on",
        }
    }
}

/// What a rescue does about connection number `index`.
///
/// `keepalive`: the values that were asked for; without, what its limit demands. `unknown_too`: it was named
/// by a selector, so that an unknown verdict does not spare it.
#[must_use]
pub fn choose(
    snapshot: &Snapshot,
    index: u32,
    diagnosis: &Diagnosis,
    keepalive: Option<KeepaliveValues>,
    unknown_too: bool,
) -> Choice {
    let c = &snapshot.connections[index as usize];
    match values(snapshot, c, diagnosis, keepalive, unknown_too) {
        Err(left) => Choice::Leave(left),
        Ok(values) => {
            let planned =
                Planned { remedy: Remedy::EnableKeepalive(values), connections: vec![index] };
            let after = predict(snapshot, &planned).and_then(|mut verdicts| verdicts.next());
            match after {
                Some(after) => Choice::Arm(values, after),
                None => Choice::Leave(Left::TooTight),
            }
        }
    }
}

fn values(
    snapshot: &Snapshot,
    c: &Connection,
    diagnosis: &Diagnosis,
    keepalive: Option<KeepaliveValues>,
    unknown_too: bool,
) -> Result<KeepaliveValues, Left> {
    let has = |finding| diagnosis.findings.contains(finding);
    let limit = diagnosis.limit.and_then(|index| snapshot.limits.get(index as usize));
    if has(Finding::PeerClosed) {
        return Err(Left::PeerClosed);
    }
    let at_risk = match diagnosis.verdict {
        Verdict::Safe { .. } => return Err(Left::Safe),
        Verdict::Cut { .. } if !limit.is_some_and(|limit| heals(c, limit)) => {
            return Err(Left::Cut);
        }
        Verdict::Unknown { missing: Missing::Handshake } => return Err(Left::Handshake),
        Verdict::Unknown { .. } if !unknown_too => return Err(Left::Unknown),
        Verdict::Unknown { .. } => false,
        Verdict::AtRisk { .. } | Verdict::Cut { .. } => true,
    };
    if has(Finding::Unanswered) || has(Finding::DeadPeer) {
        return Err(Left::Unanswered);
    }
    if limit.is_some_and(|limit| limit.refreshed_by == Refresh::PayloadOnly) {
        return Err(Left::PayloadOnly);
    }
    let advised = || match limit {
        Some(limit) => recommended_keepalive(limit.timeout_of(c), snapshot.host.hz),
        None => Some(DEFAULT_KEEPALIVE),
    };
    let values = keepalive.or_else(advised).ok_or(Left::TooTight)?;
    if let Some(limit) = limit
        && values.lost_probes_survived(limit.timeout_of(c), snapshot.host.hz).is_none()
    {
        return Err(Left::TooLate);
    }
    match c.keepalive.on_values() {
        Some(on) if on == values => Err(Left::AlreadyOn),
        // What the program set stays where it is sooner and nothing shows that it is too late.
        Some(on) if !at_risk && on.period() <= values.period() => Err(Left::AlreadyOn),
        _ => Ok(values),
    }
}

/// So many retransmission timeouts in a row take about a minute at the least: 0.2 s, doubled each time
/// (`TCP_RTO_MIN`, `include/net/tcp.h`). Fewer are a path that is down for a moment.
const GIVEN_UP_AFTER: u8 = 8;

/// Whether a connection looks dead: the path has forgotten it and no packet of this end brings it back, or its peer
/// answers neither probes nor, for about a minute, data. It is asked a last time before it is ended.
#[must_use]
pub fn is_dead(snapshot: &Snapshot, c: &Connection, diagnosis: &Diagnosis) -> bool {
    let limit = diagnosis.limit.and_then(|index| snapshot.limits.get(index as usize));
    let cut = matches!(diagnosis.verdict, Verdict::Cut { .. })
        && !limit.is_some_and(|limit| heals(c, limit));
    let has = |finding| diagnosis.findings.contains(finding);
    cut || has(Finding::Unanswered) || (has(Finding::DeadPeer) && c.retransmits >= GIVEN_UP_AFTER)
}
