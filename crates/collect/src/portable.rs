//! Where there is no Linux: says what works instead.

use std::convert::Infallible;

use stillopen_model::Snapshot;

use crate::{CollectError, Request};

/// What was read. There is none here: [`collect`] always says why.
#[derive(Debug)]
pub struct Collected {
    /// What was read.
    pub snapshot: Snapshot,
    /// Sockets that no file refers to any more: left out.
    pub orphans: u32,
    never: Infallible,
}

impl Collected {
    /// There is nothing to look at again.
    ///
    /// # Errors
    /// None: no value of this type exists.
    pub fn look_again(&mut self) -> Result<(), CollectError> {
        match self.never {}
    }

    /// There are no ends to pair.
    pub fn pair_ends(&mut self) {
        match self.never {}
    }
}

/// Reads nothing.
///
/// # Errors
/// [`CollectError::Unsupported`], always.
pub fn collect(_request: &Request, _taken_at: String) -> Result<Collected, CollectError> {
    Err(CollectError::Unsupported)
}
