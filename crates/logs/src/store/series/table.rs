//! A table of the records of a series.

use super::Number;

/// The records of a series by their numbers, from its first one on. While they were made in the order of their numbers,
/// one after the other, the first tells all.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) length: usize,
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
    pub(super) fn of_run(&self, at: u32) -> Number {
        if (at as usize) < self.run { self.first + at } else { Number::MAX }
    }

    /// `Number::MAX`: none yet.
    #[inline]
    pub(super) fn get(&self, at: u32) -> Number {
        match (at as usize).checked_sub(self.run) {
            None => self.first + at,
            Some(other) => self.others.get(other).copied().unwrap_or(Number::MAX),
        }
    }

    pub(super) fn put(&mut self, at: u32, record: Number) {
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

    pub(super) fn grow(&mut self, length: usize) {
        self.length = length;
        if !self.others.is_empty() {
            self.others.resize(length - self.run, Number::MAX);
        }
    }
}
