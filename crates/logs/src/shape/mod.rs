//! The fast way to read JSON lines: most lines of a log have one of a few shapes.
//!
//! A shape is the bytes that all its lines share (punctuation, names, and values of few kinds such as the event)
//! and the values between them. Shapes are learnt from the sample that the layout was detected from, with what a
//! line of each says. A line that fits one exactly is valid JSON, and says what [`Layout::read`] would say of it;
//! any other line goes the general way.
//!
//! `learn.rs` learns them, `step.rs` is what they are; `head.rs` takes several steps at once. Between two literals only
//! the value is looked at, and no more of it than is needed: that it ends where it seems to is made sure by the literal
//! behind it.

#![expect(
    clippy::inline_always,
    reason = "all of it is one loop, and none of it need go through memory"
)]

mod head;
mod learn;
mod literal;
mod minute;
mod number;
mod step;
mod text;

use self::{
    head::Heads,
    minute::Minute,
    number::{number_length, one_digit, skip_number, three_digits},
    step::{Form, Next, Role, Then},
    text::{LikeLast, plain_length, text_length},
};
use crate::{
    bytes::small_number,
    event::{Event, Kind, Millis},
    layout::{FIRST_ATTEMPT, LONGEST_ID, Layout, Said},
    store::{Counted, Expected},
    words,
};

/// The shapes of a log.
#[derive(Debug)]
pub(crate) struct Shapes<'a> {
    layout: &'a Layout,
    /// The attempt of a line that does not number it.
    unnumbered: u32,
    first: Next,
    heads: Heads,
    minute: Minute,
    id: LikeLast,
    expected: Option<Expected>,
}

/// Says as little as none.
const NO_STATUS: u16 = 0;

impl<'a> Shapes<'a> {
    /// Learns from whole lines at the start of the log.
    pub(crate) fn learn(layout: &'a Layout, block: &[u8]) -> Self {
        Self {
            layout,
            unnumbered: if layout.attempt.is_some() { FIRST_ATTEMPT } else { 0 },
            first: learn::learn(layout, block),
            heads: Heads::default(),
            minute: Minute::default(),
            id: LikeLast::default(),
            expected: None,
        }
    }

    /// Most ids will be such.
    pub(crate) fn expect(&mut self, expected: Option<Expected>) {
        // An id is in the line as it is, or its beginning is not in lines that are read so.
        let plain =
            expected.filter(|expected| plain_length(&expected.start) == expected.start.len());
        if plain != self.expected {
            self.expected = plain;
            self.heads.renew(&self.first, self.id, self.expected.as_ref());
        }
    }

    /// Reads the line at the start of `bytes`, and gives what follows it; `None`: it has no known shape. `at` is when
    /// the wrapper had it.
    pub(crate) fn read<'l>(
        &mut self,
        bytes: &'l [u8],
        at: Option<Millis>,
    ) -> Option<(Said<Event<'l>>, &'l [u8])> {
        if self.layout.time.is_none() && at.is_none() {
            return None;
        }
        let mut event = Event { at: at.unwrap_or_default(), ..BLANK };
        let (says, rest) = self.read_into(&mut event, &mut None, bytes)?;
        Some((if says { Said::Event(event) } else { Said::Nothing }, rest))
    }

    /// The same, of a log whose lines have their time. Whether it says an event, which is put into `event`: in place,
    /// so that it need not be copied. There was [`BLANK`], or what a line before said. `counted` tells an id that is as
    /// expected.
    #[inline(always)]
    pub(crate) fn read_into<'l>(
        &mut self,
        event: &mut Event<'l>,
        counted: &mut Option<Counted>,
        bytes: &'l [u8],
    ) -> Option<(bool, &'l [u8])> {
        // What a line may lack. Where an event has a time or an id, each of its lines has.
        event.attempt = self.unnumbered;
        event.took = None;
        let mut status = NO_STATUS;
        let head = self.heads.read(bytes, event, counted);
        let (mut step, mut after) = if let Some(head) = head {
            head
        } else {
            self.heads.miss(&self.first, self.minute, self.id, self.expected.as_ref());
            self.first.step(bytes)?
        };
        let (kind, rest) = loop {
            let (next, rest) = match &step.then {
                Then::Number(next) => (next, skip_number(after)?),
                Then::Text(next) => (next, after.get(plain_length(after)..)?),
                Then::Time(next) => {
                    let rest;
                    (event.at, rest) = match self.minute.quick(after) {
                        Some(quick) => quick,
                        None => new_minute(&mut self.minute, after)?,
                    };
                    (next, rest)
                }
                Then::Id(next) => {
                    let rest;
                    (event.id, rest) = after.split_at_checked(self.id.length(after)?)?;
                    (next, rest)
                }
                Then::Attempt(next) => {
                    let rest;
                    (event.attempt, rest) = match one_digit(after) {
                        Some(usual) => usual,
                        None => any_attempt(after)?,
                    };
                    (next, rest)
                }
                Then::Status(next) => {
                    let rest;
                    (status, rest) = match three_digits(after) {
                        Some(usual) => usual,
                        None => any_status(after)?,
                    };
                    (next, rest)
                }
                Then::Rare(role, form, next) => {
                    (next, rare(self.layout, *role, *form, (event, &mut status), after)?)
                }
                Then::End(kind) => break (*kind, after),
            };
            (step, after) = next.step(rest)?;
        };
        let rest = match rest {
            [] => rest,
            [b'\n', next @ ..] | [b'\r', b'\n', next @ ..] => next,
            _ => return None,
        };
        let Some(kind) = kind else { return Some((false, rest)) };
        event.kind = if is_answer(status) { kind } else { without_answer(kind, status) };
        Some((true, rest))
    }
}

/// Whether a status surely leaves what a line says as it is: most do.
#[inline(always)]
fn is_answer(status: u16) -> bool {
    // Errors start there (RFC 9110).
    status < 400
}

#[cold]
fn without_answer(kind: Kind, status: u16) -> Kind {
    words::refined(kind, Some(status), std::iter::empty())
}

/// An event that no line has said anything of.
pub(crate) const BLANK: Event<'static> =
    Event { at: 0, id: &[], attempt: 0, kind: Kind::Part, took: None };

/// A time that is not of the last one's minute, or is written otherwise.
#[cold]
fn new_minute<'l>(minute: &mut Minute, bytes: &'l [u8]) -> Option<(Millis, &'l [u8])> {
    let (text, rest) = bytes.split_at_checked(text_length(bytes)?)?;
    Some((minute.read(text)?, rest))
}

#[cold]
fn any_attempt(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (text, rest) = bytes.split_at_checked(number_length(bytes)?)?;
    Some((small_number(text)?, rest))
}

#[cold]
fn any_status(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (text, rest) = bytes.split_at_checked(number_length(bytes)?)?;
    Some((status(text), rest))
}

/// As the general way reads one: what is none says nothing.
fn status(text: &[u8]) -> u16 {
    let status = match small_number(text) {
        Some(number) => u16::try_from(number).ok(),
        None => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
    };
    status.unwrap_or(NO_STATUS)
}

/// Reads a value that few logs have into an event or its status, and gives what follows it.
#[inline(never)]
fn rare<'l>(
    layout: &Layout,
    role: Role,
    form: Form,
    (event, status_of): (&mut Event<'l>, &mut u16),
    bytes: &'l [u8],
) -> Option<&'l [u8]> {
    let length = if form == Form::Text { text_length(bytes)? } else { number_length(bytes)? };
    let (value, rest) = bytes.split_at_checked(length)?;
    match role {
        Role::Other => {}
        Role::Time | Role::OtherTime => event.at = layout.time.as_ref()?.1.read(value)?,
        // The general way writes a number its own way.
        Role::Id if form != Form::Text && !value.iter().all(u8::is_ascii_digit) => return None,
        Role::Id if value.is_empty() || value.len() > LONGEST_ID => return None,
        Role::Id => event.id = value,
        Role::Attempt => event.attempt = small_number(value)?,
        Role::Status => *status_of = status(value),
        Role::Took => event.took = layout.took.as_ref().and_then(|(_, unit)| unit.read(value)),
    }
    Some(rest)
}

#[cfg(test)]
mod tests;
