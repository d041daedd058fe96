//! The steps that a line of a known shape goes through: each is a literal, and what stands behind it.

use std::rc::Rc;

use super::literal::Literal;
use crate::event::Kind;

/// The bytes up to the next value, and that value; or to the line's end.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) literal: Literal,
    pub(super) then: Then,
}

// A byte of its own tells them apart: the compiler's way to save it takes longer to read.
#[derive(Debug)]
#[repr(u8)]
pub(super) enum Then {
    /// What such a line says, its status apart; `None`: nothing of a request.
    End(Option<Kind>),
    /// A text in RFC 3339.
    Time(Next),
    /// A text.
    Id(Next),
    /// A number.
    Attempt(Next),
    /// A number.
    Status(Next),
    /// A text that says nothing more.
    Text(Next),
    /// A number that says nothing more.
    Number(Next),
    /// What few logs have.
    Rare(Role, Form, Next),
}

impl Then {
    pub(super) fn value(role: Role, form: Form, next: Next) -> Self {
        match (role, form) {
            (Role::Time, Form::Text) => Self::Time(next),
            (Role::Id, Form::Text) => Self::Id(next),
            (Role::Attempt, Form::Number) => Self::Attempt(next),
            (Role::Status, Form::Number) => Self::Status(next),
            (Role::Other, Form::Text) => Self::Text(next),
            (Role::Other, Form::Number) => Self::Number(next),
            _ => Self::Rare(role, form, next),
        }
    }
}

/// What a value is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// In RFC 3339.
    Time,
    /// In any other format.
    OtherTime,
    Id,
    Attempt,
    Status,
    Took,
    Other,
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Number,
    /// `true`, `false`, `null`.
    Word,
}

/// The steps that may come next.
#[derive(Debug)]
pub(super) enum Next {
    Only(Rc<Step>),
    AnyOf(Box<Alternatives>),
}

impl Next {
    /// Of steps with how often each was seen.
    pub(super) fn of(mut steps: Vec<(Step, usize)>) -> Self {
        if let [_] = steps[..]
            && let Some((step, _)) = steps.pop()
        {
            return Self::Only(Rc::new(step));
        }
        Self::AnyOf(Box::new(Alternatives::of(steps)))
    }

    /// The most frequent first.
    pub(super) fn steps(&self) -> impl Iterator<Item = &Rc<Step>> {
        let (only, any_of) = match self {
            Self::Only(step) => (Some(step), None),
            Self::AnyOf(alternatives) => (None, Some(&alternatives.steps)),
        };
        only.into_iter().chain(any_of.into_iter().flatten().map(|(_, step)| step))
    }

    /// The step whose literal `bytes` begin with, and what follows it.
    #[inline(always)]
    pub(super) fn step<'s, 'l>(&'s self, bytes: &'l [u8]) -> Option<(&'s Step, &'l [u8])> {
        match self {
            Self::Only(step) => Some((step, step.literal.strip(bytes)?)),
            Self::AnyOf(alternatives) => alternatives.step(bytes),
        }
    }
}

/// Steps that are told apart by one byte, as far as that is possible.
#[derive(Debug)]
pub(super) struct Alternatives {
    /// Where that byte is.
    at: usize,
    /// Each with that byte. They are tried one after the other: a table would make whatever comes next wait for the
    /// byte, where the processor guesses.
    steps: Box<[(u8, Rc<Step>)]>,
}

impl Alternatives {
    fn of(mut steps: Vec<(Step, usize)>) -> Self {
        // The most frequent first.
        steps.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let shortest = steps.iter().map(|(step, _)| step.literal.bytes().len()).min().unwrap_or(0);
        let at = most_telling(0..shortest, |at| {
            steps.iter().map(move |(step, count)| (step.literal.bytes()[at], *count))
        });
        let steps = steps.into_iter();
        let steps = steps.map(|(step, _)| (step.literal.bytes()[at], Rc::new(step))).collect();
        Self { at, steps }
    }

    #[inline(always)]
    fn step<'s, 'l>(&'s self, bytes: &'l [u8]) -> Option<(&'s Step, &'l [u8])> {
        let byte = bytes.get(self.at)?;
        for (known, step) in &self.steps {
            if known == byte
                && let Some(rest) = step.literal.strip(bytes)
            {
                return Some((step, rest));
            }
        }
        None
    }
}

/// The one of `places` that takes the fewest tries to find what is sought: `bytes` has what each has there, and how often
/// it is sought, in the order in which they are tried.
pub(super) fn most_telling<B: Iterator<Item = (u8, usize)>>(
    places: impl Iterator<Item = usize>,
    bytes: impl Fn(usize) -> B,
) -> usize {
    let tries = |&at: &usize| {
        let mut same = [0; 256];
        let tries = bytes(at).map(|(byte, count)| {
            let tries: &mut usize = &mut same[usize::from(byte)];
            *tries += 1;
            *tries * count
        });
        tries.sum::<usize>()
    };
    places.min_by_key(tries).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(literals: &[&str]) -> Next {
        let step = |literal: &str| Step {
            literal: Literal::new(literal.as_bytes()),
            then: Then::End(None),
        };
        // The first is the most frequent.
        let counts = (1..=literals.len()).rev();
        Next::of(literals.iter().map(|literal| step(literal)).zip(counts).collect())
    }

    #[test]
    fn a_step_is_told_by_what_it_begins_with() {
        for literals in [
            &[][..],
            &["}"],
            &["}", ",\"a\":", ",\"b\":", ",\"bc\":"],
            &["\"event\":\"sent\"", "\"event\":\"started\"", "\"event\":\"received\""],
            // The first that fits is taken.
            &[",\"a\":", ",\"a\":\"", ",\"a\":null}"],
            &["\"", "\"}"],
        ] {
            let next = next(literals);
            let lines = literals
                .iter()
                .flat_map(|literal| [format!("{literal}1234567890123456"), (*literal).to_owned()]);
            for line in lines.chain([String::new(), "x".into(), ",\"c\":1".into(), ",".into()]) {
                let found = next.step(line.as_bytes());
                let found = found.map(|(step, rest)| (step.literal.bytes(), rest));
                let expected = literals.iter().find_map(|literal| {
                    let rest = line.strip_prefix(literal)?;
                    Some((literal.as_bytes(), rest.as_bytes()))
                });
                assert_eq!(found, expected, "{line} {literals:?}");
            }
        }
    }

    #[test]
    fn more_steps_than_bytes_are_told_apart() {
        let literals: Vec<String> = (0..2000).map(|i| format!("\"event\":\"{i}\"")).collect();
        let next = next(&literals.iter().map(String::as_str).collect::<Vec<_>>());
        for literal in &literals {
            let (step, rest) = next.step(literal.as_bytes()).unwrap();
            assert_eq!((step.literal.bytes(), rest), (literal.as_bytes(), &b""[..]));
        }
    }
}
