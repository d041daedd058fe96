//! Which words of a log mean that a request began, was answered, or failed: a table for each side.
//!
//! A short value of an event field has to be a known word; in a free text a known phrase has to occur.

use crate::event::{Kind, Side};

/// What a word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Says(Kind),
    /// It is known, and says nothing of what is asked here.
    Nothing,
}

use Meaning::{Nothing, Says};

/// Whole values, in lower case, with blanks for `_`, `-`, `.` and `/`.
const CLIENT_WORDS: &[(Meaning, &[&str])] = &[
    (
        Says(Kind::Asked),
        &[
            "sent",
            "send",
            "sending",
            "request",
            "request sent",
            "sent request",
            "sending request",
            "request start",
            "request started",
            "start",
            "started",
            "begin",
            "ask",
            "asked",
            "asking",
            "dispatch",
            "dispatched",
            "call",
            "calling",
            "post",
            "posted",
            "submit",
            "submitted",
            "requested",
            "invoke",
            "invoked",
        ],
    ),
    (
        Says(Kind::Answered),
        &[
            "received",
            "response",
            "answer",
            "answered",
            "response received",
            "received response",
            "answer received",
            "got response",
            "got answer",
            "done",
            "completed",
            "complete",
            "finished",
            "finish",
            "success",
            "succeeded",
            "ok",
            "request completed",
            "request finished",
            "end",
            "reply",
            "replied",
            "result",
        ],
    ),
    (
        Says(Kind::TimedOut),
        &[
            "timeout",
            "timed out",
            "request timeout",
            "request timed out",
            "own timer",
            "read timeout",
            "readtimeout",
            "client timeout",
            "deadline exceeded",
        ],
    ),
    (
        Says(Kind::Broken),
        &[
            "lost",
            "failed",
            "fail",
            "error",
            "request failed",
            "request error",
            "reset",
            "eof",
            "aborted",
            "cancelled",
            "canceled",
            "closed",
            "disconnected",
            "broken",
            "refused",
            "exception",
        ],
    ),
    (Nothing, &["retry", "retrying", "gave up", "giving up", "waiting", "still waiting"]),
];

const SERVER_WORDS: &[(Meaning, &[&str])] = &[
    (
        Says(Kind::Received),
        &[
            "received",
            "receive",
            "request",
            "request received",
            "received request",
            "accepted",
            "accept",
            "incoming",
            "incoming request",
            "new request",
            "queued",
            "enqueued",
            "arrived",
        ],
    ),
    (
        Says(Kind::Started),
        &[
            "started",
            "start",
            "starting",
            "begin",
            "processing",
            "work begins",
            "running",
            "dequeued",
            "handling",
            "request started",
            "processing request",
            "started processing",
        ],
    ),
    (
        Says(Kind::Part),
        &[
            "chunk",
            "first byte",
            "first chunk",
            "first token",
            "token",
            "delta",
            "part",
            "partial",
            "flush",
            "flushed",
            "streamed",
            "streaming",
            "heartbeat",
            "ping",
        ],
    ),
    (
        Says(Kind::Sent),
        &[
            "sent",
            "send",
            "sending",
            "response sent",
            "answer sent",
            "sent response",
            "sent answer",
            "responded",
            "response",
            "answered",
            "answer",
            "done",
            "completed",
            "complete",
            "finished",
            "finish",
            "success",
            "succeeded",
            "ok",
            "replied",
            "reply",
            "request completed",
            "request finished",
            "end",
        ],
    ),
    (
        Says(Kind::Failed),
        &[
            "failed",
            "fail",
            "error",
            "aborted",
            "abort",
            "cancelled",
            "canceled",
            "disconnected",
            "client disconnected",
            "client closed request",
            "closed",
            "exception",
            "dropped",
            "timeout",
            "timed out",
        ],
    ),
    (Nothing, &["round", "progress", "waiting", "retry"]),
];

/// Phrases in a free text; the first that occurs decides.
const CLIENT_PHRASES: &[(Meaning, &[&str])] = &[
    (Nothing, &["retry", "gave up", "giving up", "still waiting"]),
    (Says(Kind::TimedOut), TIMEOUTS),
    (
        Says(Kind::Broken),
        &[
            "failed",
            "reset",
            "aborted",
            "cancelled",
            "canceled",
            "eof",
            "error",
            "exception",
            "lost",
        ],
    ),
    (
        Says(Kind::Answered),
        &[
            "response received",
            "received response",
            "got response",
            "answer received",
            "received answer",
            "got answer",
            "completed",
            "finished",
            "received",
            "answered",
        ],
    ),
    (
        Says(Kind::Asked),
        &["request sent", "sending", "sent", "calling", "requesting", "posting", "request started"],
    ),
];

const SERVER_PHRASES: &[(Meaning, &[&str])] = &[
    (Nothing, &["round", "retry", "still working"]),
    (
        Says(Kind::Failed),
        &["disconnected", "failed", "aborted", "cancelled", "canceled", "error", "exception"],
    ),
    (
        Says(Kind::Sent),
        &[
            "response sent",
            "sent response",
            "answer sent",
            "sent answer",
            "sending response",
            "responded",
            "completed",
            "finished",
            "sent",
            "answered",
        ],
    ),
    (Says(Kind::Part), &["first byte", "first token", "chunk"]),
    (
        Says(Kind::Received),
        &["request received", "received request", "incoming", "accepted", "queued", "received"],
    ),
    (Says(Kind::Started), &["started", "starting", "processing"]),
];

/// What a client's own timer is called in the fields that say why a request ended.
const TIMEOUTS: &[&str] =
    &["timed out", "timeout", "time out", "own timer", "deadline exceeded", "etimedout"];

/// Answers of something between the two, or of a server that has no answer: not what was asked for.
const NO_ANSWER: [u16; 5] = [408, 502, 503, 504, 524];

/// Lower case, with blanks for what joins words.
fn plain(text: &str) -> String {
    text.trim()
        .chars()
        .map(|c| if "_-./".contains(c) { ' ' } else { c.to_ascii_lowercase() })
        .collect()
}

/// What the value of an event field, or a line's text, says.
pub(crate) fn meaning(side: Side, text: &str) -> Option<Meaning> {
    let text = plain(text);
    let (words, phrases) = match side {
        Side::Client => (CLIENT_WORDS, CLIENT_PHRASES),
        Side::Server => (SERVER_WORDS, SERVER_PHRASES),
    };
    let word = words.iter().find(|(_, known)| known.contains(&text.as_str()));
    // One word that is not known is no sentence.
    let sentence = || {
        let has = |phrase: &&str| occurs(&text, phrase);
        phrases.iter().find(|(_, known)| text.contains(' ') && known.iter().any(has))
    };
    word.or_else(sentence).map(|(meaning, _)| *meaning)
}

/// Whether `phrase` stands in `text` as words: "lost" is not in "lostock".
fn occurs(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        let letter = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = text.as_bytes();
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        !letter(before) && !letter(bytes.get(at + phrase.len()))
    })
}

/// `kind` with what else the line says: the HTTP status, and why a request ended.
pub(crate) fn refined<'a>(
    kind: Kind,
    status: Option<u16>,
    mut reasons: impl Iterator<Item = &'a str>,
) -> Kind {
    let no_answer = status.is_some_and(|status| NO_ANSWER.contains(&status));
    match kind {
        Kind::Answered if no_answer => Kind::Broken,
        Kind::Sent if no_answer => Kind::Failed,
        Kind::Broken if reasons.any(is_timeout) => Kind::TimedOut,
        kind => kind,
    }
}

/// Whether a reason names a timer of the client: `own_timer`, `ReadTimeout`, "timed out".
fn is_timeout(reason: &str) -> bool {
    let reason = plain(reason);
    // An answer that tells of another's timer is none of the client's.
    !reason.contains("gateway") && TIMEOUTS.iter().any(|word| reason.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_what_their_side_means() {
        let (client, server) = (Side::Client, Side::Server);
        for (side, text, kind) in [
            (client, "sent", Some(Kind::Asked)),
            (server, "sent", Some(Kind::Sent)),
            (client, "received", Some(Kind::Answered)),
            (server, "RECEIVED", Some(Kind::Received)),
            (server, "request_received", Some(Kind::Received)),
            (client, "ReadTimeout", Some(Kind::TimedOut)),
            (client, "POST /v1/x timed out after 300s", Some(Kind::TimedOut)),
            (client, "sending request to agent", Some(Kind::Asked)),
            (server, "INFO agent - answer sent", Some(Kind::Sent)),
            (client, "the lostock office", None),
            (client, "lostock", None),
            (client, "hello", None),
        ] {
            let expected = kind.map(Meaning::Says);
            assert_eq!(meaning(side, text), expected, "{side:?} {text}");
        }
        assert_eq!(meaning(client, "retry"), Some(Nothing));
        assert_eq!(meaning(client, "retry 2 after a timeout"), Some(Nothing));
    }

    #[test]
    fn reason_and_status_refine_an_end() {
        let kind = |kind, status, reason: &str| refined(kind, status, [reason].into_iter());
        assert_eq!(kind(Kind::Broken, None, "own_timer"), Kind::TimedOut);
        assert_eq!(kind(Kind::Broken, None, "httpx.ReadTimeout"), Kind::TimedOut);
        assert_eq!(kind(Kind::Broken, None, "eof"), Kind::Broken);
        assert_eq!(kind(Kind::Broken, None, "504 Gateway Timeout"), Kind::Broken);
        assert_eq!(kind(Kind::Answered, Some(504), ""), Kind::Broken);
        assert_eq!(kind(Kind::Answered, Some(200), "own_timer"), Kind::Answered);
        assert_eq!(kind(Kind::Sent, Some(503), ""), Kind::Failed);
    }
}
