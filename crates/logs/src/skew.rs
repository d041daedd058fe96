//! By how much the server's clock is ahead of the client's.
//!
//! A request arrives after it was sent, and an answer too: each one bounds the difference from one side, and the
//! quickest of all bound it closely.

use crate::{
    attempts::{self, Attempt},
    event::{Kind, Millis},
    store::{Store, index::Number},
};

/// The difference, and how well it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Skew {
    /// The server's clock less the client's.
    pub(crate) server_ahead: Millis,
    /// It may be that much more or less.
    pub(crate) uncertainty: Millis,
}

/// More attempts make it no better.
const SAMPLE: usize = 200_000;

/// Requests that take longer than this to begin have queued: what bounds the difference is the answers.
const QUEUED: Millis = 2000;

/// `None`: no attempt bounds it.
pub(crate) fn estimate(store: &Store) -> Option<Skew> {
    let step = store.len() / SAMPLE + 1;
    let (mut at_most, mut at_least) = (Vec::new(), Vec::new());
    for number in (0..store.len()).step_by(step) {
        // A store holds no more records than a number can count.
        let number = Number::try_from(number).unwrap_or(Number::MAX);
        // Where only the order tells attempts apart, the pairing itself needs the difference.
        if !store.get(number).has_more() {
            let attempt = attempts::plain(store, number);
            at_most.extend(forth(&attempt));
            at_least.extend(back(&attempt));
        }
    }
    let at_most = extreme(&mut at_most, false);
    let at_least = extreme(&mut at_least, true);
    match (at_least, at_most) {
        (None, None) => None,
        (Some(only), None) | (None, Some(only)) => {
            Some(Skew { server_ahead: only, uncertainty: QUEUED / 2 })
        }
        (Some(least), Some(most)) => {
            let width = most - least;
            let server_ahead = if width > QUEUED { least } else { least.midpoint(most) };
            Some(Skew { server_ahead, uncertainty: width.abs().min(QUEUED) / 2 })
        }
    }
}

/// From the client's send to the server's first word of it.
fn forth(attempt: &Attempt) -> Option<Millis> {
    Some(attempt.server?.begin()? - attempt.client?.asked?)
}

/// From the client's answer back to the server's.
fn back(attempt: &Attempt) -> Option<Millis> {
    let (answered, kind) = attempt.client?.end?;
    (kind == Kind::Answered).then_some(attempt.server?.sent()? - answered)
}

/// The largest or smallest, one in a hundred left out: clocks are set, and lines are wrong.
fn extreme(values: &mut [Millis], largest: bool) -> Option<Millis> {
    let out = values.len() / 100;
    let at = if largest { values.len().checked_sub(1 + out)? } else { out };
    (!values.is_empty()).then(|| *values.select_nth_unstable(at).1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;

    /// Requests that queue for `queued`, with the server's clock ahead by `ahead`.
    fn skew(ahead: Millis, queued: Millis, takes: impl Fn(i64) -> Millis) -> Option<Skew> {
        let mut store = Store::default();
        for i in 0..50_i64 {
            let (id, asked) = (i.to_string(), i * 1000);
            let began = asked + 3 + queued;
            let sent = began + takes(i);
            for (at, kind) in [
                (asked, Kind::Asked),
                (began + ahead, Kind::Started),
                (sent + ahead, Kind::Sent),
                (sent + 5, Kind::Answered),
            ] {
                let event = Event { at, id: id.as_bytes(), attempt: 1, kind, took: None };
                store.add(&event, 0).unwrap();
            }
        }
        store.finish().unwrap();
        estimate(&store)
    }

    #[test]
    fn the_quickest_bound_it() {
        for ahead in [0, 7000, -7000, 3_600_000] {
            let skew = skew(ahead, 0, |i| 1000 + i).unwrap();
            assert!((skew.server_ahead - ahead).abs() <= 5, "{ahead}: {skew:?}");
            assert!(skew.uncertainty <= 10);
        }
    }

    #[test]
    fn a_queue_at_the_server_is_no_difference_of_clocks() {
        let skew = skew(7000, 120_000, |i| 1000 + i).unwrap();
        assert!((skew.server_ahead - 7000).abs() <= 5, "{skew:?}");
    }

    #[test]
    fn without_both_sides_there_is_none() {
        assert_eq!(estimate(&Store::default()), None);
    }
}
