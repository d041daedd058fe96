//! Finds an attempt's record by its id: open addressing, 8 bytes a slot.
//!
//! A slot has the upper half of the id's hash and the record's number. The hash alone decides nothing: whoever
//! looks up compares the ids themselves, so that two requests are never taken for one.

/// A record's number.
pub(crate) type Number = u32;

/// A slot: `hash << 32 | number + 1`; 0: free.
#[derive(Debug, Default)]
pub(crate) struct Index {
    slots: Vec<u64>,
    used: usize,
}

const SMALLEST: usize = 1 << 10;

impl Index {
    /// Makes room for `more`, at most seven slots of eight used.
    pub(crate) fn reserve(&mut self, more: usize) {
        while (self.used + more) * 8 > self.slots.len() * 7 {
            self.grow();
        }
    }

    /// Twice as many slots, in place: new memory costs more than the moves.
    fn grow(&mut self) {
        let old = self.slots.len();
        self.slots.resize((old * 2).max(SMALLEST), 0);
        let mut later = Vec::new();
        // The last first: each moves to about twice its place, where only such are that moved already. The few that
        // would not go further than that wait.
        for at in (0..old).rev() {
            let slot = std::mem::take(&mut self.slots[at]);
            if slot == 0 {
                continue;
            }
            let start = self.start(upper(slot));
            let free = self.slots[start..].iter().position(|slot| *slot == 0);
            match free.filter(|_| start > at) {
                Some(free) => self.slots[start + free] = slot,
                None => later.push(slot),
            }
        }
        for slot in later {
            let mut at = self.start(upper(slot));
            while self.slots[at] != 0 {
                at = (at + 1) & (self.slots.len() - 1);
            }
            self.slots[at] = slot;
        }
    }

    /// Where the search for a hash begins: its topmost bits, as many as there are slots.
    #[inline]
    pub(crate) fn start(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.slots.len() as u64) >> 32) as usize
    }

    /// What the first slot of a hash names, if it is of that hash: mostly the one that is looked for. Else
    /// `Number::MAX`.
    #[inline]
    pub(crate) fn likely(&self, hash: u32) -> Number {
        let slot = self.slots.get(self.start(hash)).copied().unwrap_or(0);
        if upper(slot) == hash { lower(slot).wrapping_sub(1) } else { Number::MAX }
    }

    /// The number under this hash that `is` says is the one.
    #[inline]
    pub(crate) fn find(
        &self,
        hash: u32,
        mut is: impl FnMut(Number) -> bool,
    ) -> Result<Number, usize> {
        if self.slots.is_empty() {
            return Err(0);
        }
        let mut at = self.start(hash);
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return Err(at);
            }
            let number = lower(slot).wrapping_sub(1);
            if upper(slot) == hash && is(number) {
                return Ok(number);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Puts a number into the free place that [`Self::find`] gave.
    #[inline]
    pub(crate) fn insert(&mut self, at: usize, hash: u32, number: Number) {
        self.slots[at] = slot(hash, number);
        self.used += 1;
    }
}

fn slot(hash: u32, number: Number) -> u64 {
    u64::from(hash) << 32 | (u64::from(number) + 1)
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
fn lower(slot: u64) -> u32 {
    slot as u32
}

fn upper(slot: u64) -> u32 {
    (slot >> 32) as u32
}

/// A hash of an id and its attempt that spreads well; it need not be hard to invert.
#[inline]
pub(crate) fn hash(id: &[u8], attempt: u32) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = FACTOR ^ (id.len() as u64) << 32 ^ u64::from(attempt);
    let last = if let Some(last) = id.last_chunk::<8>() {
        // The last chunk may overlap the one before it.
        for chunk in id[..id.len() - 1].as_chunks::<8>().0 {
            hash = fold(hash ^ u64::from_le_bytes(*chunk), FACTOR);
        }
        u64::from_le_bytes(*last)
    } else {
        id.iter().fold(0, |word, &byte| word << 8 | u64::from(byte))
    };
    hash = fold(hash ^ last, FACTOR);
    (fold(hash, 0xd6e8_feb8_6659_fd93) >> 32) as u32
}

/// Both halves of the 128-bit product.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_found_also_after_it_grew() {
        let mut index = Index::default();
        for number in 0..20_000_u32 {
            index.reserve(1);
            // Few hashes: the comparison has to decide.
            let hash = hash(b"id", number % 3000);
            let at = index.find(hash, |found| found == number).unwrap_err();
            index.insert(at, hash, number);
        }
        for number in 0..20_000_u32 {
            let hash = hash(b"id", number % 3000);
            assert_eq!(index.find(hash, |found| found == number), Ok(number));
        }
        assert!(index.find(hash(b"none", 0), |_| true).is_err());
        assert!(Index::default().find(1, |_| true).is_err());
    }

    #[test]
    fn the_hash_spreads_ids_that_count() {
        let mut seen = vec![0_u32; 1 << 12];
        for i in 0..100_000 {
            let hash = hash(format!("extract-{i:07}").as_bytes(), 1);
            seen[(hash >> 20) as usize] += 1;
        }
        let most = seen.iter().max().unwrap();
        assert!(*most < 60, "{most} of 24 expected");
    }
}
