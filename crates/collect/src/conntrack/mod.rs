//! Connection tracking of one network namespace: its settings, and its entries over ctnetlink.

pub(crate) mod parse;
pub(crate) mod read;

pub(crate) use parse::Tracked;

#[cfg(test)]
mod tests;
