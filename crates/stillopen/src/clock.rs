//! The only place of this crate that reads the wall clock or waits.
#![allow(
    clippy::disallowed_methods,
    reason = "a snapshot is stamped, --sample waits, and a run in the lab is timed"
)]

use std::{
    io::{IsTerminal, stderr},
    thread::sleep,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

/// Now, as RFC 3339.
pub(crate) fn now() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}

/// What `work` gives, and how long it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

#[cfg(all(target_os = "linux", not(stillopen_portable)))]
/// A bar of `length` steps; hidden where standard error is no terminal.
pub(crate) fn bar(length: usize, what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} [{wide_bar}] {pos}/{len}")
        .expect("the template is a constant")
        .progress_chars("=> ");
    if stderr().is_terminal() {
        ProgressBar::new(length as u64).with_style(style).with_message(what)
    } else {
        ProgressBar::hidden()
    }
}

/// Waits for `time`, with a bar on a terminal.
pub(crate) fn wait(time: Duration, what: &str) {
    let start = Instant::now();
    if !stderr().is_terminal() {
        sleep(time);
        return;
    }
    let length = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let style = ProgressStyle::with_template("{msg} [{wide_bar}] {eta}")
        .expect("the template is a constant")
        .progress_chars("=> ");
    let bar = ProgressBar::new(length).with_style(style).with_message(what.to_owned());
    while start.elapsed() < time {
        let elapsed = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        bar.set_position(elapsed);
        sleep(Duration::from_millis(100).min(time.saturating_sub(start.elapsed())));
    }
    bar.finish_and_clear();
}
