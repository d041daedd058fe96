//! Records that are new as far as is known, looked up all at once: in the order of the index, so that memory is read
//! in that order too. Who looks up each by itself waits for memory each time.

use super::{
    BATCH, Extra, Pending, Store, ids,
    index::Number,
    record::{Record, Slot},
};
use crate::bytes::begin_with;

/// So many records wait to be looked up at most.
const MOST: usize = 1 << 18;
/// Where one in so many seems new and is not, what follows is looked up at once.
const REPEATS: usize = 8;
/// They are put in order by so many topmost bits of their hashes.
const PART_BITS: u32 = 10;

/// A record that is not in the index yet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fresh {
    pub(super) hash: u32,
    pub(super) number: Number,
}

/// A record's place that is free, and where the id is that it had.
#[derive(Debug, Clone, Copy)]
pub(super) struct Free {
    number: Number,
    id: u32,
}

/// A record whose id another one had before.
struct Again {
    number: Number,
    of: Number,
}

impl Store {
    #[inline]
    pub(super) fn settle_if_many(&mut self) {
        if self.fresh.len() >= MOST {
            self.settle();
        }
    }

    /// Puts the fresh records into the index. Those whose id is known become part of the known record.
    pub(super) fn settle(&mut self) {
        let fresh = by_hash(&self.fresh);
        self.fresh.clear();
        self.index.reserve(fresh.len());
        let mut again = Vec::new();
        for batch in fresh.chunks(BATCH) {
            let mut likely = [Number::MAX; BATCH];
            for (likely, fresh) in likely.iter_mut().zip(batch) {
                *likely = self.index.likely(fresh.hash);
            }
            self.touch(&likely);
            for &Fresh { hash, number } in batch {
                match self.index.find(hash, |known| self.have_same_id(known, number)) {
                    Ok(of) => again.push(Again { number, of }),
                    Err(at) => self.index.insert(at, hash, number),
                }
            }
        }
        self.repeats = (again.len() + self.found) * REPEATS > fresh.len() + self.found;
        self.found = 0;
        self.join(again);
        self.settled_extras = self.extras.len();
    }

    fn have_same_id(&self, one: Number, other: Number) -> bool {
        let id = |number: Number| &self.ids[self.get(number).id as usize..];
        let key = id(other);
        begin_with(id(one), &key[..ids::length(key)])
    }

    /// Makes each record of `again` part of the one that had its id before. Its place is free then.
    fn join(&mut self, mut again: Vec<Again>) {
        if again.is_empty() {
            return;
        }
        again.sort_unstable_by_key(|again| again.number);
        for &Again { number, of } in &again {
            let record = self.records[number as usize].take();
            self.free.push(Free { number, id: record.id });
            for slot in Slot::ALL {
                if let Some(at) = record.get(slot) {
                    self.tell(of, at, record.kind(slot), record.file);
                }
            }
        }
        let now = |number: Number| {
            let found = again.binary_search_by_key(&number, |again| again.number);
            found.map_or(number, |at| again[at].of)
        };
        for Extra { record, at, kind, file } in self.extras.split_off(self.settled_extras) {
            self.tell(now(record), at, kind, file);
        }
        self.last_received = now(self.last_received);
        self.recent.renumber(now);
    }

    /// A free place that it fits into.
    pub(super) fn reused(&mut self, pending: &Pending) -> Option<Number> {
        let Free { number, id } = self.free.pop()?;
        let key = &self.keys[pending.from as usize..pending.to as usize];
        let place = &mut self.ids[id as usize..];
        if ids::length(place) != key.len() {
            return None;
        }
        place[..key.len()].copy_from_slice(key);
        self.records[number as usize] = Record::new(id, pending.file);
        Some(number)
    }
}

/// By the topmost bits of the hashes, and those of the same bits in the order of the numbers.
fn by_hash(fresh: &[Fresh]) -> Vec<Fresh> {
    let part = |fresh: &Fresh| (fresh.hash >> (u32::BITS - PART_BITS)) as usize;
    let mut places = vec![0; 1 << PART_BITS];
    for fresh in fresh {
        places[part(fresh)] += 1;
    }
    let mut sum = 0;
    for place in &mut places {
        sum += std::mem::replace(place, sum);
    }
    let mut ordered = vec![Fresh::default(); fresh.len()];
    for fresh in fresh {
        let place = &mut places[part(fresh)];
        ordered[*place] = *fresh;
        *place += 1;
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        attempts::{self, Attempt},
        event::{Event, Kind},
    };

    /// Of requests that are each sent twice.
    fn events(count: i64) -> Vec<(String, i64, Kind)> {
        let of = |i: i64| {
            let id = i.wrapping_mul(0x9e37_79b9).to_string();
            [
                (i, Kind::Asked),
                (i + 1, Kind::Received),
                (i + 1, Kind::Started),
                (i + 30, Kind::Sent),
                (i + 31, Kind::Broken),
                (i + 50, Kind::Asked),
                (i + 51, Kind::Started),
                (i + 60, Kind::Part),
                (i + 70, Kind::Sent),
                (i + 71, Kind::Answered),
            ]
            .map(|(at, kind)| (id.clone(), at, kind))
        };
        (0..count).flat_map(of).collect()
    }

    fn joined(events: &[(String, i64, Kind)]) -> (Vec<(String, Attempt)>, u64, usize) {
        let mut store = Store::default();
        for (id, at, kind) in events {
            let event = Event { at: *at, id: id.as_bytes(), attempt: 0, kind: *kind, took: None };
            assert!(store.add(&event, 0).unwrap());
        }
        store.finish().unwrap();
        let mut all = Vec::new();
        attempts::each(&store, 0, |attempt| {
            all.push((store.id(attempt.record).0, Attempt { record: 0, ..*attempt }));
        });
        all.sort_by_key(|(id, attempt)| (id.clone(), attempt.nth));
        (all, store.duplicates, store.len())
    }

    #[test]
    fn what_was_forgotten_and_comes_again_is_the_same_request() {
        let in_order = events(40_000);
        let (expected, duplicates, places) = joined(&in_order);
        assert_eq!((expected.len(), duplicates), (80_000, 0));
        assert!(places < 40_000 + MOST, "{places}");
        let mut shuffled = in_order;
        let mut random = 2457_u64;
        for at in (1..shuffled.len()).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            shuffled.swap(at, (random >> 33) as usize % (at + 1));
        }
        // Lines that are there twice change nothing.
        let twice: Vec<_> = shuffled.iter().chain(&shuffled).cloned().collect();
        let (all, duplicates, places) = joined(&twice);
        assert_eq!((all, duplicates), (expected, 400_000));
        assert!(places < 40_000 + MOST, "{places}");
    }
}
