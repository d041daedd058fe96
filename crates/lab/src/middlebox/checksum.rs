//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

/// A ones' complement sum that is not folded yet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum(u64);

impl Sum {
    pub(crate) fn word(&mut self, word: u16) {
        self.0 += u64::from(word);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        // 32 bits at a time: folding makes it the same (RFC 1071 §2 B).
        let (wide, rest) = bytes.as_chunks::<4>();
        for &four in wide {
            self.0 += u64::from(u32::from_be_bytes(four));
        }
        let (two, odd) = rest.as_chunks::<2>();
        for &two in two {
            self.word(u16::from_be_bytes(two));
        }
        if let [last] = odd {
            self.word(u16::from_be_bytes([*last, 0]));
        }
    }

    pub(crate) fn pseudo_header(
        &mut self,
        v6: bool,
        source: u128,
        destination: u128,
        protocol: u8,
        length: u32,
    ) {
        self.address(v6, source);
        self.address(v6, destination);
        self.0 += u64::from(protocol) + u64::from(length);
    }

    /// `new` in the place of `old` (RFC 1624 equation 3: add the complement of the old).
    pub(crate) fn replaced(&mut self, v6: bool, old: u128, new: u128) {
        if old != new {
            self.address(v6, !old);
            self.address(v6, new);
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// The checksum: the complement of the folded sum.
    pub(crate) fn finish(self) -> u16 {
        !self.folded()
    }

    fn address(&mut self, v6: bool, address: u128) {
        let bytes = address.to_be_bytes();
        self.bytes(if v6 { &bytes } else { &bytes[12..] });
    }

    // Two folds leave at most 32 bits, two more leave 16.
    #[allow(clippy::cast_possible_truncation)]
    fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }
}

/// The checksum field `held`, after `change` (made of complements of old words and of new words).
pub(crate) fn adjusted(held: u16, change: Sum) -> u16 {
    let mut sum = change;
    sum.word(!held);
    sum.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_equals_the_sum_made_anew() {
        let mut bytes = [0x45, 0x00, 0x12, 0x34, 0xff, 0xff, 0x00, 0x01];
        let mut before = Sum::default();
        before.bytes(&bytes);
        let mut change = Sum::default();
        for (at, new) in [(0, 0x0a00_u16), (4, 0x0001)] {
            change.word(!u16::from_be_bytes([bytes[at], bytes[at + 1]]));
            change.word(new);
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
        }
        let mut after = Sum::default();
        after.bytes(&bytes);
        assert_eq!(adjusted(before.finish(), change), after.finish());
    }

    #[test]
    fn odd_lengths_are_padded() {
        let mut sum = Sum::default();
        sum.bytes(&[0x01, 0x02, 0x03, 0x04, 0x05]);
        assert_eq!(sum.finish(), !(0x0102 + 0x0304 + 0x0500));
    }
}
