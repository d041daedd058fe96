//! The timer ring: which entries may be due, without looking at the others.
//!
//! Buckets of a quarter of a second hold doubly linked lists that run through the entries themselves. An
//! entry whose deadline moves later stays where it is and is filed anew when its bucket comes up, so a
//! packet costs no list work; only a deadline that moves earlier does.

use super::table::Entry;

/// No entry.
pub(crate) const NONE: u32 = u32::MAX;
/// log2 of a bucket's nanoseconds: 0.27 s.
const WIDTH: u32 = 28;
/// Buckets: a lap is 18 minutes; what is due later is looked at once a lap.
const BUCKETS: u64 = 4096;

/// An entry's place in the ring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    next: u32,
    previous: u32,
    /// The tick that it is filed under, of which the bucket is the remainder.
    tick: u64,
}

impl Place {
    pub(crate) const NOWHERE: Self = Self { next: NONE, previous: NONE, tick: 0 };
}

#[derive(Debug)]
pub(crate) struct Ring {
    heads: Box<[u32]>,
    /// One bit a bucket: something is filed there.
    filled: [u64; 64],
    /// Every bucket before this tick has been looked at.
    cursor: u64,
    /// Not later than any deadline; found anew each time that the ring is looked at.
    soonest: u64,
}

// A remainder by 4096 fits every index type.
#[allow(clippy::cast_possible_truncation)]
fn bucket(tick: u64) -> usize {
    (tick % BUCKETS) as usize
}

impl Ring {
    pub(crate) fn new() -> Self {
        Self {
            heads: vec![NONE; bucket(BUCKETS - 1) + 1].into(),
            filled: [0; 64],
            cursor: 0,
            soonest: u64::MAX,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.heads) + size_of::<Self>()
    }

    /// Files `index` under its deadline.
    pub(crate) fn file(&mut self, entries: &mut [Entry], index: u32) {
        let deadline = entries[index as usize].deadline;
        self.soonest = self.soonest.min(deadline);
        let tick = (deadline >> WIDTH).clamp(self.cursor, self.cursor + BUCKETS - 1);
        let at = bucket(tick);
        let next = self.heads[at];
        entries[index as usize].place = Place { next, previous: NONE, tick };
        if next != NONE {
            entries[next as usize].place.previous = index;
        }
        self.heads[at] = index;
        self.filled[at / 64] |= 1 << (at % 64);
    }

    /// Takes `index` out.
    pub(crate) fn remove(&mut self, entries: &mut [Entry], index: u32) {
        let Place { next, previous, tick } = entries[index as usize].place;
        let at = bucket(tick);
        if next != NONE {
            entries[next as usize].place.previous = previous;
        }
        if previous == NONE {
            self.heads[at] = next;
            if next == NONE {
                self.filled[at / 64] &= !(1 << (at % 64));
            }
        } else {
            entries[previous as usize].place.next = next;
        }
        entries[index as usize].place = Place::NOWHERE;
    }

    /// Files `index` anew, where its deadline is now earlier than where it is filed.
    pub(crate) fn moved(&mut self, entries: &mut [Entry], index: u32) {
        self.soonest = self.soonest.min(entries[index as usize].deadline);
        let entry = &entries[index as usize];
        if entry.deadline >> WIDTH < entry.place.tick {
            self.remove(entries, index);
            self.file(entries, index);
        }
    }

    /// The entries that are due at `now`, in the order of their deadlines; they stay filed.
    pub(crate) fn due(&mut self, entries: &mut [Entry], now: u64) -> Vec<u32> {
        let last = now >> WIDTH;
        let mut due = Vec::new();
        let mut late = Vec::new();
        let laps_end = last.min(self.cursor.saturating_add(BUCKETS - 1));
        for tick in self.cursor..=laps_end {
            let at = bucket(tick);
            if self.filled[at / 64] >> (at % 64) & 1 == 0 {
                continue;
            }
            let mut index = self.heads[at];
            while index != NONE {
                let entry = &entries[index as usize];
                if entry.deadline <= now {
                    due.push(index);
                } else if entry.deadline >> WIDTH > last || tick != last {
                    late.push(index);
                }
                index = entry.place.next;
            }
        }
        self.cursor = self.cursor.max(last);
        for index in late {
            self.remove(entries, index);
            self.file(entries, index);
        }
        self.soonest = self.find_soonest(entries);
        due.sort_unstable_by_key(|&index| (entries[index as usize].deadline, index));
        due
    }

    /// A time not later than the next deadline; it gets nearer with each call to [`Ring::due`].
    pub(crate) fn next(&self) -> u64 {
        self.soonest
    }

    /// The first deadline of the first bucket with something in it, or that bucket's end.
    fn find_soonest(&self, entries: &[Entry]) -> u64 {
        let Some(tick) = self.next_filled() else { return u64::MAX };
        let mut soonest = tick.saturating_add(1).saturating_mul(1 << WIDTH);
        let mut index = self.heads[bucket(tick)];
        while index != NONE {
            let entry = &entries[index as usize];
            soonest = soonest.min(entry.deadline);
            index = entry.place.next;
        }
        soonest
    }

    /// The first tick from the cursor on with something filed, within a lap.
    fn next_filled(&self) -> Option<u64> {
        let start = bucket(self.cursor);
        // The word that the cursor is in comes first without its past, and last with it.
        for step in 0..=64 {
            let word = (start / 64 + step) % 64;
            let mut bits = self.filled[word];
            if step == 0 {
                bits &= u64::MAX << (start % 64);
            }
            if bits != 0 {
                let at = word as u64 * 64 + u64::from(bits.trailing_zeros());
                let ahead = (at + BUCKETS - start as u64) % BUCKETS;
                return Some(self.cursor + ahead);
            }
        }
        None
    }
}
