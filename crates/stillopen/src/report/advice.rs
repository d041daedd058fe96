//! What to do: the fix with its prediction, and as the last line a command.

use std::fmt::Write as _;

use stillopen_model::{
    DEFAULT_KEEPALIVE, KeepaliveValues, Missing, Proof, Remedy, Verdict, probes_possible,
};

use super::{Proposal, Repeat, Report, table::wrap, text::SHORTEST_COMMON_LIMIT, words};
use crate::terminal;

/// The label of a step is as wide as the widest of them.
const STEP: usize = "How to, in your client:".len();

/// Where the code to paste is, and what needs none, for these connections: what they are to get.
pub(super) fn how_to_set_it(report: &Report<'_>, advised: &[(u32, KeepaliveValues)]) -> String {
    // Where two are advised, the tighter ones do for both.
    let Some(values) = advised.iter().map(|advised| advised.1).min_by_key(|values| values.idle)
    else {
        return String::new();
    };
    let mut how_to = "How to, in your client:  stillopen advise --client list\n".to_owned();
    let stubborn = advised.iter().filter(|(row, _)| !run_mends(report, *row, values)).count();
    if stubborn < advised.len() {
        let given = match values {
            DEFAULT_KEEPALIVE => String::new(),
            values => format!(" --keepalive {values}"),
        };
        let _ = writeln!(how_to, "Or start it with that:   stillopen run{given} -- CMD");
    }
    let whom = match (stubborn, advised.len() - stubborn) {
        (0, _) => return how_to,
        (1, 0) => "this one".to_owned(),
        (_, 0) => "these".to_owned(),
        (n, _) => format!("{} of them", words::count(n)),
    };
    let line = format!(
        "`stillopen run` can't mend {whom}: the program sets values of its own, and what it sets wins. \
         Change them there."
    );
    how_to + &wrap(&line, 4)
}

/// Whether the program's connection would be refreshed in time if it were started with `values`.
fn run_mends(report: &Report<'_>, row: u32, values: KeepaliveValues) -> bool {
    let (c, d) = report.row(row);
    let namespace = report.snapshot.namespace(c.netns);
    let Some(sysctls) = namespace.and_then(|namespace| namespace.sysctls) else { return true };
    let limit = words::limit(report.snapshot, d).map(|limit| limit.timeout_of(c));
    let limit = limit.unwrap_or(SHORTEST_COMMON_LIMIT);
    c.keepalive.over(values, sysctls).latest_refresh(report.snapshot.host.hz) < limit
}

/// What to do, with what it would lead to; the last line is a command. `listed`: the rows of the table.
pub(super) fn advice(report: &Report<'_>, listed: &[u32], text: &mut String) {
    let mut cut = report.counts.cut;
    let mut advised: Vec<(u32, KeepaliveValues)> = Vec::new();
    for Proposal { planned, predicted } in &report.proposals {
        let n = planned.connections.len();
        match planned.remedy {
            Remedy::EnableKeepalive(values) => {
                let outcome = match predicted {
                    Some(after) if after.safe == after.connections => {
                        " (predicted: safe)".to_owned()
                    }
                    Some(after) => format!(" (predicted: {} safe)", words::count(after.safe)),
                    None => String::new(),
                };
                let is_cut =
                    |row: &&u32| matches!(report.row(**row).1.verdict, Verdict::Cut { .. });
                cut -= planned.connections.iter().filter(is_cut).count();
                let line = format!(
                    "Fix in the program, for {}{outcome}: on each socket {}.",
                    words::plural(n, "connection"),
                    socket_options(values)
                );
                text.push_str(&wrap(&line, 4));
                advised.extend(planned.connections.iter().map(|&row| (row, values)));
            }
            Remedy::SendAgain(values) => {
                cut -= n;
                let keepalive = format!("; on its new socket {}", socket_options(values));
                text.push_str(&wrap(
                    &not_revived(report, planned.connections.iter(), &keepalive),
                    4,
                ));
                advised.extend(planned.connections.iter().map(|&row| (row, values)));
            }
            // What else can be done stands below its finding.
            Remedy::SendPayload | Remedy::CloseInProgram => {}
        }
    }
    if cut > 0 {
        text.push_str(&wrap(&not_revived(report, report.rows.iter(), ""), 4));
    }
    text.push_str(&how_to_set_it(report, &advised));
    let has_more = rescue(report, text) || !advised.is_empty();
    let peer_may_probe = listed.iter().any(|&row| {
        let (c, d) = report.row(row);
        match d.verdict {
            Verdict::Unknown { missing } => missing == Missing::PeerKeepalive,
            Verdict::AtRisk { .. } => probes_possible(c).is_some_and(|possible| possible > 0),
            Verdict::Safe { .. } | Verdict::Cut { .. } => false,
        }
    });
    let Repeat { options, from, sampled, .. } = &report.repeat;
    let (label, command) = if peer_may_probe && !sampled {
        // A saved snapshot can't be looked at a second time.
        let there = if from.is_empty() { "" } else { " on that host" };
        (
            format!("Watch for the peers' probes{there}:"),
            format!("stillopen check{options} --sample 30s"),
        )
    } else {
        ("Look again:".into(), format!("stillopen check{options}{from}"))
    };
    // In one column with what stands above it.
    let width = if has_more { STEP } else { 0 };
    text.push_str(&last_line(&format!("{label:width$}"), &command));
}

/// What can be done now, on this host; each of the commands says what it would do, and does it with `--apply`.
/// Whether it says anything.
fn rescue(report: &Report<'_>, text: &mut String) -> bool {
    let Repeat { chosen, from, .. } = &report.repeat;
    if !from.is_empty() {
        return false;
    }
    let enables = |proposal: &Proposal| {
        matches!(proposal.planned.remedy, Remedy::EnableKeepalive(_))
            && proposal
                .planned
                .connections
                .iter()
                .any(|&row| matches!(report.row(row).1.verdict, Verdict::AtRisk { .. }))
    };
    let enables = report.proposals.iter().any(enables);
    if enables {
        let command = format!("stillopen rescue{chosen} --at-risk");
        text.push_str(&last_line(&format!("{:STEP$}", "Save what is open now:"), &command));
    }
    if report.counts.cut > 0 {
        let command = format!("stillopen rescue{chosen} --close-dead");
        text.push_str(&last_line(&format!("{:STEP$}", "End what is cut:"), &command));
    }
    enables || report.counts.cut > 0
}

/// What to do about those of `rows` that are cut.
fn not_revived<'a>(
    report: &Report<'_>,
    rows: impl Iterator<Item = &'a u32>,
    keepalive: &str,
) -> String {
    let proofs = rows.filter_map(|&row| match report.row(row).1.verdict {
        Verdict::Cut { proof } => Some(proof),
        _ => None,
    });
    let proofs: Vec<Proof> = proofs.collect();
    let n = words::plural(proofs.len(), "cut connection");
    let proven = proofs.iter().all(|&proof| proof == Proof::NoEntry);
    let if_right = if proven { "No option" } else { "If the limit is on their path, no option" };
    format!("{if_right} revives {n}: end the request in the program and send it again{keepalive}.")
}

/// The same for several, the commands below each other.
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub(crate) fn last_lines(steps: &[(&str, String)]) -> String {
    let width = steps.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    steps.iter().map(|(label, command)| last_line(&format!("{label:width$}"), command)).collect()
}

/// A command to paste, after what it is for; below it where both are too wide for one line.
pub(crate) fn last_line(label: &str, command: &str) -> String {
    let fits = label.len() + command.len() + 2 <= terminal::text_columns();
    format!("{label}{}{command}\n", if fits { "  " } else { "\n  " })
}

/// The socket options for these values, in the order that probes a quiet connection at once.
pub(super) fn socket_options(values: KeepaliveValues) -> String {
    format!(
        "set TCP_KEEPINTVL {}, TCP_KEEPCNT {}, SO_KEEPALIVE 1, TCP_KEEPIDLE {}",
        values.interval.as_secs(),
        values.count,
        values.idle.as_secs()
    )
}
