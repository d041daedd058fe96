//! What a long run is at, on a terminal: one line on standard error that goes when something is said.

use std::{
    io::{IsTerminal as _, stderr},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use stillopen_lab::vm::Phase;
use stillopen_model::human;

/// How often it is drawn.
const TICK: Duration = Duration::from_millis(100);

/// The line. It is gone when this is dropped.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// `first`: what is done at first.
    pub(super) fn new(first: &'static str) -> Self {
        if !stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{spinner} {elapsed}  {msg}")
            .expect("the template is a constant");
        let bar = ProgressBar::new_spinner().with_style(style).with_message(first);
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    pub(super) fn show(&self, phase: Phase) {
        self.0.set_message(match phase {
            Phase::Boots => "booting the kernel".to_owned(),
            Phase::Runs(at) => format!("running; the guest's clock is at {}", human(at)),
        });
    }

    /// Writes these bytes, which are not this program's, where the line is. A line of theirs that is not whole yet has
    /// no room for it: then it goes for good.
    pub(super) fn beside(&self, bytes: &[u8], write: impl FnOnce()) {
        if bytes.ends_with(b"\n") {
            self.0.suspend(write);
        } else {
            self.0.finish_and_clear();
            write();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
