//! The fast way to read JSON lines: most lines of a log have one of a few shapes.
//!
//! A shape is the bytes that all its lines share (punctuation, names, and values of few kinds such as the event)
//! and the values between them. Shapes are learnt from the sample that the layout was detected from, with what a
//! line of each says. A line that fits one exactly is valid JSON, and says what [`Layout::read`] would say of it;
//! any other line goes the general way.
//!
//! `learn.rs` learns them, `step.rs` is what they are. Between two literals only the value is looked at, and no more
//! of it than is needed: that it ends where it seems to is made sure by the literal behind it.

#![expect(
    clippy::inline_always,
    reason = "all of it is one loop, and none of it need go through memory"
)]

mod learn;
mod literal;
mod minute;
mod number;
mod step;
mod text;

use self::{
    minute::Minute,
    number::{number_length, one_digit, skip_number, three_digits},
    step::{Form, Next, Role, Then},
    text::{LikeLast, plain_length, text_length},
};
use crate::{
    bytes::small_number,
    event::{Event, Kind, Millis},
    layout::{FIRST_ATTEMPT, LONGEST_ID, Layout, Said},
    words,
};

/// The shapes of a log.
#[derive(Debug)]
pub(crate) struct Shapes<'a> {
    layout: &'a Layout,
    first: Next,
    minute: Minute,
    id: LikeLast,
}

/// Says as little as none.
const NO_STATUS: u16 = 0;

/// The values of a line.
#[derive(Clone, Copy)]
struct Values<'l> {
    at: Option<Millis>,
    id: &'l [u8],
    attempt: u32,
    status: u16,
    took: Option<Millis>,
}

impl<'a> Shapes<'a> {
    /// Learns from whole lines at the start of the log.
    pub(crate) fn learn(layout: &'a Layout, block: &[u8]) -> Self {
        Self {
            layout,
            first: learn::learn(layout, block),
            minute: Minute::default(),
            id: LikeLast::default(),
        }
    }

    /// Reads the line at the start of `bytes`, and gives what follows it; `None`: it has no known shape. `at` is when
    /// the wrapper had it.
    #[inline(always)]
    pub(crate) fn read<'l>(
        &mut self,
        bytes: &'l [u8],
        at: Option<Millis>,
    ) -> Option<(Said<Event<'l>>, &'l [u8])> {
        // Where a line says nothing else.
        let attempt = if self.layout.attempt.is_some() { FIRST_ATTEMPT } else { 0 };
        let mut values = Values { at, id: &[], attempt, status: NO_STATUS, took: None };
        let (mut next, mut rest) = (&self.first, bytes);
        let kind = loop {
            let (step, after) = next.step(rest)?;
            (next, rest) = match &step.then {
                Then::Number(next) => (next, skip_number(after)?),
                Then::Text(next) => (next, after.get(plain_length(after)..)?),
                Then::Time(next) => {
                    let (at, rest) = match self.minute.quick(after) {
                        Some(quick) => quick,
                        None => new_minute(&mut self.minute, after)?,
                    };
                    values.at = Some(at);
                    (next, rest)
                }
                Then::Id(next) => {
                    let (id, rest) = self.id.split(after)?;
                    if id.is_empty() || id.len() > LONGEST_ID {
                        return None;
                    }
                    values.id = id;
                    (next, rest)
                }
                Then::Attempt(next) => {
                    let (attempt, rest) = match one_digit(after) {
                        Some(usual) => usual,
                        None => any_attempt(after)?,
                    };
                    values.attempt = attempt;
                    (next, rest)
                }
                Then::Status(next) => {
                    let (status, rest) = match three_digits(after) {
                        Some(usual) => usual,
                        None => any_status(after)?,
                    };
                    values.status = status;
                    (next, rest)
                }
                Then::Rare(role, form, next) => {
                    let rest;
                    (values, rest) = rare(self.layout, *role, *form, values, after)?;
                    (next, rest)
                }
                Then::End(kind) => {
                    rest = after;
                    break *kind;
                }
            };
        };
        let rest = match rest {
            [] => rest,
            [b'\n', next @ ..] | [b'\r', b'\n', next @ ..] => next,
            _ => return None,
        };
        Some((values.said(kind)?, rest))
    }
}

impl<'l> Values<'l> {
    /// What they say, in a line that says `kind`, its status apart.
    #[inline]
    fn said(self, kind: Option<Kind>) -> Option<Said<Event<'l>>> {
        let Some(kind) = kind else { return Some(Said::Nothing) };
        let Self { at, id, attempt, status, took } = self;
        let kind = if status == NO_STATUS {
            kind
        } else {
            words::refined(kind, Some(status), std::iter::empty())
        };
        Some(Said::Event(Event { at: at?, id, attempt, kind, took }))
    }
}

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

/// `values` with a value that few logs have, and what follows it.
#[inline(never)]
fn rare<'l>(
    layout: &Layout,
    role: Role,
    form: Form,
    mut values: Values<'l>,
    bytes: &'l [u8],
) -> Option<(Values<'l>, &'l [u8])> {
    let length = if form == Form::Text { text_length(bytes)? } else { number_length(bytes)? };
    let (value, rest) = bytes.split_at_checked(length)?;
    match role {
        Role::Other => {}
        Role::Time | Role::OtherTime => values.at = Some(layout.time.as_ref()?.1.read(value)?),
        // The general way writes a number its own way.
        Role::Id if form != Form::Text && !value.iter().all(u8::is_ascii_digit) => return None,
        Role::Id if value.is_empty() || value.len() > LONGEST_ID => return None,
        Role::Id => values.id = value,
        Role::Attempt => values.attempt = small_number(value)?,
        Role::Status => values.status = status(value),
        Role::Took => values.took = layout.took.as_ref().and_then(|(_, unit)| unit.read(value)),
    }
    Some((values, rest))
}

#[cfg(test)]
mod tests;
