//! The host itself: its kernel and the rate of its timers.

use rustix::time::{ClockId, clock_getres};
use stillopen_model::{Host, KernelHz};

use crate::platform;

/// What is known of this host.
pub(crate) fn read(all_namespaces: bool) -> Host {
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    // CLOCK_MONOTONIC_COARSE ticks once a jiffy (kernel/time/posix-timers.c, posix_get_coarse_res).
    let tick = clock_getres(ClockId::MonotonicCoarse);
    let platforms = platform::read::read(&kernel);
    Host { kernel, hz: hz_of_tick(tick.tv_sec, tick.tv_nsec), all_namespaces, platforms }
}

/// `KTIME_LOW_RES` is rounded: at HZ=300 a tick is 3,333,333 ns.
fn hz_of_tick(seconds: i64, nanoseconds: i64) -> KernelHz {
    match u32::try_from(nanoseconds) {
        Ok(tick) if seconds == 0 && tick > 0 => KernelHz::Known((1_000_000_000 + tick / 2) / tick),
        _ => KernelHz::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_one_over_hz() {
        for (tick, hz) in [
            (10_000_000, KernelHz::Known(100)),
            (4_000_000, KernelHz::Known(250)),
            (3_333_333, KernelHz::Known(300)),
            (1_000_000, KernelHz::Known(1000)),
            (0, KernelHz::Foreign),
        ] {
            assert_eq!(hz_of_tick(0, tick), hz, "{tick} ns");
        }
    }
}
