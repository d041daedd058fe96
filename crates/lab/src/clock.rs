//! The time of day for log lines: the one file of the agent and the job that reads the wall clock.
//!
//! How long something took is tokio's clock everywhere, so that a test can pause and move it.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Where the timestamps of log lines come from.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    /// The system's time of day.
    Wall,
    /// A stated time of day that moves with tokio's clock: virtual time where that one is paused.
    Anchored {
        /// The time of day …
        at: Timestamp,
        /// … at this moment of tokio's clock.
        since: Instant,
    },
}

impl Clock {
    /// A clock that shows `at` now, and moves with tokio's.
    #[must_use]
    pub fn anchored(at: Timestamp) -> Self {
        Self::Anchored { at, since: Instant::now() }
    }

    pub(crate) fn now(self) -> Timestamp {
        match self {
            Self::Wall => wall(),
            Self::Anchored { at, since } => {
                let passed = SignedDuration::try_from(since.elapsed()).unwrap_or_default();
                at.saturating_add(passed).unwrap_or(at)
            }
        }
    }
}

// A service's log carries the time of day, and nobody above can hand it in: it is read per line.
#[allow(clippy::disallowed_methods)]
fn wall() -> Timestamp {
    Timestamp::now()
}
