//! All attempts of both logs, joined as they are read: `ids.rs` has their ids, `record.rs` what is kept of
//! each, `index.rs` finds one by the other.
//!
//! The order of lines and files plays no part: what does not fit into a record's slots is kept beside it, and
//! `attempts.rs` sorts it out.

pub(crate) mod ids;
pub(crate) mod index;
pub(crate) mod record;

use std::ops::Range;

use self::{
    ids::Id,
    index::{Index, Number},
    record::{Offset, Record, Slot},
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
}

/// How many events are looked up at once, so that their memory is fetched at once.
const BATCH: usize = 64;

/// How many pairs of records are remembered as the last ones: requests that are under way at one time.
const RECENT: usize = 1 << 15;
const LEAST_RECENT: usize = 1 << 8;

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
    /// The first time of all; the others are kept as the difference to it.
    base: Option<Millis>,
    index: Index,
    records: Vec<Record>,
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
}

/// The records that were met last, by their hash: few enough to stay in the processor's caches, which the index of
/// all is too large for. Whatever it names is compared by its id. Each slot has the last two.
#[derive(Debug)]
struct Recent(Box<[[(u32, Number); 2]]>);

impl Default for Recent {
    fn default() -> Self {
        Self(vec![[(0, Number::MAX); 2]; LEAST_RECENT].into())
    }
}

impl Recent {
    /// As many as there are records, up to [`RECENT`]. What is known is forgotten; the index still has it.
    fn grow(&mut self, records: usize) {
        let wanted = records.next_power_of_two().clamp(LEAST_RECENT, RECENT);
        if self.0.len() < wanted {
            self.0 = vec![[(0, Number::MAX); 2]; wanted].into();
        }
    }

    #[inline]
    fn slot(&self, hash: u32) -> usize {
        hash as usize & (self.0.len() - 1)
    }

    #[inline]
    fn remember(&mut self, hash: u32, number: Number) {
        let slot = self.slot(hash);
        let [first, second] = &mut self.0[slot];
        if *first != (hash, number) {
            *second = std::mem::replace(first, (hash, number));
        }
    }

    /// `Number::MAX`: none.
    #[inline]
    fn likely(&self, hash: u32) -> Number {
        let [first, second] = self.0[self.slot(hash)];
        let second = if second.0 == hash { second.1 } else { Number::MAX };
        if first.0 == hash { first.1 } else { second }
    }
}

impl Store {
    /// Takes an event of the file of that number; `false`: its time is too far from the others.
    #[inline]
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
        let id = Id::new(event.id, event.attempt);
        let guessed = self.guess(kind).filter(|&number| self.has_id(number, &id));
        let mut put = Pending { hash: 0, from: 0, to: 0, at, kind, file };
        if let Some(number) = guessed.filter(|_| kind == Kind::Started) {
            self.put(number, put);
            return Ok(());
        }
        put.hash = id.hash();
        if kind == Kind::Received {
            // The next guess needs to know it at once.
            let known = guessed.unwrap_or_else(|| self.recent.likely(put.hash));
            if guessed.is_some() || self.has_id(known, &id) {
                self.recent.remember(put.hash, known);
                self.put(known, put);
                return Ok(());
            }
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
    /// guessed so needs no look-up.
    #[inline]
    fn guess(&self, kind: Kind) -> Option<Number> {
        match kind {
            Kind::Received => Some(self.last_received.wrapping_add(1)),
            Kind::Started => Some(self.last_received),
            _ => None,
        }
    }

    #[inline]
    fn has_id(&self, number: Number, id: &Id<'_>) -> bool {
        let Some(record) = self.records.get(number as usize) else { return false };
        id.begins(self.ids.get(record.id as usize..).unwrap_or_default())
    }

    #[inline]
    fn has_key(&self, number: Number, pending: &Pending) -> bool {
        let Some(record) = self.records.get(number as usize) else { return false };
        let key = &self.keys[pending.from as usize..pending.to as usize];
        begin_with(self.ids.get(record.id as usize..).unwrap_or_default(), key)
    }

    /// Looks up what is pending. Each step for all of them before the next: none waits for another's memory.
    pub(crate) fn flush(&mut self) -> Result<(), LogsError> {
        self.index.reserve(BATCH);
        self.recent.grow(self.records.len());
        let pending = std::mem::take(&mut self.pending);
        let likely = self.likely(&pending);
        for (&likely, pending) in likely.iter().zip(&pending) {
            let number = if self.has_key(likely, pending) { likely } else { self.record(pending)? };
            self.recent.remember(pending.hash, number);
            self.put(number, *pending);
        }
        self.pending = pending;
        self.pending.clear();
        self.keys.clear();
        Ok(())
    }

    /// The record that each most likely belongs to: of the last ones, else what the index has first. On the way the
    /// records and their ids are read, so that they are at hand. No step depends on what one before it read: a wrong
    /// guess of the processor would wait for memory.
    #[inline]
    fn likely(&self, pending: &[Pending]) -> [Number; BATCH] {
        let mut likely = [Number::MAX; BATCH];
        let mut unknown = [0; BATCH];
        let mut count = 0;
        for (i, pending) in pending.iter().enumerate() {
            likely[i] = self.recent.likely(pending.hash);
            unknown[count] = i;
            count += usize::from(likely[i] == Number::MAX);
        }
        for &i in &unknown[..count] {
            likely[i] = self.index.likely(pending[i].hash);
        }
        let Some(last) = self.records.len().checked_sub(1) else { return likely };
        let mut ids = [0; BATCH];
        for (id, &likely) in ids.iter_mut().zip(&likely) {
            *id = self.records[(likely as usize).min(last)].id;
        }
        let read = ids.iter().map(|&id| self.ids.get(id as usize).copied().unwrap_or(0));
        // Nothing comes of it, and still it is to be read.
        std::hint::black_box(read.fold(0, |all, byte| all ^ byte));
        likely
    }

    /// The number of the record that it belongs to, which may be new.
    fn record(&mut self, pending: &Pending) -> Result<Number, LogsError> {
        let key = &self.keys[pending.from as usize..pending.to as usize];
        let at = match self.index.find(pending.hash, |number| self.has_key(number, pending)) {
            Ok(number) => return Ok(number),
            Err(at) => at,
        };
        let number = Number::try_from(self.records.len()).map_err(|_| LogsError::TooMany)?;
        let id = u32::try_from(self.ids.len()).map_err(|_| LogsError::TooMany)?;
        self.ids.extend_from_slice(key);
        self.records.push(Record::new(id, pending.file));
        self.index.insert(at, pending.hash, number);
        Ok(number)
    }

    #[inline]
    fn put(&mut self, number: Number, pending: Pending) {
        if pending.kind == Kind::Received {
            self.last_received = number;
        }
        let record = &mut self.records[number as usize];
        let (at, kind) = (pending.at, pending.kind);
        if let Some(slot) = Slot::of(kind) {
            match record.get(slot) {
                None => {
                    record.set(slot, at, kind);
                    if kind == Kind::Asked {
                        record.file = pending.file;
                    }
                    return;
                }
                Some(known) if known == at && record.kind(slot) == kind => {
                    self.duplicates += 1;
                    return;
                }
                Some(_) => {}
            }
        }
        record.set_more();
        self.extras.push(Extra { record: number, at, kind });
    }

    /// Nothing more will come: what is beside the records is sorted.
    pub(crate) fn finish(&mut self) -> Result<(), LogsError> {
        self.flush()?;
        self.extras.sort_unstable();
        let before = self.extras.len();
        self.extras.dedup();
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
        ids::decoded(&self.ids[self.get(number).id as usize..])
    }

    /// The record of an id and attempt.
    pub(crate) fn find(&self, id: &str, attempt: u32) -> Option<Number> {
        let id = Id::new(id.as_bytes(), attempt);
        self.index.find(id.hash(), |number| self.has_id(number, &id)).ok()
    }
}
