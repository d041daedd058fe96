//! The report for people: the answer, its numbers, the histogram, what was read, what to do.

use std::{fmt::Write as _, time::Duration};

use stillopen_logs::{Analysis, Class, Counts, Join, LogRead, OneSided, Side};
use stillopen_model::human;

use super::{histogram, next};
use crate::{
    report::{
        table::wrap,
        words::{count, limit_time, plural},
    },
    terminal,
};

/// Where the text of a row begins.
const COLUMN: usize = 16;
/// Lost requests that are listed; `--csv` has all.
const LISTED: usize = 5;
/// From here on the two accounts of a silence differ for a reason.
const DIFFER: Duration = Duration::from_secs(5);

/// All of it.
pub(super) fn report(analysis: &Analysis) -> String {
    let mut text = wrap(&headline(analysis), 2);
    text.push('\n');
    for (label, line) in rows(analysis) {
        text.push_str(&row(label, &line));
    }
    let bars = histogram::lines(&analysis.histogram);
    if !bars.is_empty() {
        text.push('\n');
        text.push_str(&bars);
    }
    text.push_str(&lost(analysis));
    text.push('\n');
    for log in &analysis.logs {
        text.push_str(&log_read(log));
    }
    if analysis.join == Join::Order {
        let line = "these logs have no ids, so lines were put together by order and time. That is weaker: \
                    requests that overlap can be mistaken for each other. --id names the field, if there is one";
        text.push_str(&row("joined", line));
    }
    text.push('\n');
    text.push_str(&next::steps(analysis));
    text
}

/// The answer, in one sentence.
pub(super) fn headline(analysis: &Analysis) -> String {
    let counts = &analysis.counts;
    if let Some(one) = &analysis.one_sided {
        return one_sided_headline(one, analysis);
    }
    let lost = format!("{} of {}", n(counts.lost), answers(counts.sent));
    match (analysis.class, analysis.limit, analysis.client_timer.or(analysis.cap)) {
        (Class::IdleLimit, Some(limit), _) => format!(
            "{lost} never arrived: what is silent for longer than {} is lost.",
            limit_time(limit.best)
        ),
        (Class::ClientTimer, _, Some(timer)) => format!(
            "The client's own timer ended {} after {}, before the answer. No idle limit shows.",
            requests(timer.requests),
            limit_time(timer.after)
        ),
        (Class::DurationCap, _, _) => {
            let cap = analysis.cap.or(analysis.client_timer);
            let after = cap.map(|cap| limit_time(cap.after)).unwrap_or_default();
            let cut = cap.map_or(0, |cap| cap.requests);
            format!(
                "{} cut {after} after being sent: a cap or a timer. No idle limit shows.",
                were(cut)
            )
        }
        (Class::Random, ..) => {
            format!("{lost} never arrived, and no limit explains which: not an idle cut.")
        }
        (Class::None, ..) => {
            format!(
                "Nothing was lost: {} were sent, and all that can be told arrived.",
                answers(counts.sent)
            )
        }
        _ if counts.lost > 0 => {
            format!("{lost} never arrived: not enough requests to say what they have in common.")
        }
        _ => {
            format!("{} in both logs: not enough to tell. None was lost.", requests(counts.matched))
        }
    }
}

fn one_sided_headline(one: &OneSided, analysis: &Analysis) -> String {
    match (one.side, one.repeated_after, one.ended_after) {
        (Side::Server, Some(timer), _) => format!(
            "{} came again to the server, {} after the one before, although it had answered.",
            requests(one.repeated),
            limit_time(timer.after)
        ),
        (_, _, Some(timer)) => format!(
            "{} ended without an answer {} after their start. One log can't tell why.",
            requests(timer.requests),
            limit_time(timer.after)
        ),
        (Side::Client, ..) if one.never_ended > 0 => format!(
            "{} of {} never ended. Whether the answers were sent, the server's log tells.",
            n(one.never_ended),
            requests(one.attempts)
        ),
        (Side::Client, ..) if analysis.client_timer.is_some() => format!(
            "{} of {} got no answer: the client's own timer ended the wait. Only both logs tell why.",
            n(one.attempts - one.answered),
            requests(one.attempts)
        ),
        (side, ..) => format!(
            "{} of {} have an answer, says the {}'s log. What was lost takes both logs to tell.",
            n(one.answered),
            requests(one.attempts),
            side.name()
        ),
    }
}

/// What is known, a label and a line each.
fn rows(analysis: &Analysis) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let Some(one) = &analysis.one_sided {
        rows.push(("requests", one_sided(one)));
    } else {
        rows.push(("requests", outcome(&analysis.counts)));
        rows.extend(others(&analysis.counts));
    }
    if let Some(longest) = analysis.longest_received {
        rows.push(("got through", format!("{}, the longest silence", human(longest.high))));
    }
    if let Some(shortest) = analysis.shortest_lost {
        rows.push(("did not", format!("{}, the shortest silence", human(shortest.high))));
    }
    rows.extend(["limit", ""].into_iter().zip(limit(analysis)));
    rows.extend(accounts(analysis).map(|line| ("accounts", line)));
    rows.extend(client_timer(analysis).map(|line| ("client timer", line)));
    if analysis.counts.lost > 0 {
        let again = match analysis.counts.retried {
            0 => "none was sent again".to_owned(),
            retried => format!("{} of {} sent again", n(retried), n(analysis.counts.lost)),
        };
        let wasted = human(analysis.wasted);
        rows.push(("wasted", format!("{wasted} of the server's work; {again}")));
    }
    if let Some((ahead, uncertainty)) = analysis.skew {
        rows.push(("clocks", clocks(ahead, uncertainty)));
    }
    rows
}

fn outcome(counts: &Counts) -> String {
    format!(
        "{} in both logs; {} sent, {} received, {} lost",
        n(counts.matched),
        answers(counts.sent),
        n(counts.received),
        n(counts.lost)
    )
}

fn one_sided(one: &OneSided) -> String {
    let mut line = format!(
        "{}, {} answered, {} without an end",
        n(one.attempts),
        n(one.answered),
        n(one.never_ended)
    );
    if let Some(longest) = one.longest_answered {
        let _ = write!(line, "; the longest answered took {}", human(longest));
    }
    if one.repeated > 0 {
        let _ = write!(line, "; {} came again after their answer", n(one.repeated));
    }
    line
}

/// What is neither answered nor lost: each its own line, and none where there is none.
fn others(counts: &Counts) -> Vec<(&'static str, String)> {
    let lines = [
        (counts.too_late, "too late", "of the lost were sent when the client had stopped waiting"),
        (counts.no_answer, "no answer", "ended at the client, and the server never sent an answer"),
        (counts.open, "open", "have no end in either log"),
        (
            counts.unseen,
            "not seen",
            "were answered when the client's log ended: it died, or the log is cut",
        ),
        (
            counts.answered_by_other,
            "answered",
            "have an answer that the server's log does not know of",
        ),
        (counts.client_only, "client only", "are not in the server's log"),
        (counts.server_only, "server only", "are not in the client's log"),
        (counts.duplicates, "said twice", "lines say again what another one says"),
    ];
    let shown = lines.into_iter().filter(|(number, ..)| *number > 0);
    shown.map(|(number, label, what)| (label, format!("{} {what}", n(number)))).collect()
}

fn limit(analysis: &Analysis) -> Vec<String> {
    let Some(limit) = analysis.limit else { return Vec::new() };
    let of = analysis.counts.received + analysis.counts.lost - analysis.counts.too_late;
    let explained = match limit.contradictions() {
        0 => format!("all {} answers agree", n(of)),
        _ => format!(
            "{} of {} answers contradict it ({} lost sooner, {} arrived later)",
            n(limit.contradictions()),
            n(of),
            n(limit.lost_below),
            n(limit.arrived_above)
        ),
    };
    let fits = format!(
        "{} fits ({:.1}s to {:.1}s); {explained}",
        limit_time(limit.best),
        limit.low.as_secs_f64(),
        limit.high.as_secs_f64()
    );
    let slack = format!(
        "a kernel's timer may be late: by up to {:.1}s at 250 ticks a second, which this allows for; by up to \
         {:.0}s at other usual rates, so on a kernel of unknown rate it may be as low as {:.0}s",
        limit.slack.as_secs_f64(),
        limit.slack_worst.as_secs_f64(),
        limit.low.saturating_sub(limit.slack_worst.saturating_sub(limit.slack)).as_secs_f64()
    );
    vec![fits, slack]
}

/// The two accounts of the lost request that the server thinks the quickest, where they differ.
fn accounts(analysis: &Analysis) -> Option<String> {
    let waiting = analysis.lost.iter().filter(|lost| !lost.too_late);
    let both = waiting.filter_map(|lost| {
        let silent = lost.silent?;
        Some((lost, lost.server_took.unwrap_or(silent.low), silent.high))
    });
    let (lost, took, silent) = both.min_by_key(|(_, took, _)| *took)?;
    (silent.saturating_sub(took) > DIFFER).then(|| {
        format!(
            "the server's own log puts {} at {}; the wire was silent for {}: the server counts from the start of \
             its work, the network from the request",
            lost.id,
            human(took),
            human(silent)
        )
    })
}

fn client_timer(analysis: &Analysis) -> Option<String> {
    let timer = analysis.client_timer?;
    let time = limit_time(timer.after);
    let cut = match analysis.limit {
        Some(limit) => format!("; the cut is at {}", limit_time(limit.best)),
        None => String::new(),
    };
    Some(format!(
        "{time} is your client's own timer ({} ended then){cut}",
        requests(timer.requests)
    ))
}

fn clocks(ahead: i64, uncertainty: i64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "seconds are shown")]
    let seconds = |ms: i64| ms as f64 / 1000.0;
    let by = match ahead {
        0 => "agree".to_owned(),
        ahead if ahead > 0 => format!("the server's is {:.3}s ahead", seconds(ahead)),
        ahead => format!("the client's is {:.3}s ahead", seconds(-ahead)),
    };
    format!("{by}, within {:.3}s; taken into account", seconds(uncertainty))
}

fn lost(analysis: &Analysis) -> String {
    if analysis.lost.is_empty() {
        return String::new();
    }
    let shown = analysis.lost.iter().take(LISTED).map(|lost| {
        let attempt =
            if lost.attempt > 0 { format!(" attempt {}", lost.attempt) } else { String::new() };
        let silent = lost.silent.map_or_else(|| "?".to_owned(), |silent| human(silent.high));
        format!("{}{attempt} ({silent})", lost.id)
    });
    let mut line = shown.collect::<Vec<_>>().join(", ");
    if analysis.lost.len() > LISTED {
        let more = count(analysis.lost.len() - LISTED);
        let _ = write!(line, ", … {more} more (--csv FILE has all)");
    }
    format!("\n{}", row("lost", &line))
}

fn log_read(log: &LogRead) -> String {
    let line = format!(
        "{}: {}; {} lines, {} of requests",
        log.name,
        log.layout,
        n(log.lines),
        n(log.events)
    );
    let mut text = row(log.side.name(), &line);
    if let Some(why) = &log.cut_off {
        text += &row("", &format!("it is cut off ({why}): what was before the cut was read"));
    }
    if log.unreadable > 0 {
        text += &row("", &format!("{} could not be read, such as", lines(log.unreadable)));
        for bad in &log.first_unreadable {
            text += &shortened(&format!("{:COLUMN$}{}: {}", "", bad.line, bad.text));
        }
    }
    text
}

/// A line of a file, as much of it as fits.
fn shortened(line: &str) -> String {
    let mut shown: String = line.chars().take(terminal::text_columns() - 1).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    shown + "\n"
}

/// A label and a text beside it.
pub(super) fn row(label: &str, text: &str) -> String {
    // Blanks before the text would be lost at the line's start.
    let text = wrap(&format!("{}{text}", " ".repeat(COLUMN)), COLUMN);
    format!("  {label:<width$}{}", &text[COLUMN..], width = COLUMN - 2)
}

fn n(number: u64) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX))
}

fn answers(number: u64) -> String {
    plural(usize::try_from(number).unwrap_or(usize::MAX), "answer")
}

fn requests(number: u64) -> String {
    plural(usize::try_from(number).unwrap_or(usize::MAX), "request")
}

fn were(number: u64) -> String {
    let verb = if number == 1 { "was" } else { "were" };
    format!("{} {verb}", requests(number))
}

fn lines(number: u64) -> String {
    plural(usize::try_from(number).unwrap_or(usize::MAX), "line")
}
