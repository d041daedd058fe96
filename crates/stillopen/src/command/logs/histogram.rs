//! Silence and outcome, as bars of text.

use std::fmt::Write as _;

use stillopen_logs::Bin;

use crate::report::words::count;

/// Columns of the longest bar.
const BAR: u64 = 56;
/// An answer that arrived, and one that was lost.
const ARRIVED: char = '█';
const LOST: char = '░';

/// A line for each bin, from the first to the last that is not empty.
pub(super) fn lines(bins: &[Bin]) -> String {
    let total = |bin: &Bin| bin.received + bin.lost;
    let most = bins.iter().map(total).max().unwrap_or(0);
    let Some(first) = bins.iter().position(|bin| total(bin) > 0) else { return String::new() };
    let mut text = format!(
        "  {:>12}  {:>9}  {:>7}  {ARRIVED} arrived {LOST} lost\n",
        "SILENT FOR", "ARRIVED", "LOST"
    );
    for bin in &bins[first..] {
        let range = range(bin);
        let (received, lost) = (number(bin.received), number(bin.lost));
        let bars = bar(ARRIVED, bin.received, most) + &bar(LOST, bin.lost, most);
        let line = format!("  {range:>12}  {received:>9}  {lost:>7}  {bars}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// In the largest unit that both ends are whole in.
fn range(bin: &Bin) -> String {
    let (from, to) = (bin.from.as_secs(), bin.to.as_secs());
    let units = [(3600, "h"), (60, "m"), (1, "s")];
    let whole = |&(unit, _): &(u64, _)| from % unit == 0 && to % unit == 0;
    let (unit, name) = units.into_iter().find(whole).unwrap_or((1, "s"));
    format!("{}-{}{name}", from / unit, to / unit)
}

fn number(n: u64) -> String {
    if n == 0 { "-".to_owned() } else { count(usize::try_from(n).unwrap_or(usize::MAX)) }
}

/// What is there is shown, however little it is.
fn bar(of: char, n: u64, most: u64) -> String {
    let length = (u128::from(n) * u128::from(BAR)).div_ceil(u128::from(most.max(1)));
    let length = usize::try_from(length).unwrap_or(0);
    std::iter::repeat_n(of, length).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn bars_are_in_proportion_and_never_too_wide() {
        let bin = |from, received, lost| Bin {
            from: Duration::from_secs(from),
            to: Duration::from_secs(from + 300),
            received,
            lost,
        };
        let text = lines(&[bin(0, 0, 0), bin(300, 4_000_000, 0), bin(600, 1, 1_000_000)]);
        assert_eq!(text.lines().count(), 3);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(text.lines().last().unwrap().ends_with(&format!("█{}", "░".repeat(14))), "{text}");
        assert_eq!(lines(&[]), "");
    }
}
