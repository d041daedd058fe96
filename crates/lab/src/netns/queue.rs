//! Writing to what may take long to take it, or for ever: in a thread of its own, from a queue of bounded size.
//! Who fills the queue never waits; what finds no room is left out and counted.

use std::{
    collections::VecDeque,
    io,
    mem::take,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// About so much is written at once.
const AT_ONCE: usize = 64 * 1024;

/// What is written, and the thread that writes it.
#[derive(Debug)]
pub(super) struct Queue {
    shared: Arc<Shared>,
    /// In bytes.
    most: usize,
    patience: Duration,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Each is written whole or not at all, but for the last before an error.
    pieces: VecDeque<Vec<u8>>,
    /// What is not written yet, also what is being written.
    waiting: Amount,
    left_out: Amount,
    /// Nothing more will come.
    closed: bool,
    /// The thread has ended.
    ended: bool,
    failed: Option<io::Error>,
}

/// How much of something.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) pieces: usize,
    pub(super) bytes: usize,
}

impl Amount {
    fn add(&mut self, other: Self) {
        self.pieces += other.pieces;
        self.bytes += other.bytes;
    }
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) left_out: Amount,
    /// The error after which nothing more was written.
    pub(super) failed: Option<io::Error>,
}

impl Queue {
    /// Writes to `to`. At most so many bytes wait; after the end they have so long.
    pub(super) fn start(
        to: impl io::Write + Send + 'static,
        most: usize,
        patience: Duration,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        thread::Builder::new().name("lab-writer".into()).spawn(move || own.write(to))?;
        Ok(Self { shared, most, patience })
    }

    /// Has it written, where there is room.
    pub(super) fn push(&self, piece: Vec<u8>) {
        let amount = Amount { pieces: 1, bytes: piece.len() };
        let mut state = self.shared.lock();
        if state.failed.is_some() || state.waiting.bytes + amount.bytes > self.most {
            state.left_out.add(amount);
            return;
        }
        state.waiting.add(amount);
        state.pieces.push_back(piece);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits until all is written, as long as it may take.
    pub(super) fn end(self) -> Written {
        let mut state = self.close();
        let mut left_out = take(&mut state.left_out);
        left_out.add(state.waiting);
        Written { left_out, failed: state.failed.take() }
    }

    fn close(&self) -> MutexGuard<'_, State> {
        let Shared { changed, .. } = &*self.shared;
        let mut state = self.shared.lock();
        let patience = if state.closed { Duration::ZERO } else { self.patience };
        state.closed = true;
        changed.notify_all();
        let waited = changed.wait_timeout_while(state, patience, |state| !state.ended);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        drop(self.close());
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the thread does.
    fn write(&self, mut to: impl io::Write) {
        let mut bytes = Vec::new();
        loop {
            let wait = |state: &mut State| state.pieces.is_empty() && !state.closed;
            let waited = self.changed.wait_while(self.lock(), wait);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            bytes.clear();
            let mut pieces = 0;
            while let Some(piece) = state.pieces.pop_front_if(|_| bytes.len() < AT_ONCE) {
                bytes.extend(piece);
                pieces += 1;
            }
            drop(state);
            let written = to.write_all(&bytes).and_then(|()| to.flush());
            let mut state = self.lock();
            match written {
                Ok(()) => {
                    state.waiting.pieces -= pieces;
                    state.waiting.bytes -= bytes.len();
                }
                Err(error) => state.failed = Some(error),
            }
            state.ended = state.failed.is_some() || state.closed && state.pieces.is_empty();
            if state.ended {
                self.changed.notify_all();
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Read as _};

    use rustix::pipe::pipe;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_there_is_room_for_is_written_in_order() {
        let (mut reader, writer) = pipe().map(|(a, b)| (File::from(a), File::from(b))).unwrap();
        let queue = Queue::start(writer, 1 << 20, LONG).unwrap();
        for number in 0..100_u8 {
            queue.push(vec![number; 100]);
        }
        let written = queue.end();
        assert_eq!((written.left_out, written.failed.is_none()), (Amount::default(), true));
        let mut got = Vec::new();
        reader.read_to_end(&mut got).unwrap();
        assert!(got.is_sorted() && got.len() == 10_000);
    }

    #[test]
    fn a_reader_that_stalls_makes_nobody_wait_and_what_it_missed_is_counted() {
        let (reader, writer) = pipe().unwrap();
        let queue = Queue::start(File::from(writer), 300_000, Duration::ZERO).unwrap();
        for _ in 0..10 {
            queue.push(vec![0; 100_000]);
        }
        // A pipe takes 64 KiB: no piece is whole in it.
        let Written { left_out, failed } = queue.end();
        assert_eq!(left_out, Amount { pieces: 10, bytes: 1_000_000 });
        assert!(failed.is_none(), "{failed:?}");
        drop(reader);
    }

    #[test]
    fn after_an_error_nothing_more_is_written() {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let queue = Queue::start(File::from(writer), 1 << 20, LONG).unwrap();
        queue.push(vec![0; 10]);
        queue.push(vec![0; 10]);
        let Written { left_out, failed } = queue.end();
        assert_eq!(failed.unwrap().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(left_out, Amount { pieces: 2, bytes: 20 });
    }
}
