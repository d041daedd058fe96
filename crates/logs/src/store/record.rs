//! What is kept of one attempt: five points in time and what they mean, in 32 bytes.

use crate::event::{Kind, Millis};

/// The five events that a record has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    Asked,
    ClientEnd,
    Received,
    Started,
    ServerEnd,
}

impl Slot {
    /// Where `kind` is kept; `None`: there may be many.
    #[inline]
    pub(crate) fn of(kind: Kind) -> Option<Self> {
        OF_KIND[kind as usize].0
    }

    pub(crate) const ALL: [Self; 5] =
        [Self::Asked, Self::ClientEnd, Self::Received, Self::Started, Self::ServerEnd];
}

/// The slot of each kind, and the flag that tells it from the others of its slot. In a table, since the kinds of a log
/// come in no order: a processor guesses jumps wrong.
const OF_KIND: [(Option<Slot>, u8); Kind::ALL.len()] = {
    let mut table = [(None, 0); Kind::ALL.len()];
    let mut at = 0;
    while at < table.len() {
        let kind = Kind::ALL[at];
        table[kind as usize] = match kind {
            Kind::Asked => (Some(Slot::Asked), 0),
            Kind::Answered => (Some(Slot::ClientEnd), 1),
            Kind::TimedOut => (Some(Slot::ClientEnd), 2),
            Kind::Broken => (Some(Slot::ClientEnd), 3),
            Kind::Received => (Some(Slot::Received), 0),
            Kind::Started => (Some(Slot::Started), 0),
            Kind::Sent => (Some(Slot::ServerEnd), 0),
            Kind::Failed => (Some(Slot::ServerEnd), SERVER_FAILED),
            Kind::Part => (None, 0),
        };
        at += 1;
    }
    table
};

/// Milliseconds from the time that a store counts from, in 40 bits: 17 years to either side. 0: none.
pub(crate) type Offset = u64;

/// Offsets are counted from half of what 40 bits hold.
const MIDDLE: i64 = 1 << 39;

/// The offset of `at` from `base`; `None`: too far away.
pub(crate) fn offset(at: Millis, base: Millis) -> Option<Offset> {
    let offset = at.checked_sub(base)?.checked_add(MIDDLE)?;
    (1..2 * MIDDLE).contains(&offset).then_some(offset.cast_unsigned())
}

pub(crate) fn time(offset: Offset, base: Millis) -> Millis {
    base + (offset.cast_signed() - MIDDLE)
}

/// One attempt.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Record {
    low: [u32; 5],
    high: [u8; 5],
    flags: u8,
    /// The file that the client's send is from.
    pub(crate) file: u16,
    /// Where its id is; of a series, the number in it.
    pub(crate) id: u32,
}

/// What a record does with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// It keeps it.
    Now,
    /// It has it already.
    Before,
    /// It has no slot for it, and takes note that there is more.
    NoRoom,
}

/// How the client's end is meant: 1 answered, 2 timed out, 3 broken.
const CLIENT_END: u8 = 0b11;
/// The server failed.
const SERVER_FAILED: u8 = 0b100;
/// There is more than these slots hold.
const MORE: u8 = 0b1000;
/// The uppermost four bits: the series that it is of, from 1. 0: none.
const SERIES: u32 = 4;

/// Where no id is.
pub(super) const NO_ID: u32 = u32::MAX;

impl Record {
    pub(crate) fn new(id: u32, file: u16) -> Self {
        Self { file, id, ..Self::default() }
    }

    /// `number` is what its id ends with in one of the first 15 series.
    pub(crate) fn of_series(series: u8, number: u32, file: u16) -> Self {
        Self { file, id: number, flags: (series + 1) << SERIES, ..Self::default() }
    }

    #[inline]
    pub(crate) fn series(&self) -> Option<u8> {
        (self.flags >> SERIES).checked_sub(1)
    }

    /// Leaves a record of no attempt, which no id is found at.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(NO_ID, 0))
    }

    /// Whether it is of no attempt.
    pub(crate) fn is_free(&self) -> bool {
        self.id == NO_ID
    }

    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<Offset> {
        let at = slot as usize;
        let offset = u64::from(self.high[at]) << 32 | u64::from(self.low[at]);
        (offset != 0).then_some(offset)
    }

    /// What the event in a slot is.
    pub(crate) fn kind(&self, slot: Slot) -> Kind {
        match slot {
            Slot::Asked => Kind::Asked,
            Slot::ClientEnd => match self.flags & CLIENT_END {
                1 => Kind::Answered,
                2 => Kind::TimedOut,
                _ => Kind::Broken,
            },
            Slot::Received => Kind::Received,
            Slot::Started => Kind::Started,
            Slot::ServerEnd if self.flags & SERVER_FAILED == 0 => Kind::Sent,
            Slot::ServerEnd => Kind::Failed,
        }
    }

    /// Keeps an event, if its slot is free. Not of a kind that says more than its time.
    #[inline]
    pub(super) fn take_time(&mut self, at: Offset, kind: Kind) -> bool {
        let (slot, flag) = OF_KIND[kind as usize];
        debug_assert!(flag == 0 && kind != Kind::Asked);
        let Some(slot) = slot.filter(|slot| self.get(*slot).is_none()) else { return false };
        self.set(slot, at, kind);
        true
    }

    #[inline]
    pub(super) fn tell(&mut self, at: Offset, kind: Kind, file: u16) -> Told {
        let Some(slot) = Slot::of(kind) else { return self.no_room() };
        match self.get(slot) {
            None => {
                self.set(slot, at, kind);
                self.file = if kind == Kind::Asked { file } else { self.file };
                Told::Now
            }
            Some(known) if known == at && self.kind(slot) == kind => Told::Before,
            Some(_) => self.no_room(),
        }
    }

    #[cold]
    fn no_room(&mut self) -> Told {
        self.flags |= MORE;
        Told::NoRoom
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the two parts of 40 bits")]
    fn set(&mut self, slot: Slot, offset: Offset, kind: Kind) {
        let at = slot as usize;
        self.low[at] = offset as u32;
        self.high[at] = (offset >> 32) as u8;
        self.flags |= OF_KIND[kind as usize].1;
    }

    pub(crate) fn has_more(&self) -> bool {
        self.flags & MORE != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_takes_32_bytes_and_gives_back_what_it_got() {
        assert_eq!(size_of::<Record>(), 32);
        let base = 1_772_442_000_000;
        let mut record = Record::default();
        for (i, slot) in Slot::ALL.into_iter().enumerate() {
            assert_eq!(record.get(slot), None);
            let at = base + [0, -1, 5_000_000_000, -500_000_000_000, 1][i];
            let kind =
                [Kind::Asked, Kind::TimedOut, Kind::Received, Kind::Started, Kind::Failed][i];
            record.set(slot, offset(at, base).unwrap(), kind);
            assert_eq!(time(record.get(slot).unwrap(), base), at);
            assert_eq!(record.kind(slot), kind);
        }
        for far in [i64::MAX, i64::MIN, base + (1 << 39), base - (1 << 39)] {
            assert_eq!(offset(far, base), None);
        }
    }
}
