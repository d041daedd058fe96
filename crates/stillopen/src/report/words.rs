//! The sentences and cells that say what is known of a connection, each with its numbers.

use std::time::Duration;

use stillopen_model::{
    Catalogue, Connection, Diagnosis, Entry, Finding, IdleLimit, Keepalive, KeepaliveTimes, Miss,
    Missing, OnHost, Platform, Pod, Proof, Refresh, Role, Seconds, Snapshot, State, TableId, Timer,
    Verdict, Waiting, human, probes_needed, probes_possible,
};

use super::table::printable;

/// `60/30/3`, `off`, `on, values ?`; a value that is not known is `?`.
pub(crate) fn keepalive(keepalive: Keepalive) -> String {
    match keepalive {
        Keepalive::Off(_) => "off".into(),
        Keepalive::Unknown => "?".into(),
        Keepalive::On(KeepaliveTimes { idle: None, interval: None, count: None }) => {
            "on, values ?".into()
        }
        Keepalive::On(KeepaliveTimes { idle, interval, count }) => {
            let s = |value: Option<Seconds>| {
                value.map_or_else(|| "?".to_owned(), |value| value.get().as_secs().to_string())
            };
            let count = count.map_or_else(|| "?".to_owned(), |count| count.to_string());
            format!("{}/{}/{count}", s(idle), s(interval))
        }
    }
}

/// What this end is doing, for the table; `short` for one that is wide already.
pub(crate) fn state(c: &Connection, short: bool) -> &'static str {
    match (c.state, c.waiting()) {
        (State::Established, Waiting::ForAnswer) if short => "asked",
        (State::CloseWait | State::FinWait1 | State::FinWait2, _) if short => "closed",
        (State::Established, Waiting::ForAnswer) => "asked, no answer yet",
        (State::Established, Waiting::Idle) => "idle",
        (State::Established, Waiting::Unknown) => "quiet",
        (State::SynSent, _) => "connecting",
        (State::CloseWait, _) => "closed by the peer",
        (State::FinWait1 | State::FinWait2, _) => "closed by this end",
    }
}

/// A limit's time as it is known: `900s`, `120h`; `--limit` takes it back.
pub(crate) fn limit_time(time: Duration) -> String {
    let s = time.as_secs();
    if time.subsec_nanos() != 0 {
        format!("{}ms", time.as_millis())
    } else if s >= 100_000 && s.is_multiple_of(3600) {
        format!("{}h", s / 3600)
    } else {
        format!("{s}s")
    }
}

/// The verdict as a cell of the table.
pub(crate) fn verdict(snapshot: &Snapshot, c: &Connection, d: &Diagnosis) -> String {
    match d.verdict {
        // What got no answer is not simply fine until then.
        Verdict::AtRisk { cut_in } if d.findings.contains(Finding::Unanswered) => {
            format!("no answer, {}", cut_between(cut_in, limit(snapshot, d), c))
        }
        Verdict::Safe { margin: None } => "safe, ends on this host".into(),
        Verdict::Safe { margin: Some(margin) } => format!("safe by {}", human(margin)),
        Verdict::AtRisk { .. } if is_absent(snapshot, c, d) => "no entry until it probes".into(),
        Verdict::AtRisk { cut_in } => cut_between(cut_in, limit(snapshot, d), c),
        Verdict::Cut { proof: Proof::NoEntry } => "CUT, no entry".into(),
        Verdict::Cut { proof: Proof::Inferred } => "CUT, inferred".into(),
        Verdict::Unknown { missing: Missing::Entry } if c.state == State::CloseWait => {
            "unknown: peer closed".into()
        }
        Verdict::Unknown { missing } => format!("unknown: {}", missing_cell(missing)),
    }
}

/// The cell of a connection to a Service whose kube-proxy may or may not run in IPVS mode.
pub(crate) fn verdict_if_ipvs(verdict: Verdict, limit: &IdleLimit, c: &Connection) -> String {
    match verdict {
        Verdict::AtRisk { cut_in } => {
            format!("if IPVS, {}", cut_between(cut_in, Some(limit), c))
        }
        _ => "if IPVS, cut".into(),
    }
}

/// `cut in 3m53s-4m09s`
fn cut_between(cut_in: Duration, limit: Option<&IdleLimit>, c: &Connection) -> String {
    let slack = limit.map(|limit| limit.slack_of(limit.timeout_of(c))).unwrap_or_default();
    if slack.is_zero() {
        format!("cut in {}", human(cut_in))
    } else {
        format!("cut in {}-{}", human(cut_in), human(cut_in + slack))
    }
}

fn missing_cell(missing: Missing) -> &'static str {
    match missing {
        Missing::Limit => "no limit",
        Missing::Stamps => "no tcp_info",
        Missing::Keepalive => "keepalive?",
        Missing::KeepaliveValues => "keepalive values?",
        Missing::PeerKeepalive => "peer may probe",
        Missing::PeerAnswer => "no ACK",
        Missing::HalfClosedTimeout => "half-closed",
        Missing::Handshake => "no handshake",
        Missing::Refresh => "do probes count?",
        Missing::Expiry => "what at expiry?",
        Missing::Entry => "no entry, too early",
    }
}

/// `this is Amazon EC2 (DMI sys_vendor is "Amazon EC2"): aws-nat-gateway 350s, aws-nlb 350s may be on the way`
pub(crate) fn hint(platform: &Platform) -> String {
    let limit = |id: &&str| {
        let time = Catalogue::builtin().find(id).and_then(|row| row.idle_timeout);
        time.map(|time| format!("{id} {}", limit_time(time)))
    };
    let limits: Vec<String> = platform.kind.likely_limits().iter().filter_map(limit).collect();
    format!(
        "this is {} ({}), where connections may pass {}; no verdict counts it",
        platform.kind.name(),
        platform.evidence,
        limits.join(", ")
    )
}

/// `mining/extract-9fq`; by its UID where no file of the node tells the name.
pub(crate) fn pod(pod: &Pod) -> String {
    match (&pod.namespace, &pod.name) {
        (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
        _ => format!("pod {}", &pod.uid.get(..8).unwrap_or(&pod.uid)),
    }
}

/// `mining/extract-9fq / python3`, `python3 (8123)`
pub(crate) fn who(snapshot: &Snapshot, c: &Connection) -> String {
    let Some(process) = snapshot.process(c.owner) else { return "?".into() };
    match process.pod.as_ref().map(pod) {
        Some(pod) => printable(&format!("{pod} / {}", process.command)),
        None => format!("{} ({})", printable(&process.command), process.pid),
    }
}

/// `python3 (8123), port 40012 -> 10.96.14.3:8000`
pub(crate) fn named(snapshot: &Snapshot, c: &Connection) -> String {
    format!("{}, port {} -> {}", who(snapshot, c), c.local.port(), c.peer)
}

/// The limit that decides a diagnosis.
pub(crate) fn limit<'a>(snapshot: &'a Snapshot, d: &Diagnosis) -> Option<&'a IdleLimit> {
    snapshot.limits.get(d.limit? as usize)
}

/// Why the verdict is what it is, in one sentence with its evidence.
pub(crate) fn because(snapshot: &Snapshot, c: &Connection, d: &Diagnosis) -> String {
    let quiet = human(c.quiet().unwrap_or_default());
    let time = limit(snapshot, d).map(|l| limit_time(l.timeout_of(c))).unwrap_or_default();
    let time = if c.is_half_closed() { format!("{time} for a half-closed one") } else { time };
    match d.verdict {
        Verdict::Safe { margin: None } => safe_on_host(snapshot, c),
        Verdict::Safe { margin: Some(_) } => refreshed(snapshot, c, &time),
        Verdict::AtRisk { .. } => at_risk(snapshot, c, d, &quiet, &time),
        Verdict::Cut { .. } => cut(snapshot, c, d, &quiet, &time),
        Verdict::Unknown { missing } => {
            if missing == Missing::PeerKeepalive
                && let Some((table, remaining)) = entry(snapshot, c, d)
            {
                return format!(
                    "quiet for {quiet}, but its entry in the {table} has {}s left of {time}: the peer's \
                     probes refresh it, and how often is not known",
                    remaining.as_secs()
                );
            }
            unknown(c, missing, &quiet, &time)
        }
    }
}

/// The entry of the deciding limit's table: the table's name, and what is left of the entry's time.
fn entry(snapshot: &Snapshot, c: &Connection, d: &Diagnosis) -> Option<(String, Duration)> {
    let table = limit(snapshot, d)?.table?;
    match c.entry_in(table)? {
        Entry::Present { remaining, .. } => Some((table_name(snapshot, table), remaining)),
        Entry::Absent | Entry::NotRead => None,
    }
}

/// Whether the deciding limit's table has no entry of the connection.
pub(crate) fn is_absent(snapshot: &Snapshot, c: &Connection, d: &Diagnosis) -> bool {
    limit(snapshot, d).and_then(|limit| c.entry_under(limit)) == Some(Entry::Absent)
}

/// `IPVS table of host`
fn table_name(snapshot: &Snapshot, table: TableId) -> String {
    let of = snapshot.namespace(table.netns).map(|namespace| namespace.name.as_str());
    format!("{} table of {}", table.kind.name(), of.unwrap_or("?"))
}

fn safe_on_host(snapshot: &Snapshot, c: &Connection) -> String {
    match c.on_host {
        OnHost::Proxy { owner } => {
            let proxy = snapshot.process(owner).map_or("a proxy", |p| p.command.as_str());
            format!("{proxy} on this host has taken it over, so this leg passes no limit")
        }
        _ => "both ends are on this host, where nothing forgets it".into(),
    }
}

fn refreshed(snapshot: &Snapshot, c: &Connection, time: &str) -> String {
    let hz = snapshot.host.hz;
    if let Some(values) = c.keepalive.on_values() {
        let latest = latest(values.latest_refresh(hz));
        return format!(
            "keepalive {values} refreshes it every {latest} at most; the limit is {time}"
        );
    }
    let far = c.far_end.as_deref().and_then(|far| far.keepalive.on_values());
    if let Some(values) = far {
        let latest = latest(values.latest_refresh(hz));
        return format!(
            "the peer's keepalive {values} refreshes it every {latest} at most; the limit is {time}"
        );
    }
    let probes = c.watch.as_deref().map_or(0, |watch| watch.peer_probes);
    let probes = plural(probes as usize, "probe");
    format!("the peer sent {probes} while it was watched; the limit is {time}")
}

fn latest(time: Duration) -> String {
    format!("{:.1}s", time.as_secs_f64())
}

fn at_risk(snapshot: &Snapshot, c: &Connection, d: &Diagnosis, quiet: &str, time: &str) -> String {
    let payload_only =
        limit(snapshot, d).is_some_and(|limit| limit.refreshed_by == Refresh::PayloadOnly);
    if payload_only {
        let quiet = human(c.payload_quiet().unwrap_or_default());
        return format!(
            "no payload for {quiet}; the limit is {time} and counts payload only, so keepalive does \
             not help"
        );
    }
    if c.timer == Timer::ZeroWindow {
        return format!(
            "quiet for {quiet}, the limit is {time}; the peer's window is closed, so keepalive does not run"
        );
    }
    if let Some(table) = limit(snapshot, d).and_then(|limit| limit.table)
        && is_absent(snapshot, c, d)
    {
        let values = c.keepalive.on_values().map(|values| values.to_string()).unwrap_or_default();
        return format!(
            "quiet for {quiet}; the {} has no entry for it any more: an answer that comes before the next \
             probe of keepalive {values} is lost, and the probe makes the entry anew",
            table_name(snapshot, table)
        );
    }
    if let Some((table, remaining)) = entry(snapshot, c, d) {
        let keepalive = match c.keepalive.on_values() {
            Some(values) => format!("keepalive {values} comes too late"),
            None => "keepalive is off".into(),
        };
        return format!(
            "quiet for {quiet}, {keepalive}; its entry in the {table} expires in {}s",
            remaining.as_secs()
        );
    }
    if let Some(values) = c.keepalive.on_values() {
        let usual = values.latest_refresh(snapshot.host.hz);
        let armed =
            c.timer_expires.map_or(usual, |expires| c.quiet().unwrap_or_default() + expires.get());
        let latest = latest(usual.max(armed));
        return format!(
            "quiet for {quiet}; keepalive {values} may probe as late as {latest} after the last packet, \
             the limit is {time}"
        );
    }
    let room = match probes_possible(c) {
        Some(0) | None => String::new(),
        Some(n) => format!("; there may have been up to {}", probes_of_peer(n)),
    };
    format!("quiet for {quiet}, keepalive is off, the limit is {time}{room}")
}

fn cut(snapshot: &Snapshot, c: &Connection, d: &Diagnosis, quiet: &str, time: &str) -> String {
    let Some(limit) = limit(snapshot, d) else { return String::new() };
    if d.verdict == (Verdict::Cut { proof: Proof::NoEntry })
        && let Some(table) = limit.table
    {
        let table = table_name(snapshot, table);
        let heals = if limit.client_meets == Some(Miss::Recreate) && c.role == Role::Client {
            "; an answer that comes now is lost, and what this end sends makes the entry anew"
        } else {
            ""
        };
        return format!(
            "quiet for {quiet}; the {table} was read completely, twice, and has no entry for it{heals}"
        );
    }
    let timeout = limit.timeout_of(c);
    let slack = limit.slack_of(timeout);
    let lifetime = timeout + slack;
    let time = if slack.is_zero() {
        time.to_owned()
    } else {
        format!("{time} and its slack of {}", human(slack))
    };
    if limit.refreshed_by == Refresh::PayloadOnly {
        let quiet = human(c.payload_quiet().unwrap_or_default());
        return format!("no payload for {quiet}, longer than {time}");
    }
    if c.far_end.is_some() {
        return format!("quiet for {quiet} at both ends, longer than {time}");
    }
    let possible = probes_possible(c).unwrap_or_default();
    let needed = probes_needed(c.quiet().unwrap_or_default(), lifetime);
    format!(
        "quiet for {quiet}, longer than {time}; the peer did not keep it alive: that takes at least \
         {needed} of its probes, and the segment counts leave room for {possible}"
    )
}

fn unknown(c: &Connection, missing: Missing, quiet: &str, time: &str) -> String {
    match missing {
        Missing::Limit => "no idle limit is known for this peer".into(),
        Missing::Stamps => "the kernel gave no tcp_info of this socket".into(),
        Missing::Keepalive => {
            format!(
                "quiet for {quiet}; whether keepalive is on could not be read; the limit is {time}"
            )
        }
        Missing::KeepaliveValues => format!(
            "quiet for {quiet}; keepalive is on, its values could not be read; the limit is {time}"
        ),
        Missing::PeerKeepalive => {
            let possible = probes_possible(c).unwrap_or_default();
            format!(
                "quiet for {quiet}, the limit is {time}; the segment counts leave room for {}",
                probes_of_peer(possible)
            )
        }
        Missing::PeerAnswer => unanswered(c),
        Missing::HalfClosedTimeout => {
            "one end has closed, and what the limit is then is not known".into()
        }
        Missing::Handshake => "the connection is not established yet".into(),
        Missing::Refresh => {
            format!("whether keepalive probes refresh the limit of {time} is not known")
        }
        Missing::Expiry => format!(
            "quiet for {quiet}, longer than {time}, and what the limit does then is not known"
        ),
        Missing::Entry if c.state == State::CloseWait => {
            "the peer has closed it, and the table has no entry for it any more".into()
        }
        Missing::Entry => format!(
            "the table has no entry for it, though it was quiet for only {quiet} of {time}: the table was \
             flushed, or it takes another way"
        ),
    }
}

/// `1 probe of the peer, which leaves no stamp here`
fn probes_of_peer(n: u32) -> String {
    let leave =
        if n == 1 { "probe of the peer, which leaves" } else { "probes of the peer, which leave" };
    format!("{} {leave} no stamp here", count(n as usize))
}

/// That the peer answers neither data nor probes.
pub(crate) fn unanswered(c: &Connection) -> String {
    if c.counters.is_some_and(|n| n.unacked > 0) {
        return format!(
            "data is unacknowledged after {} timeouts in a row: this is not an idle cut",
            c.retransmits
        );
    }
    format!("{} in a row got no answer", plural(c.probes_unanswered.into(), "probe"))
}

/// `4,812`
pub(crate) fn count(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 connection`, `4,812 connections`
pub(crate) fn plural(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{} {one}s", count(n)) }
}

/// A finding's title for text, with what its ids are listed by.
pub(crate) fn finding_line(finding: Finding, n: usize) -> String {
    format!("{} ({}): {}.", finding.id(), count(n), finding.title())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_thousands_separators() {
        for (n, text) in [(0, "0"), (999, "999"), (4812, "4,812"), (1_000_000, "1,000,000")] {
            assert_eq!(count(n), text);
        }
    }
}
