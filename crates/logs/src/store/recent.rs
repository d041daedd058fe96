//! The requests that are under way, by their hash: few enough to stay in the processor's caches, which the index of all
//! is too large for. Whatever it names is compared by its id.

use super::index::Number;

/// How many sets there are: eight times as many requests under way are remembered.
const MOST: usize = 1 << 13;
const LEAST: usize = 1 << 6;
const WAYS: usize = 8;

/// One line of the processor's cache: the records whose hashes have the same lowest bits.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Set {
    hashes: [u32; WAYS],
    /// `Number::MAX`: free.
    numbers: [Number; WAYS],
}

const FREE: Set = Set { hashes: [0; WAYS], numbers: [Number::MAX; WAYS] };

/// The records that were met last and did not end.
#[derive(Debug)]
pub(super) struct Recent(Box<[Set]>);

impl Default for Recent {
    fn default() -> Self {
        Self(vec![FREE; LEAST].into())
    }
}

impl Recent {
    /// As many as there are records, up to [`MOST`] sets.
    pub(super) fn grow(&mut self, records: usize) {
        let wanted = (records / WAYS).next_power_of_two().clamp(LEAST, MOST);
        if self.0.len() >= wanted {
            return;
        }
        let old = std::mem::replace(&mut self.0, vec![FREE; wanted].into());
        for set in old {
            for (hash, number) in set.hashes.into_iter().zip(set.numbers) {
                if number != Number::MAX {
                    self.remember(hash, number);
                }
            }
        }
    }

    #[inline]
    fn set(&self, hash: u32) -> usize {
        hash as usize & (self.0.len() - 1)
    }

    /// Reads the sets of these hashes, so that they are at hand.
    #[inline]
    pub(super) fn touch(&self, hashes: impl Iterator<Item = u32>) {
        let read = hashes.map(|hash| self.0[self.set(hash)].numbers[0]);
        // Nothing comes of it, and still it is to be read.
        std::hint::black_box(read.fold(0, |all, number| all ^ number));
    }

    /// The record of that hash. `Number::MAX`: none.
    #[inline]
    pub(super) fn likely(&self, hash: u32) -> Number {
        let set = &self.0[self.set(hash)];
        let mut likely = Number::MAX;
        for way in 0..WAYS {
            likely = if set.hashes[way] == hash { likely.min(set.numbers[way]) } else { likely };
        }
        likely
    }

    /// Remembers a record, in place of another where there is no room.
    #[inline]
    pub(super) fn remember(&mut self, hash: u32, number: Number) {
        let at = self.set(hash);
        let set = &mut self.0[at];
        let mut way = number as usize % WAYS;
        for free in 0..WAYS {
            way = if set.numbers[free] == Number::MAX { free } else { way };
        }
        set.hashes[way] = hash;
        set.numbers[way] = number;
    }

    /// Makes room: nothing more is expected of it.
    #[inline]
    pub(super) fn forget(&mut self, hash: u32, number: Number) {
        let at = self.set(hash);
        for known in &mut self.0[at].numbers {
            *known = if *known == number { Number::MAX } else { *known };
        }
    }

    /// Gives each record the number that `now` says.
    pub(super) fn renumber(&mut self, now: impl Fn(Number) -> Number) {
        for number in self.0.iter_mut().flat_map(|set| &mut set.numbers) {
            *number = now(*number);
        }
    }
}
