//! Why logs can't be analysed; each says what was tried and what to give instead.

use std::{io, path::PathBuf};

use crate::event::Side;

/// Why there is no analysis.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    /// A file can't be opened or read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// No log at all was named.
    #[error("no log is named: give --client FILE, --server FILE, or both")]
    Nothing,
    /// Standard input can be read once only.
    #[error("standard input (-) is named more than once")]
    StdinTwice,
    /// A file holds nothing.
    #[error("{name} is empty")]
    Empty {
        /// The file.
        name: String,
    },
    /// The format was not recognised.
    #[error("can't tell how {name} is written ({side}): {why}\n  tried: {tried}\n  {hint}")]
    Undetected {
        /// The file.
        name: String,
        /// Its side.
        side: &'static str,
        /// What does not fit.
        why: String,
        /// What was looked for.
        tried: String,
        /// What to give.
        hint: String,
    },
    /// A `--pattern` can't be used.
    #[error("--pattern: {0}")]
    Pattern(String),
    /// The two sides have nothing in common.
    #[error(
        "no request is in both logs: the client's ids are such as {client:?} ({client_field}), the server's \
         such as {server:?} ({server_field}); --id client:FIELD and --id server:FIELD name the right ones"
    )]
    Apart {
        /// An id of the client's log.
        client: String,
        /// Where it is from.
        client_field: String,
        /// An id of the server's.
        server: String,
        /// Where it is from.
        server_field: String,
    },
    /// A log reads as the other side's.
    #[error(
        "these look swapped: {shows}; {hint}. --started, --sent and --received name what its lines say"
    )]
    Swapped {
        /// What shows it.
        shows: String,
        /// What to give.
        hint: String,
    },
    /// One log is given for both sides.
    #[error(
        "{client} and {server} are the same log: the client's is --client, the server's --server; if one file \
         holds both, --pattern client:REGEX and --pattern server:REGEX tell their lines apart"
    )]
    Same {
        /// The client's.
        client: String,
        /// The server's.
        server: String,
    },
    /// A side says nothing of requests.
    #[error("the {}'s log says nothing of any request; {hint}", side.name())]
    NoEvents {
        /// The side.
        side: Side,
        /// What to give.
        hint: &'static str,
    },
    /// More ids than can be kept.
    #[error("the ids of these requests take more than 4 GiB; give the logs of a shorter time")]
    TooMany,
}
