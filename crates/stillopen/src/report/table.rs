//! A plain table of at most 100 columns: cells are shortened, numbers and verdicts never.

/// The widest line of any output.
pub(crate) const WIDTH: usize = 100;

const GAP: usize = 2;

/// How a column behaves when the table is too wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shrink {
    /// It is shown whole.
    Never,
    /// It may be shortened, down to so many columns.
    To(usize),
}

/// A column: its head and how it behaves.
pub(crate) struct Column {
    pub(crate) head: &'static str,
    pub(crate) shrink: Shrink,
    pub(crate) right: bool,
}

/// Lays out `rows` below the heads of `columns`; each line starts with two blanks.
pub(crate) fn lay_out(columns: &[Column], rows: &[Vec<String>]) -> String {
    let widths = widths(columns, rows);
    let heads: Vec<String> = columns.iter().map(|column| column.head.to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(&heads).chain(rows) {
        let mut line = String::new();
        for ((cell, column), width) in row.iter().zip(columns).zip(&widths) {
            line.push_str(&" ".repeat(GAP));
            let cell = shorten(cell, *width);
            let fill = " ".repeat(width.saturating_sub(cell.chars().count()));
            if column.right {
                line.push_str(&fill);
                line.push_str(&cell);
            } else {
                line.push_str(&cell);
                line.push_str(&fill);
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The natural width of each column, shortened where the sum is too much: the widest first.
fn widths(columns: &[Column], rows: &[Vec<String>]) -> Vec<usize> {
    let mut widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(i, column)| {
            let cells = rows.iter().map(|row| row[i].chars().count());
            cells.chain([column.head.chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let mut total: usize = widths.iter().map(|width| width + GAP).sum();
    while total > WIDTH {
        let widest = (0..columns.len())
            .filter(|&i| matches!(columns[i].shrink, Shrink::To(least) if widths[i] > least))
            .max_by_key(|&i| widths[i]);
        let Some(widest) = widest else { break };
        widths[widest] -= 1;
        total -= 1;
    }
    widths
}

fn shorten(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell.to_owned();
    }
    let kept: String = cell.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// Breaks `text` into lines of at most [`WIDTH`] columns, those after the first indented by `indent`; the
/// first keeps its own.
pub(crate) fn wrap(text: &str, indent: usize) -> String {
    let start = text.len() - text.trim_start().len();
    let mut lines = vec![" ".repeat(start)];
    let mut used = start;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        let line = lines.last_mut().expect("there is always a line");
        if line.trim_start().is_empty() {
            line.push_str(word);
            used += length;
        } else if used + 1 + length > WIDTH {
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
    fn a_table_is_never_wider_than_its_width() {
        let columns = [
            Column { head: "QUIET", shrink: Shrink::Never, right: true },
            Column { head: "WHO", shrink: Shrink::To(7), right: false },
            Column { head: "PEER", shrink: Shrink::To(20), right: false },
        ];
        let rows = [vec!["11m07s".into(), "w".repeat(90), "p".repeat(60)]];
        for line in lay_out(&columns, &rows).lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }

    #[test]
    fn text_is_wrapped_at_words() {
        let text = wrap(&"word ".repeat(60), 4);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
        assert!(text.lines().nth(1).unwrap().starts_with("    word"));
        assert_eq!(wrap("  a b", 4), "  a b\n");
    }
}
