//! `--svg`: silence and outcome as a bar chart.
//!
//! Written by hand: a chart of some rectangles and texts is shorter than what a plotting library needs around it,
//! and costs no dependency.

use std::fmt::Write as _;

use stillopen_logs::{Analysis, Bin};
use stillopen_model::human;

use super::text;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;
/// Around the bars: above, right, below, left.
const MARGIN: [f64; 4] = [70.0, 20.0, 60.0, 70.0];
/// They can be told apart in print, and by those who see no red or no green.
const ARRIVED: &str = "#4477aa";
const LOST: &str = "#ee6677";

/// The chart, as a whole document.
pub(super) fn draw(analysis: &Analysis) -> String {
    let [top, right, bottom, left] = MARGIN;
    let (width, height) = (WIDTH - left - right, HEIGHT - top - bottom);
    let bins = &analysis.histogram;
    let most = bins.iter().map(|bin| bin.received + bin.lost).max().unwrap_or(0).max(1);
    let end = bins.last().map_or(1.0, |bin| bin.to.as_secs_f64());
    let x = |seconds: f64| left + width * seconds / end;
    let y = |n: f64| top + height * (1.0 - n / float(most));

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let title = escaped(&text::headline(analysis));
    let _ = writeln!(svg, "<text x=\"{left}\" y=\"24\" font-size=\"14\">{title}</text>");
    for (at, colour, word) in [(0.0, ARRIVED, "arrived"), (90.0, LOST, "lost")] {
        let at = left + at;
        let _ = writeln!(
            svg,
            "<rect x=\"{at}\" y=\"38\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"
        );
        let _ = writeln!(svg, "<text x=\"{}\" y=\"48\">{word}</text>", at + 18.0);
    }
    for bin in bins {
        let (from, to) = (x(bin.from.as_secs_f64()), x(bin.to.as_secs_f64()));
        let mut floor = 0.0;
        for (n, colour) in [(bin.received, ARRIVED), (bin.lost, LOST)] {
            let (low, high) = (y(floor), y(floor + float(n)));
            floor += float(n);
            if n > 0 {
                let _ = writeln!(
                    svg,
                    "<rect x=\"{:.1}\" y=\"{high:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
                    from + 1.0,
                    (to - from - 2.0).max(1.0),
                    low - high,
                );
            }
        }
    }
    if let Some(limit) = &analysis.limit {
        let [low, best, high] =
            [limit.low, limit.best, limit.high].map(|time| x(time.as_secs_f64().min(end)));
        let _ = writeln!(
            svg,
            "<rect x=\"{low:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{height}\" fill=\"black\" \
             opacity=\"0.12\"/>\n<line x1=\"{best:.1}\" y1=\"{top}\" x2=\"{best:.1}\" y2=\"{}\" \
             stroke=\"black\" stroke-dasharray=\"4 3\"/>",
            (high - low).max(1.0),
            top + height,
        );
        let label = format!("limit {}s", limit.best.as_secs());
        let _ = writeln!(
            svg,
            "<text x=\"{best:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            top - 6.0
        );
    }
    axes(&mut svg, bins, most, &x);
    svg.push_str("</svg>\n");
    svg
}

fn axes(svg: &mut String, bins: &[Bin], most: u64, x: &impl Fn(f64) -> f64) {
    let [top, right, bottom, left] = MARGIN;
    let floor = HEIGHT - bottom;
    let _ = writeln!(
        svg,
        "<path d=\"M{left} {top}V{floor}H{}\" fill=\"none\" stroke=\"black\"/>",
        WIDTH - right
    );
    let step = bins.len().div_ceil(8).max(1);
    for bin in bins.iter().step_by(step) {
        let at = x(bin.from.as_secs_f64());
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            floor + 18.0,
            human(bin.from)
        );
    }
    for (n, at) in [(0, floor), (most, top)] {
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{n}</text>",
            left - 8.0,
            at + 4.0
        );
    }
    let middle = f64::midpoint(left, WIDTH - right);
    let _ = writeln!(
        svg,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">silence before the answer</text>\n\
         <text x=\"18\" y=\"{}\" text-anchor=\"middle\" transform=\"rotate(-90 18 {1})\">answers</text>",
        HEIGHT - 16.0,
        f64::midpoint(top, floor),
    );
}

#[expect(clippy::cast_precision_loss, reason = "a place on paper")]
fn float(n: u64) -> f64 {
    n as f64
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
