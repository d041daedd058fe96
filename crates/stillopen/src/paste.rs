//! The options of a run, to be repeated in a command that is printed for people to paste.

use std::fmt;

use crate::input::{LimitArg, quoted};

/// Options as they were given, each with a blank before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Options(String);

impl Options {
    /// One with its value.
    pub(crate) fn add(&mut self, name: &str, value: &str) {
        self.0.extend([" ", name, " ", &quoted(value)]);
    }

    /// One without, if it was given.
    pub(crate) fn flag(&mut self, name: &str, given: bool) {
        if given {
            self.0.extend([" ", name]);
        }
    }

    /// Each `--limit`.
    pub(crate) fn limits(&mut self, limits: &[LimitArg]) {
        for limit in limits {
            self.add("--limit", &limit.text);
        }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
