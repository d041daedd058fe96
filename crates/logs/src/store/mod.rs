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
    ids::Key,
    index::{Index, Number, hash},
    record::{Offset, Record, Slot},
};
use crate::{
    bytes::{begin_with, same},
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

/// How many records are remembered as the last ones: requests that are under way at one time.
const RECENT: usize = 1 << 14;

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
/// all is too large for. Whatever it names is compared by its id.
#[derive(Debug)]
struct Recent(Box<[(u32, Number)]>);

impl Default for Recent {
    fn default() -> Self {
        Self(vec![(0, Number::MAX); RECENT].into())
    }
}

impl Recent {
    #[inline]
    fn slot(hash: u32) -> usize {
        hash as usize & (RECENT - 1)
    }

    #[inline]
    fn remember(&mut self, hash: u32, number: Number) {
        self.0[Self::slot(hash)] = (hash, number);
    }

    #[inline]
    fn likely(&self, hash: u32) -> Option<Number> {
        let (of, number) = self.0[Self::slot(hash)];
        (of == hash).then_some(number)
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
        let from = self.keys.len();
        ids::append(&mut self.keys, event.id, event.attempt);
        let guessed = self.guess(kind).filter(|&number| self.has_key(number, from));
        if let Some(number) = guessed.filter(|_| kind == Kind::Started) {
            self.found(number, from, at, kind, file);
            return Ok(());
        }
        let hash = hash(&self.keys[from..]);
        let recent = || self.recent.likely(hash).filter(|&number| self.has_key(number, from));
        if let Some(number) = guessed.or_else(recent) {
            self.recent.remember(hash, number);
            self.found(number, from, at, kind, file);
            return Ok(());
        }
        // A batch of ids is far below 4 GiB.
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let (from, to) = (place(from), place(self.keys.len()));
        self.pending.push(Pending { hash, from, to, at, kind, file });
        if self.pending.len() == BATCH { self.flush() } else { Ok(()) }
    }

    /// Takes an event whose record is known without a look-up; its key is the one from that place on.
    #[inline]
    fn found(&mut self, number: Number, from: usize, at: Offset, kind: Kind, file: u16) {
        self.keys.truncate(from);
        self.put(number, Pending { hash: 0, from: 0, to: 0, at, kind, file });
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

    /// Whether a record's id is the key from that place on.
    #[inline]
    fn has_key(&self, number: Number, from: usize) -> bool {
        let Some(record) = self.records.get(number as usize) else { return false };
        begin_with(self.ids.get(record.id as usize..).unwrap_or_default(), &self.keys[from..])
    }

    /// Looks up what is pending. Each step for all of them before the next: none waits for another's memory.
    pub(crate) fn flush(&mut self) -> Result<(), LogsError> {
        self.index.reserve(BATCH);
        self.fetch();
        let pending = std::mem::take(&mut self.pending);
        let mut records = [0; BATCH];
        for (record, pending) in records.iter_mut().zip(&pending) {
            *record = self.record(pending)?;
            self.recent.remember(pending.hash, *record);
        }
        for (&number, pending) in records.iter().zip(&pending) {
            self.put(number, *pending);
        }
        self.pending = pending;
        self.pending.clear();
        self.keys.clear();
        Ok(())
    }

    /// Reads what will be looked at: the index, then the records that it most likely names, then their ids.
    #[inline]
    fn fetch(&self) {
        let mut likely = [None; BATCH];
        for (likely, pending) in likely.iter_mut().zip(&self.pending) {
            *likely = self.index.likely(pending.hash);
        }
        let mut ids = [0; BATCH];
        for (id, &likely) in ids.iter_mut().zip(&likely) {
            *id = likely.and_then(|at| self.records.get(at as usize)).map_or(0, |record| record.id);
        }
        let read = ids.iter().map(|&id| self.ids.get(id as usize).copied().unwrap_or(0));
        // Nothing comes of it, and still it is to be read.
        std::hint::black_box(read.fold(0, |all, byte| all ^ byte));
    }

    /// The number of the record that it belongs to, which may be new.
    fn record(&mut self, pending: &Pending) -> Result<Number, LogsError> {
        let key = &self.keys[pending.from as usize..pending.to as usize];
        let (records, ids) = (&self.records, &self.ids);
        let is = |number: Number| {
            let at = records[number as usize].id as usize;
            ids.get(at..at + key.len()).is_some_and(|id| same(id, key))
        };
        let at = match self.index.find(pending.hash, is) {
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
        let mut key = Key::default();
        key.set(id.as_bytes(), attempt);
        let same =
            |number: Number| self.ids[self.get(number).id as usize..].starts_with(key.bytes());
        self.index.find(hash(key.bytes()), same).ok()
    }
}
