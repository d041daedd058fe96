//! How long the wire was silent before an answer, and what became of it.
//!
//! From the client's send to the server's send. The server's own account is a lower bound: a request that queued
//! was silent before its work began. The client's, moved to the server's clock, is the upper one.

use std::time::Duration;

use crate::{
    attempts::{Attempt, ServerSide},
    event::{Kind, Millis},
    skew::Skew,
};

/// The bounds of a silence, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Silence {
    pub(crate) low: Millis,
    pub(crate) high: Millis,
}

/// The longest silence before the end of an answer that the server sent.
pub(crate) fn silence(attempt: &Attempt, skew: Millis) -> Option<Silence> {
    let server = attempt.server?;
    let sent = server.sent()?;
    let by_server = server.begin();
    let by_client = attempt.client.and_then(|client| client.asked).map(|asked| asked + skew);
    let low = longest(&server, by_server.or(by_client)?, sent);
    let high = longest(&server, by_client.or(by_server)?, sent);
    Some(Silence { low, high: high.max(low) })
}

/// The longest time without a byte from `begin` to `end`.
fn longest(server: &ServerSide, begin: Millis, end: Millis) -> Millis {
    match server.parts {
        None => (end - begin).max(0),
        Some(parts) => {
            (parts.first - begin).max(parts.longest_between).max(end - parts.last).max(0)
        }
    }
}

/// What became of an attempt that both sides know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The answer was sent and arrived.
    Arrived,
    /// It was sent while the client waited, and never arrived.
    Lost,
    /// It was sent, but the client had stopped waiting before.
    TooLate,
    /// It was sent when the client's log was at its end: nobody knows.
    Unseen,
    /// The server never sent one, and the client's wait ended.
    NoAnswer,
    /// The server never sent one, and the client still waits.
    Open,
    /// The client got an answer that this server does not know of.
    AnsweredByOther,
}

/// An answer that is sent just when the client stops may cross its end.
const CROSSING: Millis = 1000;
/// What an answer may take to arrive, where the log ends: longer than any network needs.
const ARRIVES_WITHIN: Millis = 10_000;

/// `log_end` is the last time of the client's log.
pub(crate) fn fate(attempt: &Attempt, skew: Skew, log_end: Millis) -> Option<Fate> {
    let (client, server) = (attempt.client?, attempt.server?);
    let sent = server.sent().map(|at| at - skew.server_ahead);
    Some(match (sent, client.end) {
        (Some(_), Some((_, Kind::Answered))) => Fate::Arrived,
        (None, Some((_, Kind::Answered))) => Fate::AnsweredByOther,
        (Some(sent), Some((end, _))) if sent + CROSSING + skew.uncertainty >= end => Fate::TooLate,
        (Some(sent), None) if sent + ARRIVES_WITHIN > log_end => Fate::Unseen,
        (Some(_), _) => Fate::Lost,
        (None, Some(_)) => Fate::NoAnswer,
        (None, None) => Fate::Open,
    })
}

/// How long the client waited, by its own clock, and what ended it.
pub(crate) fn wait(attempt: &Attempt) -> Option<(Millis, Kind)> {
    let client = attempt.client?;
    let (end, kind) = client.end?;
    Some(((end - client.asked?).max(0), kind))
}

/// Milliseconds as the rest of the program has them; nothing here is below zero.
pub(crate) fn duration(ms: Millis) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
