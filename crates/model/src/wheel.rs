//! How late a timer of the Linux kernel may fire: the granularity of the timer wheel.
//!
//! `kernel/time/timer.c`: a timer goes into the smallest level that holds its delay, and level *n* is
//! `8^n` jiffies coarse. It never fires early, and up to one bucket late. The rule fits every point
//! measured on Linux 6.1 at HZ=250 (a 900 s IPVS entry lived 900.0 to 916.4 s).

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Buckets of one level that a delay may span: `LVL_SIZE` less the one that is running.
const LEVEL_SPAN: u64 = 63;
/// Each level is eight times as coarse as the one below it (`LVL_CLK_SHIFT` = 3).
const LEVEL_FACTOR: u64 = 8;
/// `LVL_DEPTH` at HZ > 100. A longer delay is shortened to the last level.
const LEVELS: u32 = 9;

const NANOS: u64 = 1_000_000_000;

/// The values of `CONFIG_HZ` that kernels are built with.
const USUAL_HZ: [u32; 4] = [100, 250, 300, 1000];

/// Ticks a second of the kernel whose timers are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelHz {
    /// `CONFIG_HZ`, known.
    Known(u32),
    /// A kernel elsewhere: the worst of the usual values is assumed.
    Foreign,
}

impl KernelHz {
    /// How late a timer of `delay` may fire on this kernel.
    #[must_use]
    pub fn slack(self, delay: Duration) -> Duration {
        match self {
            Self::Known(hz) => wheel_slack(delay, hz),
            Self::Foreign => wheel_slack_worst(delay),
        }
    }
}

/// How late a kernel timer of `delay` may fire at `hz` ticks a second: one bucket of its wheel level.
///
/// `hz` of 0 is taken as 1.
#[must_use]
pub fn wheel_slack(delay: Duration, hz: u32) -> Duration {
    let hz = u64::from(hz.max(1));
    let of_fraction = u64::from(delay.subsec_nanos()) * hz / NANOS;
    let jiffies = delay.as_secs().saturating_mul(hz).saturating_add(of_fraction);
    Duration::from_nanos(granularity(jiffies).saturating_mul(NANOS / hz))
}

/// The largest [`wheel_slack`] over the tick rates that kernels are usually built with.
#[must_use]
pub fn wheel_slack_worst(delay: Duration) -> Duration {
    USUAL_HZ.iter().map(|&hz| wheel_slack(delay, hz)).max().unwrap_or_default()
}

/// The size in jiffies of the bucket that a timer `delta` jiffies ahead is put in.
fn granularity(delta: u64) -> u64 {
    let mut bucket = 1;
    for _ in 1..LEVELS {
        if delta < LEVEL_SPAN * bucket {
            break;
        }
        bucket *= LEVEL_FACTOR;
    }
    bucket
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_at_250_hz() {
        // KERNEL: 900 s up to 16.384 s late, 10 s up to 0.256, 60 and 120 s up to 2.048, 7200 s 131.
        for (delay_s, late_ms) in
            [(900, 16_384), (10, 256), (60, 2_048), (120, 2_048), (890, 16_384), (7200, 131_072)]
        {
            let late = wheel_slack(Duration::from_secs(delay_s), 250);
            assert_eq!(late, Duration::from_millis(late_ms), "{delay_s} s");
        }
    }

    #[test]
    fn the_worst_of_the_usual_kernels_for_900_s_is_hz_300() {
        let late = wheel_slack_worst(Duration::from_secs(900));
        assert!(late > Duration::from_secs(109) && late < Duration::from_secs(110), "{late:?}");
    }

    #[test]
    fn no_delay_overflows() {
        for hz in [0, 1, u32::MAX] {
            let _ = wheel_slack(Duration::MAX, hz);
        }
    }
}
