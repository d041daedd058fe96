//! Ids that count up: a series has a table of its records by their number, so that nothing is hashed or compared, and
//! what its ids share is kept once.
//!
//! An id has one place: its series' table where its number is in the series' range, else the index. So a range grows at
//! its end alone, and never over a number that was looked up in the index.

mod table;
#[cfg(test)]
mod tests;

use self::table::Table;
use super::{ids, index::Number};
use crate::bytes::{ZEROES, begin_with, number_of};

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
    /// The number that the table begins with.
    first: u32,
    /// Numbers from here on are in the index.
    end: u32,
    records: Table,
    used: usize,
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
    pub(super) fn place(&mut self, id: &[u8], attempt: u32) -> Option<Place> {
        if self.all.is_empty() {
            return None;
        }
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
        self.all.push(Series { common, first, end, records: Table::default(), used: 0 });
    }
}

impl Series {
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
