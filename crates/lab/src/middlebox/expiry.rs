//! When an idle entry dies: the rule of each kind of middlebox, as a pure function.

use std::time::Duration;

use stillopen_model::wheel_slack;

/// How a middlebox's timer keeps time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiryRule {
    /// At the timeout itself: `nf_conntrack` checks at look-up.
    Exact,
    /// On the kernel's timer wheel: never early, up to one bucket late (IPVS).
    Wheel {
        /// Ticks a second of that kernel (`CONFIG_HZ`).
        hz: u32,
    },
}

impl ExpiryRule {
    /// When a timer that was set at `last` for `timeout` fires.
    #[must_use]
    pub fn dies_at(self, last: Duration, timeout: Duration) -> Duration {
        Duration::from_nanos(Armed::new(self, timeout).at(nanos(last)))
    }
}

/// Nanoseconds since the start; later than the year 2500 is the same as that.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// An [`ExpiryRule`] and a timeout, prepared for the packet path.
///
/// The wheel's rule: level = the smallest with delta < 63·8^level, g = 8^level jiffies, fires at
/// ((last + delta) div g + 1)·g. (`kernel/time/timer.c`, `calc_wheel_index`; measured on Linux 6.1.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Armed {
    /// Nanoseconds of one jiffy; 0 for the exact rule.
    jiffy: u64,
    /// The timeout: in jiffies on the wheel, in nanoseconds without it.
    delta: u64,
    /// log2 of the bucket in jiffies.
    shift: u32,
}

impl Armed {
    pub(crate) fn new(rule: ExpiryRule, timeout: Duration) -> Self {
        match rule {
            ExpiryRule::Exact => Self { jiffy: 0, delta: nanos(timeout), shift: 0 },
            ExpiryRule::Wheel { hz } => {
                let jiffy = 1_000_000_000 / u64::from(hz.clamp(1, 1_000_000));
                let bucket = nanos(wheel_slack(timeout, hz)) / jiffy;
                // Rounded up, as `msecs_to_jiffies` does.
                let delta = nanos(timeout).div_ceil(jiffy);
                Self { jiffy, delta, shift: bucket.max(1).ilog2() }
            }
        }
    }

    pub(crate) fn at(self, last: u64) -> u64 {
        if self.jiffy == 0 {
            return last.saturating_add(self.delta);
        }
        let due = (last / self.jiffy).saturating_add(self.delta) >> self.shift;
        due.saturating_add(1).saturating_mul(self.jiffy << self.shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wheel_is_never_early_and_at_most_a_bucket_late() {
        for hz in [100, 250, 300, 1000] {
            for timeout_s in [1, 10, 60, 120, 350, 900, 7200, 86_400] {
                let timeout = Duration::from_secs(timeout_s);
                for last_ms in [0, 1, 999, 1_117, 2_000, 16_384, 1_000_003] {
                    let last = Duration::from_millis(last_ms);
                    let lived =
                        ExpiryRule::Wheel { hz }.dies_at(last, timeout).saturating_sub(last);
                    // A jiffy that had begun when the packet came counts, and 1 s may not be a whole
                    // number of jiffies.
                    let jiffy = Duration::from_secs(1) / hz;
                    let latest = timeout + wheel_slack(timeout, hz) + jiffy;
                    assert!(
                        lived + jiffy >= timeout && lived <= latest,
                        "{hz} {timeout:?} {lived:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_900_s_entry_at_250_hz() {
        let rule = ExpiryRule::Wheel { hz: 250 };
        let lived = |last_ms| {
            let last = Duration::from_millis(last_ms);
            rule.dies_at(last, Duration::from_secs(900)).saturating_sub(last)
        };
        // 225,000 jiffies are 54.93 buckets of 4096: the 55th ends at 901.12 s.
        assert_eq!(lived(0), Duration::from_millis(901_120));
        assert_eq!(lived(1_119), Duration::from_millis(900_001));
        assert_eq!(lived(1_120), Duration::from_millis(916_384));
    }

    #[test]
    fn conntrack_is_exact_and_nothing_overflows() {
        let at = ExpiryRule::Exact.dies_at(Duration::from_millis(7), Duration::from_secs(900));
        assert_eq!(at, Duration::from_millis(900_007));
        for hz in [0, 1, u32::MAX] {
            let _ = ExpiryRule::Wheel { hz }.dies_at(Duration::MAX, Duration::MAX);
        }
    }
}
