//! Durations at the edge of the model: seconds with a fraction in files, `15m04s` for people.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

/// A thousand years: a longer duration in a file is a mistake, and sums of a few can't overflow.
const LONGEST_S: f64 = 1000.0 * 365.25 * 86_400.0;

pub(crate) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
    if value.subsec_nanos() == 0 {
        to.serialize_u64(value.as_secs())
    } else {
        to.serialize_f64(value.as_secs_f64())
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(from)?;
    if !(0.0..=LONGEST_S).contains(&seconds) {
        return Err(D::Error::custom(format!("{seconds} is not a duration in seconds")));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// The same for a value that may be missing.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Duration, Serializer};

    #[derive(Deserialize)]
    struct Seconds(#[serde(with = "super")] Duration);

    // The signature is serde's.
    #[allow(clippy::ref_option)]
    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::serialize(value, to),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Seconds>::deserialize(from)?.map(|seconds| seconds.0))
    }
}

/// A duration for people: `4s`, `11m07s`, `2h00m`, `3d04h`; below a second `0.3s`.
///
/// Rounded down to the smaller of the two units shown: a connection is never called quieter than it is.
#[must_use]
pub fn human(value: Duration) -> String {
    let s = value.as_secs();
    match s {
        0 if value.is_zero() => "0s".into(),
        0 => format!("0.{}s", value.subsec_millis() / 100),
        1..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        3600..86_400 => format!("{}h{:02}m", s / 3600, s % 3600 / 60),
        _ => format!("{}d{:02}h", s / 86_400, s % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_for_people() {
        for (ms, text) in [
            (0, "0s"),
            (340, "0.3s"),
            (4_000, "4s"),
            (667_900, "11m07s"),
            (7_200_000, "2h00m"),
            (273_600_000, "3d04h"),
        ] {
            assert_eq!(human(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn only_durations_are_durations() {
        #[derive(Deserialize, Debug)]
        struct Holder(#[serde(with = "super")] Duration);
        for bad in ["-1", "1e300", "null", "\"5s\""] {
            assert!(serde_json::from_str::<Holder>(bad).is_err(), "{bad}");
        }
        assert_eq!(serde_json::from_str::<Holder>("1.5").unwrap().0, Duration::from_millis(1500));
    }
}
