//! What becomes of each connection: a verdict, the limit that decides it, and findings.
//!
//! One function a question, in this order: what the socket alone shows (`socket_findings`), which limits
//! lie on its path (`path.rs`), what each of the deciding ones means for it (`under_any_packet`,
//! `under_payload_only`), and what the verdict adds (`verdict_findings`). Read `peer.rs` for what is
//! known of probes that leave no stamp.

use std::{cell::OnceCell, time::Duration};

use crate::{
    Connection, ConntrackSettings, Entry, Expiry, FarEnd, Finding, FindingSet, IdleLimit,
    Keepalive, KeepaliveTimes, KeepaliveValues, KernelHz, Millis, Namespace, OnHost, Refresh,
    Snapshot, State, Sysctls, TableKind, Timer, TimerKind, Waiting, path,
    peer::{probes_needed, probes_possible},
    plan::heals,
    program::{ProgramTimer, program_timers},
    table,
};

/// Retransmission timeouts in a row, without any answer, from which a peer is called dead: one happens on
/// any lossy path.
const DEAD_AFTER_RETRANSMITS: u8 = 2;
/// Unanswered keepalive probes in a row from which they are called unanswered: one may be under way.
const UNANSWERED_PROBES: u8 = 2;
/// Unanswered SYNs in a row from which that is said.
const UNANSWERED_SYNS: u8 = 2;

/// A probe that leaves within that time is as good as sent.
const DUE: Duration = Duration::from_secs(1);

/// What becomes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is refreshed in time, or nothing on its way forgets.
    Safe {
        /// From the latest refresh to the limit; `None`: nothing on its way forgets.
        margin: Option<Duration>,
    },
    /// If it stays quiet, it will be cut.
    AtRisk {
        /// From now to the earliest moment that it may be cut.
        cut_in: Duration,
    },
    /// The path has forgotten it, and nobody will be told.
    Cut {
        /// How that is known.
        proof: Proof,
    },
    /// It can't be told.
    Unknown {
        /// What would have to be known.
        missing: Missing,
    },
}

impl Verdict {
    /// The word of the JSON output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Safe { .. } => "safe",
            Self::AtRisk { .. } => "at_risk",
            Self::Cut { .. } => "cut",
            Self::Unknown { .. } => "unknown",
        }
    }

    /// Which of the verdicts of several limits holds: certain trouble first, then doubt, then the rest.
    fn urgency(self) -> u8 {
        match self {
            Self::Cut { .. } => 3,
            Self::AtRisk { .. } => 2,
            Self::Unknown { .. } => 1,
            Self::Safe { .. } => 0,
        }
    }

    /// The one of two verdicts, under two limits, that decides.
    fn worse_than(self, other: Self) -> bool {
        match (self, other) {
            (Self::AtRisk { cut_in: a }, Self::AtRisk { cut_in: b })
            | (Self::Safe { margin: Some(a) }, Self::Safe { margin: Some(b) }) => a < b,
            (Self::Safe { margin: Some(_) }, Self::Safe { margin: None }) => true,
            _ => self.urgency() > other.urgency(),
        }
    }
}

/// How it is known that a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// The table that it passes was read completely, twice, and has no entry for it.
    NoEntry,
    /// It was quiet for longer than the limit and its slack, and the peer provably sent nothing.
    Inferred,
}

impl Proof {
    /// The word of the JSON output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoEntry => "no_entry",
            Self::Inferred => "inferred",
        }
    }
}

/// What would have to be known for a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// An idle limit on its path.
    Limit,
    /// The kernel gave no stamps of this socket.
    Stamps,
    /// Whether keepalive is on.
    Keepalive,
    /// Keepalive is on; its values could not be read.
    KeepaliveValues,
    /// Whether the peer's probes refresh the path.
    PeerKeepalive,
    /// Whether the peer is still there: it answers neither data nor probes.
    PeerAnswer,
    /// What the limit is for a half-closed connection.
    HalfClosedTimeout,
    /// It is not established yet.
    Handshake,
    /// Whether keepalive probes refresh the limit.
    Refresh,
    /// What the limit does when its time is up.
    Expiry,
    /// Whether it passes the table that has no entry for it, though it was not quiet for long enough.
    Entry,
}

impl Missing {
    /// The word of the JSON output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Stamps => "stamps",
            Self::Keepalive => "keepalive",
            Self::KeepaliveValues => "keepalive_values",
            Self::PeerKeepalive => "peer_keepalive",
            Self::PeerAnswer => "peer_answer",
            Self::HalfClosedTimeout => "half_closed_timeout",
            Self::Handshake => "handshake",
            Self::Refresh => "refresh",
            Self::Expiry => "expiry",
            Self::Entry => "entry",
        }
    }
}

/// The diagnosis of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Diagnosis {
    /// What becomes of it.
    pub verdict: Verdict,
    /// Which of the snapshot's limits decides.
    pub limit: Option<u32>,
    /// Faults that it has, or that it looks like.
    pub findings: FindingSet,
}

/// Diagnoses each connection of a snapshot, in its order. One connection's diagnosis does not depend on
/// another's.
#[must_use]
pub fn diagnose(snapshot: &Snapshot) -> Vec<Diagnosis> {
    let context = Context::new(snapshot);
    snapshot.connections.iter().map(|c| context.diagnose_one(c)).collect()
}

/// The verdicts of connections of `snapshot`, each as if its own end probed otherwise.
pub(crate) fn verdicts_of_changed<'a>(
    snapshot: &'a Snapshot,
    changed: impl Iterator<Item = (&'a Connection, Probing)> + 'a,
) -> impl Iterator<Item = Verdict> + 'a {
    let context = Context::new(snapshot);
    changed.map(move |(c, own)| context.verdict(c, own, &mut socket_findings(c, own)).0)
}

/// What an end does to refresh the path, now or after a remedy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probing {
    pub keepalive: Keepalive,
    /// What its timer is armed for.
    pub timer: Timer,
    /// When that fires, from now.
    pub expires: Option<Duration>,
}

impl Probing {
    fn of(c: &Connection) -> Self {
        let expires = c.timer_expires.map(Millis::get);
        Self { keepalive: c.keepalive, timer: c.timer, expires }
    }

    fn of_far_end(far: &FarEnd) -> Self {
        Self { keepalive: far.keepalive, timer: far.timer, expires: far.timer_expires }
    }

    /// When the next packet crosses the path at the latest, counted from the last one, on a connection
    /// that has been quiet for `quiet`. `None` where keepalive is off or not known.
    ///
    /// The timer that is armed now counts as well: an end that set `TCP_KEEPIDLE` before `SO_KEEPALIVE`
    /// waits a whole idle from that moment, however long the connection had been quiet. While the peer's
    /// window is closed, window probes go out instead, farther and farther apart.
    fn next_refresh(self, quiet: Duration, hz: KernelHz) -> Option<Duration> {
        let values = self.keepalive.on_values().filter(|_| self.timer != Timer::ZeroWindow)?;
        let usual = values.latest_refresh(hz);
        let armed = match (self.timer, self.expires) {
            (Timer::Keepalive, Some(expires)) if quiet + expires > values.idle => {
                quiet + expires + hz.slack(expires)
            }
            _ => Duration::ZERO,
        };
        Some(usual.max(armed))
    }

    /// When this end's next probe leaves at the latest, from now; `None` where none is armed.
    ///
    /// A timer that was armed before the last packet fires early and is armed anew for what is left of idle.
    fn next_probe(self, quiet: Duration, hz: KernelHz) -> Option<Duration> {
        let values = self.keepalive.on_values().filter(|_| self.timer == Timer::Keepalive)?;
        let next = self.expires.unwrap_or_default().max(values.idle.saturating_sub(quiet));
        Some(next + hz.slack(next))
    }

    /// By how much this end's probes are in time for an entry with `remaining` left, the next one and each
    /// after it; `None` where one is not, or that is not known.
    fn margin_of_entry(
        self,
        timeout: Duration,
        remaining: Duration,
        quiet: Duration,
        hz: KernelHz,
    ) -> Option<Duration> {
        let values = self.keepalive.on_values()?;
        let next = self.next_probe(quiet, hz)?;
        let every = timeout.checked_sub(values.latest_refresh(hz))?;
        let margin = remaining.checked_sub(next)?.min(every);
        (!margin.is_zero()).then_some(margin)
    }
}

/// What one limit means for a connection.
#[derive(Clone, Copy)]
struct Decided {
    verdict: Verdict,
    index: u32,
    /// For the state of the connection; the longest where it is not known.
    timeout: Duration,
}

impl Decided {
    /// Whether this limit decides rather than another with the same kind of refresh: one that has certainly
    /// cut it, then the smallest that does not leave it safe.
    fn decides_over(self, other: Self) -> bool {
        let rank = |verdict| match verdict {
            Verdict::Cut { .. } => 2,
            Verdict::AtRisk { .. } | Verdict::Unknown { .. } => 1,
            Verdict::Safe { .. } => 0,
        };
        match (self.verdict, other.verdict) {
            (Verdict::Safe { margin: a }, Verdict::Safe { margin: b }) => a < b,
            // An entry knows better than the timeouts.
            (Verdict::AtRisk { cut_in: a }, Verdict::AtRisk { cut_in: b }) => a < b,
            (a, b) if rank(a) == rank(b) => self.timeout < other.timeout,
            (a, b) => rank(a) > rank(b),
        }
    }
}

/// What all connections of a snapshot share.
struct Context<'a> {
    snapshot: &'a Snapshot,
    hz: KernelHz,
    host_sysctls: Option<Sysctls>,
    /// The own timers of each process's program, looked up where a finding needs them: a verdict does not.
    programs: OnceCell<Vec<Vec<ProgramTimer>>>,
}

impl<'a> Context<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let host = snapshot.namespaces.iter().find(|namespace| namespace.is_host);
        Self {
            snapshot,
            hz: snapshot.host.hz,
            host_sysctls: host.and_then(|namespace| namespace.sysctls),
            programs: OnceCell::new(),
        }
    }

    fn program_timers(&self, process: u32) -> Option<&[ProgramTimer]> {
        let programs = self.programs.get_or_init(|| {
            let processes = self.snapshot.processes.iter();
            processes.map(|process| program_timers(&process.command).collect()).collect()
        });
        programs.get(process as usize).map(Vec::as_slice)
    }

    fn diagnose_one(&self, c: &Connection) -> Diagnosis {
        let own = Probing::of(c);
        let mut findings = socket_findings(c, own);
        let (verdict, limit) = self.verdict(c, own, &mut findings);
        self.verdict_findings(c, verdict, limit, &mut findings);
        Diagnosis { verdict, limit, findings }
    }

    /// The verdict where this end does `own`, and which limit decides it.
    fn verdict(
        &self,
        c: &Connection,
        own: Probing,
        findings: &mut FindingSet,
    ) -> (Verdict, Option<u32>) {
        let unknown = |missing| (Verdict::Unknown { missing }, None);
        if path::is_local(c, &self.snapshot.limits) {
            return (Verdict::Safe { margin: None }, None);
        }
        if c.state == State::SynSent {
            return unknown(Missing::Handshake);
        }
        if let Some(index) = self.forgotten_by(c) {
            // What is retransmitted into the hole does not speak of the peer.
            findings.remove(Finding::DeadPeer);
            return (self.without_entry(c, own, index), Some(index));
        }
        if findings.contains(Finding::DeadPeer) {
            return unknown(Missing::PeerAnswer);
        }
        let Some(quiet) = c.quiet() else { return unknown(Missing::Stamps) };

        // One that decides for each kind of refresh: keepalive may settle the one and not the other.
        let mut deciding: [Option<Decided>; 3] = [None; 3];
        for (index, limit) in path::limits_of(c, &self.snapshot.limits) {
            if contradicts(c, own, limit, quiet) {
                findings.insert(Finding::LimitContradicted);
                continue;
            }
            let timeout = path::timeout_in_state(c, limit);
            let entry = c.entry_under(limit);
            let verdict = match (timeout, limit.refreshed_by) {
                _ if entry == Some(Entry::Absent) => {
                    if limit.table.is_some_and(|table| table::is_translated_beside(c, table)) {
                        continue;
                    }
                    Verdict::Unknown { missing: Missing::Entry }
                }
                _ if let Some(Entry::Present { remaining, .. }) = entry => {
                    self.under_entry(c, own, limit, remaining, quiet)
                }
                (None, _) => Verdict::Unknown { missing: Missing::HalfClosedTimeout },
                (Some(timeout), Refresh::AnyPacket | Refresh::Unknown) => {
                    self.under_any_packet(c, own, limit, timeout, quiet)
                }
                (Some(timeout), Refresh::PayloadOnly) => under_payload_only(c, limit, timeout),
            };
            let verdict = only_what_is_known(limit, c, verdict);
            let new = Decided { verdict, index, timeout: timeout.unwrap_or(Duration::MAX) };
            let of_kind = &mut deciding[limit.refreshed_by as usize];
            if of_kind.is_none_or(|old| new.decides_over(old)) {
                *of_kind = Some(new);
            }
        }
        let worst = deciding
            .into_iter()
            .flatten()
            .reduce(|a, b| if b.verdict.worse_than(a.verdict) { b } else { a });
        worst.map_or(unknown(Missing::Limit), |decided| (decided.verdict, Some(decided.index)))
    }

    /// Which limit's table had an entry of this connection and has none any more: the path has forgotten it.
    ///
    /// Not before the limit's time: it may be older than the table's services or rules, or take another way. And
    /// not where another table of the namespace translates it to its backend.
    fn forgotten_by(&self, c: &Connection) -> Option<u32> {
        if c.state == State::CloseWait {
            return None;
        }
        let outlived = |limit: &IdleLimit| {
            c.quiet().is_some_and(|quiet| quiet + table::READ_APART >= limit.timeout_of(c))
        };
        path::limits_of(c, &self.snapshot.limits)
            .filter(|(_, limit)| outlived(limit))
            .find(|(_, limit)| {
                limit.table.is_some_and(|table| {
                    c.entry_in(table) == Some(Entry::Absent)
                        && !table::is_translated_beside(c, table)
                })
            })
            .map(|(index, _)| index)
    }

    /// What it means that the table has no entry any more.
    ///
    /// Where the client's next packet makes it anew (conntrack with `tcp_loose`), a client with keepalive loses
    /// the answers that come before its next probe, and no others.
    fn without_entry(&self, c: &Connection, own: Probing, index: u32) -> Verdict {
        let limit = self.snapshot.limits.get(index as usize);
        let heals = limit.filter(|limit| heals(c, limit));
        let cut = Verdict::Cut { proof: Proof::NoEntry };
        let Some(limit) = heals else { return cut };
        let quiet = c.quiet().unwrap_or_default();
        let (Some(values), Some(next)) =
            (own.keepalive.on_values(), own.next_probe(quiet, self.hz))
        else {
            return cut;
        };
        let every = values.latest_refresh(self.hz);
        match limit.timeout_of(c).checked_sub(every) {
            // It is due: what comes after it arrives.
            Some(margin) if next < DUE => Verdict::Safe { margin: Some(margin) },
            _ => Verdict::AtRisk { cut_in: Duration::ZERO },
        }
    }

    /// What the entry of a table means, which tells how long it has left.
    fn under_entry(
        &self,
        c: &Connection,
        own: Probing,
        limit: &IdleLimit,
        remaining: Duration,
        quiet: Duration,
    ) -> Verdict {
        // A flow may have a shorter timeout of its own, which shows in what is left.
        let shown = quiet + remaining + table::READ_APART + c.stamp_uncertainty();
        let timeout = limit.timeout_of(c).min(shown);
        let far = c.far_end.as_deref().filter(|far| far.probes_unanswered < UNANSWERED_PROBES);
        let margin = [Some(own), far.map(Probing::of_far_end)]
            .into_iter()
            .flatten()
            .filter_map(|end| end.margin_of_entry(timeout, remaining, quiet, self.hz))
            .max();
        if let Some(margin) = margin {
            return if own_probes_unanswered(c, own, self.hz) {
                Verdict::Unknown { missing: Missing::PeerAnswer }
            } else {
                Verdict::Safe { margin: Some(margin) }
            };
        }
        if table::refreshed_unseen(c, limit, remaining, quiet) {
            return Verdict::Unknown { missing: Missing::PeerKeepalive };
        }
        Self::unless_keepalive_unknown(c, own, Verdict::AtRisk { cut_in: remaining })
    }

    /// What a limit means that every packet refreshes.
    fn under_any_packet(
        &self,
        c: &Connection,
        own: Probing,
        limit: &IdleLimit,
        timeout: Duration,
        quiet: Duration,
    ) -> Verdict {
        let unknown = |missing| Verdict::Unknown { missing };
        if c.watch.as_deref().is_some_and(|watch| watch.peer_probes > 0) {
            // The peer does probe, so it is open; `quiet` is only known to be no longer than the watch. How
            // often it probes, one probe does not tell.
            return match self.latest_refresh(c, own, timeout, quiet) {
                Some(latest) => Verdict::Safe { margin: Some(timeout.saturating_sub(latest)) },
                None => unknown(Missing::PeerKeepalive),
            };
        }
        let unanswered = own_probes_unanswered(c, own, self.hz);
        if quiet > timeout {
            return past_limit(c, own, timeout + limit.slack_of(timeout), quiet);
        }
        if let Some(latest) = self.latest_refresh(c, own, timeout, quiet) {
            return if unanswered {
                unknown(Missing::PeerAnswer)
            } else {
                Verdict::Safe { margin: Some(timeout.saturating_sub(latest)) }
            };
        }
        let cut_in = timeout.saturating_sub(quiet);
        Self::unless_keepalive_unknown(c, own, Verdict::AtRisk { cut_in })
    }

    /// `verdict`, which holds where no keepalive refreshes the path, unless that is not known.
    fn unless_keepalive_unknown(c: &Connection, own: Probing, verdict: Verdict) -> Verdict {
        let unknown = |missing| Verdict::Unknown { missing };
        let ends = [Some(own.keepalive), c.far_end.as_deref().map(|far| far.keepalive)];
        if ends.into_iter().flatten().any(|end| end.is_on() && end.on_values().is_none()) {
            return unknown(Missing::KeepaliveValues);
        }
        match own.keepalive {
            Keepalive::Unknown => unknown(Missing::Keepalive),
            Keepalive::On(_) | Keepalive::Off(_) => verdict,
        }
    }

    /// The latest time after a packet that the next one is certain to cross the path, where that is before
    /// `timeout`: by either end's keepalive, whichever is first.
    fn latest_refresh(
        &self,
        c: &Connection,
        own: Probing,
        timeout: Duration,
        quiet: Duration,
    ) -> Option<Duration> {
        let own = own.next_refresh(quiet, self.hz);
        let far = c.far_end.as_deref().and_then(|far| {
            Probing::of_far_end(far)
                .next_refresh(quiet, self.hz)
                .filter(|_| far.probes_unanswered < UNANSWERED_PROBES)
        });
        // What a full receive buffer draws are window probes, farther and farther apart.
        let watched = c.watch.as_deref().filter(|_| c.receive_queue == 0).and_then(|watch| {
            // n probes within the watch: n - 1 whole periods fit into it.
            let periods = watch.peer_probes.checked_sub(1).filter(|&n| n > 0)?;
            Some(watch.after / periods)
        });
        [own, far, watched].into_iter().flatten().min().filter(|latest| *latest < timeout)
    }

    /// What the verdict and the surroundings add to the findings of the socket.
    fn verdict_findings(
        &self,
        c: &Connection,
        verdict: Verdict,
        limit: Option<u32>,
        findings: &mut FindingSet,
    ) {
        let timers = c.owner.and_then(|owner| self.program_timers(owner));
        let timer = |kind| {
            let of_kind = timers.into_iter().flatten().filter(move |timer| timer.timer == kind);
            of_kind.map(|timer| timer.after).min()
        };
        let waits = c.waiting() == Waiting::ForAnswer;

        if path::is_local(c, &self.snapshot.limits) {
            let proxy = matches!(c.on_host, OnHost::Proxy { .. });
            findings.insert(if proxy { Finding::ProxyOnThisHost } else { Finding::OnThisHost });
            findings.insert_if(waits && timer(TimerKind::Answer).is_some(), Finding::ProgramTimer);
            return;
        }
        let namespace = self.snapshot.namespace(c.netns);
        let sysctls = namespace.and_then(|namespace| namespace.sysctls);
        if c.keepalive.is_off() && matches!(c.state, State::Established | State::FinWait2) {
            let armed = sysctls.is_some_and(|sysctls| is_armed(c.keepalive, sysctls));
            findings.insert_if(armed, Finding::ArmedButOff);
            findings.insert_if(!armed && self.keepalive_would_help(c), Finding::KeepaliveOff);
        }
        if !matches!(verdict, Verdict::Safe { .. }) {
            findings.insert_if(self.not_inherited(namespace), Finding::SysctlNotInherited);
        }
        let tuned = sysctls.is_some_and(is_tuned);
        findings.insert_if(tuned && c.keepalive.is_off(), Finding::SysctlWithoutEffect);

        let Some(limit) = limit.and_then(|index| self.snapshot.limits.get(index as usize)) else {
            return;
        };
        self.keepalive_findings(c, verdict, limit, findings);
        let drifts = limit.configured.is_some_and(|configured| configured != limit.idle_timeout);
        findings.insert_if(drifts, Finding::ConfigurationDrift);
        let timeout = limit.timeout_of(c);
        findings.insert_if(
            waits && timer(TimerKind::Answer).is_some_and(|after| after < timeout),
            Finding::ProgramTimer,
        );
        let pool_outlives = match verdict {
            Verdict::Cut { .. } => {
                let used = c.counters.is_some_and(|counters| counters.data_segs_out > 0);
                used && c.waiting() == Waiting::Idle
            }
            Verdict::AtRisk { .. } => {
                !waits && timer(TimerKind::PoolIdle).is_some_and(|after| after > timeout)
            }
            _ => false,
        };
        findings.insert_if(pool_outlives, Finding::PoolOutlivesPath);
    }

    /// How this end's keepalive compares with the limit that decides, and with what is on the path.
    fn keepalive_findings(
        &self,
        c: &Connection,
        verdict: Verdict,
        limit: &IdleLimit,
        findings: &mut FindingSet,
    ) {
        let payload_only = |limit: &IdleLimit| limit.refreshed_by == Refresh::PayloadOnly;
        let on_path = || path::limits_of(c, &self.snapshot.limits).map(|(_, limit)| limit);
        findings.insert_if(
            payload_only(limit) || (c.keepalive.is_on() && on_path().any(payload_only)),
            Finding::Useless,
        );
        if payload_only(limit) {
            return;
        }

        let own = c.keepalive.on_values();
        let far = c.far_end.as_deref().and_then(|far| far.keepalive.on_values());
        let survives =
            |values: KeepaliveValues| values.lost_probes_survived(limit.timeout_of(c), self.hz);
        if let Some(values) = own {
            let equals = |value: Duration| {
                on_path().any(|limit| limit.timeout_of(c) == value)
                    || self.conntrack_of(c).any(|settings| settings.unacknowledged == value)
            };
            findings
                .insert_if(equals(values.idle) || equals(values.interval), Finding::EqualsTimer);
        }
        if let Verdict::Safe { .. } = verdict {
            let by_peer = own.and_then(survives).is_none();
            findings.insert_if(by_peer, Finding::PeerKeepsAlive);
            let best = own.and_then(survives).max(far.and_then(survives));
            findings.insert_if(best == Some(0), Finding::KeepaliveThinMargin);
        } else {
            let doomed = matches!(verdict, Verdict::AtRisk { .. } | Verdict::Cut { .. });
            let runs = c.timer != Timer::ZeroWindow && !findings.contains(Finding::Unanswered);
            let absent = c.entry_under(limit) == Some(Entry::Absent);
            let too_late = own.is_some() && doomed && runs && !(absent && heals(c, limit));
            findings.insert_if(too_late, Finding::KeepaliveTooLate);
        }
    }

    /// The settings of the connection tracking that it passes on this host.
    fn conntrack_of(&self, c: &Connection) -> impl Iterator<Item = ConntrackSettings> {
        let tables = c.tables.iter().map(|witness| witness.table);
        tables
            .filter(|table| table.kind == TableKind::Conntrack)
            .filter_map(|table| self.snapshot.namespace(table.netns)?.conntrack)
    }

    /// Whether anything on the path, as far as it is known, is refreshed by a probe.
    fn keepalive_would_help(&self, c: &Connection) -> bool {
        let mut on_path = path::limits_of(c, &self.snapshot.limits).peekable();
        on_path.peek().is_none()
            || on_path.any(|(_, limit)| limit.refreshed_by != Refresh::PayloadOnly)
    }

    /// Whether the host's keepalive time is tuned and that of another namespace is longer.
    fn not_inherited(&self, namespace: Option<&Namespace>) -> bool {
        let (Some(host), Some(namespace)) = (self.host_sysctls, namespace) else { return false };
        let longer = |own: Sysctls| own.keepalive_time_s > host.keepalive_time_s;
        !namespace.is_host && is_tuned(host) && namespace.sysctls.is_some_and(longer)
    }
}

/// What the socket alone shows where its end does `own`, whatever lies on its path.
fn socket_findings(c: &Connection, own: Probing) -> FindingSet {
    let mut findings = FindingSet::default();
    let unacked = c.counters.is_some_and(|counters| counters.unacked > 0);
    match c.state {
        State::SynSent => {
            findings.insert_if(c.retransmits >= UNANSWERED_SYNS, Finding::SynUnanswered);
            return findings;
        }
        State::CloseWait => findings.insert(Finding::PeerClosed),
        State::Established | State::FinWait1 | State::FinWait2 => {}
    }
    let window_closed = own.timer == Timer::ZeroWindow && c.probes_unanswered >= UNANSWERED_PROBES;
    findings.insert_if(
        (unacked && c.retransmits >= DEAD_AFTER_RETRANSMITS) || window_closed,
        Finding::DeadPeer,
    );
    // Without a timer, somebody asked it once (`stillopen ask`): what got no answer stays counted until one comes.
    let were_of_keepalive = matches!(own.timer, Timer::Keepalive | Timer::None);
    findings.insert_if(
        were_of_keepalive && c.probes_unanswered >= UNANSWERED_PROBES,
        Finding::Unanswered,
    );
    if let (Some(values), Some(user_timeout)) = (own.keepalive.on_values(), c.user_timeout) {
        let kills = values.one_lost_probe_kills(user_timeout.get());
        findings.insert_if(kills, Finding::OneLostProbeKills);
    }
    findings
}

/// What a limit means that only payload refreshes: keepalive does not count.
fn under_payload_only(c: &Connection, limit: &IdleLimit, timeout: Duration) -> Verdict {
    let Some(quiet) = c.payload_quiet() else {
        return Verdict::Unknown { missing: Missing::Stamps };
    };
    if quiet > timeout + limit.slack_of(timeout) + c.stamp_uncertainty() {
        return Verdict::Cut { proof: Proof::Inferred };
    }
    Verdict::AtRisk { cut_in: timeout.saturating_sub(quiet) }
}

/// Takes back what depends on something that is not known of the limit.
fn only_what_is_known(limit: &IdleLimit, c: &Connection, verdict: Verdict) -> Verdict {
    let payload_counts = limit.refreshed_by == Refresh::Unknown
        && (matches!(verdict, Verdict::Safe { .. })
            || c.payload_quiet().is_some_and(|quiet| quiet > limit.timeout_of(c)));
    match verdict {
        Verdict::Cut { .. } if limit.on_expiry == Expiry::Unknown => {
            Verdict::Unknown { missing: Missing::Expiry }
        }
        Verdict::Safe { .. } | Verdict::AtRisk { .. } if payload_counts => {
            Verdict::Unknown { missing: Missing::Refresh }
        }
        _ => verdict,
    }
}

/// Quiet for longer than the limit: cut, unless somebody may have refreshed it without leaving a stamp.
fn past_limit(c: &Connection, own: Probing, lifetime: Duration, quiet: Duration) -> Verdict {
    if quiet <= lifetime + c.stamp_uncertainty() {
        return Verdict::AtRisk { cut_in: Duration::ZERO };
    }
    if own_probes_may_have_refreshed(c, own, lifetime) {
        return Verdict::Unknown { missing: Missing::PeerAnswer };
    }
    if !peer_provably_silent(c, quiet, lifetime) {
        return Verdict::Unknown { missing: Missing::PeerKeepalive };
    }
    Verdict::Cut { proof: Proof::Inferred }
}

/// Whether the peer cannot have kept an entry that lives `lifetime` over a quiet time of `quiet`.
fn peer_provably_silent(c: &Connection, quiet: Duration, lifetime: Duration) -> bool {
    if c.far_end.as_ref().is_some_and(|far| far.quiet.is_some()) {
        // The end that probes sees the answers: its stamps are in `quiet` already.
        return true;
    }
    if let Some(watch) = c.watch.as_deref()
        && watch.peer_probes == 0
        && watch.own_segments == 0
        && watch.after > lifetime + c.stamp_uncertainty()
    {
        return true;
    }
    probes_possible(c).is_some_and(|possible| possible < probes_needed(quiet, lifetime))
}

/// Whether probes of this end are outstanding that left before the entry of `lifetime` was gone.
fn own_probes_may_have_refreshed(c: &Connection, own: Probing, lifetime: Duration) -> bool {
    let first_probe_after = match own.keepalive {
        Keepalive::On(KeepaliveTimes { idle, .. }) => idle.unwrap_or_default().get(),
        Keepalive::Off(_) | Keepalive::Unknown => Duration::ZERO,
    };
    // Before its idle has passed keepalive sends none: somebody else asked, at a time that nothing shows.
    let first_probe_after = if c.quiet().unwrap_or_default() < first_probe_after {
        Duration::ZERO
    } else {
        first_probe_after
    };
    c.probes_unanswered > 0 && first_probe_after <= lifetime
}

/// Whether a probe of this end should have been answered by now and was not.
fn own_probes_unanswered(c: &Connection, own: Probing, hz: KernelHz) -> bool {
    let Some(values) = own.keepalive.on_values() else { return false };
    let overdue = c.quiet().is_some_and(|quiet| {
        quiet > values.idle + hz.slack(values.idle) + c.stamp_uncertainty() + Duration::from_secs(1)
    });
    own.timer == Timer::Keepalive
        && (c.probes_unanswered >= UNANSWERED_PROBES || (c.probes_unanswered > 0 && overdue))
}

/// Whether a connection that is still open proves that `limit` does not hold for it: the limit tells both
/// ends at expiry, and its time has passed for certain.
fn contradicts(c: &Connection, own: Probing, limit: &IdleLimit, quiet: Duration) -> bool {
    if matches!(limit.on_expiry, Expiry::Silent | Expiry::Unknown) || c.state != State::Established
    {
        return false;
    }
    let timeout = limit.idle_timeout;
    let lifetime = timeout + limit.slack_of(timeout);
    match limit.refreshed_by {
        Refresh::PayloadOnly => {
            c.payload_quiet().is_some_and(|quiet| quiet > lifetime + c.stamp_uncertainty())
        }
        Refresh::AnyPacket | Refresh::Unknown => {
            quiet > lifetime + c.stamp_uncertainty()
                && !own_probes_may_have_refreshed(c, own, lifetime)
                && peer_provably_silent(c, quiet, lifetime)
        }
    }
}

/// Whether the values of a socket with keepalive off are its own: an unset one reads as the sysctl.
fn is_armed(keepalive: Keepalive, sysctls: Sysctls) -> bool {
    keepalive.is_off() && keepalive.own_times(sysctls) != KeepaliveTimes::default()
}

/// Whether somebody has made the keepalive time shorter than the kernel's default.
fn is_tuned(sysctls: Sysctls) -> bool {
    sysctls.keepalive_time_s < Sysctls::KERNEL_DEFAULT.keepalive_time_s
}
