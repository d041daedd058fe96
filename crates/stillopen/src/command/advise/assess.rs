//! What follows from the limits: the values, what they are worth under each, and what they cost.

use std::time::Duration;

use stillopen_model::{
    Cost, Gap, IdleLimit, Judgement, KeepaliveValues, KernelHz, judge, keepalive_under, tightest,
};

use super::{Gathered, Source};

/// The values may be set on any host: its kernel's timers are taken to be the latest of the usual ones.
pub(super) const HZ: KernelHz = KernelHz::Foreign;

/// Where even these are too late, all are.
const SHORTEST: KeepaliveValues =
    KeepaliveValues { idle: Duration::from_secs(1), interval: Duration::from_secs(1), count: 3 };

/// Everything that is printed.
pub(super) struct Assessment {
    limits: Vec<IdleLimit>,
    pub(super) source: Source,
    pub(super) gaps: Vec<Gap>,
    /// Those of the command line, else those that are advised; `None`: nothing is short enough.
    pub(super) values: Option<KeepaliveValues>,
    /// Whether the command line had them.
    pub(super) given: bool,
    /// What is advised in the place of values that were given and are too late or thin.
    pub(super) better: Option<KeepaliveValues>,
    /// How many quiet connections the cost is reckoned for.
    connections: u64,
}

/// A limit, and what values are worth under it.
pub(super) struct Judged<'a> {
    pub(super) limit: &'a IdleLimit,
    pub(super) judgement: Judgement,
    pub(super) lost_probes_survived: Option<u32>,
}

impl Assessment {
    pub(super) fn new(
        gathered: Gathered,
        given: Option<KeepaliveValues>,
        connections: u64,
    ) -> Self {
        let Gathered { mut limits, source, gaps } = gathered;
        limits.sort_by_key(|limit| limit.idle_timeout);
        let of_path: &[IdleLimit] = if source == Source::Catalogue { &[] } else { &limits };
        let advised = keepalive_under(of_path, HZ);
        let worst = |values| judged(of_path, values).map(|judged| judged.judgement).max();
        let better = given.zip(advised).and_then(|(given, advised)| {
            // What is useless or disputed stays so, whatever the values.
            let improvable = judged(of_path, given).any(|judged| {
                matches!(judged.judgement, Judgement::TooLate | Judgement::ThinMargin)
            });
            (improvable && worst(advised) <= worst(given) && advised != given).then_some(advised)
        });
        let values = given.or(advised);
        Self { limits, source, gaps, values, given: given.is_some(), better, connections }
    }

    /// By their times, the shortest first.
    pub(super) fn limits(&self) -> &[IdleLimit] {
        &self.limits
    }

    /// Whether the limits are those of a path, and not only all that are known.
    pub(super) fn is_of_a_path(&self) -> bool {
        self.source != Source::Catalogue
    }

    /// Each limit with what the values are worth under it; without values the shortest that there are.
    pub(super) fn judged(&self) -> impl Iterator<Item = Judged<'_>> {
        judged(&self.limits, self.values.unwrap_or(SHORTEST))
    }

    /// The first limit under which the values are worth this.
    pub(super) fn first(&self, judgement: Judgement) -> Option<&IdleLimit> {
        self.judged().find(|judged| judged.judgement == judgement).map(|judged| judged.limit)
    }

    /// What `values` cost.
    pub(super) fn cost(&self, values: KeepaliveValues) -> Cost {
        Cost::of(values, self.connections)
    }

    /// The limit that the values are for.
    pub(super) fn tightest(&self) -> Option<&IdleLimit> {
        self.is_of_a_path().then(|| tightest(&self.limits)).flatten()
    }

    /// Whether the values can't keep a connection open under one of the limits of the path.
    pub(super) fn cannot_work(&self) -> bool {
        self.is_of_a_path() && self.judged().any(|judged| judged.judgement >= Judgement::Useless)
    }
}

/// Each of `limits` with what `values` are worth under it.
pub(super) fn judged(
    limits: &[IdleLimit],
    values: KeepaliveValues,
) -> impl Iterator<Item = Judged<'_>> {
    limits.iter().map(move |limit| {
        let judgement = judge(values, limit, HZ);
        let survived = values.lost_probes_survived(limit.idle_timeout, HZ);
        let lost_probes_survived = survived.filter(|_| judgement != Judgement::Useless);
        Judged { limit, judgement, lost_probes_survived }
    })
}

/// The longest time from the last packet to the next probe, in whole seconds.
pub(super) fn next_probe_within(values: KeepaliveValues) -> Duration {
    round_up(values.latest_refresh(HZ))
}

/// In whole seconds.
pub(super) fn round_up(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0))
}
