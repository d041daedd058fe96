//! Events whose ids are of a series: where the record of each is, is known, and they are told many at a time.

use super::{
    BATCH, Extra, Store,
    index::Number,
    next_number,
    record::{self, Offset, Record, Told},
    series::{Counted, Place},
};
use crate::{
    error::LogsError,
    event::{Event, Kind},
};

/// An event whose id is of a series.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub(super) at: Offset,
    pub(super) place: Place,
    pub(super) kind: Kind,
    pub(super) file: u16,
}

/// Those that are told at once.
#[derive(Debug)]
pub(super) struct Batch {
    all: Box<[Placed; BATCH]>,
    count: usize,
}

impl Default for Batch {
    fn default() -> Self {
        let none = Placed { at: 0, place: Place::NONE, kind: Kind::Part, file: 0 };
        Self { all: Box::new([none; BATCH]), count: 0 }
    }
}

impl Batch {
    /// `false`: there is no room.
    #[inline]
    pub(super) fn push(&mut self, placed: Placed) -> bool {
        let Some(free) = self.all.get_mut(self.count) else { return false };
        *free = placed;
        self.count += 1;
        true
    }
}

impl Store {
    /// The same as [`Self::add`], of an event whose id is perhaps as expected.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a part of the loop over all lines")]
    pub(crate) fn add_counted(
        &mut self,
        event: &Event<'_>,
        counted: Option<Counted>,
        file: u16,
    ) -> Result<bool, LogsError> {
        if let Some(counted) = counted
            && event.took.is_none()
            && let Some(at) = self.base.and_then(|base| record::offset(event.at, base))
            && let Some(place) = self.series.place_of(counted, event.attempt)
        {
            // Servers begin requests about in the order in which they were sent: those records are at hand.
            let at_hand = matches!(event.kind, Kind::Received | Kind::Started);
            if at_hand
                && let Some(record) = self.records.get_mut(place.record as usize)
                && record.take_time(at, event.kind)
            {
                return Ok(true);
            }
            if self.placed.push(Placed { at, place, kind: event.kind, file }) {
                return Ok(true);
            }
        }
        self.add(event, file)
    }

    /// Tells the records of series. All of them are read before: none waits for another's memory.
    pub(super) fn flush_placed(&mut self) -> Result<(), LogsError> {
        let placed = &self.placed.all[..self.placed.count];
        let mut numbers = [0; BATCH];
        let mut read = 0;
        for (number, placed) in numbers.iter_mut().zip(placed) {
            *number = self.series.record(placed.place);
            if *number == Number::MAX {
                *number = next_number(&self.records)?;
                let (series, id) = self.series.put(placed.place, *number);
                self.records.push(Record::of_series(series, id, placed.file));
            }
            read ^= self.records[*number as usize].id;
        }
        // Nothing comes of it, and still it is to be read.
        std::hint::black_box(read);
        // As `tell` does, and here in the loop: a call for each takes 4 % of all that reading logs takes.
        for (number, &Placed { at, kind, file, .. }) in numbers.into_iter().zip(placed) {
            match self.records[number as usize].tell(at, kind, file) {
                Told::Now => {}
                Told::Before => self.duplicates += 1,
                Told::NoRoom => self.extras.push(Extra { record: number, at, kind, file }),
            }
        }
        self.placed.count = 0;
        Ok(())
    }
}
