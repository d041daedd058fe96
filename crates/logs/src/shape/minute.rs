//! Times of one minute share most of their digits: only the others are read.

use crate::{event::Millis, time::TimeFormat};

/// The minute of the last time that was read in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Minute {
    /// Such as `2026-03-02T09:00`.
    text: [u8; 16],
    /// When that is.
    at: Millis,
}

/// The length of `2026-03-02T09:00:00.120Z`.
pub(super) const USUAL: usize = 24;

impl Default for Minute {
    fn default() -> Self {
        Self { text: *b"1970-01-01T00:00", at: 0 }
    }
}

impl Minute {
    /// Reads a time of [`USUAL`] length and of the same minute, and gives what follows it: whether that is the end of
    /// the text is not looked at.
    #[inline(always)]
    pub(super) fn quick<'l>(&self, bytes: &'l [u8]) -> Option<(Millis, &'l [u8])> {
        let (text, rest) = bytes.split_first_chunk::<USUAL>()?;
        let (minute, within) = text.split_first_chunk::<16>()?;
        if *minute != self.text {
            return None;
        }
        let within = within_minute(*within.first_chunk()?)?;
        Some((self.at + within, rest))
    }

    /// What times of the minute are, and the bits that are so in each of them.
    pub(super) fn usual(&self) -> [(u8, u8); USUAL] {
        let within = b":00.000Z".map(|byte| (byte, if byte == b'0' { 0xf0 } else { u8::MAX }));
        let mut usual = [(0, 0); USUAL];
        let (minute, rest) = usual.split_at_mut(self.text.len());
        for (place, byte) in minute.iter_mut().zip(self.text) {
            *place = (byte, u8::MAX);
        }
        rest.copy_from_slice(&within);
        usual
    }

    /// Reads a time that is [`Self::usual`].
    #[inline(always)]
    pub(super) fn read_usual(&self, text: &[u8; USUAL]) -> Option<Millis> {
        let digits = u64::from_le_bytes(*text.last_chunk()?) ^ ZEROES;
        Some(self.at + of_digits(digits)?)
    }

    /// Reads any time of an RFC 3339 log.
    pub(super) fn read(&mut self, text: &[u8]) -> Option<Millis> {
        let at = TimeFormat::Rfc3339.read(text)?;
        // What is written otherwise is read anew each time.
        if let (Some((minute, rest)), USUAL) = (text.split_first_chunk(), text.len())
            && let Some(within) = rest.first_chunk().and_then(|rest| within_minute(*rest))
        {
            *self = Self { text: *minute, at: at - within };
        }
        Some(at)
    }
}

const ZEROES: u64 = u64::from_le_bytes(*b":00.000Z");
const UPPER: u64 = u64::MAX / 0xff * 0xf0;

/// The milliseconds of `:00.120Z`; `None`: it is written otherwise. All eight bytes at once, the first the lowest.
#[inline(always)]
fn within_minute(text: [u8; 8]) -> Option<Millis> {
    const SEPARATORS: u64 = u64::from_le_bytes([0xff, 0, 0, 0xff, 0, 0, 0, 0xff]);
    let digits = u64::from_le_bytes(text) ^ ZEROES;
    if digits & (SEPARATORS | UPPER) != 0 { None } else { of_digits(digits) }
}

/// The milliseconds of such a text without what is the same in each; `None`: a digit is none.
#[inline(always)]
fn of_digits(digits: u64) -> Option<Millis> {
    // What is above 9, and for tens of seconds above 5, gets an upper half with these more.
    const TO_UPPER: u64 = u64::from_le_bytes([0, 10, 6, 0, 6, 6, 6, 0]);
    // Where the seconds are then, and the hundredths.
    const PAIRS: u64 = u64::from_le_bytes([0, 0, 0xff, 0, 0, 0xff, 0, 0]);
    if (digits + TO_UPPER) & UPPER != 0 {
        return None;
    }
    // Each byte gets ten times the one before it.
    let pairs = (digits * (1 + (10 << 8))) & PAIRS;
    // Both times their milliseconds, and the seconds three bytes up: their sum is in the upper three bytes.
    let of_pairs = pairs.wrapping_mul(10 + (1000 << 24)) >> 40;
    let thousandths = digits >> 48;
    Some((of_pairs + thousandths).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_millisecond_of_a_minute_is_read() {
        for within in 0..60_000 {
            let text = format!(":{:02}.{:03}Z", within / 1000, within % 1000);
            assert_eq!(within_minute(text.as_bytes().try_into().unwrap()), Some(within), "{text}");
        }
    }

    #[test]
    fn any_other_byte_is_written_otherwise() {
        let usual = *b":19.909Z";
        for (at, byte) in (0..8).flat_map(|at| (0..=u8::MAX).map(move |byte| (at, byte))) {
            let mut text = usual;
            text[at] = byte;
            let expected = match at {
                // Tens of seconds.
                1 => (b'0'..b'6').contains(&byte),
                2 | 4..=6 => byte.is_ascii_digit(),
                _ => byte == usual[at],
            };
            let mut whole = b"1970-01-01T00:00".to_vec();
            whole.extend(text);
            let read = expected.then(|| TimeFormat::Rfc3339.read(&whole).unwrap());
            assert_eq!(within_minute(text), read, "{byte} at {at}");
        }
    }

    #[test]
    fn a_minute_is_remembered_until_another_is_read() {
        let mut minute = Minute::default();
        let text = b"2026-03-02T09:00:07.120Z\"";
        assert_eq!(minute.quick(text), None);
        let at = minute.read(&text[..USUAL]).unwrap();
        assert_eq!(minute.quick(text), Some((at, &b"\""[..])));
        assert_eq!(minute.quick(&text[..USUAL]), Some((at, &b""[..])));
        assert_eq!(minute.quick(&text[..USUAL - 1]), None);
        assert_eq!(minute.read(b"2026-03-02T09:00:07.120+01:00"), Some(at - 3_600_000));
        assert_eq!(minute.quick(text), Some((at, &b"\""[..])));
        assert_eq!(minute.read(b"2026-03-02T09:01:07.120Z"), Some(at + 60_000));
        assert_eq!(minute.quick(text), None);
        assert_eq!(minute.quick(b"2026-03-02T09:01:00.000Z"), Some((at + 52_880, &b""[..])));
    }
}
