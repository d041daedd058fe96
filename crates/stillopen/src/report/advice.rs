//! What to do: the fix with its prediction, and as the last line a command.

use stillopen_model::{KeepaliveValues, Missing, Proof, Remedy, Verdict, probes_possible};

use super::{
    Proposal, Repeat, Report,
    table::{WIDTH, wrap},
    words,
};

/// Where the code to paste is.
pub(super) const HOW_TO_SET_IT: &str = "How to, in your client:  stillopen advise --client list\n";

/// What to do, with what it would lead to; the last line is a command. `listed`: the rows of the table.
pub(super) fn advice(report: &Report<'_>, listed: &[u32], text: &mut String) {
    for Proposal { planned, predicted } in &report.proposals {
        // What else can be done stands below its finding.
        let Remedy::EnableKeepalive(values) = planned.remedy else { continue };
        let n = words::plural(planned.connections.len(), "connection");
        let outcome = match predicted {
            Some(after) if after.safe == after.connections => " (predicted: safe)".to_owned(),
            Some(after) => format!(" (predicted: {} safe)", words::count(after.safe)),
            None => String::new(),
        };
        let line = format!(
            "Fix in the program, for {n} at risk{outcome}: on each socket {}.",
            socket_options(values)
        );
        text.push_str(&wrap(&line, 4));
        text.push_str(HOW_TO_SET_IT);
    }
    if report.counts.cut > 0 {
        let n = words::plural(report.counts.cut, "cut connection");
        let proven = |&row: &u32| match report.row(row).1.verdict {
            Verdict::Cut { proof } => proof == Proof::NoEntry,
            _ => true,
        };
        let line = if report.rows.iter().all(proven) {
            format!("No option revives {n}: end the request in the program and send it again.")
        } else {
            format!(
                "If the limit is on their path, no option revives {n}: end the request in the program \
                 and send it again."
            )
        };
        text.push_str(&wrap(&line, 4));
    }
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
    text.push_str(&last_line(&label, &command));
}

/// A command to paste, after what it is for; below it where both are too wide for one line.
pub(super) fn last_line(label: &str, command: &str) -> String {
    let fits = label.len() + command.len() + 2 <= WIDTH;
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
