//! Routes and links of one network namespace: where its packets go next.

pub(crate) mod parse;
pub(crate) mod read;

pub(crate) use parse::{Link, Way};
pub(crate) use read::Router;

#[cfg(test)]
mod tests;
