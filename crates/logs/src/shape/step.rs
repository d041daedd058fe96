//! The steps that a line of a known shape goes through: each is a literal, and what stands behind it.

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
    Only(Box<Step>),
    AnyOf(Box<Alternatives>),
}

impl Next {
    /// Of steps with how often each was seen.
    pub(super) fn of(mut steps: Vec<(Step, usize)>) -> Self {
        if let [_] = steps[..]
            && let Some((step, _)) = steps.pop()
        {
            return Self::Only(Box::new(step));
        }
        Self::AnyOf(Box::new(Alternatives::of(steps)))
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
    steps: Box<[(u8, Step)]>,
}

impl Alternatives {
    fn of(mut steps: Vec<(Step, usize)>) -> Self {
        // The most frequent first.
        steps.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let shortest = steps.iter().map(|(step, _)| step.literal.bytes().len()).min().unwrap_or(0);
        let at = (0..shortest).min_by_key(|&at| tries(&steps, at)).unwrap_or(0);
        let steps = steps.into_iter().map(|(step, _)| (step.literal.bytes()[at], step)).collect();
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

/// How many steps all those seen would try, told apart by the byte there.
fn tries(steps: &[(Step, usize)], at: usize) -> usize {
    let mut seen = [0; 256];
    let tries = steps.iter().map(|(step, count)| {
        let same = &mut seen[usize::from(step.literal.bytes()[at])];
        *same += 1;
        *same * count
    });
    tries.sum()
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
