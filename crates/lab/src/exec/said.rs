//! The last lines that a program wrote, for the report of its end.

use std::collections::VecDeque;

/// So many lines are kept.
const KEPT: usize = 5;
/// A line is kept so far.
const WIDEST: usize = 500;

/// The end of what was written so far.
#[derive(Debug, Default)]
pub(crate) struct LastLines {
    lines: VecDeque<String>,
    unfinished: Vec<u8>,
}

impl LastLines {
    /// Takes what was written next.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
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

    /// The last lines, the unfinished one among them.
    pub(crate) fn get(&mut self) -> Vec<String> {
        self.finish();
        self.lines.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_however_they_come() {
        let mut last = LastLines::default();
        for part in ["1\n2\n3\n\n4", "4\n5\n6\n sev", "en"] {
            last.keep(part.as_bytes());
        }
        assert_eq!(last.get(), ["3", "44", "5", "6", "seven"]);
        last.keep(&[b'x'; 2 * WIDEST]);
        assert_eq!(last.get().pop().unwrap().len(), WIDEST);
    }
}
