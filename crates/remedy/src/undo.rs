//! What was there before a rescue, as a file, and its way back.

use std::{fs, io, net::SocketAddr};

use serde::{Deserialize, Serialize};
use stillopen_collect::{Handle, SocketOptions};

use crate::{Refusal, Rescuer, options::put_back};

/// The only format that this version reads and writes.
pub const SCHEMA: &str = "stillopen.undo/1";

/// The options of sockets before they were changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    /// Format and its version.
    pub schema: String,
    /// Which start of the kernel: socket cookies begin anew with the next.
    pub boot_id: String,
    /// RFC 3339.
    pub taken_at: String,
    /// One for each socket.
    pub sockets: Vec<UndoRow>,
}

/// One socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoRow {
    /// Where it is to be had.
    #[serde(flatten)]
    pub handle: Handle,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// What was there.
    pub before: SocketOptions,
}

/// A file that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// It is not JSON, or not of this shape.
    #[error("not a file that `rescue --save-undo` wrote: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It is of another version.
    #[error("its schema is {0:?}; this version of stillopen reads {SCHEMA:?}")]
    Version(String),
    /// The kernel that it speaks of has been restarted.
    #[error("it was written before this host's last start: those connections are gone")]
    OtherBoot,
    /// The kernel does not tell which start this is.
    #[error("/proc/sys/kernel/random/boot_id can't be read ({0}): is /proc mounted?")]
    NoBootId(io::Error),
}

/// What became of one row.
#[derive(Debug)]
pub enum Undone {
    /// Its options are as they were.
    Restored,
    /// The connection is gone: there is nothing to undo.
    Gone,
    /// It could not be.
    Refused(Refusal),
}

impl Undo {
    /// A file for this start of the kernel.
    ///
    /// # Errors
    /// /proc does not tell which start this is.
    pub fn new(taken_at: String, sockets: Vec<UndoRow>) -> Result<Self, UndoError> {
        Ok(Self { schema: SCHEMA.to_owned(), boot_id: boot_id()?, taken_at, sockets })
    }

    /// Reads one and checks it.
    ///
    /// # Errors
    /// Not JSON, another version, or of an earlier start of this host.
    pub fn from_json(text: &[u8]) -> Result<Self, UndoError> {
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        let head: Head = serde_json::from_slice(text)?;
        if head.schema != SCHEMA {
            return Err(UndoError::Version(head.schema));
        }
        let undo: Self = serde_json::from_slice(text)?;
        if undo.boot_id == boot_id()? { Ok(undo) } else { Err(UndoError::OtherBoot) }
    }
}

impl UndoRow {
    /// Puts back what was there, with `rescuer` for one row after another.
    #[must_use]
    pub fn put_back(&self, rescuer: &mut Rescuer) -> Undone {
        match rescuer.socket(self.handle) {
            Ok(socket) => match put_back(&socket, self.before) {
                Ok(()) => Undone::Restored,
                Err(errno) => Undone::Refused(Refusal::Options(errno.into())),
            },
            Err(Refusal::Gone { .. }) => Undone::Gone,
            Err(refusal) => Undone::Refused(refusal),
        }
    }
}

fn boot_id() -> Result<String, UndoError> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    text.map(|id| id.trim().to_owned()).map_err(UndoError::NoBootId)
}
