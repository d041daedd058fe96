//! All attempts of both logs, joined as they are read: `ids.rs` has their ids, `record.rs` what is kept of
//! each. Ids that count up have a table of their records, in `series/`; `placed.rs` has their events. All others are found by `index.rs`, which is
//! too large for the processor's caches: so what is under way is found by `recent.rs`, and what seems new is looked up
//! later, by `settle.rs`.
//!
//! The order of lines and files plays no part: what does not fit into a record's slots is kept beside it, and
//! `attempts.rs` sorts it out.

pub(crate) mod ids;
pub(crate) mod index;
mod placed;
mod recent;
pub(crate) mod record;
mod series;
mod settle;

use std::ops::Range;

pub(crate) use self::series::{Counted, Expected};

use self::{
    ids::Id,
    index::{Index, Number},
    placed::{Batch, Placed},
    recent::Recent,
    record::{NO_ID, Offset, Record, Told},
    series::AllSeries,
    settle::{Free, Fresh},
};
use crate::{
    bytes::begin_with,
    error::LogsError,
    event::{Event, Kind, Millis},
};

/// An event that a record has no slot for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Extra {
    pub(crate) record: Number,
    pub(crate) at: Offset,
    pub(crate) kind: Kind,
    pub(crate) file: u16,
}

/// How many events are looked up at once, so that their memory is fetched at once.
const BATCH: usize = 128;

#[derive(Debug, Clone, Copy)]
struct Pending {
    hash: u32,
    /// Its key in `keys`.
    from: u32,
    to: u32,
    at: Offset,
    kind: Kind,
    file: u16,
}

/// The attempts.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// All times are kept as the difference to this one; the first of all where nothing else was said.
    base: Option<Millis>,
    /// Of all records but those of a series, and the last ones, which are in `fresh`.
    index: Index,
    records: Vec<Record>,
    /// Those that were not looked up in the index yet.
    fresh: Vec<Fresh>,
    /// Places of records that turned out to be part of others.
    free: Vec<Free>,
    /// Much of what seems new was there before: it is looked up at once.
    repeats: bool,
    /// How many were found so since the last of `fresh` were looked up.
    found: usize,
    /// So many of `extras` are of records that are in the index.
    settled_extras: usize,
    ids: Vec<u8>,
    extras: Vec<Extra>,
    sorted: bool,
    /// Lines that say again what was said.
    pub(crate) duplicates: u64,
    keys: Vec<u8>,
    pending: Vec<Pending>,
    /// The record of the request that the server received last.
    last_received: Number,
    recent: Recent,
    series: AllSeries,
    placed: Batch,
}

impl Store {
    /// What the ids of the next events mostly will be.
    pub(crate) fn expected(&self) -> Option<Expected> {
        self.series.expected()
    }

    /// Times are counted from there, to either side.
    pub(crate) fn count_from(&mut self, base: Option<Millis>) {
        self.base = base;
    }

    /// Takes an event of the file of that number; `false`: its time is too far from the others.
    pub(crate) fn add(&mut self, event: &Event<'_>, file: u16) -> Result<bool, LogsError> {
        let base = *self.base.get_or_insert(event.at);
        let Some(at) = record::offset(event.at, base) else { return Ok(false) };
        self.queue(event, at, event.kind, file)?;
        // A line that is the end and says how long it took tells of the start too.
        if let Some(took) = event.took.filter(|_| event.kind.ends()) {
            let began = match event.kind {
                Kind::Sent | Kind::Failed => Kind::Started,
                _ => Kind::Asked,
            };
            let Some(at) = event.at.checked_sub(took).and_then(|at| record::offset(at, base))
            else {
                return Ok(false);
            };
            self.queue(event, at, began, file)?;
        }
        Ok(true)
    }

    #[inline]
    fn queue(
        &mut self,
        event: &Event<'_>,
        at: Offset,
        kind: Kind,
        file: u16,
    ) -> Result<(), LogsError> {
        if let Some(place) = self.series.place(event.id, event.attempt) {
            let placed = Placed { at, place, kind, file };
            if !self.placed.push(placed) {
                self.flush_placed()?;
                self.placed.push(placed);
            }
            return Ok(());
        }
        self.queue_for_look_up(event, at, kind, file)
    }

    #[inline(never)]
    fn queue_for_look_up(
        &mut self,
        event: &Event<'_>,
        at: Offset,
        kind: Kind,
        file: u16,
    ) -> Result<(), LogsError> {
        let id = Id::new(event.id, event.attempt);
        let mut put = Pending { hash: id.hash(), from: 0, to: 0, at, kind, file };
        if self.put_in_order(&put, &id) {
            return Ok(());
        }
        // A batch of ids is far below 4 GiB.
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        put.from = place(self.keys.len());
        id.append(&mut self.keys);
        put.to = place(self.keys.len());
        self.pending.push(put);
        if self.pending.len() == BATCH { self.flush() } else { Ok(()) }
    }

    /// Requests mostly reach the server in the order in which they were sent, and start when they reach it: what is
    /// guessed so needs no look-up. `false`: it needs one.
    #[inline]
    fn put_in_order(&mut self, put: &Pending, id: &Id<'_>) -> bool {
        let guessed = match put.kind {
            Kind::Received => self.last_received.wrapping_add(1),
            Kind::Started => self.last_received,
            _ => return false,
        };
        if self.has_id(guessed, id) {
            if put.kind == Kind::Received {
                self.recent.remember(put.hash, guessed);
            }
            self.put(guessed, *put);
            return true;
        }
        // The next guess needs to know what was received at once.
        let known = self.recent.likely(put.hash);
        if put.kind == Kind::Received && self.has_id(known, id) {
            self.put(known, *put);
            return true;
        }
        false
    }

    #[inline]
    fn has_id(&self, number: Number, id: &Id<'_>) -> bool {
        let Some(record) = self.records.get(number as usize) else { return false };
        record.series().is_none()
            && id.begins(self.ids.get(record.id as usize..).unwrap_or_default())
    }

    #[inline]
    fn has_key(&self, number: Number, pending: &Pending) -> bool {
        let Some(record) = self.records.get(number as usize) else { return false };
        let key = &self.keys[pending.from as usize..pending.to as usize];
        begin_with(self.ids.get(record.id as usize..).unwrap_or_default(), key)
    }

    /// Looks up what is pending. Each step for all of them before the next: none waits for another's memory.
    pub(crate) fn flush(&mut self) -> Result<(), LogsError> {
        self.recent.grow(self.records.len());
        let pending = std::mem::take(&mut self.pending);
        let likely = self.likely(&pending);
        for (&likely, pending) in likely.iter().zip(&pending) {
            let number = if self.has_key(likely, pending) { likely } else { self.record(pending)? };
            if pending.kind.ends() {
                self.recent.forget(pending.hash, number);
            }
            self.put(number, *pending);
        }
        self.pending = pending;
        self.pending.clear();
        self.keys.clear();
        self.series.begin_if_due(&self.ids);
        self.settle_if_many();
        Ok(())
    }

    /// The record that each most likely belongs to. On the way the records and their ids are read, so that they are at
    /// hand. No step depends on what one before it read: a wrong guess of the processor would wait for memory.
    #[inline]
    fn likely(&self, pending: &[Pending]) -> [Number; BATCH] {
        let mut likely = [Number::MAX; BATCH];
        self.recent.touch(pending.iter().map(|pending| pending.hash));
        for (likely, pending) in likely.iter_mut().zip(pending) {
            *likely = self.recent.likely(pending.hash);
        }
        if self.repeats {
            self.likely_settled(pending, &mut likely);
        }
        self.touch(&likely);
        likely
    }

    /// Asks the index for those that are not known yet.
    fn likely_settled(&self, pending: &[Pending], likely: &mut [Number; BATCH]) {
        let mut unknown = [0; BATCH];
        let mut count = 0;
        for (at, _) in pending.iter().enumerate() {
            unknown[count] = at;
            count += usize::from(likely[at] == Number::MAX);
        }
        for &at in &unknown[..count] {
            likely[at] = self.index.likely(pending[at].hash);
        }
    }

    /// Reads the records and their ids, so that they are at hand.
    #[inline]
    fn touch(&self, numbers: &[Number; BATCH]) {
        let Some(last) = self.records.len().checked_sub(1) else { return };
        let mut ids = [0; BATCH];
        for (id, &number) in ids.iter_mut().zip(numbers) {
            *id = self.records[(number as usize).min(last)].id;
        }
        let read = ids.iter().map(|&id| self.ids.get(id as usize).copied().unwrap_or(0));
        // Nothing comes of it, and still it is to be read.
        std::hint::black_box(read.fold(0, |all, byte| all ^ byte));
    }

    /// The number of the record that it belongs to: one that is under way, else one that is new as far as is known.
    fn record(&mut self, pending: &Pending) -> Result<Number, LogsError> {
        let known = self.recent.likely(pending.hash);
        if self.has_key(known, pending) {
            return Ok(known);
        }
        // From what was received the next is guessed.
        if (self.repeats || pending.kind == Kind::Received)
            && let Ok(known) = self.index.find(pending.hash, |number| self.has_key(number, pending))
        {
            self.found += 1;
            return Ok(known);
        }
        let number = match self.reused(pending) {
            Some(number) => number,
            None => self.appended(pending)?,
        };
        self.fresh.push(Fresh { hash: pending.hash, number });
        self.recent.remember(pending.hash, number);
        Ok(number)
    }

    /// A new record at the end.
    fn appended(&mut self, pending: &Pending) -> Result<Number, LogsError> {
        let number = next_number(&self.records)?;
        let id = u32::try_from(self.ids.len()).unwrap_or(NO_ID);
        if id == NO_ID {
            return Err(LogsError::TooMany);
        }
        let key = &self.keys[pending.from as usize..pending.to as usize];
        self.ids.extend_from_slice(key);
        self.records.push(Record::new(id, pending.file));
        if let Some((id, attempt)) = ids::plain(key) {
            self.series.note_new(id, attempt);
        }
        Ok(number)
    }

    #[inline]
    fn put(&mut self, number: Number, pending: Pending) {
        if pending.kind == Kind::Received {
            self.last_received = number;
        }
        self.tell(number, pending.at, pending.kind, pending.file);
    }

    /// Keeps an event of a record.
    #[inline]
    fn tell(&mut self, number: Number, at: Offset, kind: Kind, file: u16) {
        match self.records[number as usize].tell(at, kind, file) {
            Told::Now => {}
            Told::Before => self.duplicates += 1,
            Told::NoRoom => self.extras.push(Extra { record: number, at, kind, file }),
        }
    }

    /// A file was read: what comes next may repeat all of it.
    pub(crate) fn end_of_file(&mut self) -> Result<(), LogsError> {
        self.flush_placed()?;
        self.flush()?;
        self.settle();
        Ok(())
    }

    /// Nothing more will come: what is beside the records is sorted.
    pub(crate) fn finish(&mut self) -> Result<(), LogsError> {
        self.end_of_file()?;
        self.extras.sort_unstable();
        let before = self.extras.len();
        // The same line in two files is said again.
        self.extras.dedup_by_key(|extra| (extra.record, extra.at, extra.kind));
        self.duplicates += (before - self.extras.len()) as u64;
        self.sorted = true;
        Ok(())
    }

    pub(crate) fn base(&self) -> Millis {
        self.base.unwrap_or(0)
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn get(&self, number: Number) -> &Record {
        &self.records[number as usize]
    }

    /// What a record has besides its slots.
    pub(crate) fn extras_of(&self, number: Number) -> &[Extra] {
        debug_assert!(self.sorted);
        let start = self.extras.partition_point(|extra| extra.record < number);
        let Range { start, end } =
            start..start + self.extras[start..].partition_point(|extra| extra.record == number);
        &self.extras[start..end]
    }

    /// The id and the attempt of a record.
    pub(crate) fn id(&self, number: Number) -> (String, u32) {
        let record = self.get(number);
        match record.series() {
            Some(series) => self.series.id(series, record.id),
            None => ids::decoded(&self.ids[record.id as usize..]),
        }
    }

    /// The record of an id and attempt.
    pub(crate) fn find(&self, id: &str, attempt: u32) -> Option<Number> {
        if let Some(found) = self.series.find(id.as_bytes(), attempt) {
            return (found != Number::MAX).then_some(found);
        }
        let id = Id::new(id.as_bytes(), attempt);
        self.index.find(id.hash(), |number| self.has_id(number, &id)).ok()
    }
}

fn next_number(records: &[Record]) -> Result<Number, LogsError> {
    let number = Number::try_from(records.len()).ok().filter(|&number| number != Number::MAX);
    number.ok_or(LogsError::TooMany)
}
