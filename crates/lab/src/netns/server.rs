//! What the server's command says: it goes to standard error, and its last lines are kept.

use std::{
    collections::VecDeque,
    io::{self, Write as _},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{OFlags, fcntl_setfl},
    io::read,
    pipe::{PipeFlags, pipe_with},
};

use super::error::NetnsError;

/// So many lines are kept.
const KEPT: usize = 5;
/// A line is kept so far.
const WIDEST: usize = 500;

/// The reading end of the server's output.
#[derive(Debug)]
pub(super) struct Output {
    pipe: OwnedFd,
    lines: VecDeque<String>,
    unfinished: Vec<u8>,
    pub(super) ended: bool,
}

/// A pipe for it: ours, and the server's.
pub(super) fn pipe() -> Result<(Output, OwnedFd), NetnsError> {
    let (ours, theirs) =
        pipe_with(PipeFlags::CLOEXEC).map_err(NetnsError::system("make a pipe"))?;
    fcntl_setfl(&ours, OFlags::NONBLOCK).map_err(NetnsError::system("make a pipe"))?;
    let (lines, unfinished) = Default::default();
    Ok((Output { pipe: ours, lines, unfinished, ended: false }, theirs))
}

impl Output {
    /// Takes what has come.
    pub(super) fn take(&mut self) {
        let mut bytes = [0; 4096];
        loop {
            match read(&self.pipe, &mut bytes) {
                Ok(0) => {
                    self.ended = true;
                    return;
                }
                Ok(got) => self.keep(&bytes[..got]),
                Err(_) => return,
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        // Nobody may read it.
        let _ = io::stderr().write_all(bytes);
        for &byte in bytes {
            if byte == b'\n' {
                self.finish();
            } else if self.unfinished.len() < WIDEST {
                self.unfinished.push(byte);
            }
        }
    }

    fn finish(&mut self) {
        let line = String::from_utf8_lossy(&self.unfinished).trim().to_owned();
        self.unfinished.clear();
        if !line.is_empty() {
            self.lines.push_back(line);
            if self.lines.len() > KEPT {
                self.lines.pop_front();
            }
        }
    }

    /// The last lines.
    pub(super) fn last(&mut self) -> Vec<String> {
        self.take();
        self.finish();
        self.lines.iter().cloned().collect()
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}
