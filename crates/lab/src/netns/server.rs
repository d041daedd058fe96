//! What the server's command says: it goes to standard error, and its last lines are kept.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    fs::{OFlags, fcntl_setfl},
    io::read,
    pipe::{PipeFlags, pipe_with},
};

use super::{error::NetnsError, queue::Queue};
use crate::exec::said::LastLines;

/// Bytes that may wait for standard error.
const MOST: usize = 1 << 20;
/// What waits at the end has so long.
const PATIENCE: Duration = Duration::from_secs(1);
/// After so many reads others have their turn, however much the server says.
const TURN: usize = 16;
/// The turns that are taken at the end: more than any pipe holds.
const LAST_TURNS: usize = 64;

/// The reading end of the server's output.
#[derive(Debug)]
pub(super) struct Output {
    pipe: OwnedFd,
    /// To standard error.
    shown: Queue,
    lines: LastLines,
    pub(super) ended: bool,
}

/// A pipe for it: ours, and the server's.
pub(super) fn pipe() -> Result<(Output, OwnedFd), NetnsError> {
    let (ours, theirs) =
        pipe_with(PipeFlags::CLOEXEC).map_err(NetnsError::system("make a pipe"))?;
    fcntl_setfl(&ours, OFlags::NONBLOCK).map_err(NetnsError::system("make a pipe"))?;
    let shown = Queue::start(io::stderr(), MOST, PATIENCE)
        .map_err(|cause| NetnsError::System { operation: "start a thread", cause })?;
    let lines = LastLines::default();
    Ok((Output { pipe: ours, shown, lines, ended: false }, theirs))
}

impl Output {
    /// Takes what has come; whether there may be more.
    pub(super) fn take(&mut self) -> bool {
        let mut bytes = [0; 4096];
        for _ in 0..TURN {
            match read(&self.pipe, &mut bytes) {
                Ok(0) => {
                    self.ended = true;
                    return false;
                }
                Ok(got) => self.keep(&bytes[..got]),
                Err(_) => return false,
            }
        }
        true
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.shown.push(bytes.to_vec());
        self.lines.keep(bytes);
    }

    /// The last lines.
    pub(super) fn last(&mut self) -> Vec<String> {
        for _ in 0..LAST_TURNS {
            if !self.take() {
                break;
            }
        }
        self.lines.get()
    }

    /// Says something of this program's own between what the server says.
    pub(super) fn say(&self, what: &str) {
        self.shown.push(format!("stillopen: {what}\n").into_bytes());
    }

    /// Shows the rest. How many bytes nobody took.
    pub(super) fn end(self) -> usize {
        self.shown.end().left_out.bytes
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}
