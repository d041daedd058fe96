//! Joins a client's and a server's logs: which answers were sent and never arrived, and the limit that fits.
//!
//! Portable, and no clock: times are the logs' own. Read first: `event.rs` (what a line can say), `analyse.rs`
//! (from both logs to the result) and `analysis.rs` (the result). On the way from bytes to attempts: `source.rs`
//! → `wrapper.rs` → `format/` → `layout.rs`, which `detect.rs` finds → `store/` → `attempts.rs`.
#![forbid(unsafe_code)]

mod analyse;
mod analysis;
mod attempts;
mod bytes;
mod candidates;
mod constant;
mod detect;
mod error;
mod event;
mod fit;
mod format;
mod layout;
mod order;
mod read;
mod shape;
mod silence;
mod skew;
mod source;
mod store;
mod swapped;
mod time;
mod words;
mod wrapper;

pub use analyse::analyse;
pub use analysis::{
    Analysis, BadLine, Between, Bin, Class, Counts, Join, Limit, LogRead, LostRequest, OneSided,
    Timer,
};
pub use candidates::candidates;
pub use error::LogsError;
pub use event::{Millis, Side};
pub use layout::{Named, Overrides};
pub use source::{LONGEST_LINE, Source};
pub use time::stamp;
