//! The only file of these tests that reads the clock or pauses.
#![allow(
    clippy::disallowed_methods,
    reason = "real time is the subject: a connection must have been quiet for so long"
)]

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

/// Between two looks; it decides nothing but how soon the change is noticed.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks until `look` sees it, and fails when that takes longer than `at_most`.
#[track_caller]
pub(crate) fn wait_until<T>(
    what: &str,
    at_most: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(start.elapsed() < at_most, "{what}: not within {at_most:?}");
        sleep(PAUSE);
    }
}
