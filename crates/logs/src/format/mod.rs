//! How a line says its fields: JSON, `key=value`, or free text through a pattern.
//!
//! The general way: all scalar fields of a line. `shape/` has the fast one.

mod json;
mod key_value;

use std::borrow::Cow;

use regex::bytes::Regex;

/// The text of a `key=value` line outside its pairs.
pub(crate) const TEXT: &str = "(text)";
/// The time that such a line starts with.
pub(crate) const LINE_START: &str = "(line start)";

/// The fields of one line, in its order. A name that is there twice means its last value.
#[derive(Debug, Default)]
pub(crate) struct Fields<'a> {
    all: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Which of them are numbers that may have lost digits.
    rounded: Vec<usize>,
}

impl<'a> Fields<'a> {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.place(name).map(|at| self.all[at].1.as_ref())
    }

    /// Whether two different numbers in lines may read like this field's.
    pub(crate) fn is_rounded(&self, name: &str) -> bool {
        self.place(name).is_some_and(|at| self.rounded.contains(&at))
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.all.iter().rposition(|(known, _)| known == name)
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.all.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    fn push_rounded(&mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) {
        self.rounded.push(self.all.len());
        self.push(name, value);
    }

    fn push(&mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) {
        self.all.push((name.into(), value.into()));
    }
}

/// How the lines of a log are written.
#[derive(Debug, Clone)]
pub(crate) enum Format {
    Json,
    KeyValue,
    Pattern(Regex),
}

impl Format {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Json => "JSON lines",
            Self::KeyValue => "key=value",
            Self::Pattern(_) => "the pattern",
        }
    }

    /// The fields of `line`; `None`: it is not written so.
    pub(crate) fn read<'a>(&self, line: &'a [u8]) -> Option<Fields<'a>> {
        match self {
            Self::Json => json::read(line),
            Self::KeyValue => key_value::read(std::str::from_utf8(line).ok()?),
            Self::Pattern(pattern) => {
                let found = pattern.captures(line)?;
                let mut fields = Fields::default();
                for name in pattern.capture_names().flatten() {
                    if let Some(value) = found.name(name) {
                        fields.push(name.to_owned(), std::str::from_utf8(value.as_bytes()).ok()?);
                    }
                }
                Some(fields)
            }
        }
    }
}
