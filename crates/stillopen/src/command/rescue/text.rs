//! What a rescue says to people: how many, each with its prediction, what is left alone and why, what next.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use stillopen_model::{
    Connection, IdleLimit, KeepaliveValues, Miss, Role, Snapshot, Verdict, human,
    recommended_keepalive,
};
use stillopen_remedy::{FirstProbe, Left, Refusal};

use super::{super::host::left_out, Act, Rescue, Row, first, repeated};
use crate::{
    input::quoted,
    paste::Options,
    report::{
        last_lines,
        table::{ADDRESS, Column, Shrink, lay_out, printable, wrap},
        words,
    },
};

/// How many rows are listed; `--json` has all.
pub(super) const ROWS_SHOWN: usize = 20;

pub(super) fn render(rescue: &Rescue<'_>) -> String {
    let mut out = String::new();
    let armed: Vec<&Row> =
        rescue.rows.iter().filter(|row| matches!(row.act, Act::Arm { .. })).collect();
    out.push_str(&wrap(&headline(rescue, &armed), 0));
    if !armed.is_empty() {
        out.push('\n');
        out.push_str(&table(rescue, &armed));
    }
    first_probes(rescue, &armed, &mut out);
    user_timeouts(rescue, &armed, &mut out);
    refusals(rescue, &armed, &mut out);
    left_alone(rescue, &mut out);
    if rescue.rows.is_empty() {
        let Rescue { args, collected, diagnoses, .. } = rescue;
        out.push_str(&left_out(&args.select, collected, diagnoses).lines());
    }
    out.push_str(&not_seen(&rescue.collected.snapshot));
    next(rescue, &armed, &mut out);
    out
}

/// What could not be read, where something would allow it.
pub(super) fn not_seen(snapshot: &Snapshot) -> String {
    let gaps = snapshot.gaps.iter().filter(|gap| !gap.how.is_empty());
    gaps.map(|gap| wrap(&format!("Not seen: {} ({}).", gap.reason, gap.how), 4)).collect()
}

/// Connections with what is said of each, in a column of its own.
pub(in crate::command) fn said_of_each<'a>(
    snapshot: &Snapshot,
    said: &'static str,
    rows: impl Iterator<Item = (&'a Connection, String)>,
) -> String {
    let column = |head, shrink| Column { head, shrink, right: false };
    let columns = [
        Column { head: "QUIET", shrink: Shrink::Never, right: true },
        column("WHO", Shrink::To(10)),
        column("LOCAL", Shrink::LastTo(ADDRESS)),
        column("PEER", Shrink::LastTo(ADDRESS)),
        column(said, Shrink::Never),
    ];
    let cells = rows.map(|(c, said)| {
        vec![
            c.quiet().map_or_else(|| "?".into(), human),
            words::who(snapshot, c),
            c.local.to_string(),
            c.peer.to_string(),
            said,
        ]
    });
    lay_out(&columns, &cells.collect::<Vec<_>>())
}

/// What could not be done to a connection, and what would permit it.
pub(in crate::command) fn refused(
    snapshot: &Snapshot,
    c: &Connection,
    refusal: &Refusal,
) -> String {
    wrap(&format!("Refused: {}: {refusal}.", words::named(snapshot, c)), 4)
}

fn headline(rescue: &Rescue<'_>, armed: &[&Row]) -> String {
    let n = armed.len();
    if rescue.rows.is_empty() {
        return "No connection that leaves this host matches; nothing was changed.".into();
    }
    if n == 0 && lacks_limit(rescue) {
        return "No idle limit is known here, so nothing is called at risk; nothing was changed."
            .into();
    }
    if n == 0 {
        let of = words::plural(rescue.rows.len(), "connection");
        return format!("Nothing to turn on: {of} looked at; nothing was changed.");
    }
    if !rescue.args.apply {
        let n = words::plural(n, "connection");
        return format!("Keepalive would be turned on for {n}. Nothing was changed.");
    }
    let is_done = |row: &&&Row| matches!(&row.act, Act::Arm { done: Some(Ok(_)), .. });
    let done = armed.iter().filter(is_done).count();
    let others = |n, what| match n {
        0 => String::new(),
        n => format!("; {} {what}", words::count(n)),
    };
    let met = |wanted| armed.iter().filter(|row| row.has_met(wanted)).count();
    let (ended, closed) = (met(FirstProbe::Ended), met(FirstProbe::Closed));
    let on = words::plural(done - ended - closed, "connection");
    let refused = others(n - done, "refused");
    let ended = others(ended, "ended by the first probe");
    let closed = others(closed, "closed by its program");
    format!("Keepalive is on for {on}{ended}{closed}{refused}.")
}

/// Whether only what is at risk was asked for, and nothing can be called that.
fn lacks_limit(rescue: &Rescue<'_>) -> bool {
    rescue.args.at_risk && rescue.collected.snapshot.limits.is_empty()
}

/// How to name a limit, for `rest` of a command that does nothing without one.
pub(super) fn name_a_limit(options: &Options, rest: &str) -> String {
    last_lines(&ways_to_name_a_limit(options, rest))
}

fn ways_to_name_a_limit(options: &Options, rest: &str) -> [(&'static str, String); 2] {
    [
        ("Name your path's limit:", format!("stillopen rescue{options} {rest} --limit 350s")),
        ("Look it up:", "stillopen limits --catalogue".to_owned()),
    ]
}

fn table(rescue: &Rescue<'_>, armed: &[&Row]) -> String {
    let column = |head, shrink| Column { head, shrink, right: false };
    let columns = [
        Column { head: "QUIET", shrink: Shrink::Never, right: true },
        column("KEEPALIVE", Shrink::Wrap),
        column("WHO", Shrink::Wrap),
        column("PEER", Shrink::LastTo(ADDRESS)),
        column("VERDICT", Shrink::Wrap),
        column(if rescue.args.apply { "NOW" } else { "WOULD BE" }, Shrink::Wrap),
    ];
    let snapshot = &rescue.collected.snapshot;
    let cells = |row: &&Row| {
        let c = &snapshot.connections[row.index as usize];
        let d = &rescue.diagnoses[row.index as usize];
        let Act::Arm { values, predicted, done, met } = &row.act else { return Vec::new() };
        let after = match (done, met) {
            (Some(Err(_)), _) => "REFUSED".to_owned(),
            (_, Some(FirstProbe::Ended)) => "ENDED".to_owned(),
            (_, Some(FirstProbe::NoAnswerYet)) => "no answer yet".to_owned(),
            _ => verdict_after(*predicted),
        };
        vec![
            c.quiet().map_or_else(|| "?".into(), human),
            format!("{} -> {values}", words::keepalive(c.keepalive)),
            words::who(snapshot, c),
            c.peer.to_string(),
            words::verdict(snapshot, c, d),
            after,
        ]
    };
    let rows: Vec<Vec<String>> = armed.iter().take(ROWS_SHOWN).map(cells).collect();
    let mut out = lay_out(&columns, &rows);
    if armed.len() > ROWS_SHOWN {
        let more = words::count(armed.len() - ROWS_SHOWN);
        let _ = writeln!(out, "  … {more} more (--json lists them).");
    }
    out
}

fn verdict_after(verdict: Verdict) -> String {
    match verdict {
        Verdict::Safe { margin: Some(margin) } => format!("safe by {}", human(margin)),
        Verdict::Safe { margin: None } => "safe".into(),
        // No limit is known, so nothing is called safe.
        Verdict::Unknown { .. } => "refreshed".into(),
        // Its probe leaves at once, and the entry may be gone before it comes there.
        Verdict::AtRisk { .. } => "safe if in time".into(),
        Verdict::Cut { .. } => "cut".into(),
    }
}

/// What comes of the probes that go out at once.
fn first_probes(rescue: &Rescue<'_>, armed: &[&Row], out: &mut String) {
    if rescue.args.apply {
        out.push_str(&first::outcome(armed));
        return;
    }
    let snapshot = &rescue.collected.snapshot;
    let at_once =
        |row: &&&Row| row.first_probe(&snapshot.connections[row.index as usize]).is_some();
    out.push_str(&first::warning(armed.iter().filter(at_once).count()));
}

/// Which of them one lost probe will end, since their programs set a short `TCP_USER_TIMEOUT`: a line for each such
/// time with each values.
fn user_timeouts(rescue: &Rescue<'_>, armed: &[&Row], out: &mut String) {
    let snapshot = &rescue.collected.snapshot;
    let mut counts: BTreeMap<(Duration, String), (usize, KeepaliveValues, String)> =
        BTreeMap::new();
    for row in armed {
        let c = &snapshot.connections[row.index as usize];
        let (Act::Arm { values, .. }, Some(time)) = (&row.act, c.user_timeout) else { continue };
        if row.one_lost_probe_kills(c) && !row.is_refused() && !row.has_ended() {
            let first = || (0, *values, words::named(snapshot, c));
            counts.entry((time.get(), values.to_string())).or_insert_with(first).0 += 1;
        }
    }
    for ((time, _), (n, values, first)) in counts {
        let others = match n - 1 {
            0 => String::new(),
            others => format!(" and {} more", words::count(others)),
        };
        let long = words::limit_time(values.dead_peer_after());
        let fit = values.within_user_timeout(time).map_or_else(
            || "No values in whole seconds are short enough for it".to_owned(),
            |fit| format!("Values that fit: --keepalive {fit}"),
        );
        let line = format!(
            "One lost probe ends {first}{others}: the program's TCP_USER_TIMEOUT is {}, over before the \
             second probe of {values}. {fit}; or have the program set that option to {long} or more.",
            words::limit_time(time)
        );
        out.push_str(&wrap(&line, 4));
    }
}

fn refusals(rescue: &Rescue<'_>, armed: &[&Row], out: &mut String) {
    let snapshot = &rescue.collected.snapshot;
    let refusals = armed.iter().filter_map(|row| match &row.act {
        Act::Arm { done: Some(Err(refusal)), .. } => Some((row, refusal)),
        _ => None,
    });
    for (row, refusal) in refusals.take(ROWS_SHOWN) {
        out.push_str(&refused(snapshot, &snapshot.connections[row.index as usize], refusal));
    }
}

/// One line for each reason; the cut ones by name, since somebody may wait on them.
fn left_alone(rescue: &Rescue<'_>, out: &mut String) {
    let snapshot = &rescue.collected.snapshot;
    let mut counts: BTreeMap<&'static str, (Left, usize)> = BTreeMap::new();
    let mut named_already = 0;
    for row in &rescue.rows {
        let Act::Leave(left) = row.act else { continue };
        if left == Left::Cut && named_already < ROWS_SHOWN {
            named_already += 1;
            let c = &snapshot.connections[row.index as usize];
            let limit = words::limit(snapshot, &rescue.diagnoses[row.index as usize]);
            let meets = probe_meets(limit, c);
            let line =
                format!("Left alone: {}: it is cut, and {meets}.", words::named(snapshot, c));
            out.push_str(&wrap(&line, 4));
        } else {
            counts.entry(left.name()).or_insert((left, 0)).1 += 1;
        }
    }
    for (left, n) in counts.into_values() {
        let mut line = format!("Left alone: {}, {}.", words::count(n), because(left, n));
        if left == Left::TooLate
            && let Some(values) = in_time(rescue)
        {
            let _ = write!(line, " In time: --keepalive {values}.");
        }
        out.push_str(&wrap(&line, 4));
    }
}

/// The values that suit the tightest of the limits for which those that were given come too late.
fn in_time(rescue: &Rescue<'_>) -> Option<KeepaliveValues> {
    let snapshot = &rescue.collected.snapshot;
    let late = rescue.rows.iter().filter(|row| matches!(row.act, Act::Leave(Left::TooLate)));
    let timeouts = late.filter_map(|row| {
        let limit = words::limit(snapshot, &rescue.diagnoses[row.index as usize])?;
        Some(limit.timeout_of(&snapshot.connections[row.index as usize]))
    });
    recommended_keepalive(timeouts.min()?, snapshot.host.hz)
}

/// What a keepalive probe of this end would meet on a path that has forgotten the connection.
pub(super) fn probe_meets(limit: Option<&IdleLimit>, c: &Connection) -> &'static str {
    let miss = limit.and_then(|limit| match c.role {
        Role::Client => limit.client_meets,
        Role::Server => limit.server_meets,
        Role::Unknown => None,
    });
    match miss {
        Some(Miss::Drop) => "a probe would vanish: after its last one the program gets ETIMEDOUT",
        Some(Miss::Reset) => "a probe would draw a reset, which ends it",
        Some(Miss::Recreate) => "a packet of this end would make its entry anew",
        Some(Miss::PassUntranslated) => {
            "a probe would reach the peer with a strange address and draw a reset, which ends it"
        }
        Some(Miss::IcmpUnreachable) => "a probe would draw an ICMP unreachable",
        None => "what a probe would meet is not known: a reset, which ends it, or nothing",
    }
}

fn because(left: Left, n: usize) -> &'static str {
    match (left, n == 1) {
        (Left::Safe, _) => "safe already",
        (Left::Cut, true) => "cut: no option brings it back",
        (Left::Cut, false) => "cut: no option brings them back",
        (Left::Unknown, true) => {
            "its verdict is unknown: to arm it as well, name it with --pid, --port or --peer, without --at-risk"
        }
        (Left::Unknown, false) => {
            "their verdict is unknown: to arm them as well, name them with --pid, --port or --peer, without \
             --at-risk"
        }
        (Left::PayloadOnly, _) => "whose limit counts payload only: keepalive does not help",
        (Left::PeerClosed, true) => "closed by the peer: its program has to close it, too",
        (Left::PeerClosed, false) => "closed by the peer: their programs have to close them, too",
        (Left::Unanswered, true) => {
            "whose peer answers neither data nor probes: keepalive would end it"
        }
        (Left::Unanswered, false) => {
            "whose peers answer neither data nor probes: keepalive would end them"
        }
        (Left::Handshake, _) => "not established yet",
        (Left::TooTight, _) => {
            "whose limit is too short for keepalive, which counts in whole seconds"
        }
        (Left::TooLate, true) => "REFUSED: these values come too late under its limit",
        (Left::TooLate, false) => "REFUSED: these values come too late under their limits",
        (Left::AlreadyOn, _) => "with these values already, or sooner ones",
    }
}

/// What can be done next, each as a command.
fn next(rescue: &Rescue<'_>, armed: &[&Row], out: &mut String) {
    let args = rescue.args;
    let options = repeated(args);
    let mut steps: Vec<(&str, String)> = Vec::new();
    if rescue.rows.iter().any(|row| matches!(row.act, Act::Leave(Left::Cut))) {
        steps.push(("End what is cut:", format!("stillopen rescue{options} --close-dead")));
    }
    if lacks_limit(rescue) && !rescue.rows.is_empty() {
        steps.extend(ways_to_name_a_limit(&options, "--at-risk"));
        let command = "stillopen rescue --pid PID (or --port PORT, --peer CIDR)";
        steps.push(("Or name connections:", command.to_owned()));
    }
    if !armed.is_empty() {
        steps.push(match (args.apply, &args.save_undo) {
            (true, Some(path)) => {
                let path = printable(&quoted(&path.to_string_lossy()));
                ("Undo it:", format!("stillopen rescue --undo {path} --apply"))
            }
            (true, None) => ("Look again:", format!("stillopen check{options}")),
            (false, _) => {
                let mut options = options;
                if let Some(values) = args.keepalive {
                    options.add("--keepalive", &values.to_string());
                }
                options.flag("--at-risk", args.at_risk);
                ("Do it:", format!("stillopen rescue{options} --apply"))
            }
        });
    }
    out.push_str(&last_lines(&steps));
}
