//! Short runs of bytes, compared and read in place: calls of the library's functions would cost more than the work.

/// Whether both are the same. The ends are compared first: what stands at one place of a log's lines mostly begins
/// alike.
#[inline]
pub(crate) fn same(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    if let (Some(left_end), Some(right_end)) = (left.last_chunk::<16>(), right.last_chunk()) {
        // The last chunk may overlap the one before it.
        let (left, right) = (&left[..left.len() - 1], &right[..right.len() - 1]);
        let chunks = left.as_chunks::<16>().0.iter().zip(right.as_chunks::<16>().0);
        return left_end == right_end && chunks.into_iter().all(|(a, b)| a == b);
    }
    if let (Some(left_end), Some(right_end)) = (left.last_chunk::<8>(), right.last_chunk()) {
        return left_end == right_end && left.first_chunk::<8>() == right.first_chunk();
    }
    if let (Some(left_end), Some(right_end)) = (left.last_chunk::<4>(), right.last_chunk()) {
        return left_end == right_end && left.first_chunk::<4>() == right.first_chunk();
    }
    left.iter().zip(right).all(|(a, b)| a == b)
}

/// Whether `bytes` begin with `start`.
#[inline]
pub(crate) fn begin_with(bytes: &[u8], start: &[u8]) -> bool {
    bytes.get(..start.len()).is_some_and(|bytes| same(bytes, start))
}

/// How many digits `bytes` begin with: mostly a few, so one after the other.
#[inline]
pub(crate) fn count_digits(bytes: &[u8]) -> usize {
    let mut count = 0;
    while bytes.get(count).is_some_and(u8::is_ascii_digit) {
        count += 1;
    }
    count
}

/// A number of a few digits, and of nothing else.
#[inline]
pub(crate) fn small_number(digits: &[u8]) -> Option<u32> {
    const MOST: usize = 9;
    if digits.is_empty() || digits.len() > MOST {
        return None;
    }
    digits.iter().try_fold(0, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + u32::from(digit - b'0'))
    })
}

/// What eight digits differ from their numbers by.
pub(crate) const ZEROES: u64 = u64::from_le_bytes([b'0'; 8]);

/// The number that eight digits make, of the number of each; the last is in the uppermost byte.
#[inline]
pub(crate) fn number_of(digits: u64) -> u32 {
    // Pairs, fours, all: each step joins two neighbours.
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let all = (fours * 10_000 + (fours >> 32)) & 0xffff_ffff;
    u32::try_from(all).unwrap_or(0)
}

/// Which of eight bytes are the last so many.
#[inline]
pub(crate) fn last_of_eight(count: usize) -> u64 {
    let others = u32::try_from((8 - count) * 8).unwrap_or(u64::BITS);
    u64::MAX.checked_shl(others).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_the_same_only_where_they_are() {
        let bytes: Vec<u8> = (0..40).collect();
        for length in 0..40 {
            assert!(same(&bytes[..length], &bytes[..length]));
            assert!(begin_with(&bytes, &bytes[..length]));
            for at in 0..length {
                let mut other = bytes[..length].to_vec();
                other[at] ^= 1;
                assert!(!same(&bytes[..length], &other), "{at} of {length}");
            }
        }
        assert!(!same(b"a", b"ab") && !begin_with(b"a", b"ab"));
    }

    #[test]
    fn numbers_of_digits_only() {
        for (text, number) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("999999999", Some(999_999_999)),
            ("1000000000", None),
            ("", None),
            ("+1", None),
            ("1.0", None),
        ] {
            assert_eq!(small_number(text.as_bytes()), number, "{text}");
        }
    }
}
