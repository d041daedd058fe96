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
const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Entries {
    lane: u8,
    /// Opened in the node's namespace, of which it stays.
    file: File,
    /// By the client's port: when it was seen last.
    alive: BTreeMap<u16, Duration>,
    next: Option<Duration>,
}

impl Entries {
    /// Of the namespace that this thread is in.
    pub(super) fn open(lane: u8) -> Done<Self> {
        let file = File::open(PATH).map_err(failed("open", PATH))?;
        Ok(Self { lane, file, alive: BTreeMap::new(), next: None })
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
        let mut text = String::new();
        self.file.rewind().map_err(failed("read", PATH))?;
        self.file.read_to_string(&mut text).map_err(failed("read", PATH))?;
        let rows: BTreeMap<u16, u64> = text.lines().filter_map(row).collect();
        let lane = self.lane;
        let before = self.alive.len();
        self.alive.retain(|port, seen| {
            let there = rows.contains_key(port);
            if !there {
                let (alive_ms, at_ms) = (millis(*seen), millis(now));
                lines.push(Line::Died { lane, port: *port, alive_ms, at_ms });
            }
            there
        });
        let died = self.alive.len() < before;
        let fresh = rows.keys().any(|port| !self.alive.contains_key(port));
        if died || fresh {
            lines.push(Line::Dump { lane, at_ms: millis(now), text });
        }
        self.alive.extend(rows.keys().map(|port| (*port, now)));
        let soonest = rows.values().min().map(|seconds| Duration::from_secs(*seconds));
        self.next = soonest.map(|soonest| now + soonest.max(SECOND));
        Ok(())
    }
}

/// The client's port and what is left, in seconds: `TCP 0A000102 4E20 0A600E03 1F40 … ESTABLISHED 899`.
fn row(line: &str) -> Option<(u16, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let port = u16::from_str_radix(words.get(2).filter(|_| words[0] == "TCP")?, 16).ok()?;
    Some((port, words.get(8)?.parse().ok()?))
}
