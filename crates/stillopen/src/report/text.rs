//! The report for people: the answer first, then the rows with their evidence, then what to do.

use std::{
    collections::BinaryHeap,
    fmt::{self, Write as _},
    time::Duration,
};

use stillopen_model::{
    Connection, DEFAULT_KEEPALIVE, Diagnosis, Direction, Evidence, Expiry, Finding, Gap, IdleLimit,
    Missing, Refresh, Selector, Snapshot, Verdict, human,
};

use super::{
    Report,
    advice::{advice, how_to_set_it, socket_options},
    assumed,
    headline::{headline, nothing_to_report, services_headline},
    table::{self, ADDRESS, Column, Shrink, lay_out, printable, wrap},
    words,
};

/// How many rows are listed without `--all`.
const ROWS_SHOWN: usize = 20;

/// How many verdicts are explained in the text; the JSON output explains each.
const REASONS_SHOWN: usize = 4;

/// The source of the gap that says that there is no IPVS; one that could be closed has a way.
const NO_IPVS: &str = "ipvs";

/// How many addresses of a limit are listed.
const NAMES_SHOWN: usize = 4;

/// Limits that are met most often, with whose they are: what would cut a connection on an unknown path.
const COMMON_LIMITS: [(u64, &str); 5] = [
    (240, "Azure LB"),
    (350, "AWS NAT gateway/NLB"),
    (600, "GCP"),
    (900, "Kubernetes IPVS"),
    (3600, "firewalls"),
];

/// The shortest of [`COMMON_LIMITS`].
pub(super) const SHORTEST_COMMON_LIMIT: Duration = Duration::from_secs(COMMON_LIMITS[0].0);

/// Writes the report, in lines that fit.
pub(crate) fn render(report: &Report<'_>, all: bool) -> String {
    let mut text = String::new();
    let result = if report.snapshot.limits.is_empty() {
        if report.assumed.in_trouble().next().is_some() {
            to_services(report, all, &mut text)
        } else {
            without_limits(report, all, &mut text)
        }
    } else {
        with_limits(report, all, &mut text)
    };
    result.expect("writing to a string does not fail");
    text
}

/// The common case on a laptop: no limit is known, so nothing is called cut or safe.
fn without_limits(report: &Report<'_>, all: bool, text: &mut String) -> fmt::Result {
    if report.rows.is_empty() {
        writeln!(text, "{}", nothing_to_report(report))?;
        left_out_and_gaps(report, text);
        return writeln!(text, "What forgets a quiet one:  stillopen limits --catalogue");
    }
    let listed = |row: &u32| !is_refreshed(report, *row, SHORTEST_COMMON_LIMIT);
    let unread = |row: &u32| keepalive_unread(report.row(*row).0);
    let n = report.rows.iter().filter(|row| listed(row)).count();
    let unread = report.rows.iter().filter(|row| listed(row) && unread(row)).count();
    let of = report.rows.len();
    let unread_too = match unread {
        0 => String::new(),
        unread => format!("; the keepalive of {} could not be read", words::count(unread)),
    };
    let answer = format!(
        "No idle limit is known here, so nothing is called cut or safe. {} of {} {} \
         unprotected{unread_too}.",
        words::count(n - unread),
        words::plural(of, "connection"),
        if n - unread == 1 { "is" } else { "are" }
    );
    text.push_str(&wrap(&answer, 0));
    read_how(report, text);

    let rows = report.rows.iter().copied().filter(|row| all || listed(row));
    let rows = first(rows, most_shown(all), |row| std::cmp::Reverse(report.row(row).0.quiet()));
    listing(report, &rows, if all { of } else { n }, Last::CommonLimits, text)?;
    if !all && of > n {
        let rest = report.rows.iter().filter(|row| !listed(row));
        let slowest = rest.filter_map(|&row| refreshed_every(report, report.row(row).0)).max();
        let slowest = human(slowest.unwrap_or_default() + Duration::from_secs(1));
        let more = words::count(of - n);
        let line = format!(
            "  … {more} more {} refreshed in time for every limit above {slowest} (--all lists them).",
            if of - n == 1 { "is" } else { "are" }
        );
        text.push_str(&wrap(&line, 4));
    }
    let legend: Vec<String> =
        COMMON_LIMITS.iter().map(|(limit, whose)| format!("{limit} {whose}")).collect();
    writeln!(text)?;
    text.push_str(&wrap(&format!("Cut under: {}.", legend.join(", ")), 4));
    findings(report, text);
    left_out_and_gaps(report, text);
    if n > 0 {
        let options = socket_options(DEFAULT_KEEPALIVE);
        text.push_str(&wrap(&format!("Fix in the program: on each socket {options}."), 4));
        let advised = report.rows.iter().filter(|row| listed(row));
        let advised: Vec<_> = advised.map(|&row| (row, DEFAULT_KEEPALIVE)).collect();
        text.push_str(&how_to_set_it(report, &advised));
    }
    writeln!(
        text,
        "Which is yours?  stillopen limits --catalogue aws               look it up\n\
         \x20                stillopen logs --client a.log --server b.log   you have logs\n\
         \x20                stillopen check --limit aws-nat-gateway        you know it"
    )
}

/// In a pod, where kube-proxy's mode can't be read: what is lost if it is IPVS.
fn to_services(report: &Report<'_>, all: bool, text: &mut String) -> fmt::Result {
    text.push_str(&wrap(&services_headline(report), 0));
    read_how(report, text);
    let troubled: Vec<u32> = report.assumed.in_trouble().collect();
    let rows = if all { report.rows.clone() } else { troubled.clone() };
    let rows = first(rows.into_iter(), most_shown(all), |row| {
        std::cmp::Reverse(report.row(row).0.quiet())
    });
    let listed = if all { report.rows.len() } else { troubled.len() };
    listing(report, &rows, listed, Last::Verdict, text)?;
    let others = report.rows.len() - listed;
    if others > 0 {
        let n = words::count(others);
        let line =
            format!("  … {n} more, safe under IPVS or to other addresses (--all lists them).");
        text.push_str(&wrap(&line, 4));
    }
    writeln!(text)?;
    let mut services: Vec<&str> = troubled
        .iter()
        .filter_map(|&row| assumed::service(report.snapshot, report.row(row).0))
        .map(|service| service.seen.as_str())
        .collect();
    services.sort_unstable();
    services.dedup();
    for seen in services {
        text.push_str(&wrap(&format!("Why a Service: {}.", printable(seen)), 4));
    }
    let unknown = "Unknown: kube-proxy's mode, and the node's table, which a pod cannot read. Its \
                   configuration settles it:";
    text.push_str(&wrap(unknown, 4));
    let there = if report.repeat.from.is_empty() { " kubectl exec -i POD --" } else { "" };
    writeln!(
        text,
        "  kubectl -n kube-system get cm kube-proxy -o yaml |{there} \\\n    stillopen check{} \
         --kube-proxy-config -{}",
        report.repeat.options, report.repeat.from
    )?;
    findings(report, text);
    left_out_and_gaps(report, text);
    let options = socket_options(DEFAULT_KEEPALIVE);
    let fix = format!("Fix in the program, harmless without IPVS: on each socket {options}.");
    text.push_str(&wrap(&fix, 4));
    writeln!(text, "What it is set with:  stillopen advise --limit kubernetes-ipvs")
}

/// A limit is known: what is cut, what will be.
fn with_limits(report: &Report<'_>, all: bool, text: &mut String) -> fmt::Result {
    text.push_str(&wrap(&headline(report), 0));
    read_how(report, text);
    let rest = if all { Rest::default() } else { Rest::of(report) };
    let is_listed = |row: u32| is_news(report.row(row).1) || report.assumed.trouble(row).is_some();
    let rows = report.rows.iter().copied().filter(|&row| all || is_listed(row));
    let rows = first(rows, most_shown(all), |row| order(report.row(row).0, report.row(row).1));
    let listed = report.rows.len() - rest.safe - rest.no_limit;
    listing(report, &rows, listed, Last::Verdict, text)?;
    rest.write(text);
    writeln!(text)?;
    why(report, &rows, text);
    limits(report, text);
    findings(report, text);
    left_out_and_gaps(report, text);
    advice(report, &rows, text);
    Ok(())
}

/// Says of a saved snapshot that it is one, and when it was taken; and what a watch saw.
fn read_how(report: &Report<'_>, text: &mut String) {
    let from = report.repeat.from.trim_start().trim_start_matches("--from ");
    if !from.is_empty() {
        let taken_at = printable(&report.snapshot.taken_at);
        text.push_str(&wrap(&format!("As {from} has it, read at {taken_at}."), 0));
    }
    let watches = report.rows.iter().filter_map(|&row| report.row(row).0.watch.as_deref());
    let Some(longest) = watches.clone().map(|watch| watch.after).max() else { return };
    let probed = watches.filter(|watch| watch.peer_probes > 0).count();
    let saw = match probed {
        0 => "no peer sent a probe".to_owned(),
        1 => "1 peer sent probes".to_owned(),
        n => format!("{} peers sent probes", words::count(n)),
    };
    let _ = writeln!(text, "Watched for {}: {saw}.", human(longest));
}

fn most_shown(all: bool) -> usize {
    if all { usize::MAX } else { ROWS_SHOWN }
}

/// The `most` rows with the smallest keys, in order; the rest, which may be a million, is not sorted.
fn first<K: Ord>(rows: impl Iterator<Item = u32>, most: usize, key: impl Fn(u32) -> K) -> Vec<u32> {
    let mut kept = BinaryHeap::new();
    for row in rows {
        let keyed = (key(row), row);
        if kept.len() < most {
            kept.push(keyed);
        } else if let Some(mut largest) = kept.peek_mut()
            && keyed < *largest
        {
            *largest = keyed;
        }
    }
    kept.into_sorted_vec().into_iter().map(|(_, row)| row).collect()
}

/// The table of `rows`, which are the first of so many `listed`.
fn listing(
    report: &Report<'_>,
    rows: &[u32],
    listed: usize,
    last: Last,
    text: &mut String,
) -> fmt::Result {
    if !rows.is_empty() {
        writeln!(text)?;
        text.push_str(&table(report, rows, last));
    }
    if rows.len() < listed {
        writeln!(text, "  … {} more (--all lists them).", words::count(listed - rows.len()))?;
    }
    Ok(())
}

/// Whether a row is listed without `--all`.
fn is_news(d: &Diagnosis) -> bool {
    match d.verdict {
        Verdict::Cut { .. } | Verdict::AtRisk { .. } => true,
        Verdict::Unknown { missing } => missing != Missing::Limit,
        Verdict::Safe { .. } => {
            d.findings.contains(Finding::KeepaliveThinMargin)
                || d.findings.contains(Finding::OneLostProbeKills)
        }
    }
}

/// Cut first, the longest silence on top; then what is cut next; then the rest.
fn order(c: &Connection, d: &Diagnosis) -> (u8, Duration, std::cmp::Reverse<Duration>) {
    let quiet = std::cmp::Reverse(c.quiet().unwrap_or_default());
    match d.verdict {
        Verdict::Cut { .. } => (0, Duration::ZERO, quiet),
        Verdict::AtRisk { cut_in } => (1, cut_in, quiet),
        Verdict::Unknown { .. } => (2, Duration::ZERO, quiet),
        Verdict::Safe { margin } => (3, margin.unwrap_or(Duration::MAX), quiet),
    }
}

/// What the last column says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Verdict,
    CommonLimits,
}

fn table(report: &Report<'_>, rows: &[u32], last: Last) -> String {
    let several_namespaces = report.snapshot.namespaces.len() > 1;
    let several_limits =
        report.snapshot.limits.len() > 1 && last == Last::Verdict && !several_namespaces;
    let in_pods = report.snapshot.processes.iter().any(|process| process.pod.is_some());
    let column = |head, shrink| Column { head, shrink, right: false };
    let mut columns = vec![
        Column { head: "QUIET", shrink: Shrink::Never, right: true },
        column("STATE", Shrink::Never),
        column("KEEPALIVE", Shrink::Never),
        column(if in_pods { "POD / PROCESS" } else { "WHO" }, Shrink::To(10)),
        column("PEER", Shrink::LastTo(ADDRESS)),
    ];
    // A pod is a network namespace, with a better name.
    let several_namespaces = several_namespaces && !in_pods;
    if several_namespaces {
        columns.insert(3, column("NETNS", Shrink::To(10)));
    }
    if several_limits {
        columns.push(column("LIMIT", Shrink::Never));
    }
    columns.push(match last {
        Last::Verdict => column("VERDICT", Shrink::Never),
        Last::CommonLimits => column("CUT UNDER", Shrink::Never),
    });
    let cells = |row: u32, short: bool| {
        let (c, d) = report.row(row);
        let mut cells = vec![
            c.quiet().map_or_else(|| "?".into(), human),
            words::state(c, short).to_owned(),
            words::keepalive(c.keepalive),
        ];
        if several_namespaces {
            let name = report.snapshot.namespace(c.netns).map(|namespace| namespace.name.as_str());
            cells.push(printable(name.unwrap_or_default()));
        }
        cells.push(words::who(report.snapshot, c));
        cells.push(c.peer.to_string());
        if several_limits {
            let limit = words::limit(report.snapshot, d);
            cells.push(limit.map_or_else(|| "-".into(), |l| words::limit_time(l.timeout_of(c))));
        }
        cells.push(match last {
            Last::Verdict => match report.assumed.trouble(row) {
                Some((verdict, limit)) => words::verdict_if_ipvs(verdict, limit, c),
                None => words::verdict(report.snapshot, c, d),
            },
            Last::CommonLimits => common_limits(report, row),
        });
        cells
    };
    let all_cells = |short| rows.iter().map(|&row| cells(row, short)).collect::<Vec<_>>();
    let full = all_cells(false);
    if table::fits(&columns, &full) {
        lay_out(&columns, &full)
    } else {
        lay_out(&columns, &all_cells(true))
    }
}

/// Which of the common limits would have cut this connection by now.
fn common_limits(report: &Report<'_>, row: u32) -> String {
    let quiet = report.row(row).0.quiet().unwrap_or_default();
    let over = COMMON_LIMITS.iter().map(|(limit, _)| *limit);
    let over: Vec<String> = over
        .filter(|&limit| quiet > Duration::from_secs(limit))
        .map(|limit| limit.to_string())
        .collect();
    if over.is_empty() { "-".into() } else { over.join(" ") }
}

/// The longest time from one refresh to the next that an end's keepalive allows.
fn refreshed_every(report: &Report<'_>, c: &Connection) -> Option<Duration> {
    let far = c.far_end.as_deref().map(|far| far.keepalive);
    let ends = [Some(c.keepalive), far].into_iter().flatten();
    let values = ends.filter_map(stillopen_model::Keepalive::on_values);
    values.map(|values| values.latest_refresh(report.snapshot.host.hz)).min()
}

/// Whether keepalive may be on without its values, or could not be read at all.
fn keepalive_unread(c: &Connection) -> bool {
    !c.keepalive.is_off() && c.keepalive.on_values().is_none()
}

fn is_refreshed(report: &Report<'_>, row: u32, limit: Duration) -> bool {
    refreshed_every(report, report.row(row).0).is_some_and(|every| every < limit)
}

/// How many connections are not listed, and why they need not be.
#[derive(Default)]
struct Rest {
    safe: usize,
    no_limit: usize,
}

impl Rest {
    fn of(report: &Report<'_>) -> Self {
        let mut rest = Self::default();
        for &row in &report.rows {
            let d = report.row(row).1;
            match d.verdict {
                _ if is_news(d) || report.assumed.trouble(row).is_some() => {}
                Verdict::Safe { .. } => rest.safe += 1,
                _ => rest.no_limit += 1,
            }
        }
        rest
    }

    fn write(&self, text: &mut String) {
        let mut parts = Vec::new();
        if self.safe > 0 {
            parts.push(format!("{} safe", words::count(self.safe)));
        }
        if self.no_limit > 0 {
            let n = words::count(self.no_limit);
            parts.push(format!("{n} to peers that no known limit is for"));
        }
        if !parts.is_empty() {
            text.push_str(&wrap(&format!("  … {} (--all lists them).", parts.join(", ")), 4));
        }
    }
}

/// What one explanation does for: the limit, the verdict, what is missing, and whether keepalive is on.
type Kind = (Option<u32>, &'static str, Option<Missing>, bool);

/// `None`: it needs no explanation.
fn kind(c: &Connection, d: &Diagnosis) -> Option<Kind> {
    match d.verdict {
        Verdict::AtRisk { .. } => Some((d.limit, "at risk", None, c.keepalive.is_on())),
        Verdict::Cut { .. } => Some((d.limit, "cut", None, false)),
        Verdict::Unknown { missing } => Some((d.limit, "unknown", Some(missing), false)),
        Verdict::Safe { .. } => None,
    }
}

/// The evidence of the first row of each kind of verdict.
fn why(report: &Report<'_>, rows: &[u32], text: &mut String) {
    let mut said = Vec::new();
    for &row in rows {
        let (c, d) = report.row(row);
        let Some(kind) = kind(c, d) else { continue };
        if said.contains(&kind) || said.len() == REASONS_SHOWN {
            continue;
        }
        said.push(kind);
        let because = words::because(report.snapshot, c, d);
        let named = words::named(report.snapshot, c);
        let is_alike = |&&row: &&u32| {
            let (c, d) = report.row(row);
            self::kind(c, d) == Some(kind)
        };
        let others = match report.rows.iter().filter(is_alike).count() {
            0 | 1 => String::new(),
            2 => "; 1 other likewise".to_owned(),
            n => format!("; {} others likewise", words::count(n - 1)),
        };
        let line = format!("Why {}: {named}: {because}{others}.", kind.1);
        text.push_str(&wrap(&line, 4));
    }
}

/// The limits in force, each with how it is known.
fn limits(report: &Report<'_>, text: &mut String) {
    for limit in &report.snapshot.limits {
        text.push_str(&wrap(&format!("Limit: {}.", describe(limit)), 7));
    }
}

/// A limit in one line: `aws-nat-gateway, 350s for every peer; AWS NAT gateway, verified (2026-11-29; …)`.
pub(crate) fn describe(limit: &IdleLimit) -> String {
    let direction = match limit.selector.direction {
        Direction::Both => "",
        Direction::Outbound => ", outbound",
        Direction::Inbound => ", inbound",
    };
    let refresh = match limit.refreshed_by {
        Refresh::AnyPacket => "",
        Refresh::PayloadOnly => ", payload only",
        Refresh::Unknown => ", not known whether probes count",
    };
    let expiry = match limit.on_expiry {
        Expiry::Silent => "",
        Expiry::Fin => ", then closes",
        Expiry::Reset => ", then resets",
        Expiry::Unknown => ", then not known",
    };
    let how = |evidence: &Evidence| {
        let date = evidence.date.as_deref();
        let date = date.map(|date| format!(" ({date}; not measured here)")).unwrap_or_default();
        format!("{}{date}", printable(&evidence.detail))
    };
    let mut evidence: Vec<String> = limit.evidence.iter().map(how).collect();
    if let Some(configured) = limit.configured {
        let agrees = configured == limit.idle_timeout;
        evidence.push(if agrees { "they agree".into() } else { "THEY DIFFER".into() });
    }
    let time = words::limit_time(limit.idle_timeout);
    format!(
        "{}, {time} for {}{direction}{refresh}{expiry}; {}",
        printable(&limit.id),
        passed_by(limit),
        evidence.join("; ")
    )
}

/// `every peer`, `10.96.0.0/12`, `42 services`, `what its table holds`
pub(crate) fn passed_by(limit: &IdleLimit) -> String {
    let Selector { peers, services, .. } = &limit.selector;
    let named: Vec<String> = peers
        .iter()
        .map(|net| {
            if net.prefix_len() == net.max_prefix_len() {
                net.addr().to_string()
            } else {
                net.to_string()
            }
        })
        .chain(services.iter().map(ToString::to_string))
        .collect();
    match (named.len(), limit.table) {
        (0, None) => "every peer".into(),
        (0, Some(_)) => "what its table holds".into(),
        (1..=NAMES_SHOWN, _) => named.join(", "),
        (n, _) if services.is_empty() => format!("{} addresses", words::count(n)),
        (n, _) => format!("{} services", words::count(n)),
    }
}

fn findings(report: &Report<'_>, text: &mut String) {
    for &(finding, n) in &report.findings {
        text.push_str(&wrap(&words::finding_line(finding, n), 4));
        if finding != Finding::KeepaliveOff {
            text.push_str(&wrap(&format!("    → {}.", finding.cure()), 6));
        }
    }
}

/// What kube-proxy's configuration says, where it gives no limit that would say it.
pub(crate) fn kube_proxy(snapshot: &Snapshot, text: &mut String) {
    let Some(evidence) = &snapshot.kube_proxy else { return };
    if snapshot.limits.iter().all(|limit| !limit.evidence.contains(evidence)) {
        text.push_str(&wrap(&format!("kube-proxy: {}.", printable(&evidence.detail)), 4));
    }
}

/// What the platform makes likely: no verdict depends on it.
fn hints(snapshot: &Snapshot, text: &mut String) {
    if !snapshot.limits.is_empty() {
        return;
    }
    for platform in &snapshot.host.platforms {
        text.push_str(&wrap(&format!("Hint: {}.", words::hint(platform)), 4));
    }
}

/// A kernel without IPVS is the rule: only `limits` and the JSON output say it.
fn is_shown(gap: &Gap) -> bool {
    gap.source != NO_IPVS || !gap.how.is_empty()
}

fn left_out_and_gaps(report: &Report<'_>, text: &mut String) {
    text.push_str(&report.left_out.lines());
    kube_proxy(report.snapshot, text);
    hints(report.snapshot, text);
    for gap in report.snapshot.gaps.iter().filter(|gap| is_shown(gap)) {
        let how = if gap.how.is_empty() { String::new() } else { format!(" ({})", gap.how) };
        text.push_str(&wrap(&format!("Not seen: {}{how}.", gap.reason), 4));
    }
}
