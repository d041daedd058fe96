//! Which keepalive values keep a connection open under known limits, how well, and what they cost.

use std::time::Duration;

use serde::Serialize;

use crate::{
    DEFAULT_KEEPALIVE, IdleLimit, KeepaliveValues, KernelHz, Refresh, recommended_keepalive,
};

/// A packet without payload on Ethernet: 14 bytes of its header, 20 of IPv4's, 20 of TCP's and 12 of TCP's
/// timestamps. The frame's check sum and preamble are not counted, as captures and counters don't.
pub const PROBE_BYTES_IPV4: u64 = 14 + 20 + 20 + 12;
/// The same over IPv6, whose header has 40 bytes.
pub const PROBE_BYTES_IPV6: u64 = 14 + 40 + 20 + 12;

/// A probe, and the peer's ACK of it.
const PACKETS_PER_PROBE: u64 = 2;
const DAY_S: u64 = 86_400;

/// What keepalive values are worth under one limit, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// They refresh it in time, even after a lost probe.
    Fine,
    /// They refresh it in time, but one lost probe loses the connection.
    ThinMargin,
    /// It is not known whether probes refresh it.
    Disputed,
    /// It counts payload only: no values help.
    Useless,
    /// The next probe may come after it has forgotten.
    TooLate,
}

/// What `values` are worth under `limit`; `hz`: of the kernel that will send the probes.
#[must_use]
pub fn judge(values: KeepaliveValues, limit: &IdleLimit, hz: KernelHz) -> Judgement {
    match (limit.refreshed_by, values.lost_probes_survived(limit.idle_timeout, hz)) {
        (Refresh::PayloadOnly, _) => Judgement::Useless,
        (_, None) => Judgement::TooLate,
        (Refresh::Unknown, Some(_)) => Judgement::Disputed,
        (Refresh::AnyPacket, Some(0)) => Judgement::ThinMargin,
        (Refresh::AnyPacket, Some(_)) => Judgement::Fine,
    }
}

/// The limit that decides which values are needed: the smallest of those that probes may refresh.
#[must_use]
pub fn tightest(limits: &[IdleLimit]) -> Option<&IdleLimit> {
    limits
        .iter()
        .filter(|limit| limit.refreshed_by != Refresh::PayloadOnly)
        .min_by_key(|limit| limit.idle_timeout)
}

/// Values that beat all of `limits` that probes can refresh; the default where there is none. `None`: no
/// whole number of seconds is short enough.
#[must_use]
pub fn keepalive_under(limits: &[IdleLimit], hz: KernelHz) -> Option<KeepaliveValues> {
    let Some(tightest) = tightest(limits) else { return Some(DEFAULT_KEEPALIVE) };
    recommended_keepalive(tightest.idle_timeout, hz)
}

/// What the probes of quiet connections add to the network, at most: a connection that is not quiet is not
/// probed, and the kernel's timer is rather late than early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// How many connections are quiet all day.
    pub connections: u64,
    /// Probes and their ACKs.
    pub packets_per_day: u64,
    /// Over IPv4 with TCP timestamps, on Ethernet ([`PROBE_BYTES_IPV4`] each).
    pub bytes_per_day: u64,
}

impl Cost {
    /// Of `connections` with these values.
    #[must_use]
    pub fn of(values: KeepaliveValues, connections: u64) -> Self {
        let period_s = values.period().as_secs().max(1);
        let each = DAY_S.div_ceil(period_s) * PACKETS_PER_PROBE;
        let packets_per_day = each.saturating_mul(connections);
        let bytes_per_day = packets_per_day.saturating_mul(PROBE_BYTES_IPV4);
        Self { connections, packets_per_day, bytes_per_day }
    }

    /// The same as a rate.
    #[must_use]
    pub fn bits_per_second(self) -> u64 {
        self.bytes_per_day.saturating_mul(8) / DAY_S
    }
}

/// A timer that a keepalive value equals: which of the two comes first is a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EqualsTimer {
    /// `idle` or `interval`.
    pub which: &'static str,
    /// Both.
    pub time: Duration,
}

/// Conntrack's timeouts for unacknowledged data and retransmissions
/// (`nf_conntrack_tcp_timeout_unacknowledged`, `_max_retrans`): a late ACK of a probe may miss them.
const CONNTRACK_UNACKNOWLEDGED: Duration = Duration::from_secs(300);

/// The values that equal the timeout of one of `limits` that probes refresh, or conntrack's for
/// unacknowledged data.
pub fn equal_timers(
    values: KeepaliveValues,
    limits: &[IdleLimit],
) -> impl Iterator<Item = EqualsTimer> {
    let refreshed = limits.iter().filter(|limit| limit.refreshed_by != Refresh::PayloadOnly);
    let mut timers: Vec<Duration> =
        refreshed.map(|limit| limit.idle_timeout).chain([CONNTRACK_UNACKNOWLEDGED]).collect();
    timers.sort_unstable();
    timers.dedup();
    let pairs = [("idle", values.idle), ("interval", values.interval)];
    timers.into_iter().flat_map(move |time| {
        let equal = move |&(_, value): &(_, Duration)| value == time;
        pairs.into_iter().filter(equal).map(move |(which, time)| EqualsTimer { which, time })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Evidence, EvidenceSource};

    const HZ: KernelHz = KernelHz::Foreign;

    fn limit(seconds: u64, refreshed_by: Refresh) -> IdleLimit {
        let evidence = Evidence::new(EvidenceSource::User, "test".into());
        let time = Duration::from_secs(seconds);
        let limit = IdleLimit::new(format!("user-{seconds}s"), String::new(), time, evidence);
        IdleLimit { refreshed_by, ..limit }
    }

    #[test]
    fn values_are_judged_by_the_latest_probe() {
        use Judgement::{Disputed, Fine, ThinMargin, TooLate, Useless};
        for (values, seconds, refreshed_by, expected) in [
            ("60/30/3", 900, Refresh::AnyPacket, Fine),
            ("60/30/3", 80, Refresh::AnyPacket, ThinMargin),
            ("60/30/1", 900, Refresh::AnyPacket, ThinMargin),
            ("60/30/3", 60, Refresh::AnyPacket, TooLate),
            ("890/30/3", 900, Refresh::AnyPacket, TooLate),
            ("7200/75/9", 350, Refresh::AnyPacket, TooLate),
            ("60/30/3", 300, Refresh::Unknown, Disputed),
            ("7200/75/9", 300, Refresh::Unknown, TooLate),
            ("1/1/3", 900, Refresh::PayloadOnly, Useless),
        ] {
            let judged = judge(values.parse().unwrap(), &limit(seconds, refreshed_by), HZ);
            assert_eq!(judged, expected, "{values} under {seconds}");
        }
    }

    #[test]
    fn the_tightest_limit_that_probes_can_refresh_decides() {
        let limits = [
            limit(60, Refresh::PayloadOnly),
            limit(100, Refresh::AnyPacket),
            limit(900, Refresh::AnyPacket),
        ];
        assert_eq!(tightest(&limits).unwrap().id, "user-100s");
        assert_eq!(keepalive_under(&limits, HZ).unwrap().to_string(), "40/20/3");
        assert_eq!(keepalive_under(&limits[..1], HZ), Some(DEFAULT_KEEPALIVE));
        assert_eq!(keepalive_under(&[], HZ), Some(DEFAULT_KEEPALIVE));
        assert_eq!(keepalive_under(&[limit(1, Refresh::AnyPacket)], HZ), None);
    }

    #[test]
    fn what_is_advised_is_never_worse_than_thin_and_equals_no_timer() {
        for seconds in 2..=2000 {
            let limits = [limit(seconds, Refresh::AnyPacket)];
            let values = keepalive_under(&limits, HZ).unwrap();
            assert!(judge(values, &limits[0], HZ) <= Judgement::ThinMargin, "{seconds}: {values}");
            assert_eq!(equal_timers(values, &limits).next(), None, "{seconds}: {values}");
        }
    }

    #[test]
    fn a_value_that_equals_a_timer_is_named() {
        let limits = [limit(900, Refresh::AnyPacket)];
        let named = |values: &str| -> Vec<_> {
            equal_timers(values.parse().unwrap(), &limits)
                .map(|timer| (timer.which, timer.time.as_secs()))
                .collect()
        };
        assert_eq!(named("300/30/3"), [("idle", 300)]);
        assert_eq!(named("900/900/3"), [("idle", 900), ("interval", 900)]);
        assert_eq!(named("60/30/3"), []);
    }

    #[test]
    fn a_probe_and_its_ack_each_period() {
        let cost = Cost::of(DEFAULT_KEEPALIVE, 1000);
        assert_eq!(cost.packets_per_day, 1000 * 1440 * 2);
        assert_eq!(cost.bytes_per_day, 1000 * 1440 * 2 * 66);
        assert_eq!(cost.bits_per_second(), 17_600);
        // The interval is the period where it is the longer one.
        assert_eq!(Cost::of("30/60/3".parse().unwrap(), 1).packets_per_day, 2880);
        let most = Cost::of("1/1/1".parse().unwrap(), u64::MAX);
        assert_eq!(most.bytes_per_day, u64::MAX);
    }
}
