//! Points in time as logs write them, read into milliseconds since the epoch; and durations.
//!
//! RFC 3339 and its relatives are read here, at fixed places: they are most of what there is, and of the
//! cost. Other shapes go through the library's strftime.

use crate::event::Millis;

/// How a log writes its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeFormat {
    /// RFC 3339; also with a blank for the `T`, a comma before the fraction, or no zone (then UTC).
    Rfc3339,
    /// Since the epoch; a fraction may follow.
    Epoch(EpochUnit),
    /// A strftime format.
    Strftime(&'static str),
}

/// The unit of a number since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EpochUnit {
    Seconds,
    Millis,
    Micros,
    Nanos,
}

/// Shapes besides RFC 3339 that programs are known to write.
const STRFTIME: [&str; 8] = [
    "%d/%b/%Y:%H:%M:%S %z",
    "%Y-%m-%dT%H:%M:%S%.f%z",
    "%Y-%m-%d %H:%M:%S%.f %z",
    "%Y/%m/%d %H:%M:%S%.f",
    "%a %b %d %H:%M:%S %Y",
    "%d/%b/%Y %H:%M:%S%.f",
    "%d.%m.%Y %H:%M:%S%.f",
    "%Y%m%d %H:%M:%S%.f",
];

impl TimeFormat {
    /// The format that `text` is written in.
    pub(crate) fn of(text: &[u8]) -> Option<Self> {
        let text = text.trim_ascii();
        if rfc3339(text).is_some() {
            return Some(Self::Rfc3339);
        }
        if let Some(unit) = epoch_unit(text) {
            return Some(Self::Epoch(unit));
        }
        STRFTIME.into_iter().map(Self::Strftime).find(|format| format.read(text).is_some())
    }

    /// The time that `text` says, in this format.
    pub(crate) fn read(self, text: &[u8]) -> Option<Millis> {
        let text = text.trim_ascii();
        match self {
            Self::Rfc3339 => rfc3339(text),
            Self::Epoch(unit) => epoch(text, unit),
            Self::Strftime(format) => strftime(text, format),
        }
    }

    /// For people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rfc3339 => "RFC 3339",
            Self::Epoch(EpochUnit::Seconds) => "seconds since the epoch",
            Self::Epoch(EpochUnit::Millis) => "milliseconds since the epoch",
            Self::Epoch(EpochUnit::Micros) => "microseconds since the epoch",
            Self::Epoch(EpochUnit::Nanos) => "nanoseconds since the epoch",
            Self::Strftime(format) => format,
        }
    }
}

const MS_PER_DAY: i64 = 86_400_000;

/// `2026-03-02T09:00:00.120Z`.
pub(crate) fn rfc3339(text: &[u8]) -> Option<Millis> {
    let (date, rest) = text.split_first_chunk::<19>()?;
    let separators = [date[4], date[7], date[13], date[16]];
    if separators != *b"--::" || !matches!(date[10], b'T' | b't' | b' ') {
        return None;
    }
    let year = two(date[0], date[1])? * 100 + two(date[2], date[3])?;
    let (month, day) = (two(date[5], date[6])?, two(date[8], date[9])?);
    let (hour, minute) = (two(date[11], date[12])?, two(date[14], date[15])?);
    let second = two(date[17], date[18])?;
    let valid = (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour <= 23
        && minute <= 59
        // A leap second is written as 60.
        && second <= 60;
    if !valid {
        return None;
    }
    let of_day = ((hour * 60 + minute) * 60 + second) * 1000;
    let (fraction, rest) = fraction(rest)?;
    let offset = zone(rest)?;
    Some(days_from_epoch(year, month, day) * MS_PER_DAY + of_day + fraction - offset)
}

fn two(tens: u8, ones: u8) -> Option<i64> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens <= 9 && ones <= 9).then(|| i64::from(tens) * 10 + i64::from(ones))
}

/// Milliseconds of `.123456`, where there is one, and what follows it.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some((b'.' | b',', digits)) = text.split_first() else { return Some((0, text)) };
    let length = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    if length == 0 {
        return None;
    }
    let digit = |at: usize| if at < length { i64::from(digits[at] - b'0') } else { 0 };
    Some((digit(0) * 100 + digit(1) * 10 + digit(2), &digits[length..]))
}

/// Milliseconds east of UTC.
fn zone(text: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match *text {
        [] | [b'Z' | b'z'] => return Some(0),
        [sign @ (b'+' | b'-'), a, b, b':', c, d] | [sign @ (b'+' | b'-'), a, b, c, d] => {
            (sign, two(a, b)?, two(c, d)?)
        }
        [sign @ (b'+' | b'-'), a, b] => (sign, two(a, b)?, 0),
        _ => return None,
    };
    if hours > 23 || minutes > 59 {
        return None;
    }
    let offset = (hours * 60 + minutes) * 60_000;
    Some(if sign == b'-' { -offset } else { offset })
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 0000-03-01 to 1970-01-01.
const TO_EPOCH: i64 = 719_468;

/// Days from 1970-01-01, of the Gregorian calendar.
fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    // Counted from March on, so that the leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before_this_year =
        year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let before_this_month = (153 * month + 2) / 5;
    before_this_year + before_this_month + day - 1 - TO_EPOCH
}

/// A number since the epoch tells its unit by its size: this holds from 1973 to 5138.
fn epoch_unit(text: &[u8]) -> Option<EpochUnit> {
    let whole = text.iter().position(|&b| b == b'.').unwrap_or(text.len());
    let digits = text[..whole].iter().all(u8::is_ascii_digit);
    match whole {
        9..=11 if digits => Some(EpochUnit::Seconds),
        12..=14 if digits => Some(EpochUnit::Millis),
        15..=17 if digits => Some(EpochUnit::Micros),
        18..=19 if digits => Some(EpochUnit::Nanos),
        _ => None,
    }
    .filter(|_| text[whole..].iter().skip(1).all(u8::is_ascii_digit))
}

fn epoch(text: &[u8], unit: EpochUnit) -> Option<Millis> {
    let whole_end = text.iter().position(|&b| b == b'.').unwrap_or(text.len());
    let whole: i64 = std::str::from_utf8(&text[..whole_end]).ok()?.parse().ok()?;
    let (part, rest) = fraction(&text[whole_end..])?;
    if !rest.is_empty() {
        return None;
    }
    match unit {
        EpochUnit::Seconds => whole.checked_mul(1000)?.checked_add(part),
        EpochUnit::Millis => Some(whole),
        EpochUnit::Micros => Some(whole.div_euclid(1000)),
        EpochUnit::Nanos => Some(whole.div_euclid(1_000_000)),
    }
}

fn strftime(text: &[u8], format: &str) -> Option<Millis> {
    // With a comma before its fraction, as Python's logging writes it.
    let text = std::str::from_utf8(text).ok()?.replace(',', ".");
    let time = jiff::fmt::strtime::parse(format, &text).ok()?;
    if let Ok(stamp) = time.to_timestamp() {
        return Some(stamp.as_millisecond());
    }
    let utc = jiff::tz::Offset::UTC.to_timestamp(time.to_datetime().ok()?).ok()?;
    Some(utc.as_millisecond())
}

/// The unit that the name of a field ends with: `took_s`, `duration_ms`, `elapsedSeconds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TookUnit {
    Nanos,
    Micros,
    Millis,
    Seconds,
}

impl TookUnit {
    /// Of a field of that name; seconds where it says none.
    pub(crate) fn of_field(name: &str) -> Self {
        let name = name.to_lowercase();
        let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        if ends(&["_ms", "millis", "milliseconds", "msec"]) {
            Self::Millis
        } else if ends(&["_us", "micros", "microseconds", "usec"]) {
            Self::Micros
        } else if ends(&["_ns", "nanos", "nanoseconds"]) {
            Self::Nanos
        } else {
            Self::Seconds
        }
    }

    /// A number of this unit, or a text with units of its own such as `13m02s` or `350ms`.
    pub(crate) fn read(self, text: &[u8]) -> Option<Millis> {
        let text = std::str::from_utf8(text.trim_ascii()).ok()?;
        if let Ok(number) = text.parse::<f64>() {
            let ms = match self {
                Self::Nanos => number / 1e6,
                Self::Micros => number / 1e3,
                Self::Millis => number,
                Self::Seconds => number * 1e3,
            };
            return in_range(ms);
        }
        let duration: jiff::SignedDuration = text.parse().ok()?;
        in_range(duration.as_secs_f64() * 1e3)
    }
}

/// Ten years: longer than any request.
const LONGEST_MS: f64 = 10.0 * 366.0 * 86_400_000.0;

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn in_range(ms: f64) -> Option<Millis> {
    (0.0..=LONGEST_MS).contains(&ms).then(|| ms.round() as Millis)
}

/// As RFC 3339, to the millisecond.
#[must_use]
pub fn stamp(at: Millis) -> String {
    match jiff::Timestamp::from_millisecond(at) {
        Ok(stamp) => format!("{stamp:.3}"),
        Err(_) => format!("{at} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-03-02T09:00:00Z.
    const NINE: i64 = 1_772_442_000_000;

    #[test]
    fn times_as_logs_write_them() {
        for (text, format, at) in [
            ("2026-03-02T09:00:00Z", "RFC 3339", NINE),
            ("2026-03-02T09:00:00.120Z", "RFC 3339", NINE + 120),
            ("2026-03-02T10:30:00.123456789+01:30", "RFC 3339", NINE + 123),
            ("2026-03-02 09:00:00,007", "RFC 3339", NINE + 7),
            ("2026-03-02T04:00:00-0500", "RFC 3339", NINE),
            ("2026-03-02 11:00:00+02", "RFC 3339", NINE),
            ("1772442000", "seconds since the epoch", NINE),
            ("1772442000.5", "seconds since the epoch", NINE + 500),
            ("1772442000120", "milliseconds since the epoch", NINE + 120),
            ("1772442000120999", "microseconds since the epoch", NINE + 120),
            ("1772442000120999888", "nanoseconds since the epoch", NINE + 120),
            ("02/Mar/2026:10:00:00 +0100", "%d/%b/%Y:%H:%M:%S %z", NINE),
            ("2026/03/02 09:00:00", "%Y/%m/%d %H:%M:%S%.f", NINE),
            ("Mon Mar 02 09:00:00 2026", "%a %b %d %H:%M:%S %Y", NINE),
        ] {
            let read = TimeFormat::of(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(read.name(), format, "{text}");
            assert_eq!(read.read(text.as_bytes()), Some(at), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "x",
            "2026-13-02T09:00:00Z",
            "2026-02-30T09:00:00Z",
            "2026-03-02T24:00:00Z",
            "2026-03-02T09:00:00.Z",
            "2026-03-02T09:00:00ZZ",
            "2026-03-02T09:00:00+25:00",
            "12345678",
            "99999999999999999999",
            "1772442000.x",
            "-1772442000",
            "2026-03-02",
        ] {
            assert_eq!(TimeFormat::of(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_calendar_is_the_librarys() {
        for days in (-200_000..200_000).step_by(97) {
            let date = jiff::civil::date(1970, 1, 1) + jiff::Span::new().days(days);
            let [year, month, day] = [date.year().into(), date.month().into(), date.day().into()];
            assert_eq!(days_from_epoch(year, month, day), i64::from(days), "{date}");
        }
    }

    #[test]
    fn durations_have_the_unit_of_their_field() {
        for (field, text, ms) in [
            ("took_s", "1.5", 1500),
            ("duration_ms", "350", 350),
            ("durationMillis", "350", 350),
            ("elapsed", "13m02s", 782_000),
            ("elapsed", "350ms", 350),
            ("took_us", "1500", 2),
        ] {
            assert_eq!(TookUnit::of_field(field).read(text.as_bytes()), Some(ms), "{field} {text}");
        }
        for bad in ["-1", "NaN", "inf", "1e300", "soon", ""] {
            assert_eq!(TookUnit::Seconds.read(bad.as_bytes()), None, "{bad}");
        }
    }
}
