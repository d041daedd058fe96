//! The ids of all requests, one after the other in one buffer, each once.
//!
//! An id stands for one attempt: its text and the attempt's number. A UUID, or 32 hexadecimal digits, takes 16
//! bytes.

use super::index::hash;
use crate::bytes::begin_with;

/// The most bytes that the encoding adds to an id's text.
const HEAD: usize = 2;

/// An attempt's id as a line has it. It is hashed and compared where it stands: bytes that were just written would be
/// waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Id<'a> {
    text: Text<'a>,
    attempt: u32,
}

#[derive(Debug, Clone, Copy)]
enum Text<'a> {
    Plain(&'a [u8]),
    Packed(u8, [u8; 16]),
}

/// How the text is kept; in the two low bits of the head.
const PLAIN: u8 = 0;
const UUID: u8 = 1;
const HEX: u8 = 2;
/// In place of the attempt's number: it follows in four bytes.
const LARGE: u8 = 0xff;

impl<'a> Id<'a> {
    #[inline]
    pub(crate) fn new(id: &'a [u8], attempt: u32) -> Self {
        let text = match packed(id) {
            Some((how, packed)) => Text::Packed(how, packed),
            None => Text::Plain(&id[..id.len().min(usize::from(u16::MAX >> 2))]),
        };
        Self { text, attempt }
    }

    #[inline]
    pub(crate) fn hash(&self) -> u32 {
        match &self.text {
            Text::Plain(text) => hash(text, self.attempt),
            Text::Packed(_, packed) => hash(packed, self.attempt),
        }
    }

    /// Appends its encoding: head (how, and how long), text, attempt.
    #[inline]
    pub(crate) fn append(&self, to: &mut Vec<u8>) {
        match &self.text {
            Text::Plain(text) => {
                to.extend_from_slice(&head(text).to_le_bytes());
                to.extend_from_slice(text);
            }
            Text::Packed(how, packed) => {
                to.push(*how);
                to.extend_from_slice(packed);
            }
        }
        if let Some(small) = self.small_attempt() {
            to.push(small);
        } else {
            to.push(LARGE);
            to.extend_from_slice(&self.attempt.to_le_bytes());
        }
    }

    /// Whether `bytes` begin with its encoding.
    #[inline]
    pub(crate) fn begins(&self, bytes: &[u8]) -> bool {
        let rest = match &self.text {
            Text::Plain(text) => {
                let Some((known, rest)) = bytes.split_first_chunk::<HEAD>() else { return false };
                if u16::from_le_bytes(*known) != head(text) || !begin_with(rest, text) {
                    return false;
                }
                &rest[text.len()..]
            }
            Text::Packed(how, packed) => match bytes.split_first_chunk::<17>() {
                Some(([known, text @ ..], rest)) if known == how && text == packed => rest,
                _ => return false,
            },
        };
        match self.small_attempt() {
            Some(small) => rest.first() == Some(&small),
            None => rest.split_first().is_some_and(|(&first, rest)| {
                first == LARGE && rest.starts_with(&self.attempt.to_le_bytes())
            }),
        }
    }

    #[inline]
    fn small_attempt(&self) -> Option<u8> {
        u8::try_from(self.attempt).ok().filter(|&small| small < LARGE)
    }
}

/// An id is at most 512 bytes long: 14 bits.
#[inline]
fn head(text: &[u8]) -> u16 {
    u16::try_from(text.len()).unwrap_or(u16::MAX) << 2 | u16::from(PLAIN)
}

#[inline]
fn packed(id: &[u8]) -> Option<(u8, [u8; 16])> {
    let mut digits = [0; 32];
    let how = if let Ok(id) = <&[u8; 36]>::try_from(id) {
        if [8, 13, 18, 23].iter().any(|&at| id[at] != b'-') {
            return None;
        }
        digits[..8].copy_from_slice(&id[..8]);
        digits[8..12].copy_from_slice(&id[9..13]);
        digits[12..16].copy_from_slice(&id[14..18]);
        digits[16..20].copy_from_slice(&id[19..23]);
        digits[20..].copy_from_slice(&id[24..]);
        UUID
    } else {
        digits = *<&[u8; 32]>::try_from(id).ok()?;
        HEX
    };
    let mut packed = [0; 16];
    let (words, places) = (digits.as_chunks::<8>().0, packed.as_chunks_mut::<4>().0);
    let mut wrong = 0;
    for (place, word) in places.iter_mut().zip(words) {
        let (bytes, other) = hexadecimal(u64::from_le_bytes(*word));
        *place = bytes;
        wrong |= other;
    }
    (wrong == 0).then_some((how, packed))
}

/// Four bytes of eight lowercase digits, the first in the lowest byte; the second is 0 if they are such.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
fn hexadecimal(digits: u64) -> ([u8; 4], u64) {
    const ONES: u64 = u64::MAX / 0xff;
    const UPPER: u64 = ONES * 0xf0;
    // Letters begin at 0x61, digits at 0x30.
    let letters = (digits >> 6) & ONES;
    let values = (digits & !UPPER) + letters * 9;
    let wrong = (digits & UPPER) ^ (ONES * 0x30 + letters * 0x30);
    // What is 10 and more is a letter, and nothing is 16 and more.
    let wrong = wrong | (((values + ONES * 6) >> 4) & ONES) ^ letters | values & UPPER;
    let pairs = (values << 4 | values >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    (((fours | fours >> 16) as u32).to_le_bytes(), wrong)
}

/// The length of the encoding at the start of `bytes`.
pub(super) fn length(bytes: &[u8]) -> usize {
    let text = match bytes[0] & 3 {
        PLAIN => HEAD + usize::from(u16::from_le_bytes([bytes[0], bytes[1]]) >> 2),
        _ => 1 + 16,
    };
    text + if bytes[text] == LARGE { 5 } else { 1 }
}

/// The id's text and the attempt's number of the encoding at the start of `bytes`.
pub(crate) fn decoded(bytes: &[u8]) -> (String, u32) {
    let bytes = &bytes[..length(bytes)];
    if let Some((text, attempt)) = plain(bytes) {
        return (String::from_utf8_lossy(text).into_owned(), attempt);
    }
    let (packed, rest) = bytes[1..].split_at(16);
    let mut text = String::with_capacity(36);
    for (at, byte) in packed.iter().enumerate() {
        if bytes[0] & 3 == UUID && [4, 6, 8, 10].contains(&at) {
            text.push('-');
        }
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from_digit(nibble.into(), 16).unwrap_or('?'));
        }
    }
    (text, attempt(rest))
}

/// The id and the attempt of one encoding, where the id is kept as it is.
pub(super) fn plain(bytes: &[u8]) -> Option<(&[u8], u32)> {
    if bytes[0] & 3 != PLAIN {
        return None;
    }
    let (text, rest) = bytes[HEAD..].split_at(length_of_text(bytes));
    Some((text, attempt(rest)))
}

/// The attempt's number, which an encoding ends with.
fn attempt(rest: &[u8]) -> u32 {
    match *rest {
        [LARGE, a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        [small, ..] => small.into(),
        [] => 0,
    }
}

fn length_of_text(bytes: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([bytes[0], bytes[1]]) >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_are_lowercase_ones_only() {
        for byte in 0..=u8::MAX {
            for at in 0..8 {
                let mut digits = *b"09afc3e7";
                digits[at] = byte;
                let (bytes, wrong) = hexadecimal(u64::from_le_bytes(digits));
                let is_digit = byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
                assert_eq!(wrong == 0, is_digit, "{byte:#x} at {at}");
                if is_digit {
                    let text = std::str::from_utf8(&digits).unwrap();
                    assert_eq!(Ok(u32::from_be_bytes(bytes)), u32::from_str_radix(text, 16));
                }
            }
        }
    }

    #[test]
    fn an_id_is_kept_whole() {
        let long = "x".repeat(512);
        for id in [
            "a",
            "extract-017",
            "0b9c2f6e-8d1a-4c3b-9e7f-00112233aabb",
            "0B9C2F6E-8D1A-4C3B-9E7F-00112233AABB",
            "00112233445566778899aabbccddeeff",
            "00112233445566778899aabbccddeefg",
            "0b9c2f6e-8d1a-4c3b-9e7f+00112233aabb",
            &long,
        ] {
            for attempt in [0, 1, 254, 255, 256, u32::MAX] {
                let key = Id::new(id.as_bytes(), attempt);
                let mut bytes = Vec::new();
                key.append(&mut bytes);
                assert_eq!(length(&bytes), bytes.len());
                for cut in 0..bytes.len() {
                    assert!(!key.begins(&bytes[..cut]));
                }
                let mut others = vec![Id::new(id.as_bytes(), attempt ^ 1)];
                others.push(Id::new(&id.as_bytes()[1..], attempt));
                assert!(key.begins(&bytes) && others.iter().all(|other| !other.begins(&bytes)));
                bytes.extend(b"more");
                assert_eq!(decoded(&bytes), (id.to_owned(), attempt));
                assert!(key.begins(&bytes));
            }
        }
        let mut bytes = Vec::new();
        Id::new(b"0b9c2f6e-8d1a-4c3b-9e7f-00112233aabb", 1).append(&mut bytes);
        assert_eq!(bytes.len(), 18);
    }
}
