//! The bytes that all lines of a shape share, compared a chunk at a time: without a branch for each length.

/// Less than one chunk, and whole chunks after it.
#[derive(Debug)]
pub(super) struct Literal {
    head: Halves,
    /// The bits of its chunk that `head` has.
    mask: Halves,
    /// How many bytes that are.
    head_length: usize,
    chunks: Box<[[u8; CHUNK]]>,
    bytes: Box<[u8]>,
}

pub(super) const CHUNK: usize = 16;
pub(super) type Halves = [u64; 2];

impl Literal {
    pub(super) fn new(bytes: &[u8]) -> Self {
        let (rest, chunks) = bytes.as_rchunks();
        let (mut head, mut mask) = ([0; CHUNK], [0; CHUNK]);
        head[..rest.len()].copy_from_slice(rest);
        mask[..rest.len()].fill(u8::MAX);
        Self {
            head: halves(&head),
            mask: halves(&mask),
            head_length: rest.len(),
            chunks: chunks.into(),
            bytes: bytes.into(),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What follows the literal, where `bytes` begin with it.
    #[inline(always)]
    pub(super) fn strip<'l>(&self, bytes: &'l [u8]) -> Option<&'l [u8]> {
        let Some(chunk) = bytes.first_chunk() else { return self.strip_at_end(bytes) };
        let [low, high] = halves(chunk);
        let differs =
            ((low ^ self.head[0]) & self.mask[0]) | ((high ^ self.head[1]) & self.mask[1]);
        if differs != 0 {
            return None;
        }
        // The remainder is the length itself; it spares a check.
        let mut rest = &bytes[self.head_length % CHUNK..];
        for known in &self.chunks {
            let (chunk, after) = rest.split_first_chunk()?;
            if chunk != known {
                return None;
            }
            rest = after;
        }
        Some(rest)
    }

    /// The same where less than a chunk is left: at the end of a block.
    #[cold]
    fn strip_at_end<'l>(&self, bytes: &'l [u8]) -> Option<&'l [u8]> {
        bytes.strip_prefix(self.bytes())
    }
}

#[inline(always)]
pub(super) fn halves(chunk: &[u8; CHUNK]) -> Halves {
    let [low, high] = chunk.as_chunks::<8>().0 else { return [0; 2] };
    [low, high].map(|half| u64::from_le_bytes(*half))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_found_where_it_is_only() {
        let text: Vec<u8> = (1..=96).collect();
        for length in 0..=64 {
            let literal = Literal::new(&text[..length]);
            assert_eq!(literal.bytes(), &text[..length]);
            // Whatever follows: nothing, or so much that it takes another way.
            for end in length..text.len() {
                assert_eq!(literal.strip(&text[..end]), Some(&text[length..end]), "{length} {end}");
                for at in 0..length {
                    let mut other = text[..end].to_vec();
                    other[at] ^= 0x80;
                    assert_eq!(literal.strip(&other), None, "{at} of {length}, {end}");
                }
            }
            for end in 0..length {
                assert_eq!(literal.strip(&text[..end]), None, "{end} of {length}");
            }
        }
    }
}
