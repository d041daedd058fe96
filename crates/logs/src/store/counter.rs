//! Ids that count up: the number in an id tells its record, without a look-up. Whatever is guessed is compared by its
//! id.

use super::index::Number;

/// Guesses are worth their cost after so many ids in a row that would have been guessed right.
const ENOUGH: u8 = 32;
const MOST: u8 = 2 * ENOUGH;

/// By how much the number of a record differs from the number in its id.
#[derive(Debug, Default)]
pub(super) struct Counter {
    offset: Number,
    trust: u8,
}

impl Counter {
    /// The record of an id that ends with `count`, which may not be there yet. `Number::MAX`: not known well enough.
    #[inline]
    pub(super) fn guess(&self, count: u32) -> Number {
        if self.trust >= ENOUGH { count.wrapping_add(self.offset) } else { Number::MAX }
    }

    /// Takes note of where the record of an id that ends with `count` is.
    #[inline]
    pub(super) fn learn(&mut self, count: u32, number: Number) {
        if count.wrapping_add(self.offset) == number {
            self.trust = MOST.min(self.trust + 1);
        } else if self.trust > 0 {
            // One retry is no reason to forget what fits most.
            self.trust -= 1;
        } else {
            self.offset = number.wrapping_sub(count);
        }
    }
}

/// The number of the last digits of an id, eight at most; 0 without digits.
#[inline]
pub(super) fn count(id: &[u8]) -> u32 {
    const ZEROES: u64 = u64::from_le_bytes([b'0'; 8]);
    let last = id.last_chunk::<8>().copied().unwrap_or_else(|| {
        let mut last = [0; 8];
        last[8 - id.len()..].copy_from_slice(id);
        last
    });
    // The last digit is in the uppermost byte. What is before the digits counts as zeroes.
    let digits = u64::from_le_bytes(last) ^ ZEROES;
    let before = u64::BITS - above_nine(digits).leading_zeros();
    let digits = digits & u64::MAX.checked_shl(before).unwrap_or(0);
    // Pairs, fours, all: each step joins two neighbours.
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let all = (fours * 10_000 + (fours >> 32)) & 0xffff_ffff;
    u32::try_from(all).unwrap_or(0)
}

/// The high bit of each byte that is above nine.
#[inline]
fn above_nine(bytes: u64) -> u64 {
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    const TO_HIGH: u64 = u64::from_le_bytes([0x80 - 10; 8]);
    (((bytes & !HIGH) + TO_HIGH) | bytes) & HIGH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_digits_are_the_count() {
        for (id, number) in [
            ("extract-0000017", 17),
            ("extract-12345678", 12_345_678),
            ("1234567890", 34_567_890),
            ("7", 7),
            ("a7", 7),
            ("7a", 0),
            ("12a34567", 34_567),
            ("99999999", 99_999_999),
            ("extract", 0),
            ("", 0),
            ("\u{e4}\u{ff}", 0),
        ] {
            assert_eq!(count(id.as_bytes()), number, "{id}");
        }
    }

    #[test]
    fn what_fits_most_is_guessed() {
        let mut counter = Counter::default();
        for count in 0..100 {
            counter.learn(count, count + 7);
            if count % 10 == 0 {
                counter.learn(count, 3);
            }
        }
        assert_eq!(counter.guess(1000), 1007);
        for count in 0..200 {
            counter.learn(count, count + 8);
        }
        assert_eq!(counter.guess(1000), 1008);
        for count in 0..200_u32 {
            counter.learn(count, count.wrapping_mul(0x9e37_79b9));
        }
        assert_eq!(counter.guess(1000), Number::MAX);
    }
}
