//! A run as text: the answer first, then how it came, then what to do. At most 100 columns.
//!
//! Every number is the run's. A command that does not exist is never printed.

use std::{fmt::Write, time::Duration};

use stillopen_collect::kube_proxy::go_duration;
use stillopen_model::{KeepaliveValues, human, wheel_slack};

use crate::{
    middlebox::Profile,
    result::{AttemptResult, KernelResult, LostRequest, Outcome, RealTimeResult, RunResult},
    run::entry_seen_late,
    scenario::{Incident, Scenario},
};

/// Columns of the bar that shows a lost request's silence.
const BAR: usize = 60;

/// The run as asked, and where there is one the run that cures it. `again`: what `stillopen lab run` was
/// given, to be repeated in the last line.
#[must_use]
pub fn text(
    scenario: &Scenario,
    asked: &RunResult,
    cured: Option<&RunResult>,
    again: &str,
) -> String {
    let mut out = String::new();
    match &scenario.incident {
        Some(incident) => incident_text(&mut out, incident, asked, cured),
        None => timeline_text(&mut out, asked),
    }
    failures(&mut out, [Some(asked), cured]);
    on_node(&mut out, asked);
    closing(&mut out, asked, cured, again);
    out
}

// Writing to a string cannot fail, so the results of `writeln!` are not looked at.

fn incident_text(
    out: &mut String,
    incident: &Incident,
    asked: &RunResult,
    cured: Option<&RunResult>,
) {
    answer(out, asked, cured);
    for line in wrapped(&asked.name) {
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(out);
    setting(out, incident, asked);
    if let Some(lost) = &asked.lost_request {
        let _ = writeln!(out);
        lost_request(out, lost, asked, incident);
    }
    let _ = writeln!(out);
    counts(out, asked);
    evidence(out, asked);
    if let Some(cured) = cured {
        let _ = writeln!(out);
        counts(out, cured);
    }
    too_late(out, cured.unwrap_or(asked));
}

/// Keepalive that the path does not wait for, and where values for it are found.
fn too_late(out: &mut String, result: &RunResult) {
    let values = result.client_keepalive.as_ref().and_then(|values| values.parse().ok());
    let Some(KeepaliveValues { idle, .. }) = values else { return };
    let limit = result.path.idle_timeout_s;
    if result.lost > 0 && idle.as_secs_f64() >= limit {
        let _ = writeln!(
            out,
            "{:<19} too late here: it probes after {}, the path forgets after {limit}s\n{:<19} values that \
             are in time:  stillopen advise --limit {limit}s",
            "",
            human(idle),
            ""
        );
    }
}

/// Line 1.
fn answer(out: &mut String, asked: &RunResult, cured: Option<&RunResult>) {
    let with = |result: &RunResult| match &result.client_keepalive {
        Some(values) => format!("with {values}"),
        None => "without keepalive".to_owned(),
    };
    let told = match (asked.told_at_cut, asked.told_later) {
        (0, 0) => "nobody was told".to_owned(),
        (cut, 0) => format!("told at the cut: {cut}"),
        (0, later) => format!("told later: {later}"),
        (cut, later) => format!("told at the cut: {cut}, later: {later}"),
    };
    let line = if asked.lost == 0 {
        format!("All {} answers arrived {}", asked.answered, with(asked))
    } else {
        let (lost, attempts, with) = (asked.lost, asked.attempts, with(asked));
        format!("{lost} of {attempts} attempts LOST {with}, {told}")
    };
    let _ = match cured {
        Some(cured) => {
            let (lost, attempts) = (cured.lost, cured.attempts);
            writeln!(out, "{line}; {}: {lost} of {attempts} LOST.", with(cured))
        }
        None => writeln!(out, "{line}."),
    };
}

fn setting(out: &mut String, incident: &Incident, result: &RunResult) {
    let path = &result.path;
    let forgets = span(path.idle_timeout_s);
    let source = match (path.kube_proxy_mode, &path.tcp_timeout) {
        (Some("ipvs"), Some(written)) => {
            let zero = go_duration(written).is_some_and(|timeout| timeout.is_zero());
            let keeps = if zero { " = keep the kernel's value" } else { "" };
            format!("kube-proxy ConfigMap: mode ipvs, tcpTimeout {written}{keeps}")
        }
        (Some("ipvs"), None) => "kube-proxy ConfigMap: mode ipvs, no tcpTimeout".to_owned(),
        (Some(mode), _) => format!("kube-proxy ConfigMap: mode {mode}, so conntrack"),
        (None, _) => path.about.to_owned(),
    };
    let _ = writeln!(
        out,
        "  path   {source}\n         forgets after {forgets} of silence (HZ={})",
        path.hz
    );
    let agent = &incident.agent;
    let [fewest, most] = agent.rounds;
    let [shortest, longest] = agent.takes.map(|takes| human(takes.0));
    let _ = writeln!(
        out,
        "  agent  {} at {}; extracts, then reviews {fewest} to {most} rounds, {shortest} to {longest};\n         \
         at most {} at once in each, the rest queue",
        pods(path.backends),
        path.vip,
        agent.concurrency
    );
    let job = &incident.job;
    let _ = writeln!(
        out,
        "  job    {} documents; timeout {}, forced retry after {}, keepalive {}",
        result.requests,
        human(job.timeout.0),
        human(job.retry_after.0),
        result.client_keepalive.as_deref().unwrap_or("off"),
    );
}

fn pods(count: usize) -> String {
    if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") }
}

fn lost_request(out: &mut String, lost: &LostRequest, result: &RunResult, incident: &Incident) {
    let _ = writeln!(
        out,
        "One lost request, as each place saw it ({}, attempt {})",
        lost.id, lost.attempt
    );
    for event in &lost.events {
        let line = format!(
            "  {:>8}  {:<6} {:<31} {}",
            clock(event.at_s),
            event.place,
            event.what,
            event.note
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
    let end = lost.events.last().map_or(0.0, |event| event.at_s);
    let timeout = incident.job.timeout.0.as_secs_f64();
    let limit = result.path.idle_timeout_s;
    if end >= timeout && limit < timeout {
        let alive = columns(limit / timeout);
        let _ = writeln!(
            out,
            "  silence   |{}|{}> {}",
            "#".repeat(alive),
            "~".repeat(BAR - alive),
            span(timeout)
        );
        let _ = writeln!(
            out,
            "            {}^ {}: the answer is lost from here on",
            " ".repeat(alive),
            span(limit)
        );
    }
}

// A share of 0 to 1 of the bar.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn columns(share: f64) -> usize {
    ((share.clamp(0.0, 1.0) * BAR as f64) as usize).min(BAR)
}

fn counts(out: &mut String, result: &RunResult) {
    let title = match &result.client_keepalive {
        Some(values) => format!("With {values}"),
        None => "Without keepalive".to_owned(),
    };
    let _ = writeln!(
        out,
        "{title:<19} attempts {:>3}   answered {:>3}   LOST {:>3}   finished {}",
        result.attempts,
        result.answered,
        result.lost,
        human(Duration::from_secs_f64(result.virtual_s)),
    );
    let _ = writeln!(
        out,
        "{:<19} told at the cut {}, later {}   agent time wasted {}{}",
        "",
        result.told_at_cut,
        result.told_later,
        human(Duration::from_secs_f64(result.wasted_s)),
        match result.probes {
            [0, 0] => String::new(),
            [fewest, most] => format!("   {fewest} to {most} probes a request"),
        },
    );
    if result.gave_up > 0 {
        let _ = writeln!(out, "{:<19} gave up {} requests", "", result.gave_up);
    }
}

/// What shows that the entry's life, and nothing else, decided.
fn evidence(out: &mut String, result: &RunResult) {
    let of = |outcome| result.per_attempt.iter().filter(move |a| a.outcome == outcome);
    let by_silence = |a: &&AttemptResult, b: &&AttemptResult| a.silent_s.total_cmp(&b.silent_s);
    let cut = of(Outcome::Lost).filter(|attempt| attempt.entry_lived_s.is_some());
    let (Some(longest), Some(shortest)) =
        (of(Outcome::Answered).max_by(by_silence), cut.min_by(by_silence))
    else {
        return;
    };
    let late = entry_seen_late(result.driver);
    let late = match late.as_secs() {
        0 => String::new(),
        seconds => format!(", which is seen up to {seconds}s late"),
    };
    let entry = |lived: Option<f64>| lived.map_or_else(|| "dead".to_owned(), precise);
    let _ = writeln!(
        out,
        "  lost <=> silent for longer than its entry lived{late}\n    longest that arrived   {} (its entry: {})\n    shortest that was lost {} (its entry: {})",
        precise(longest.silent_s),
        entry(longest.entry_due_s),
        precise(shortest.silent_s),
        entry(shortest.entry_lived_s),
    );
    let path = &result.path;
    if Profile::named(path.profile).is_some_and(|profile| profile.on_wheel) {
        let timeout = Duration::from_secs_f64(path.idle_timeout_s);
        let late = wheel_slack(timeout, path.hz).as_secs_f64();
        let _ = writeln!(
            out,
            "    an entry lives up to {late:.1}s longer than the timeout: so coarse is the kernel's timer"
        );
    }
    let took =
        of(Outcome::Lost).filter_map(|attempt| attempt.agent_took_s).fold(f64::MAX, f64::min);
    if took < result.path.idle_timeout_s {
        let _ = writeln!(
            out,
            "  the agent's own log puts a lost one at {}: it counts from the start of work, not from the\n  \
             request, so losses seem to begin before the {} that the path allows",
            human(Duration::from_secs_f64(took)),
            span(result.path.idle_timeout_s),
        );
    }
}

fn timeline_text(out: &mut String, result: &RunResult) {
    let held = match result.failures.len() {
        0 => "As expected".to_owned(),
        failed => format!("{failed} expectations FAILED"),
    };
    let _ = writeln!(
        out,
        "{held}: {} of {} sends arrived, {} ends told at the cut, {} later.",
        result.answered, result.attempts, result.told_at_cut, result.told_later
    );
    for line in wrapped(&result.name) {
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(out);
    let keepalive = |values: &Option<String>| values.clone().unwrap_or_else(|| "off".to_owned());
    let _ = writeln!(
        out,
        "  path   {}\n         forgets after {} of silence (HZ={})\n  ends   keepalive: client {}, server {}\n",
        result.path.about,
        span(result.path.idle_timeout_s),
        result.path.hz,
        keepalive(&result.client_keepalive),
        keepalive(&result.server_keepalive),
    );
    for attempt in &result.per_attempt {
        let outcome = match attempt.outcome {
            Outcome::Answered => "arrives",
            Outcome::Lost => "LOST",
        };
        let entry = match attempt.entry_lived_s {
            Some(lived) => format!("its entry had died after {}", precise(lived)),
            None => "its entry was there".to_owned(),
        };
        let silent = precise(attempt.silent_s);
        let at = clock(attempt.sent_s);
        let _ = writeln!(
            out,
            "  {at:>8}  {:<8} {outcome:<8} after {silent} of silence; {entry}",
            attempt.id
        );
    }
    let _ = writeln!(out);
    for saw in &result.saw {
        let bytes = if saw.bytes > 0 { format!(" {} bytes", saw.bytes) } else { String::new() };
        let (at, connection) = (clock(saw.at_s), saw.connection);
        let _ = writeln!(out, "  {at:>8}  {} {connection} sees {}{bytes}", saw.who, saw.what);
    }
}

fn failures(out: &mut String, results: [Option<&RunResult>; 2]) {
    // What was expected and what came instead may be long; it is not cut short.
    for failure in results.into_iter().flatten().flat_map(|result| &result.failures) {
        let _ = writeln!(out, "\nexpectation FAILED: {failure}");
    }
}

/// What was run on the node meanwhile, as it was printed there.
fn on_node(out: &mut String, asked: &RunResult) {
    for ran in asked.kernel.iter().flat_map(|kernel| &kernel.on_node) {
        let at = human(Duration::from_secs_f64(ran.at_s));
        let status = match ran.status {
            Some(status) => format!("exit status {status}"),
            None => "it did not end by itself".to_owned(),
        };
        let _ = writeln!(
            out,
            "\nOn the node after {at}: stillopen {} ({status})\n{}{}",
            ran.command.join(" "),
            ran.stdout,
            ran.stderr
        );
    }
}

fn closing(out: &mut String, asked: &RunResult, cured: Option<&RunResult>, again: &str) {
    let both = asked.virtual_s + cured.map_or(0.0, |cured| cured.virtual_s);
    // On a kernel both are of one boot.
    let cured_wall = cured.filter(|_| asked.kernel.is_none()).and_then(|cured| cured.wall_s);
    let wall = asked.wall_s.map(|wall| wall + cured_wall.unwrap_or(0.0));
    let took = wall.map_or_else(String::new, |wall| format!(" in {wall:.2}s"));
    let virtual_time = human(Duration::from_secs_f64(both));
    let _ = match (&asked.kernel, &asked.real_time) {
        (Some(kernel), _) => {
            writeln!(out, "\n{virtual_time} of virtual time{took}. {}", of_kernel(kernel))
        }
        (None, Some(RealTimeResult { faster, tolerance_s })) => writeln!(
            out,
            "\n{virtual_time}{took}: {faster} times faster, multiplied back; what is seen may be {} late.\n\
             This is this host's own Linux TCP at both ends, and the model's path between them.",
            span(*tolerance_s)
        ),
        (None, None) => writeln!(
            out,
            "\n{virtual_time} of virtual time{took}, seed {}. This is the model.",
            asked.seed
        ),
    };
    // Where the path is given on the command line already, another ConfigMap would contradict it.
    let given = ["--kube-proxy-config", "--profile", "--idle-timeout"];
    let path_given = given.iter().any(|option| again.contains(option));
    let _ = match asked.path.kube_proxy_mode {
        Some(_) if !path_given => writeln!(
            out,
            "Your cluster:  kubectl -n kube-system get cm kube-proxy -o yaml > kube-proxy.yaml\n               \
             stillopen lab run {again} --kube-proxy-config kube-proxy.yaml"
        ),
        _ => writeln!(out, "All of it:  stillopen lab run {again} --json"),
    };
}

/// What ran it, and what was in force there.
fn of_kernel(kernel: &KernelResult) -> String {
    let KernelResult { version, ipvs_timeouts_s, virtual_s, wall_s, .. } = kernel;
    let table = match ipvs_timeouts_s {
        Some([tcp, fin, _]) => {
            format!(
                "Its own IPVS; in force, read back: {tcp}s established, {fin}s after the server's FIN\n(after the client's it is always 60s)."
            )
        }
        None => "Its own conntrack.".to_owned(),
    };
    let parts = |[boot, set_up, scenario]: [f64; 3]| {
        format!("boot {boot:.1}s, set-up {set_up:.1}s, scenario {scenario:.1}s")
    };
    format!(
        "This is Linux {version}.\n{table}\n  virtual time  {}\n  wall time     {}",
        parts(*virtual_s),
        parts(*wall_s)
    )
}

/// A sentence in lines of at most 100 columns.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().filter(|line| line.chars().count() + word.len() < 100);
        match last {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `900s`, or with a fraction where there is one.
fn span(seconds: f64) -> String {
    format!("{seconds}s")
}

/// `15m04.3s`: where tenths decide.
fn precise(seconds: f64) -> String {
    let tenths = (seconds * 10.0).floor() / 10.0;
    let minutes = (tenths / 60.0).floor();
    if minutes < 1.0 {
        format!("{tenths:.1}s")
    } else {
        format!("{minutes}m{:04.1}s", tenths - minutes * 60.0)
    }
}

/// `15:04`, `1:00:00`.
// Seconds of a run fit.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn clock(seconds: f64) -> String {
    let s = seconds.max(0.0) as u64;
    match s / 3600 {
        0 => format!("{}:{:02}", s / 60, s % 60),
        hours => format!("{hours}:{:02}:{:02}", s / 60 % 60, s % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        embedded,
        run::{RunOptions, run},
    };

    #[test]
    fn no_line_is_longer_than_100_columns_and_line_1_is_the_answer() {
        for embedded in embedded::SCENARIOS {
            let scenario = Scenario::parse(embedded.text).unwrap();
            for ipv6 in [false, true] {
                let options =
                    RunOptions { scenario: embedded.id.to_owned(), ipv6, ..RunOptions::default() };
                let asked = run(&scenario, &options).unwrap().result;
                let cured = scenario.cure.map(|cure| {
                    let options = RunOptions { keepalive: cure.keepalive.0, ..options.clone() };
                    run(&scenario, &options).unwrap().result
                });
                let text = text(&scenario, &asked, cured.as_ref(), embedded.id);
                for line in text.lines() {
                    assert!(line.chars().count() <= 100, "{}: {line}", embedded.id);
                }
                let first = text.lines().next().unwrap();
                assert!(first.contains("LOST") || first.contains("arrive"), "{first}");
                assert!(text.trim_end().lines().last().unwrap().contains("stillopen lab run"));
            }
        }
    }

    #[test]
    fn keepalive_that_the_path_does_not_wait_for_is_said_to_be_too_late() {
        let id = embedded::DEFAULT;
        let scenario = Scenario::parse(embedded::scenario(id).unwrap().text).unwrap();
        let of = |seconds| {
            let options = RunOptions {
                keepalive: Some("60/30/3".parse().unwrap()),
                idle_timeout: Some(Duration::from_secs(seconds)),
                ..RunOptions::default()
            };
            text(&scenario, &run(&scenario, &options).unwrap().result, None, id)
        };
        assert!(
            of(60).contains("too late here") && of(60).contains("stillopen advise --limit 60s")
        );
        assert!(!of(900).contains("too late"));
    }

    #[test]
    fn times_for_people() {
        assert_eq!((clock(61.9), clock(3661.0)), ("1:01".to_owned(), "1:01:01".to_owned()));
        assert_eq!((precise(905.56), precise(1.0)), ("15m05.5s".to_owned(), "1.0s".to_owned()));
    }
}
