//! A plain table as wide as the terminal: cells are shortened, numbers and verdicts never.

use crate::terminal;

const GAP: usize = 2;

/// Words of a cell that is broken at blanks are not shortened further.
const SHORTEST_WORD: usize = 10;

/// The longest IPv4 address with its port: an address that was cut in the middle names nothing.
pub(crate) const ADDRESS: usize = "255.255.255.255:65535".len();

/// What others chose (a command's name, an id in a file) does not command the terminal: control characters
/// and those that turn the direction of writing are shown as `?`.
pub(crate) fn printable(text: &str) -> String {
    let shown = |c: char| {
        let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns { '?' } else { c }
    };
    text.chars().map(shown).collect()
}

/// How a column behaves when the table is too wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shrink {
    /// It is shown whole.
    Never,
    /// It may be shortened, down to so many columns.
    To(usize),
    /// It is broken at blanks; words are shortened where that is not enough, down to 10 columns.
    Wrap,
    /// The same as [`Shrink::To`], where shortening the others is not enough.
    LastTo(usize),
}

impl Shrink {
    /// Whether a column of `width` may lose one more in this round. `word`: its longest one.
    fn allows(self, width: usize, word: usize, last_resort: bool) -> bool {
        match self {
            Self::Never => false,
            Self::To(least) => width > least,
            Self::Wrap => width > if last_resort { word.min(SHORTEST_WORD) } else { word },
            Self::LastTo(least) => last_resort && width > least,
        }
    }
}

/// A column: its head and how it behaves.
pub(crate) struct Column {
    pub(crate) head: &'static str,
    pub(crate) shrink: Shrink,
    pub(crate) right: bool,
}

/// Lays out `rows` below the heads of `columns`; each line starts with two blanks.
pub(crate) fn lay_out(columns: &[Column], rows: &[Vec<String>]) -> String {
    lay_out_within(terminal::columns(), columns, rows)
}

/// The same where `most` columns fit.
fn lay_out_within(most: usize, columns: &[Column], rows: &[Vec<String>]) -> String {
    let widths = widths(most, columns, rows);
    let heads: Vec<String> = columns.iter().map(|column| column.head.to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(&heads).chain(rows) {
        let cells = row.iter().zip(columns).zip(&widths);
        let cells: Vec<Vec<String>> =
            cells.map(|((cell, column), width)| broken(cell, column, *width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            text.push_str(line_of(line, columns, &widths, &cells).trim_end());
            text.push('\n');
        }
    }
    text
}

/// Line number `line` of a row whose cells may have several.
fn line_of(line: usize, columns: &[Column], widths: &[usize], cells: &[Vec<String>]) -> String {
    let mut text = String::new();
    for ((cell, column), width) in cells.iter().zip(columns).zip(widths) {
        text.push_str(&" ".repeat(GAP));
        let cell = cell.get(line).map_or("", String::as_str);
        let fill = " ".repeat(width.saturating_sub(cell.chars().count()));
        if column.right {
            text.push_str(&fill);
            text.push_str(cell);
        } else {
            text.push_str(cell);
            text.push_str(&fill);
        }
    }
    text
}

/// The lines of a cell that is `width` wide.
fn broken(cell: &str, column: &Column, width: usize) -> Vec<String> {
    if column.shrink != Shrink::Wrap || cell.chars().count() <= width {
        return vec![shorten(cell, width)];
    }
    wrap_within(width, cell, 0).lines().map(|line| shorten(line, width)).collect()
}

/// The width of each column, less than its natural one where the sum is too much: the widest first.
fn widths(most: usize, columns: &[Column], rows: &[Vec<String>]) -> Vec<usize> {
    let mut widths = natural_widths(columns, rows);
    let words = longest_words(columns, rows);
    let mut total = total_width(&widths);
    while total > most {
        let widest = |last: bool| {
            let can = |&i: &usize| columns[i].shrink.allows(widths[i], words[i], last);
            (0..columns.len()).filter(can).max_by_key(|&i| widths[i])
        };
        let Some(widest) = widest(false).or_else(|| widest(true)) else { break };
        widths[widest] -= 1;
        total -= 1;
    }
    widths
}

fn natural_widths(columns: &[Column], rows: &[Vec<String>]) -> Vec<usize> {
    let width = |(i, column): (usize, &Column)| {
        let cells = rows.iter().map(|row| row[i].chars().count());
        cells.chain([column.head.chars().count()]).max().unwrap_or(0)
    };
    columns.iter().enumerate().map(width).collect()
}

fn longest_words(columns: &[Column], rows: &[Vec<String>]) -> Vec<usize> {
    let longest = |text: &str| text.split_whitespace().map(|word| word.chars().count()).max();
    let word = |(i, column): (usize, &Column)| {
        let cells = rows.iter().filter_map(|row| longest(&row[i]));
        cells.chain([column.head.chars().count()]).max().unwrap_or(0)
    };
    columns.iter().enumerate().map(word).collect()
}

/// Whether nothing has to be shortened.
pub(crate) fn fits(columns: &[Column], rows: &[Vec<String>]) -> bool {
    total_width(&natural_widths(columns, rows)) <= terminal::columns()
}

fn total_width(widths: &[usize]) -> usize {
    widths.iter().map(|width| width + GAP).sum()
}

/// Cuts out of the middle: names differ at their ends, and a process id stands last.
fn shorten(cell: &str, width: usize) -> String {
    let length = cell.chars().count();
    if length <= width {
        return cell.to_owned();
    }
    let tail = width.saturating_sub(1).div_ceil(2);
    let head = width.saturating_sub(1) - tail;
    let kept = |(i, c)| (i < head || i >= length - tail).then_some(c);
    let mut chars: Vec<char> = cell.chars().enumerate().filter_map(kept).collect();
    chars.insert(head, '…');
    chars.into_iter().collect()
}

/// Breaks `text` into lines that fit, those after the first indented by `indent`; the first keeps its own.
pub(crate) fn wrap(text: &str, indent: usize) -> String {
    wrap_within(terminal::text_columns(), text, indent)
}

/// The same where `most` columns fit.
fn wrap_within(most: usize, text: &str, indent: usize) -> String {
    let start = text.len() - text.trim_start().len();
    let mut lines = vec![" ".repeat(start)];
    let mut used = start;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        let line = lines.last_mut().expect("there is always a line");
        if line.trim_start().is_empty() {
            line.push_str(word);
            used += length;
        } else if used + 1 + length > most {
            lines.push(" ".repeat(indent) + word);
            used = indent + length;
        } else {
            line.push(' ');
            line.push_str(word);
            used += 1 + length;
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_takes_the_width_that_there_is_and_no_more() {
        let columns = [
            Column { head: "QUIET", shrink: Shrink::Never, right: true },
            Column { head: "WHO", shrink: Shrink::To(7), right: false },
            Column { head: "PEER", shrink: Shrink::To(20), right: false },
        ];
        let rows = [vec!["11m07s".into(), "w".repeat(90), "p".repeat(60)]];
        for most in [60, 80, 100] {
            let table = lay_out_within(most, &columns, &rows);
            let widest = table.lines().map(|line| line.chars().count()).max();
            assert_eq!(widest, Some(most), "{table}");
        }
        let whole = lay_out_within(200, &columns, &rows);
        assert!(!whole.contains('…'), "{whole}");
    }

    #[test]
    fn nothing_that_others_chose_commands_the_terminal() {
        assert_eq!(printable("a\u{1b}]0;b\u{7}\n\u{202e}ü界"), "a?]0;b???ü界");
    }

    #[test]
    fn cells_are_broken_at_blanks_before_a_word_is_cut() {
        let columns = [
            Column { head: "WHO", shrink: Shrink::Wrap, right: false },
            Column { head: "VERDICT", shrink: Shrink::Wrap, right: false },
        ];
        let rows = [vec!["python3 (7325)".into(), "unknown: no limit".into()]];
        let table = lay_out_within(22, &columns, &rows);
        assert_eq!(table, "  WHO        VERDICT\n  python3    unknown:\n  (7325)     no limit\n");
    }

    #[test]
    fn the_longest_usual_row_of_a_rescue_fits_into_80_columns_uncut() {
        let cells = [
            ("QUIET", "11m02s", Shrink::Never),
            ("KEEPALIVE", "7200/75/9 -> 60/30/3", Shrink::Wrap),
            ("WHO", "python3 (7325)", Shrink::Wrap),
            ("PEER", "255.255.255.255:65535", Shrink::LastTo(ADDRESS)),
            ("VERDICT", "unknown: no limit", Shrink::Wrap),
            ("WOULD BE", "safe if in time", Shrink::Wrap),
        ];
        let columns = cells.map(|(head, _, shrink)| Column { head, shrink, right: false });
        let table = lay_out_within(80, &columns, &[cells.map(|(_, cell, _)| cell.into()).to_vec()]);
        assert!(!table.contains('…'), "{table}");
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    }

    #[test]
    fn a_long_cell_keeps_both_its_ends() {
        assert_eq!(shorten("mining-extract-7xk", 18), "mining-extract-7xk");
        assert_eq!(shorten("mining-extract-7xk", 12), "minin…ct-7xk");
        assert_eq!(shorten("python3 (4711)", 10), "pyth…4711)");
    }

    #[test]
    fn text_is_wrapped_at_words() {
        for most in [60, 80, 100] {
            let text = wrap_within(most, &"word ".repeat(60), 4);
            assert!(text.lines().all(|line| line.chars().count() <= most));
            assert!(text.lines().nth(1).unwrap().starts_with("    word"));
        }
        assert_eq!(wrap_within(80, "  a b", 4), "  a b\n");
    }
}
