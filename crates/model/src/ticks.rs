//! Times of a connection in the kernel's own units, in four bytes: a host may have a million connections,
//! and each has a dozen times.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::secs;

/// Whole milliseconds: the stamps and timers of `tcp_info` and `inet_diag`.
pub type Millis = Ticks<1_000>;
/// Whole microseconds: the round-trip time.
pub type Micros = Ticks<1_000_000>;
/// Whole seconds: the values of keepalive.
pub type Seconds = Ticks<1>;

const NANOS: u32 = 1_000_000_000;

/// A number of ticks, `PER_S` of them a second. Whoever reckons with it takes the [`Duration`] out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticks<const PER_S: u32>(u32);

impl<const PER_S: u32> Ticks<PER_S> {
    const TICK_NANOS: u32 = NANOS / PER_S;

    /// As the kernel gives it.
    #[must_use]
    pub const fn new(ticks: u32) -> Self {
        Self(ticks)
    }

    /// The time that it is.
    #[must_use]
    pub const fn get(self) -> Duration {
        Duration::new((self.0 / PER_S) as u64, self.0 % PER_S * Self::TICK_NANOS)
    }

    /// Rounded down; `None`: longer than the kernel can say.
    fn checked_from(time: Duration) -> Option<Self> {
        let ticks = time.as_nanos() / u128::from(Self::TICK_NANOS);
        u32::try_from(ticks).ok().map(Self)
    }
}

impl<const PER_S: u32> From<Duration> for Ticks<PER_S> {
    /// Rounded down; a longer time than the kernel can say becomes the longest that it can.
    fn from(time: Duration) -> Self {
        Self::checked_from(time).unwrap_or(Self(u32::MAX))
    }
}

impl<const PER_S: u32> Serialize for Ticks<PER_S> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        secs::serialize(&self.get(), to)
    }
}

impl<'de, const PER_S: u32> Deserialize<'de> for Ticks<PER_S> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let time = secs::deserialize(from)?;
        Self::checked_from(time).ok_or_else(|| {
            let most = Self(u32::MAX).get().as_secs();
            D::Error::custom(format!("{} s is longer than {most} s", time.as_secs()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_seconds_in_a_file_and_come_back_the_same() {
        for ticks in [0, 1, 999, 1_000, 1_001, 667_907, 4_294_967_295] {
            let millis = Millis::new(ticks);
            assert_eq!(millis.get(), Duration::from_millis(ticks.into()));
            assert_eq!(Millis::from(millis.get()), millis);
            let file = serde_json::to_string(&millis).unwrap();
            assert_eq!(serde_json::from_str::<Millis>(&file).unwrap(), millis, "{file}");
            let micros = Micros::new(ticks);
            let file = serde_json::to_string(&micros).unwrap();
            assert_eq!(serde_json::from_str::<Micros>(&file).unwrap(), micros, "{file}");
        }
        assert_eq!(serde_json::to_string(&Millis::new(1_500)).unwrap(), "1.5");
        assert_eq!(serde_json::to_string(&Seconds::new(60)).unwrap(), "60");
    }

    #[test]
    fn what_does_not_fit_is_an_error_in_a_file_and_the_longest_elsewhere() {
        assert!(serde_json::from_str::<Millis>("4294967.296").is_err());
        assert_eq!(Millis::from(Duration::MAX), Millis::new(u32::MAX));
        assert_eq!(Millis::from(Duration::from_nanos(1_999_999)), Millis::new(1));
    }
}
