//! How wide a line of output may be: the only place that asks the terminal.

use std::{env, io, sync::OnceLock};

/// The widest line of a text: longer ones are hard to read.
pub(crate) const WIDTH: usize = 100;
/// What is narrower breaks lines that were fitted, too.
const NARROWEST: usize = 60;

/// How many columns a table may have: those of the terminal; where standard output is none, of `COLUMNS`, as
/// the help has it, and without it any number: what reads a pipe has no use for a part of a word.
pub(crate) fn columns() -> usize {
    static COLUMNS: OnceLock<usize> = OnceLock::new();
    *COLUMNS.get_or_init(|| {
        let terminal = terminal_size::terminal_size_of(io::stdout());
        let of_terminal = terminal.map(|(width, _)| usize::from(width.0));
        let given = || env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        of_terminal
            .or_else(given)
            .filter(|&columns| columns > 0)
            .unwrap_or(usize::MAX)
            .max(NARROWEST)
    })
}

/// How many columns a line of text may have.
pub(crate) fn text_columns() -> usize {
    columns().min(WIDTH)
}
