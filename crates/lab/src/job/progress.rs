//! The bar on standard error: only on a terminal, and only where the log is not there too.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(documents: usize, shown: bool) -> Self {
        if !shown {
            return Self(ProgressBar::hidden());
        }
        // Hides itself where standard error is no terminal.
        let bar = ProgressBar::new(documents as u64);
        if let Ok(style) =
            ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len} documents{msg}")
        {
            bar.set_style(style);
        }
        // A bar that nobody sees has nothing to tick for.
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_secs(1));
        }
        Self(bar)
    }

    /// A document has its answer, or no attempt left.
    pub(super) fn done(&self) {
        self.0.inc(1);
    }

    pub(super) fn lost(&self, attempts: usize) {
        self.0.set_message(format!(", {attempts} attempts lost"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
