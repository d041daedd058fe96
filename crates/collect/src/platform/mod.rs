//! What machine this is, from its firmware's strings and its kernel's name: no network is asked.

mod parse;
pub(crate) mod read;
