//! The texts in a line: JSON texts without escapes, in ASCII.

const CHUNK: usize = 16;

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
        let ends = u128::from_le_bytes(ends(chunk));
        if ends != 0 {
            return bytes.len() - rest.len() + (ends.trailing_zeros() / 8) as usize;
        }
        rest = after;
    }
    let ends = rest.iter().position(|&byte| is_end(byte));
    bytes.len() - rest.len() + ends.unwrap_or(rest.len())
}

/// Texts that are mostly as long as the one before, such as ids. Where the next ends is known before its bytes are:
/// what comes after it need not wait for them.
#[derive(Debug, Default)]
pub(super) struct LikeLast {
    length: usize,
    /// The bits of a chunk that the bytes have that are more than whole chunks.
    mask: [u8; CHUNK],
}

impl LikeLast {
    /// The text that `bytes` begin with, and what follows it: its quote, or what makes it another text.
    #[inline(always)]
    pub(super) fn split<'l>(&mut self, bytes: &'l [u8]) -> Option<(&'l [u8], &'l [u8])> {
        match bytes.split_at_checked(self.length) {
            Some((text, rest)) if rest.first() == Some(&b'"') && self.is_plain(bytes) => {
                Some((text, rest))
            }
            _ => self.split_other(bytes),
        }
    }

    /// Whether the first `length` bytes are plain; also not, where that is hard to tell.
    #[inline(always)]
    fn is_plain(&self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        for _ in 0..self.length / CHUNK {
            let Some((chunk, after)) = rest.split_first_chunk() else { return false };
            if ends(chunk) != [0; CHUNK] {
                return false;
            }
            rest = after;
        }
        let Some(chunk) = rest.first_chunk() else { return false };
        let ends = u128::from_le_bytes(ends(chunk));
        ends & u128::from_le_bytes(self.mask) == 0
    }

    #[inline(never)]
    fn split_other<'l>(&mut self, bytes: &'l [u8]) -> Option<(&'l [u8], &'l [u8])> {
        let (text, rest) = bytes.split_at_checked(plain_length(bytes))?;
        self.length = text.len();
        self.mask = [0; CHUNK];
        self.mask[..text.len() % CHUNK].fill(u8::MAX);
        Some((text, rest))
    }
}

/// All bits of each byte that ends a text: as one of the processor's wide comparisons does it.
#[inline(always)]
fn ends(chunk: &[u8; CHUNK]) -> [u8; CHUNK] {
    let mut ends = [0; CHUNK];
    for (end, &byte) in ends.iter_mut().zip(chunk) {
        *end = if is_end(byte) { u8::MAX } else { 0 };
    }
    ends
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
                    let before = text(last, b'a', 0);
                    assert_eq!(texts.split(&before).unwrap().0, &before[..last]);
                    let mut bytes = text(length, byte, at);
                    for more in [&b""[..], b",\"attempt\":1,\"n\":1"] {
                        bytes.extend(more);
                        let expected = bytes.split_at(plain_length(&bytes));
                        assert_eq!(texts.split(&bytes), Some(expected), "{length} after {last}");
                    }
                }
            }
        }
    }
}
