//! The texts in a line: JSON texts without escapes, in ASCII.

use super::literal::CHUNK;
use crate::layout::LONGEST_ID;

/// The length of the text that `bytes` begin with, up to its quote; `None`: it is another.
pub(super) fn text_length(bytes: &[u8]) -> Option<usize> {
    let length = plain_length(bytes);
    (bytes.get(length) == Some(&b'"')).then_some(length)
}

/// How many bytes there are before the first that is a quote, a backslash, a control character or not ASCII.
#[inline]
pub(super) fn plain_length(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some((chunk, after)) = rest.split_first_chunk() {
        let ends = ends(chunk);
        if ends != 0 {
            return bytes.len() - rest.len() + (ends.trailing_zeros() / 8) as usize;
        }
        rest = after;
    }
    let ends = rest.iter().position(|&byte| is_end(byte));
    bytes.len() - rest.len() + ends.unwrap_or(rest.len())
}

/// Texts of 1 to [`LONGEST_ID`] bytes that are mostly as long as the one before: ids. Where the next ends is known
/// before its bytes are, so what comes after it need not wait for them.
#[derive(Debug, Clone, Copy)]
pub(super) struct LikeLast {
    length: usize,
    /// The bits of a chunk that are the text's, after its whole chunks.
    mask: u128,
}

impl Default for LikeLast {
    fn default() -> Self {
        Self::of(1)
    }
}

impl LikeLast {
    fn of(length: usize) -> Self {
        Self { length, mask: (1 << (length % CHUNK * 8)) - 1 }
    }

    /// The length of the last.
    pub(super) fn last(&self) -> usize {
        self.length
    }

    /// The length of the text that `bytes` begin with, up to its quote, or up to what makes it another text; `None`:
    /// it is empty or too long.
    #[inline(always)]
    pub(super) fn length(&mut self, bytes: &[u8]) -> Option<usize> {
        if bytes.get(self.length) == Some(&b'"') && self.is_plain(bytes) {
            return Some(self.length);
        }
        self.other_length(bytes)
    }

    /// Whether so many bytes are plain; also not, where that is hard to tell.
    #[inline(always)]
    pub(super) fn is_plain(&self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        for _ in 0..self.length / CHUNK {
            let Some((chunk, after)) = rest.split_first_chunk() else { return false };
            if ends(chunk) != 0 {
                return false;
            }
            rest = after;
        }
        let Some(chunk) = rest.first_chunk() else { return false };
        ends(chunk) & self.mask == 0
    }

    #[inline(never)]
    fn other_length(&mut self, bytes: &[u8]) -> Option<usize> {
        let length = plain_length(bytes);
        (1..=LONGEST_ID).contains(&length).then(|| {
            *self = Self::of(length);
            length
        })
    }
}

/// All bits of each byte that ends a text: as the processor's wide comparisons do it.
#[inline(always)]
fn ends(chunk: &[u8; CHUNK]) -> u128 {
    let mut ends = [0; CHUNK];
    for (end, &byte) in ends.iter_mut().zip(chunk) {
        *end = if is_end(byte) { u8::MAX } else { 0 };
    }
    u128::from_le_bytes(ends)
}

#[inline(always)]
fn is_end(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\' || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_at_its_quote_only() {
        for at in 0..40 {
            for (end, found) in
                [(b'"', true), (b'\\', false), (b'\n', false), (0xc3, false), (0x7f, false)]
            {
                let mut text = vec![b'a'; at];
                text.push(end);
                assert_eq!(text_length(&text), found.then_some(at), "{end} at {at}");
                text.extend(b"bcdefgh\"");
                let whole = if end == 0x7f { Some(text.len() - 1) } else { found.then_some(at) };
                assert_eq!(text_length(&text), whole, "{end} at {at}");
            }
        }
    }

    #[test]
    fn any_byte_at_any_place_is_plain_or_ends_a_text() {
        for byte in 0..=u8::MAX {
            let plain = matches!(byte, b' '..=0x7f) && byte != b'"' && byte != b'\\';
            for (length, at) in (0..40).flat_map(|length| (0..length).map(move |at| (length, at))) {
                let mut text = vec![b'a'; length];
                text[at] = byte;
                let expected = if plain { length } else { at };
                assert_eq!(plain_length(&text), expected, "{byte} at {at} of {length}");
            }
        }
    }

    #[test]
    fn a_text_like_the_last_is_told_from_any_other() {
        let text = |length, byte, at: usize| {
            let mut text = vec![b'a'; length];
            if let Some(place) = text.get_mut(at) {
                *place = byte;
            }
            text.push(b'"');
            text
        };
        for last in 0..40 {
            for (length, at) in (0..45).flat_map(|length| (0..=length).map(move |at| (length, at)))
            {
                for byte in *b"\"\\\x1f\x80\xff#" {
                    let mut texts = LikeLast::default();
                    let before = (last > 0).then_some(last);
                    assert_eq!(texts.length(&text(last, b'a', 0)), before);
                    let mut bytes = text(length, byte, at);
                    for more in [&b""[..], b",\"attempt\":1,\"n\":1"] {
                        bytes.extend(more);
                        let expected = Some(plain_length(&bytes)).filter(|length| *length > 0);
                        assert_eq!(texts.length(&bytes), expected, "{length} after {last}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_none() {
        for (length, expected) in [(LONGEST_ID, Some(LONGEST_ID)), (LONGEST_ID + 1, None)] {
            let mut text = vec![b'a'; length];
            text.extend(b"\",\"attempt\":1,\"n\":1");
            let mut texts = LikeLast::default();
            assert_eq!([texts.length(&text), texts.length(&text)], [expected; 2]);
        }
    }
}
