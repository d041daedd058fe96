//! Watches the entries of a node's table (`/proc/net/ip_vs_conn`): when each was last there, and when it was
//! gone.
//!
//! It is read when the next entry can be due, and then each second: an overdue one says 0.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read as _, Seek as _},
    time::Duration,
};

use super::{super::protocol::Line, Done, failed, millis};

const PATH: &str = "/proc/thread-self/net/ip_vs_conn";
/// How long it may go unread where connections are made by programs.
const UNSTIRRED: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Entries {
    lane: u8,
    /// Opened in the node's namespace, of which it stays.
    file: File,
    /// By the client's port: when it was seen last, and its row then.
    alive: BTreeMap<u16, (Duration, String)>,
    next: Option<Duration>,
    /// Whether connections may come without a step of a timeline.
    unstirred: bool,
}

impl Entries {
    /// Of the namespace that this thread is in.
    pub(super) fn open(lane: u8, unstirred: bool) -> Done<Self> {
        let file = File::open(PATH).map_err(failed("open", PATH))?;
        let next = unstirred.then_some(Duration::ZERO);
        Ok(Self { lane, file, alive: BTreeMap::new(), next, unstirred })
    }

    /// Something happens: look soon.
    pub(super) fn stir(&mut self, now: Duration) {
        self.next = Some(self.next.map_or(now + SECOND, |next| next.min(now + SECOND)));
    }

    pub(super) fn next(&self) -> Option<Duration> {
        self.next
    }

    /// Reads the table where it is time to.
    pub(super) fn look(&mut self, now: Duration, lines: &mut Vec<Line>) -> Done<()> {
        if self.next.is_none_or(|next| next > now) {
            return Ok(());
        }
        let text = self.text()?;
        let rows: BTreeMap<u16, (u64, &str)> = text.lines().filter_map(row).collect();
        let lane = self.lane;
        self.alive.retain(|port, (seen, last)| {
            let there = rows.contains_key(port);
            if !there {
                let (alive_ms, at_ms) = (millis(*seen), millis(now));
                let row = std::mem::take(last);
                lines.push(Line::Died { lane, port: *port, alive_ms, at_ms, row });
            }
            there
        });
        self.alive.extend(rows.iter().map(|(port, (_, row))| (*port, (now, (*row).to_owned()))));
        let soonest = rows.values().map(|(left, _)| *left).min().map(Duration::from_secs);
        let unstirred = self.unstirred.then_some(UNSTIRRED);
        let soonest = soonest.into_iter().chain(unstirred).min();
        self.next = soonest.map(|soonest| now + soonest.max(SECOND));
        Ok(())
    }

    /// What is left at the end.
    pub(super) fn dump(&mut self, now: Duration, lines: &mut Vec<Line>) -> Done<()> {
        let text = self.text()?;
        lines.push(Line::Dump { lane: self.lane, at_ms: millis(now), text });
        Ok(())
    }

    fn text(&mut self) -> Done<String> {
        let mut text = String::new();
        self.file.rewind().map_err(failed("read", PATH))?;
        self.file.read_to_string(&mut text).map_err(failed("read", PATH))?;
        Ok(text)
    }
}

/// The client's port and what is left, in seconds: `TCP 0A000102 4E20 0A600E03 1F40 … ESTABLISHED 899`.
fn row(line: &str) -> Option<(u16, (u64, &str))> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let port = u16::from_str_radix(words.get(2).filter(|_| words[0] == "TCP")?, 16).ok()?;
    Some((port, (words.get(8)?.parse().ok()?, line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_both_families() {
        for (line, expected) in [
            (
                "TCP 0A000102 4E21 0A600E03 1F40 0A000202 1F40 ESTABLISHED     899",
                Some((20_001, 899)),
            ),
            (
                "TCP fd00::2 4E20 fd00:96::1403 1F40 fd00::2:2 1F40 CLOSE_WAIT       0",
                Some((20_000, 0)),
            ),
            (
                "Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName PEData",
                None,
            ),
            ("UDP 0A000102 4E21 0A600E03 1F40 0A000202 1F40 UDP     299", None),
            ("TCP 0A000102", None),
            ("", None),
        ] {
            let read = row(line).map(|(port, (left, _))| (port, left));
            assert_eq!(read, expected, "{line}");
        }
    }
}
