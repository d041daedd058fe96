//! How the lines of a shape mostly begin: all up to the first value whose length varies, compared at once.
//!
//! What a head says is what its steps would say, one after the other.

use std::rc::Rc;

use super::{
    literal::{CHUNK, Halves, halves},
    minute::Minute,
    step::{Next, Step, Then, most_telling},
    text::LikeLast,
};
use crate::{
    bytes::{ZEROES, last_of_eight, number_of},
    event::Event,
    store::{Counted, Expected},
};

/// More are sought in longer than they spare.
const MOST: usize = 16;
/// After so many lines without a head the lengths of ids may be others than they were.
const MANY: u32 = 1000;

/// The heads of a log.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// Where the byte is that tells them apart.
    at: usize,
    /// Each with that byte.
    all: Box<[(u8, Head)]>,
    /// All have an id of this length, and a time of this minute.
    id: LikeLast,
    minute: Minute,
    /// That of the last line without one.
    other_minute: Minute,
    /// The series of those that are as expected.
    series: u8,
    /// How many lines had none since they were made.
    misses: u32,
}

/// Up to and with the literal of a step.
#[derive(Debug)]
struct Head {
    pieces: Box<[Piece]>,
    length: usize,
    /// Where its values are.
    places: Places,
    step: Rc<Step>,
}

/// Of a head's bytes: what they are, and the bits that are so in each line.
#[derive(Debug)]
struct Piece {
    known: Halves,
    mask: Halves,
}

#[derive(Debug, Clone, Copy)]
struct Places {
    time: usize,
    id: usize,
    /// Of an id that is as expected: what it begins with is part of what fits, and its number is here.
    number: Option<Digits>,
    /// Of one digit.
    attempt: Option<usize>,
}

/// The digits of a number.
#[derive(Debug, Clone, Copy)]
struct Digits {
    /// Where the last eight bytes are that end with them.
    at: usize,
    /// Which of those are digits.
    mask: u64,
}

impl Heads {
    /// Of lines that begin with one of `first`, have a time of that minute, and an id like `id`, also as `expected`.
    pub(super) fn of(
        first: &Next,
        minute: Minute,
        id: LikeLast,
        expected: Option<&Expected>,
    ) -> Self {
        let expected = expected.filter(|e| e.start.len() + e.digits == id.last());
        let mut sketches = Vec::new();
        Sketch::default().extend(first, (&minute, &id, expected), &mut sketches);
        // Most are as expected.
        sketches.sort_by_key(|sketch| sketch.number.is_none());
        let shortest = sketches.iter().map(|sketch| sketch.known.len()).min().unwrap_or(0);
        let same_in_all = |at: &usize| sketches.iter().all(|sketch| sketch.mask[*at] == u8::MAX);
        let at = most_telling((0..shortest).filter(same_in_all), |at| {
            sketches.iter().map(move |sketch| (sketch.known[at], 1))
        });
        let heads = sketches.iter().filter_map(|sketch| Some((sketch.known[at], sketch.head()?)));
        let series = expected.map_or(0, |expected| expected.series);
        let all = heads.collect();
        Self { at, all, id, minute, other_minute: minute, series, misses: 0 }
    }

    /// Reads a head into `event`: its last step, and what follows it.
    #[inline(always)]
    pub(super) fn read<'s, 'l>(
        &'s self,
        bytes: &'l [u8],
        event: &mut Event<'l>,
        counted: &mut Option<Counted>,
    ) -> Option<(&'s Step, &'l [u8])> {
        let byte = bytes.get(self.at)?;
        for (known, head) in &self.all {
            if known == byte && head.fits(bytes) {
                let Begun { number, step, rest } =
                    head.read(bytes, (&self.minute, &self.id), event)?;
                *counted = number.map(|number| Counted { series: self.series, number });
                return Some((step, rest));
            }
        }
        None
    }

    /// Takes note that a line of a log with those steps, and that minute and id, had no head.
    #[inline(never)]
    pub(super) fn miss(
        &mut self,
        first: &Next,
        minute: Minute,
        id: LikeLast,
        expected: Option<&Expected>,
    ) {
        self.misses += 1;
        if self.misses == MANY {
            *self = Self::of(first, minute, id, expected);
        }
        // Lines in no order are each of another minute.
        if self.minute != minute && std::mem::replace(&mut self.other_minute, minute) == minute {
            self.minute = minute;
            for (_, head) in &mut self.all {
                head.put(head.places.time, &minute.usual().map(|(byte, _)| byte));
            }
        }
    }

    /// Makes them anew, where there are any.
    pub(super) fn renew(&mut self, first: &Next, id: LikeLast, expected: Option<&Expected>) {
        if !self.all.is_empty() {
            *self = Self::of(first, self.minute, id, expected);
        }
    }
}

/// A line whose head was read.
struct Begun<'s, 'l> {
    /// Of an id that is as expected.
    number: Option<u32>,
    step: &'s Step,
    rest: &'l [u8],
}

impl Head {
    #[inline(always)]
    fn fits(&self, bytes: &[u8]) -> bool {
        let Some(bytes) = bytes.get(..self.pieces.len() * CHUNK) else { return false };
        let mut differs = [0; 2];
        for (piece, chunk) in self.pieces.iter().zip(bytes.as_chunks().0) {
            let [low, high] = halves(chunk);
            differs[0] |= (low ^ piece.known[0]) & piece.mask[0];
            differs[1] |= (high ^ piece.known[1]) & piece.mask[1];
        }
        differs == [0; 2]
    }

    /// Replaces what is known of the bytes from `at` on.
    fn put(&mut self, at: usize, bytes: &[u8]) {
        for (at, &byte) in (at..).zip(bytes) {
            let half = &mut self.pieces[at / CHUNK].known[at % CHUNK / 8];
            let shift = at % 8 * 8;
            *half = *half & !(0xff << shift) | u64::from(byte) << shift;
        }
    }

    /// Reads the values of a line that fits.
    #[inline(always)]
    fn read<'l>(
        &self,
        bytes: &'l [u8],
        (minute, like): (&Minute, &LikeLast),
        event: &mut Event<'l>,
    ) -> Option<Begun<'_, 'l>> {
        let at = minute.read_usual(bytes.get(self.places.time..)?.first_chunk()?)?;
        let id = bytes.get(self.places.id..)?;
        let number = match self.places.number {
            Some(digits) => Some(digits.number(bytes)?),
            None if like.is_plain(id) => None,
            None => return None,
        };
        let (id, rest) = (id.get(..like.last())?, bytes.get(self.length..)?);
        if let Some(place) = self.places.attempt {
            // Its upper half is part of what fits.
            let digit = bytes.get(place)?.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            event.attempt = digit.into();
        }
        (event.at, event.id) = (at, id);
        Some(Begun { number, step: &self.step, rest })
    }
}

impl Digits {
    /// Of bytes that fit: the upper half of each digit is right.
    #[inline(always)]
    fn number(self, bytes: &[u8]) -> Option<u32> {
        const SIXES: u64 = u64::from_le_bytes([6; 8]);
        const TENS: u64 = u64::from_le_bytes([0x10; 8]);
        let word = u64::from_le_bytes(*bytes.get(self.at..)?.first_chunk()?);
        let digits = (word ^ ZEROES) & self.mask;
        // A digit above 9 reaches the upper half.
        ((digits + SIXES) & TENS == 0).then(|| number_of(digits))
    }
}

/// A head while it is put together.
#[derive(Clone, Default)]
struct Sketch {
    known: Vec<u8>,
    mask: Vec<u8>,
    time: Option<usize>,
    id: Option<usize>,
    number: Option<Digits>,
    attempt: Option<usize>,
    step: Option<Rc<Step>>,
}

impl Sketch {
    /// Adds to `heads` those that go on so, the most frequent first.
    fn extend(
        &self,
        next: &Next,
        (minute, id, expected): (&Minute, &LikeLast, Option<&Expected>),
        heads: &mut Vec<Self>,
    ) {
        for step in next.steps() {
            if heads.len() == MOST {
                return;
            }
            let mut longer = self.clone();
            longer.push(step.literal.bytes(), u8::MAX);
            let end = Some(longer.known.len());
            // Each is there once at most: a line has each name once.
            let next = match &step.then {
                Then::Time(next) => {
                    longer.time = end;
                    for (byte, mask) in minute.usual() {
                        longer.push(&[byte], mask);
                    }
                    next
                }
                Then::Id(next) => {
                    longer.id = end;
                    if let Some(counted) = expected.and_then(|e| longer.with_number(e)) {
                        counted.extend(next, (minute, id, expected), heads);
                    }
                    longer.push(&vec![0; id.last()], 0);
                    next
                }
                Then::Attempt(next) => {
                    longer.attempt = end;
                    longer.push(b"0", 0xf0);
                    next
                }
                _ => {
                    longer.step = Some(Rc::clone(step));
                    heads.push(longer);
                    continue;
                }
            };
            longer.extend(next, (minute, id, expected), heads);
        }
    }

    /// With an id as expected.
    fn with_number(&self, expected: &Expected) -> Option<Self> {
        let mut with = self.clone();
        with.push(&expected.start, u8::MAX);
        with.push(&vec![b'0'; expected.digits], 0xf0);
        let at = with.known.len().checked_sub(8)?;
        with.number = Some(Digits { at, mask: last_of_eight(expected.digits) });
        Some(with)
    }

    fn push(&mut self, bytes: &[u8], mask: u8) {
        self.known.extend(bytes);
        self.mask.resize(self.known.len(), mask);
    }

    /// Where it has a time and an id, as most lines do.
    fn head(&self) -> Option<Head> {
        let Self { number, attempt, .. } = *self;
        let places = Places { time: self.time?, id: self.id?, number, attempt };
        let padded = |bytes: &[u8]| {
            let mut chunk = [0; CHUNK];
            chunk[..bytes.len()].copy_from_slice(bytes);
            halves(&chunk)
        };
        let pieces = self.known.chunks(CHUNK).zip(self.mask.chunks(CHUNK));
        let pieces = pieces.map(|(known, mask)| Piece { known: padded(known), mask: padded(mask) });
        let step = self.step.clone()?;
        Some(Head { pieces: pieces.collect(), length: self.known.len(), places, step })
    }
}
