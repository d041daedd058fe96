//! Ids that count up: a series has a table of its records by their number, so that nothing is hashed or compared, and
//! what its ids share is kept once.
//!
//! An id has one place: its series' table where its number is in the series' range, else the index. So a range grows at
//! its end alone, and never over a number that was looked up in the index.

use super::{ids, index::Number};
use crate::bytes::{ZEROES, begin_with, last_of_eight, number_of};

/// A record has four bits for its series, of which one value says that it has none.
const MOST: usize = 15;
/// A table has at most so many places for each record, and some more: numbers may come in disorder, or be missing.
const SPARSE: usize = 4;
const ROOM: usize = 4096;
const GROWTH: usize = 256;
/// With more than so many bytes of ids in the index no series begins: they are searched for its own.
const MOST_SEARCHED: usize = 1 << 16;
/// A series begins with two new ids whose numbers differ by no more.
const CLOSE: u32 = 64;
/// So many kinds of ids may take turns.
const CANDIDATES: usize = 4;

/// What the ids of a series share.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Common {
    /// What they begin with.
    start: Vec<u8>,
    /// How many digits they end with.
    digits: usize,
    attempt: u32,
}

impl Common {
    #[inline]
    fn is_of(&self, id: &[u8], digits: usize, attempt: u32) -> bool {
        let start = self.start.len();
        digits == self.digits
            && attempt == self.attempt
            && id.len() == start + digits
            && begin_with(id, &self.start)
    }
}

#[derive(Debug)]
struct Series {
    common: Common,
    quick: Quick,
    /// The number that the table begins with.
    first: u32,
    /// Numbers from here on are in the index.
    end: u32,
    records: Table,
    used: usize,
}

/// The records of a series by their numbers, from its first one on. While they were made in the order of their numbers,
/// one after the other, the first tells all.
#[derive(Debug, Default)]
struct Table {
    length: usize,
    /// The record of the first.
    first: Number,
    /// So many follow it one after the other.
    run: usize,
    /// Of the others. Empty: all are of the run, or have no record yet. `Number::MAX`: none yet.
    others: Vec<Number>,
}

impl Table {
    /// `Number::MAX`: not of the run.
    #[inline]
    fn of_run(&self, at: u32) -> Number {
        if (at as usize) < self.run { self.first + at } else { Number::MAX }
    }

    /// `Number::MAX`: none yet.
    #[inline]
    fn get(&self, at: u32) -> Number {
        match (at as usize).checked_sub(self.run) {
            None => self.first + at,
            Some(other) => self.others.get(other).copied().unwrap_or(Number::MAX),
        }
    }

    fn put(&mut self, at: u32, record: Number) {
        if self.run == 0 {
            self.first = record;
        }
        let follows = at as usize == self.run && record.checked_sub(at) == Some(self.first);
        if follows && self.others.is_empty() {
            self.run += 1;
            return;
        }
        self.others.resize(self.length - self.run, Number::MAX);
        self.others[at as usize - self.run] = record;
    }

    fn grow(&mut self, length: usize) {
        self.length = length;
        if !self.others.is_empty() {
            self.others.resize(length - self.run, Number::MAX);
        }
    }
}

/// [`Common`] for ids of eight bytes and more, so that few instructions tell one.
#[derive(Debug)]
struct Quick {
    length: usize,
    /// The first eight bytes, as far as they are shared.
    head: u64,
    head_mask: u64,
    /// Which of the last eight bytes are digits.
    digits_mask: u64,
}

impl Quick {
    fn new(common: &Common) -> Self {
        let mut head = [0; 8];
        let shared = common.start.len().min(8);
        head[..shared].copy_from_slice(&common.start[..shared]);
        let bits = |bytes: usize| u32::try_from(bytes * 8).unwrap_or(u64::BITS);
        Self {
            length: common.start.len() + common.digits,
            head: u64::from_le_bytes(head),
            head_mask: !u64::MAX.checked_shl(bits(shared)).unwrap_or(0),
            digits_mask: last_of_eight(common.digits),
        }
    }
}

/// What ids mostly are: [`Common`] of a series, its attempt apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) series: u8,
    /// What they begin with.
    pub(crate) start: Vec<u8>,
    /// How many digits they end with.
    pub(crate) digits: usize,
}

/// An id as expected, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) series: u8,
    pub(crate) number: u32,
}

/// Where the record of an id is, or will be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    series: u8,
    at: u32,
    /// `Number::MAX`: not known without a look, or none yet.
    pub(super) record: Number,
}

impl Place {
    /// Of no id.
    pub(super) const NONE: Self = Self { series: 0, at: 0, record: Number::MAX };
}

/// All series of a store.
#[derive(Debug, Default)]
pub(super) struct AllSeries {
    all: Vec<Series>,
    /// Which of them the last id was of.
    last: usize,
    /// Of what the ids were that were new to the index last.
    new: [Option<New>; CANDIDATES],
    begins: bool,
}

/// What may become a series.
#[derive(Debug, Clone)]
struct New {
    common: Common,
    /// The number of the last of them.
    last: u32,
    begins: bool,
}

impl AllSeries {
    /// The place of an id; `None`: it is looked up in the index, now and ever.
    #[inline]
    pub(super) fn place(&mut self, id: &[u8], attempt: u32) -> Option<Place> {
        let series = self.all.get(self.last)?;
        match series.at(id, attempt) {
            Some(at) => {
                let record = series.records.of_run(at);
                Some(Place { series: index(self.last), at, record })
            }
            None => self.place_in_any(id, attempt),
        }
    }

    #[inline(never)]
    fn place_in_any(&mut self, id: &[u8], attempt: u32) -> Option<Place> {
        let (digits, number) = ending(id);
        let is_of = |series: &Series| series.common.is_of(id, digits, attempt);
        let mut same = self.all.iter_mut().enumerate().filter(|(_, series)| is_of(series));
        let place = same.find_map(|(which, series)| Some((which, series.reached(number)?)));
        let Some((which, at)) = place else {
            for series in self.all.iter_mut().filter(|series| is_of(series)) {
                series.end_before(number);
            }
            return None;
        };
        self.last = which;
        Some(Place { series: index(which), at, record: Number::MAX })
    }

    /// As the last id was.
    pub(super) fn expected(&self) -> Option<Expected> {
        let Common { start, digits, .. } = &self.all.get(self.last)?.common;
        Some(Expected { series: index(self.last), start: start.clone(), digits: *digits })
    }

    /// The place of an id that is as expected; `None`: [`Self::place`] tells more.
    #[inline]
    pub(super) fn place_of(&self, counted: Counted, attempt: u32) -> Option<Place> {
        let series = self.all.get(usize::from(counted.series))?;
        let at = counted.number.wrapping_sub(series.first);
        let is_in = attempt == series.common.attempt && (at as usize) < series.records.length;
        let record = series.records.of_run(at);
        is_in.then_some(Place { series: counted.series, at, record })
    }

    /// The record of a place. `Number::MAX`: none yet.
    #[inline]
    pub(super) fn record(&self, place: Place) -> Number {
        if place.record != Number::MAX {
            return place.record;
        }
        let series = &self.all[usize::from(place.series)];
        series.records.get(place.at)
    }

    /// Puts a new record into its place, and says what stands in it for its id.
    pub(super) fn put(&mut self, place: Place, record: Number) -> (u8, u32) {
        let series = &mut self.all[usize::from(place.series)];
        series.records.put(place.at, record);
        series.used += 1;
        (place.series, series.first + place.at)
    }

    /// The record of an id, `Number::MAX` for none; `None`: it is in the index, if anywhere.
    pub(super) fn find(&self, id: &[u8], attempt: u32) -> Option<Number> {
        let (digits, number) = ending(id);
        let mut series = self.all.iter().filter(|series| series.common.is_of(id, digits, attempt));
        let at = |series: &Series| {
            number.checked_sub(series.first).filter(|&at| (at as usize) < series.records.length)
        };
        series.find_map(|series| Some(series.records.get(at(series)?)))
    }

    /// The id and the attempt of a record that [`Self::put`] said this of.
    pub(super) fn id(&self, series: u8, number: u32) -> (String, u32) {
        let Common { start, digits, attempt } = &self.all[usize::from(series)].common;
        let start = String::from_utf8_lossy(start);
        (format!("{start}{number:0digits$}"), *attempt)
    }

    /// Takes note of an id that the index did not have.
    pub(super) fn note_new(&mut self, id: &[u8], attempt: u32) {
        let (digits, number) = ending(id);
        if digits == 0 || self.all.len() == MOST {
            return;
        }
        let is_of = |new: &Option<New>| {
            new.as_ref().is_none_or(|new| new.common.is_of(id, digits, attempt))
        };
        let known = self.new.iter().position(is_of);
        // Else in place of the one that was met least recently.
        let at = known.unwrap_or(CANDIDATES - 1);
        self.new[..=at].rotate_right(1);
        match &mut self.new[0] {
            Some(new) if known.is_some() => {
                new.begins |= number.abs_diff(new.last) <= CLOSE;
                new.last = number;
                self.begins |= new.begins;
            }
            new => {
                let start = id[..id.len() - digits].to_vec();
                let common = Common { start, digits, attempt };
                *new = Some(New { common, last: number, begins: false });
            }
        }
    }

    /// Begins the series that new ids are of, if they are of one; `known` are the ids in the index, and no other is on
    /// its way there.
    #[inline]
    pub(super) fn begin_if_due(&mut self, known: &[u8]) {
        if std::mem::take(&mut self.begins) && known.len() <= MOST_SEARCHED {
            for new in std::mem::take(&mut self.new).into_iter().flatten() {
                if new.begins && self.all.len() < MOST {
                    self.begin(new, known);
                }
            }
        }
    }

    fn begin(&mut self, new: New, known: &[u8]) {
        let New { common, last, .. } = new;
        let mut in_index = Vec::new();
        let mut rest = known;
        while !rest.is_empty() {
            let (this, next) = rest.split_at(ids::length(rest));
            rest = next;
            let Some((id, attempt)) = ids::plain(this) else { continue };
            let (digits, number) = ending(id);
            if common.is_of(id, digits, attempt) {
                in_index.push(number);
            }
        }
        in_index.sort_unstable();
        // It begins after those that are close to each other.
        let mut first = last + 1;
        for number in &in_index {
            if (first..first + CLOSE).contains(number) {
                first = number + 1;
            }
        }
        let same = self.all.iter().filter(|series| series.common == common);
        let later = same.map(|series| series.first).chain(in_index).filter(|&at| at >= first);
        let end = later.min().unwrap_or(u32::MAX);
        let quick = Quick::new(&common);
        self.all.push(Series { common, quick, first, end, records: Table::default(), used: 0 });
    }
}

impl Series {
    /// Where an id is in the table. `None`: it must be looked at more closely.
    #[inline]
    fn at(&self, id: &[u8], attempt: u32) -> Option<u32> {
        let Quick { length, head, head_mask, digits_mask } = self.quick;
        let (first, last) = (id.first_chunk::<8>()?, id.last_chunk::<8>()?);
        let digits = (u64::from_le_bytes(*last) ^ ZEROES) & digits_mask;
        let other = (u64::from_le_bytes(*first) ^ head) & head_mask | above_nine(digits);
        let start = &self.common.start;
        if other != 0
            || id.len() != length
            || attempt != self.common.attempt
            || (start.len() > 8 && !begin_with(id, start))
        {
            return None;
        }
        let at = number_of(digits).wrapping_sub(self.first);
        ((at as usize) < self.records.length).then_some(at)
    }

    /// Where a number is in the table, which grows to it where it may.
    fn reached(&mut self, number: u32) -> Option<u32> {
        let at = number.checked_sub(self.first)?;
        let length = at as usize + 1;
        if length > self.records.length {
            if number >= self.end || length > self.used * SPARSE + ROOM {
                return None;
            }
            // A little more, so that it is not asked for each.
            let most = (self.end - self.first) as usize;
            self.records.grow((length + GROWTH).min(most));
        }
        Some(at)
    }

    /// A number that is looked up in the index must never come into the range.
    fn end_before(&mut self, number: u32) {
        if number >= self.first {
            self.end = self.end.min(number);
        }
    }
}

fn index(series: usize) -> u8 {
    // There are at most MOST.
    u8::try_from(series).unwrap_or(u8::MAX)
}

/// How many digits an id ends with, eight at most, and their number.
#[inline]
fn ending(id: &[u8]) -> (usize, u32) {
    let last = id.last_chunk::<8>().copied().unwrap_or_else(|| {
        let mut last = [0; 8];
        last[8 - id.len()..].copy_from_slice(id);
        last
    });
    // The last digit is in the uppermost byte. What is before the digits counts as zeroes.
    let digits = u64::from_le_bytes(last) ^ ZEROES;
    let before = u64::BITS - above_nine(digits).leading_zeros();
    let digits = digits & u64::MAX.checked_shl(before).unwrap_or(0);
    (8 - (before / 8) as usize, number_of(digits))
}

/// The high bit of each byte that is above nine.
#[inline]
fn above_nine(bytes: u64) -> u64 {
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    const TO_HIGH: u64 = u64::from_le_bytes([0x80 - 10; 8]);
    (((bytes & !HIGH) + TO_HIGH) | bytes) & HIGH
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::{
        event::{Event, Kind},
        store::{
            Store,
            record::{Slot, time},
        },
    };

    #[test]
    fn an_id_ends_with_its_last_digits() {
        for (id, expected) in [
            ("extract-0000017", (7, 17)),
            ("extract-12345678", (8, 12_345_678)),
            ("1234567890", (8, 34_567_890)),
            ("7", (1, 7)),
            ("a7", (1, 7)),
            ("7a", (0, 0)),
            ("12a34567", (5, 34_567)),
            ("99999999", (8, 99_999_999)),
            ("extract", (0, 0)),
            ("", (0, 0)),
            ("\u{e4}\u{ff}", (0, 0)),
        ] {
            assert_eq!(ending(id.as_bytes()), expected, "{id}");
        }
    }

    /// Each id once or more often: whatever the order, it has one record, which is found by it and names it.
    fn assert_one_record_each(ids: &[(String, u32)]) -> Store {
        let mut store = Store::default();
        let mut known: BTreeMap<&(String, u32), i64> = BTreeMap::new();
        for id in ids {
            let next = i64::try_from(known.len()).unwrap();
            let at = *known.entry(id).or_insert(next);
            let (id, attempt) = (id.0.as_bytes(), id.1);
            let event = Event { at, id, attempt, kind: Kind::Asked, took: None };
            let (digits, number) = ending(id);
            let expected = store.expected().filter(|expected| {
                (&id[..id.len() - digits], digits) == (&expected.start, expected.digits)
            });
            let counted = expected.map(|Expected { series, .. }| Counted { series, number });
            assert!(store.add_counted(&event, counted, 0).unwrap());
        }
        store.finish().unwrap();
        assert_eq!(store.duplicates, (ids.len() - known.len()) as u64);
        let records = (0..store.len()).map(|number| store.get(Number::try_from(number).unwrap()));
        assert_eq!(records.filter(|record| !record.is_free()).count(), known.len());
        for (id, at) in known {
            let number = store.find(&id.0, id.1).unwrap();
            assert_eq!(store.id(number), *id);
            assert_eq!(time(store.get(number).get(Slot::Asked).unwrap(), store.base()), at);
        }
        store
    }

    fn counted(numbers: impl IntoIterator<Item = u32>) -> Vec<(String, u32)> {
        numbers.into_iter().map(|number| (format!("extract-{number:07}"), 1)).collect()
    }

    #[test]
    fn ids_that_count_up_take_no_room_in_the_index() {
        let store = assert_one_record_each(&counted((0..50_000).chain(0..50_000)));
        assert_eq!(store.series.all.len(), 1);
        assert!(store.series.all[0].used > 49_800 && store.ids.len() < 5000);
        // Without leading zeroes there is one for each length.
        let ids: Vec<_> = (0..50_000).map(|number| (format!("#{number}"), 0)).collect();
        assert!(assert_one_record_each(&ids).series.all.len() > 2);
    }

    #[test]
    fn what_the_index_has_no_series_has() {
        // In the index before the series begins: below it, in its way, and far above.
        let far = counted([9_000_000, 3000, 77]);
        let up = counted(100..20_000);
        let store = assert_one_record_each(&[far.clone(), up.clone(), far, up].concat());
        assert_eq!(store.series.all[0].end, 3000);
        // Too far above what it has: it may not grow there later.
        let ids = [counted(0..200), counted([60_000]), counted(200..70_000)].concat();
        let store = assert_one_record_each(&ids);
        assert_eq!(store.series.all[0].end, 60_000);
        assert!((60_001..60_200).contains(&store.series.all[1].first));
    }

    #[test]
    fn numbers_in_disorder_and_with_gaps_are_of_the_series_too() {
        let swapped = |number: u32| number ^ 0b11_0101;
        let store = assert_one_record_each(&counted((0..30_000).map(|n| swapped(n) * 3)));
        assert!(store.series.all[0].used > 29_000);
        // One in a thousand is no series.
        let store = assert_one_record_each(&counted((0..500).map(|n| n * 1000)));
        assert!(store.series.all.is_empty());
        assert_one_record_each(&counted((0..30_000).rev()));
    }

    #[test]
    fn attempts_and_kinds_of_ids_are_series_of_their_own() {
        let mut ids = Vec::new();
        for number in 0..3000 {
            for attempt in [1, 1, 2] {
                ids.push((format!("a-{number:05}"), attempt));
                ids.push((format!("b-{number:05}"), attempt));
                ids.push((format!("{number}-x"), attempt));
                ids.push((format!("0b9c2f6e-8d1a-4c3b-9e7f-0011{number:08}"), attempt));
            }
        }
        let store = assert_one_record_each(&ids);
        assert_eq!(store.series.all.len(), 4);
        // More kinds than there are series.
        let kinds = |number: u32| (0..40).map(move |kind| (format!("{kind}-{number:04}"), 1));
        let ids: Vec<_> = (0..40)
            .flat_map(|kind| (0..300).map(move |number| (format!("{kind}-{number:04}"), 1)))
            .chain((0..400).flat_map(kinds))
            .collect();
        assert_eq!(assert_one_record_each(&ids).series.all.len(), MOST);
    }

    proptest! {
        #[test]
        fn every_id_has_one_record_in_any_order(
            runs in prop::collection::vec(
                (0_u32..12_000, 1_u32..900, 1_u32..4, 0_u32..3, prop::bool::ANY),
                1..30,
            )
        ) {
            let mut ids = Vec::new();
            for (from, count, step, attempt, padded) in runs {
                let numbers = (0..count).map(|n| from + n * step);
                ids.extend(numbers.map(|number| {
                    let id = if padded { format!("r{number:05}") } else { format!("r{number}") };
                    (id, attempt)
                }));
            }
            assert_one_record_each(&ids);
        }
    }
}
