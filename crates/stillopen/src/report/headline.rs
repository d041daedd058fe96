//! The first line: the answer, and who waits.

use std::{fmt::Write as _, time::Duration};

use stillopen_model::{Expiry, Verdict, Waiting, human};

use super::{Report, words};

/// The first line: the answer.
pub(super) fn headline(report: &Report<'_>) -> String {
    let counts = report.counts;
    let of = words::plural(counts.connections, "connection");
    let of = format!("{of}{}", scope(report));
    if counts.connections == 0 {
        return nothing_to_report(report);
    }
    let is = |n: usize| if n == 1 { "is" } else { "are" };
    if counts.cut == 0 && counts.at_risk == 0 {
        let safe = format!("{} {} safe", words::count(counts.safe), is(counts.safe));
        let unknown = format!("{} {} unknown", words::count(counts.unknown), is(counts.unknown));
        let status = if report.repeat.fail_on_unknown {
            ""
        } else {
            " --fail-on unknown makes that status 1."
        };
        return match (counts.safe, counts.unknown) {
            (_, 0) => format!("Nothing is cut or at risk, of {of}: {safe}."),
            (0, 1) => format!("Not known for {of} whether it is cut.{status}"),
            (0, _) => format!("Not known for any of {of} whether it is cut.{status}"),
            _ => format!(
                "Nothing is known to be cut or at risk, of {of}: {safe}, {unknown}.{status}"
            ),
        };
    }
    let mut answer = match (counts.cut, counts.at_risk) {
        (0, n) => format!("{} {} AT RISK, of {of}.", words::plural(n, "connection"), is(n)),
        (n, 0) => format!("{} {} CUT, of {of}.", words::plural(n, "connection"), is(n)),
        (cut, risk) => format!(
            "{} {} CUT and {} {} at risk, of {of}.",
            words::plural(cut, "connection"),
            is(cut),
            words::count(risk),
            is(risk)
        ),
    };
    answer.push_str(&who_waits(report));
    if counts.cut == 0 && !report.is_trouble(report.repeat.horizon) {
        let _ = write!(answer, " None within {}.", human(report.repeat.horizon));
    }
    answer
}

/// The first line where nothing is known but that there are Services: what is lost if they are behind IPVS.
pub(super) fn services_headline(report: &Report<'_>) -> String {
    let (mut asked, mut next, mut longest) = (0, None, Duration::ZERO);
    let mut all = 0;
    for row in report.assumed.in_trouble() {
        let c = report.row(row).0;
        let cut_in = match report.assumed.trouble(row) {
            Some((Verdict::AtRisk { cut_in }, _)) => cut_in,
            _ => Duration::ZERO,
        };
        all += 1;
        if c.waiting() == Waiting::ForAnswer {
            asked += 1;
            longest = longest.max(c.quiet().unwrap_or_default());
            next = Some(next.map_or(cut_in, |next: Duration| next.min(cut_in)));
        }
    }
    let Some(next) = next else {
        let n = words::plural(all, "connection");
        let is = if all == 1 { "is" } else { "are" };
        return format!(
            "{n} to Services {is} quiet and unprotected. If kube-proxy runs in IPVS mode, it forgets them."
        );
    };
    let quiet = human(longest);
    let silent = match asked {
        1 => format!("1 request to a Service has been silent for {quiet}."),
        n => format!(
            "{} to Services are silent, the longest for {quiet}.",
            words::plural(n, "request")
        ),
    };
    let lost = if next.is_zero() {
        "its answer is lost".to_owned()
    } else {
        format!("its answer is lost unless it comes within {}", human(next))
    };
    let lost = if asked == 1 { lost } else { lost.replacen("its", "the next", 1) };
    format!("{silent} If kube-proxy runs in IPVS mode, {lost}.")
}

/// Who waits for an answer that cannot arrive, or will be lost.
fn who_waits(report: &Report<'_>) -> String {
    let (mut in_vain, mut waiting, mut next) = (0, 0, None);
    let mut before_probe = 0;
    for &row in &report.rows {
        let (c, d) = report.row(row);
        match d.verdict {
            Verdict::Cut { .. } if c.waiting() == Waiting::ForAnswer => in_vain += 1,
            Verdict::AtRisk { .. } if words::is_absent(report.snapshot, c, d) => before_probe += 1,
            Verdict::AtRisk { cut_in } if c.waiting() == Waiting::ForAnswer => {
                waiting += 1;
                let expiry = words::limit(report.snapshot, d).map(|limit| limit.on_expiry);
                let lost = (cut_in, expiry == Some(Expiry::Silent));
                next = Some(next.map_or(lost, |next| lost.min(next)));
            }
            _ => {}
        }
    }
    let before_probe = match before_probe {
        0 => String::new(),
        1 => " 1 loses an answer that comes before its next probe.".into(),
        n => format!(" {} lose answers that come before their next probes.", words::count(n)),
    };
    let waits = match (in_vain, waiting, next) {
        (0, _, None) => String::new(),
        (0, waiting, Some((cut_in, silent))) => {
            let whose = if waiting == 1 {
                "1 client waits: its answer is".to_owned()
            } else {
                format!("{} wait: the first answer is", words::plural(waiting, "client"))
            };
            let told = if silent { " Nobody will be told." } else { "" };
            format!(" {whose} lost if it takes {} longer.{told}", human(cut_in))
        }
        (1, ..) => " 1 client waits for an answer that cannot arrive.".into(),
        (n, ..) => format!(" {} wait for answers that cannot arrive.", words::plural(n, "client")),
    };
    waits + &before_probe
}

/// The answer where there is no row.
pub(super) fn nothing_to_report(report: &Report<'_>) -> String {
    let matches = if report.repeat.filtered { " that matches" } else { "" };
    match read_namespaces(report) {
        0 | 1 => format!("No connection{matches} leaves the network namespace that was read."),
        n => format!(
            "No connection{matches} leaves the {} network namespaces that were read.",
            words::count(n)
        ),
    }
}

/// ` in 63 network namespaces`, where there are several.
fn scope(report: &Report<'_>) -> String {
    match read_namespaces(report) {
        0 | 1 => String::new(),
        n => format!(" in {} network namespaces", words::count(n)),
    }
}

/// How many network namespaces could be read: those that were not are gaps.
fn read_namespaces(report: &Report<'_>) -> usize {
    let namespaces = &report.snapshot.namespaces;
    namespaces.iter().filter(|namespace| namespace.sysctls.is_some()).count()
}
