//! Network namespaces: which there are, and how to read in one of them.

mod parse;
pub(crate) mod read;

pub(crate) use read::Place;
