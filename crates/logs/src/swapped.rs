//! Logs that were given for the wrong side: the words mean something else there, and what would come of it is a
//! wrong diagnosis, so it is refused.

use crate::{
    attempts::{self, Attempt},
    error::LogsError,
    event::{Kind, Millis, Side},
    layout::Overrides,
    read::Everything,
    store::{
        Store,
        index::Number,
        record::{Slot, time},
    },
};

/// Fewer requests tell nothing of the order of their lines.
const LEAST: u64 = 3;
/// Nearly all, in hundredths: lines of one moment may change places.
const NEARLY_ALL: u64 = 90;
/// More requests make it no clearer.
const SAMPLE: usize = 200_000;
/// So many bytes of whole lines, with their times, no two logs have in common.
const BEGINNING: usize = 4096;

/// How a log begins, to know it again.
pub(crate) fn beginning(sample: &[u8]) -> Vec<u8> {
    sample[..sample.len().min(BEGINNING)].to_vec()
}

/// Whether two logs that begin so are one: the longer may have grown meanwhile.
pub(crate) fn is_same(one: &[u8], other: &[u8]) -> bool {
    let least = one.len().min(other.len());
    least > 0 && one[..least] == other[..least]
}

/// Whether one file may hold both sides: the user says which lines are whose.
pub(crate) fn are_told_apart(overrides: &Overrides) -> bool {
    let Overrides { sent, received, started, pattern, .. } = overrides;
    [sent, received, started, pattern].into_iter().flatten().any(|named| named.side.is_some())
}

/// How many there are, and how many of them stand the wrong way round.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Share {
    wrong: u64,
    of: u64,
}

impl Share {
    fn add(&mut self, wrong: bool) {
        self.wrong += u64::from(wrong);
        self.of += 1;
    }

    fn is_nearly_all(self) -> bool {
        self.of >= LEAST && self.wrong * 100 >= self.of * NEARLY_ALL
    }
}

/// The first and the last of what begins a request on one side, and of what ends it.
#[derive(Debug, Default, Clone, Copy)]
struct Ends {
    begins: Option<(Millis, Millis)>,
    ends: Option<(Millis, Millis)>,
}

impl Ends {
    fn add(&mut self, at: Millis, kind: Kind) {
        let to = if kind.begins() { &mut self.begins } else { &mut self.ends };
        let (first, last) = to.unwrap_or((at, at));
        *to = Some((first.min(at), last.max(at)));
    }

    /// Whether it ends before it begins; attempts that follow each other begin with a begin. `None`: one of them is
    /// not there.
    fn are_backwards(self) -> Option<bool> {
        let ((first_begin, last_begin), (first_end, last_end)) = (self.begins?, self.ends?);
        Some(first_end <= first_begin && last_end < last_begin)
    }
}

/// What the order of the lines shows.
#[derive(Debug, Default)]
struct Order {
    /// Requests whose answer the client has before it sends them.
    client: Share,
    /// Requests that the server answers before it has them.
    server: Share,
    /// Requests that the server has before the client sends them, and answers after the client has the answer.
    enclosed: Share,
}

impl Order {
    fn of(store: &Store) -> Self {
        let mut order = Self::default();
        for number in (0..store.len()).step_by(store.len() / SAMPLE + 1) {
            // A store holds no more records than a number can count.
            let number = Number::try_from(number).unwrap_or(Number::MAX);
            let record = store.get(number);
            if record.is_free() {
                continue;
            }
            let extras = if record.has_more() { store.extras_of(number) } else { &[] };
            let (mut client, mut server) = (Ends::default(), Ends::default());
            let slots = Slot::ALL.into_iter();
            let slots = slots.filter_map(|slot| Some((record.get(slot)?, record.kind(slot))));
            let extras = extras.iter().map(|extra| (extra.at, extra.kind));
            for (at, kind) in slots.chain(extras) {
                match kind {
                    Kind::Asked | Kind::Answered | Kind::TimedOut | Kind::Broken => &mut client,
                    Kind::Received | Kind::Started | Kind::Sent | Kind::Failed => &mut server,
                    Kind::Part => continue,
                }
                .add(time(at, store.base()), kind);
            }
            client.are_backwards().into_iter().for_each(|wrong| order.client.add(wrong));
            server.are_backwards().into_iter().for_each(|wrong| order.server.add(wrong));
            // Where only the order tells attempts apart, an end belongs to another one.
            if !record.has_more() {
                order.add(&attempts::plain(store, number));
            }
        }
        order
    }

    fn add(&mut self, attempt: &Attempt) {
        let client = attempt.client.and_then(|client| Some((client.asked?, client.end?)));
        let server = attempt.server.and_then(|server| Some((server.begin()?, server.sent()?)));
        if let (Some((asked, (answered, Kind::Answered))), Some((began, sent))) = (client, server) {
            self.enclosed.add(began < asked && answered < sent);
        }
    }
}

/// Refuses logs that read the wrong way round.
pub(crate) fn check(everything: &Everything) -> Result<(), LogsError> {
    let order = Order::of(&everything.store);
    let name = |side| {
        let log = everything.logs.iter().find(|log| log.side == side);
        log.map(|log| log.name.clone()).unwrap_or_default()
    };
    let (client, server) = (order.client.is_nearly_all(), order.server.is_nearly_all());
    if client {
        let Share { wrong, of } = order.client;
        let both = if server { " (--client and --server the other way round)" } else { "" };
        return Err(LogsError::Swapped {
            shows: format!(
                "{}, read as the client's, has the answer of {wrong} of {of} requests before it sends \
                 them",
                name(Side::Client)
            ),
            hint: format!("if it is the server's log, give it as --server{both}"),
        });
    }
    if server {
        let Share { wrong, of } = order.server;
        return Err(LogsError::Swapped {
            shows: format!(
                "{}, read as the server's, answers {wrong} of {of} requests before it has them",
                name(Side::Server)
            ),
            hint: "if it is the client's log, give it as --client".to_owned(),
        });
    }
    if order.enclosed.is_nearly_all() {
        let Share { wrong, of } = order.enclosed;
        return Err(LogsError::Swapped {
            shows: format!(
                "the server has {wrong} of {of} requests before the client sends them, and answers them after \
                 the client has the answer"
            ),
            hint: "if they are, give --client and --server the other way round; if not, the clocks differ \
                   and the client's line is not of the answer's end, so nothing can be told"
                .to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_has_grown_is_the_same() {
        assert!(is_same(b"a line\n", b"a line\nanother\n"));
        assert!(!is_same(b"a line\n", b"b line\n"));
        assert!(!is_same(b"", b"a line\n"));
    }

    #[test]
    fn a_few_lines_the_wrong_way_round_are_no_swap() {
        assert!(!Share { wrong: 2, of: 2 }.is_nearly_all());
        assert!(!Share { wrong: 8, of: 10 }.is_nearly_all());
        assert!(Share { wrong: 9, of: 10 }.is_nearly_all());
    }
}
