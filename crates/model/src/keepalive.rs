//! TCP keepalive of one socket: off, on, or not readable; each of the three values known or not.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{KernelHz, Seconds, Sysctls, secs};

/// TCP keepalive of one end. `Unknown` is a value, never a guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Keepalive {
    /// `SO_KEEPALIVE` is 0. The values are what it would use if it were on.
    Off(KeepaliveTimes),
    /// `SO_KEEPALIVE` is 1.
    On(KeepaliveTimes),
    /// It could not be read.
    #[default]
    Unknown,
}

/// `TCP_KEEPIDLE`, `TCP_KEEPINTVL` and `TCP_KEEPCNT`, each where it could be read.
///
/// `inet_diag` shows that keepalive is on and not these; `getsockopt` on a duplicate of the socket does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KeepaliveTimes {
    /// `TCP_KEEPIDLE`: from the last segment received to the first probe.
    #[serde(rename = "idle_s", default)]
    pub idle: Option<Seconds>,
    /// `TCP_KEEPINTVL`: between unanswered probes.
    #[serde(rename = "interval_s", default)]
    pub interval: Option<Seconds>,
    /// `TCP_KEEPCNT`: how many unanswered probes end the connection.
    #[serde(default)]
    pub count: Option<u32>,
}

impl Keepalive {
    /// The three values, where keepalive is on and all are known.
    #[must_use]
    pub fn on_values(self) -> Option<KeepaliveValues> {
        match self {
            Self::On(KeepaliveTimes {
                idle: Some(idle),
                interval: Some(interval),
                count: Some(count),
            }) => Some(KeepaliveValues { idle: idle.get(), interval: interval.get(), count }),
            _ => None,
        }
    }

    /// Whether `SO_KEEPALIVE` is known to be on.
    #[must_use]
    pub fn is_on(self) -> bool {
        matches!(self, Self::On(_))
    }

    /// Whether `SO_KEEPALIVE` is known to be off.
    #[must_use]
    pub fn is_off(self) -> bool {
        matches!(self, Self::Off(_))
    }

    /// The values that somebody set on this socket: one that nobody set reads as the sysctl.
    #[must_use]
    pub fn own_times(self, sysctls: Sysctls) -> KeepaliveTimes {
        let (Self::Off(times) | Self::On(times)) = self else { return KeepaliveTimes::default() };
        let own = |value: Option<Seconds>, default_s| {
            value.filter(|&value| value != Seconds::new(default_s))
        };
        KeepaliveTimes {
            idle: own(times.idle, sysctls.keepalive_time_s),
            interval: own(times.interval, sysctls.keepalive_intvl_s),
            count: times.count.filter(|&count| count != sysctls.keepalive_probes),
        }
    }

    /// What comes of `values` where they are set before the program sets its own, as `stillopen run` does: the
    /// program's win.
    #[must_use]
    pub fn over(self, values: KeepaliveValues, sysctls: Sysctls) -> KeepaliveValues {
        let own = self.own_times(sysctls);
        KeepaliveValues {
            idle: own.idle.map_or(values.idle, Seconds::get),
            interval: own.interval.map_or(values.interval, Seconds::get),
            count: own.count.unwrap_or(values.count),
        }
    }
}

/// All three keepalive values; written `60/30/3`: idle, interval (seconds), count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepaliveValues {
    /// `TCP_KEEPIDLE`
    #[serde(rename = "idle_s", with = "secs")]
    pub idle: Duration,
    /// `TCP_KEEPINTVL`
    #[serde(rename = "interval_s", with = "secs")]
    pub interval: Duration,
    /// `TCP_KEEPCNT`
    pub count: u32,
}

impl KeepaliveValues {
    /// How often a healthy quiet connection is refreshed: every `max(idle, interval)` (measured).
    #[must_use]
    pub fn period(self) -> Duration {
        self.idle.max(self.interval)
    }

    /// The longest time from one refresh to the next on a kernel with `hz`, its timer's slack included.
    #[must_use]
    pub fn latest_refresh(self, hz: KernelHz) -> Duration {
        self.period() + hz.slack(self.period())
    }

    /// How many probes in a row may be lost before a path that forgets after `idle_timeout` does so;
    /// `None` where even a healthy connection is not refreshed in time.
    ///
    /// Never more than `count - 1`: the kernel gives up then.
    #[must_use]
    pub fn lost_probes_survived(self, idle_timeout: Duration, hz: KernelHz) -> Option<u32> {
        let spare = idle_timeout.checked_sub(self.latest_refresh(hz)).filter(|s| !s.is_zero())?;
        let most = self.count.saturating_sub(1);
        let step = (self.interval + hz.slack(self.interval)).as_nanos();
        if step == 0 {
            return Some(most);
        }
        // Strictly before the limit: a refresh at the limit itself may lose the race.
        let fit = (spare.as_nanos() - 1) / step;
        Some(u32::try_from(fit).unwrap_or(u32::MAX).min(most))
    }

    /// Whether one lost probe ends a connection with this `TCP_USER_TIMEOUT`, zero where it is not set: its count does
    /// not matter then (`tcp_keepalive_timer`, `net/ipv4/tcp_timer.c`).
    #[must_use]
    pub fn one_lost_probe_kills(self, user_timeout: Duration) -> bool {
        !user_timeout.is_zero() && self.count > 1 && user_timeout <= self.idle + self.interval
    }

    /// Values that are no later than these, with which a `TCP_USER_TIMEOUT` ends a connection at the third lost probe
    /// and not before; `None`: it is too short for whole seconds.
    #[must_use]
    pub fn within_user_timeout(self, user_timeout: Duration) -> Option<Self> {
        let second = Duration::from_secs(1);
        let interval = Duration::from_secs(user_timeout.as_secs() / 6).clamp(second, self.interval);
        // The third is lost at idle + 3 x interval; at idle + 2 x interval it has to live on.
        let before = user_timeout.checked_sub(Duration::from_nanos(1))?.as_secs();
        let idle = Duration::from_secs(before).checked_sub(2 * interval)?.min(self.idle);
        (idle >= second).then_some(Self { idle, interval, count: 3 })
    }

    /// When a peer that stopped answering is noticed: `idle + interval * count`.
    #[must_use]
    pub fn dead_peer_after(self) -> Duration {
        self.idle + self.interval.saturating_mul(self.count)
    }

    /// The same as what a socket shows.
    #[must_use]
    pub fn times(self) -> KeepaliveTimes {
        KeepaliveTimes {
            idle: Some(self.idle.into()),
            interval: Some(self.interval.into()),
            count: Some(self.count),
        }
    }
}

impl fmt::Display for KeepaliveValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.idle.as_secs(), self.interval.as_secs(), self.count)
    }
}

/// A text that is not keepalive values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not idle/interval/count, such as 60/30/3 \
     (seconds 1 to 32767, seconds 1 to 32767, probes 1 to 127)"
)]
pub struct ParseKeepaliveError(String);

impl FromStr for KeepaliveValues {
    type Err = ParseKeepaliveError;

    /// The ranges are the kernel's: `MAX_TCP_KEEPIDLE`, `MAX_TCP_KEEPINTVL`, `MAX_TCP_KEEPCNT` in
    /// `include/net/tcp.h`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseKeepaliveError(text.to_owned());
        let mut parts = text.split('/').map(|part| part.parse::<u32>().ok());
        let mut next = |most: u32| {
            parts.next().flatten().filter(|value| (1..=most).contains(value)).ok_or_else(bad)
        };
        let (idle, interval, count) = (next(32_767)?, next(32_767)?, next(127)?);
        if parts.next().is_some() {
            return Err(bad());
        }
        Ok(Self {
            idle: Duration::from_secs(idle.into()),
            interval: Duration::from_secs(interval.into()),
            count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> KeepaliveValues {
        text.parse().unwrap()
    }

    #[test]
    fn only_three_numbers_in_range_are_values() {
        assert_eq!(values("60/30/3").to_string(), "60/30/3");
        for bad in ["", "60", "60/30", "60/30/3/1", "0/30/3", "60/30/128", "40000/1/1", "a/b/c"] {
            assert!(bad.parse::<KeepaliveValues>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_the_program_sets_wins_over_what_run_sets() {
        let sysctls = Sysctls::KERNEL_DEFAULT;
        for (set, over) in [
            // SO_KEEPALIVE alone.
            ("7200/75/9", "60/30/3"),
            ("1200/75/9", "1200/30/3"),
            ("1200/20/4", "1200/20/4"),
        ] {
            let times = values(set).times();
            for keepalive in [Keepalive::On(times), Keepalive::Off(times)] {
                assert_eq!(keepalive.over(values("60/30/3"), sysctls), values(over), "{set}");
            }
        }
        let unread = Keepalive::On(KeepaliveTimes::default());
        assert_eq!(unread.over(values("60/30/3"), sysctls), values("60/30/3"));
    }

    #[test]
    fn values_within_a_user_timeout_live_on_after_two_lost_probes() {
        let given: KeepaliveValues = "60/30/3".parse().unwrap();
        for (user_timeout_ms, fits) in [
            (0, None),
            (500, None),
            (3_000, None),
            (3_001, Some("1/1/3")),
            (5_000, Some("2/1/3")),
            (30_000, Some("19/5/3")),
            (90_000, Some("59/15/3")),
            (500_000, Some("60/30/3")),
        ] {
            let user_timeout = Duration::from_millis(user_timeout_ms);
            let values = given.within_user_timeout(user_timeout);
            assert_eq!(values.map(|values| values.to_string()).as_deref(), fits);
            if let Some(values) = values {
                assert!(values.idle + 2 * values.interval < user_timeout, "{values}");
                assert!(!values.one_lost_probe_kills(user_timeout));
            }
        }
        assert!(given.one_lost_probe_kills(Duration::from_secs(90)));
        assert!(!given.one_lost_probe_kills(Duration::ZERO));
    }

    #[test]
    fn lost_probes_survived_counts_the_timers_slack() {
        let hz = KernelHz::Known(250);
        for (text, limit_s, survived) in [
            ("60/30/3", 900, Some(2)),
            ("60/30/3", 124, Some(1)),
            ("60/30/3", 93, Some(0)),
            ("60/30/3", 62, None),
            ("890/30/3", 900, None),
            ("870/75/9", 900, Some(0)),
            ("60/30/1", 900, Some(0)),
        ] {
            let got = values(text).lost_probes_survived(Duration::from_secs(limit_s), hz);
            assert_eq!(got, survived, "{text} under {limit_s}");
        }
    }
}
