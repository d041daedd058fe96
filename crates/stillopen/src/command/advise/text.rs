//! The text output: the answer first, a command to paste last.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use stillopen_model::{
    Catalogue, Cost, Gap, IdleLimit, Judgement, KeepaliveValues, PROBE_BYTES_IPV4,
    PROBE_BYTES_IPV6, human,
};

use super::{
    Repeat, Setting, Source,
    assess::{Assessment, judged, next_probe_within},
    notes::{self, Note, name},
};
use crate::{
    clients,
    report::{
        self,
        table::{self, Column, Shrink, printable, wrap},
        words,
    },
};

/// Where the second column of the details begins.
const INDENT: usize = 13;

/// The advice, without a client.
pub(super) fn advice(assessment: &Assessment, repeat: &Repeat) -> String {
    let mut text = wrap(&headline(assessment), 0);
    text.push_str(&cures(assessment));
    if let Some(values) = assessment.values
        && (assessment.tightest().is_some() || !assessment.is_of_a_path())
    {
        text.push('\n');
        match assessment.better {
            Some(_) => given(assessment, values, &mut text),
            None => details(assessment, values, &mut text),
        }
        if assessment.is_of_a_path() {
            limits(assessment, &mut text);
        } else {
            catalogue(assessment, &mut text);
        }
        if let Some(better) = assessment.better {
            let _ = write!(text, "\nBetter, {better}:\n");
            details(assessment, better, &mut text);
        }
        let values = assessment.better.unwrap_or(values);
        let mut beware = notes::beware(assessment, values);
        if assessment.source != Source::CommandLine {
            beware.extend(notes::general());
        }
        text.push_str(&list("Beware:", &beware));
    }
    for gap in assessment.gaps.iter().filter_map(not_seen) {
        text.push_str(&wrap(&gap, 2));
    }
    text + &last(assessment, repeat)
}

/// What could not be read; `None` for IPVS where nothing would show it, as in a kernel that has none.
fn not_seen(gap: &Gap) -> Option<String> {
    match (gap.source.as_str(), gap.how.as_str()) {
        ("ipvs", "") => None,
        (_, "") => Some(format!("Not seen: {}.", gap.reason)),
        (_, how) => Some(format!("Not seen: {} ({how}).", gap.reason)),
    }
}

/// The answer.
pub(super) fn headline(assessment: &Assessment) -> String {
    let Some(values) = assessment.values else {
        let limit = assessment.tightest().map(name).unwrap_or_default();
        return format!(
            "No TCP keepalive beats {limit}: it counts whole seconds. Send payload, or raise the limit."
        );
    };
    if !assessment.is_of_a_path() {
        return of_the_catalogue(assessment, values);
    }
    let useless = assessment.first(Judgement::Useless).map(|useless| {
        format!("TCP keepalive does not help under {}: it counts payload only.", name(useless))
    });
    let others = assessment.tightest().map(|tightest| under(assessment, values, tightest));
    useless.into_iter().chain(others).collect::<Vec<_>>().join(" ")
}

fn of_the_catalogue(assessment: &Assessment, values: KeepaliveValues) -> String {
    let all = assessment.limits().len();
    let n = |wanted: Judgement| assessment.judged().filter(|j| j.judgement == wanted).count();
    let open = n(Judgement::Fine) + n(Judgement::ThinMargin);
    let what = if assessment.given { "TCP keepalive" } else { "Set TCP keepalive" };
    format!(
        "{what} {values}: it keeps connections open under {open} of the {all} idle limits that are known \
         ({} count payload only).",
        n(Judgement::Useless)
    )
}

/// What is said of the limits that probes may refresh.
fn under(assessment: &Assessment, values: KeepaliveValues, tightest: &IdleLimit) -> String {
    let first = |judgement| assessment.first(judgement);
    if let Some(limit) = first(Judgement::TooLate) {
        let instead = match assessment.better {
            Some(better) => format!(" Set {better}."),
            None => String::new(),
        };
        return format!(
            "{values} is too late under {}: the next probe may come {} after the last packet.{instead}",
            name(limit),
            latest(values)
        );
    }
    if let Some(limit) = first(Judgement::Disputed) {
        return format!(
            "Measure first: whether probes refresh {} is disputed or not known. If they do, {values} \
             keeps connections open.",
            name(limit)
        );
    }
    let verb = if assessment.given { "" } else { "Set TCP keepalive " };
    if let Some(limit) = first(Judgement::ThinMargin) {
        let instead = assessment.better.map(|better| format!(" Set {better}.")).unwrap_or_default();
        return format!(
            "{verb}{values}: in time under {}, as the next probe may come {} after the last packet; but \
             one lost probe loses the connection.{instead}",
            name(limit),
            latest(values)
        );
    }
    if assessment.given {
        format!("{values} is fine: a quiet connection stays open under {}.", name(tightest))
    } else {
        format!("{verb}{values}: a quiet connection stays open under {}.", name(tightest))
    }
}

/// How late after the last packet the next probe may come.
fn latest(values: KeepaliveValues) -> String {
    human(next_probe_within(values))
}

/// The values of the command line, where better ones follow.
fn given(assessment: &Assessment, values: KeepaliveValues, text: &mut String) {
    let _ = writeln!(text, "Given, {values}:");
    let latest = latest(values);
    text.push_str(&wrap_row("Next probe", &format!("up to {latest} after the last packet")));
    survives(assessment, values, text);
    dead_peer(values, text);
    let Cost { connections, packets_per_day, bytes_per_day } = assessment.cost(values);
    text.push_str(&wrap_row(
        "Cost",
        &format!(
            "for {} all day quiet, at most {} packets and {} MB a day",
            words::plural(usize::try_from(connections).unwrap_or(usize::MAX), "connection"),
            words::count(usize::try_from(packets_per_day).unwrap_or(usize::MAX)),
            tenths(bytes_per_day / 100_000),
        ),
    ));
    for note in notes::of_values(assessment, values) {
        text.push_str(&wrap_row("Beware", &note.text));
    }
}

fn details(assessment: &Assessment, values: KeepaliveValues, text: &mut String) {
    let s = |time: Duration| time.as_secs();
    text.push_str(&wrap_row(
        "Values",
        &format!(
            "idle {} s, interval {} s, count {}: TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, with \
             SO_KEEPALIVE 1",
            s(values.idle),
            s(values.interval),
            values.count
        ),
    ));
    let latest = latest(values);
    let why = match assessment.tightest() {
        Some(tightest) => format!(
            "{} is the tightest limit that probes can refresh; they do so every {latest} at most, the \
             kernel timer's own lateness included",
            name(tightest)
        ),
        None => format!(
            "a quiet connection is refreshed every {latest} at most, the kernel timer's own lateness \
             included"
        ),
    };
    text.push_str(&wrap_row("Why", &why));
    survives(assessment, values, text);
    dead_peer(values, text);
    text.push_str(&wrap_row("Cost", &cost_of(assessment.cost(values))));
}

/// How many lost probes the values survive under the tightest limit.
fn survives(assessment: &Assessment, values: KeepaliveValues, text: &mut String) {
    let Some(tightest) = assessment.tightest() else { return };
    let judged = judged(std::slice::from_ref(tightest), values).next();
    let in_a_row = match judged.and_then(|judged| judged.lost_probes_survived) {
        None => "not even a quiet connection without loss".to_owned(),
        Some(0) => "no lost probe".to_owned(),
        Some(n) => format!("{} in a row", words::plural(n as usize, "lost probe")),
    };
    text.push_str(&wrap_row("Survives", &in_a_row));
}

fn dead_peer(values: KeepaliveValues, text: &mut String) {
    let what = format!(
        "noticed {} after its last packet: {} + {} × {}",
        human(values.dead_peer_after()),
        values.idle.as_secs(),
        values.interval.as_secs(),
        values.count
    );
    text.push_str(&wrap_row("Dead peer", &what));
}

/// A label and what it says, in two columns.
fn wrap_row(label: &str, what: &str) -> String {
    let indented = wrap(&format!("{:INDENT$}{what}", ""), INDENT);
    format!("{label}{}", &indented[label.len()..])
}

fn cost_of(cost: Cost) -> String {
    let n = |value: u64| words::count(usize::try_from(value).unwrap_or(usize::MAX));
    format!(
        "for {} all day quiet, at most {} packets and {} MB a day, {} kbit/s: a probe and its ACK, \
         {PROBE_BYTES_IPV4} bytes each (Ethernet, IPv4, TCP timestamps; IPv6 {PROBE_BYTES_IPV6}). Only quiet \
         connections are probed",
        words::plural(usize::try_from(cost.connections).unwrap_or(usize::MAX), "connection"),
        n(cost.packets_per_day),
        tenths(cost.bytes_per_day / 100_000),
        tenths(cost.bits_per_second() / 100),
    )
}

/// `190.1` of 1901; whole where it is large.
fn tenths(tenths: u64) -> String {
    let whole = words::count(usize::try_from(tenths / 10).unwrap_or(usize::MAX));
    if tenths >= 1000 { whole } else { format!("{whole}.{}", tenths % 10) }
}

/// Each limit of the path with what the values are worth under it.
fn limits(assessment: &Assessment, text: &mut String) {
    if assessment.limits().len() < 2 {
        return;
    }
    let columns = [
        Column { head: "LIMIT", shrink: Shrink::To(16), right: false },
        Column { head: "FORGETS AFTER", shrink: Shrink::Never, right: true },
        Column { head: "PASSED BY", shrink: Shrink::To(12), right: false },
        Column { head: "WORTH", shrink: Shrink::Never, right: false },
    ];
    let rows: Vec<Vec<String>> = assessment
        .judged()
        .map(|judged| {
            vec![
                printable(&judged.limit.id),
                words::limit_time(judged.limit.idle_timeout),
                printable(&report::text::passed_by(judged.limit)),
                worth(judged.judgement, judged.lost_probes_survived),
            ]
        })
        .collect();
    text.push('\n');
    text.push_str(&table::lay_out(&columns, &rows));
}

fn worth(judgement: Judgement, survived: Option<u32>) -> String {
    match judgement {
        Judgement::Fine => {
            let n = survived.unwrap_or_default() as usize;
            format!("survives {}", words::plural(n, "lost probe"))
        }
        Judgement::ThinMargin => "one lost probe kills".into(),
        Judgement::Disputed => "do probes count?".into(),
        Judgement::Useless => "useless: payload only".into(),
        Judgement::TooLate => "too late".into(),
    }
}

/// The known limits by what the values are worth under them.
fn catalogue(assessment: &Assessment, text: &mut String) {
    let mut classes: BTreeMap<Judgement, BTreeMap<u64, Vec<&str>>> = BTreeMap::new();
    for judged in assessment.judged() {
        let class = classes.entry(judged.judgement).or_default();
        class.entry(judged.limit.idle_timeout.as_secs()).or_default().push(&judged.limit.id);
    }
    text.push('\n');
    for (judgement, times) in classes {
        let label = match judgement {
            Judgement::Fine => "Open",
            Judgement::ThinMargin => "Thin",
            Judgement::Disputed => "Measure",
            Judgement::Useless => "Useless",
            Judgement::TooLate => "Too late",
        };
        let times: Vec<String> =
            times.into_iter().map(|(time, ids)| format!("{time}s {}", ids.join(", "))).collect();
        text.push_str(&wrap_row(label, &times.join("; ")));
    }
    text.push_str(&wrap_row(
        "",
        "Thin: one lost probe loses the connection. Measure: it is not known whether probes count. \
         Useless: only payload counts.",
    ));
}

fn cures(assessment: &Assessment) -> String {
    let cures = notes::cures(assessment);
    if cures.is_empty() {
        return String::new();
    }
    list("What helps where only payload counts:", &cures)
}

fn list(head: &str, notes: &[Note]) -> String {
    let mut text = format!("\n{head}\n");
    for note in notes {
        text.push_str(&wrap(&format!("  - {}", note.text), 4));
    }
    text
}

fn last(assessment: &Assessment, repeat: &Repeat) -> String {
    let keepalive = if assessment.better.is_some() { "" } else { repeat.keepalive.as_str() };
    let limits = &repeat.limits;
    if assessment.is_of_a_path() && assessment.tightest().is_none() {
        let known = |limit: &&IdleLimit| Catalogue::builtin().find(&limit.id).is_some();
        return match assessment.limits().iter().find(known) {
            Some(limit) => format!(
                "\nWhat is known of its timer:  stillopen limits --catalogue {}\n",
                limit.id
            ),
            None => "\nWhich connections it threatens:  stillopen check\n".to_owned(),
        };
    }
    if assessment.values.is_none() {
        return format!("\nWhich connections it threatens:  stillopen check{limits}\n");
    }
    let ids: Vec<_> = clients::all().iter().map(|client| client.id).collect();
    let known = wrap(&format!("Clients: {}.", ids.join(", ")), 2);
    format!("\n{known}In a client:  stillopen advise --client httpx{limits}{keepalive}\n")
}

/// A client's snippet, with what is said of it.
pub(super) fn client(setting: &Setting, assessment: &Assessment, repeat: &Repeat) -> String {
    let Setting { client, snippet, in_force, judgement } = setting;
    let about = &client.about;
    let tested = match &about.tested {
        Some(version) => format!("tested with {version}"),
        None => "untested".to_owned(),
    };
    let values = assessment.values.unwrap_or(*in_force);
    let mut text = String::new();
    let cannot_work = judgement.is_some_and(|judgement| judgement >= Judgement::Disputed);
    if cannot_work || assessment.better.is_some() {
        text.push_str(&wrap(&headline(assessment), 0));
        text.push_str(&cures(assessment));
        if assessment.is_of_a_path() && assessment.tightest().is_none() && !assessment.given {
            let title = &about.title;
            let no_snippet = format!(
                "{title}: no snippet, as keepalive does not help here. --keepalive {values} prints it."
            );
            return text + "\n" + &wrap(&no_snippet, 0) + &last(assessment, repeat);
        }
        text.push('\n');
    }
    text.push_str(&wrap(&format!("TCP keepalive {values} in {} ({tested}):", about.title), 0));
    text.push('\n');
    text.push_str(snippet);
    text.push('\n');
    if let Some(by_default) = about.by_default.as_deref() {
        let what = match by_default {
            "off" => "keepalive is off",
            "kernel" => "it is on with the kernel's times, 7200/75/9 if nobody changed them",
            values => values,
        };
        text.push_str(&wrap_row("Without it", what));
    }
    text.push_str(&wrap_row("Values", &values_from(assessment)));
    if *in_force != values {
        text.push_str(&wrap_row(
            "In force",
            &format!("{in_force}: the client itself sets what differs"),
        ));
    }
    if let Some(tightest) = assessment.tightest() {
        let judged = judged(std::slice::from_ref(tightest), *in_force).next();
        if let Some(judged) = judged {
            let worth = worth(judged.judgement, judged.lost_probes_survived);
            text.push_str(&wrap_row("Worth", &format!("under {}: {worth}", name(tightest))));
        }
    }
    text.push_str(&wrap_row(
        "Dead peer",
        &format!("noticed after {}", human(in_force.dead_peer_after())),
    ));
    text.push_str(&wrap_row("Needs", &about.needs));
    let url = about.sources.first().map(String::as_str).unwrap_or_default();
    text.push_str(&wrap_row("Read", url));
    text.push_str("\nBeware:\n");
    let of_values = notes::of_values(assessment, *in_force).into_iter().map(|note| note.text);
    for line in of_values.chain(about.beware.iter().cloned()) {
        text.push_str(&wrap(&format!("  - {line}"), 4));
    }
    let limits = &repeat.limits;
    text + &format!("\nWhether it is in force then:  stillopen check{limits} --all\n")
}

/// Which limit a client's values are for.
fn values_from(assessment: &Assessment) -> String {
    let Some(tightest) = assessment.tightest() else {
        let why = if assessment.given { "as given" } else { "the default" };
        let what = if assessment.is_of_a_path() {
            "no probe refreshes a limit of this path"
        } else {
            "no limit is known here"
        };
        return format!("{why}: {what}");
    };
    let whose = match (assessment.source, tightest.table) {
        (Source::CommandLine, _) => "",
        (_, Some(_)) => " of a table of this host",
        (_, None) => " of stillopen.toml",
    };
    if assessment.given {
        format!("as given; {}{whose} is the tightest limit", name(tightest))
    } else {
        format!("for {}{whose}, the tightest limit that probes can refresh", name(tightest))
    }
}

/// The clients that are known.
pub(super) fn clients() -> String {
    let columns = [
        Column { head: "NAME", shrink: Shrink::Never, right: false },
        Column { head: "WHAT", shrink: Shrink::To(20), right: false },
        Column { head: "TESTED WITH", shrink: Shrink::To(20), right: false },
    ];
    let rows: Vec<Vec<String>> = clients::all()
        .iter()
        .map(|client| {
            let tested = client.about.tested.as_deref().unwrap_or("untested");
            vec![client.id.to_owned(), client.about.title.clone(), tested.to_owned()]
        })
        .collect();
    table::lay_out(&columns, &rows) + "\nOne of them:  stillopen advise --client httpx\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_has_no_empty_brackets() {
        let not_seen = |source: &str, how: &str| {
            not_seen(&Gap { source: source.into(), reason: "no table".into(), how: how.into() })
        };
        assert_eq!(not_seen("ipvs", ""), None);
        assert_eq!(not_seen("owners", "").unwrap(), "Not seen: no table.");
        assert_eq!(not_seen("ipvs", "run as root").unwrap(), "Not seen: no table (run as root).");
    }
}
