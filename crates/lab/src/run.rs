//! Runs a scenario on the simulator: decide the path, let it happen, hold it against what is expected.

use std::time::Duration;

use stillopen_collect::kube_proxy::KubeProxyError;
use stillopen_model::KeepaliveValues;

use crate::{
    middlebox::Profile,
    path::Path,
    result::{AttemptResult, Outcome, RunResult},
    scenario::{Bounds, Scenario, Totals},
    sim::{incident, timeline},
};

/// What a caller may ask for that the scenario's file does not say.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// The scenario's id, as results name it.
    pub scenario: String,
    /// The clients' keepalive.
    pub keepalive: Option<KeepaliveValues>,
    /// The text of another kube-proxy `ConfigMap` than the scenario's.
    pub kube_proxy: Option<String>,
    /// The text of the `ConfigMap` that the scenario itself names, where that is not one that comes with the
    /// program.
    pub own_kube_proxy: Option<String>,
    /// Another profile than the scenario's.
    pub profile: Option<String>,
    /// Another idle timeout than the scenario's.
    pub idle_timeout: Option<Duration>,
    /// Another seed than the scenario's.
    pub seed: Option<u64>,
    /// Another tick rate than the scenario's.
    pub hz: Option<u32>,
    /// On IPv6.
    pub ipv6: bool,
}

/// A run: its result, and the logs that the incident's two programs would have written.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What came of it.
    pub result: RunResult,
    /// The job's log, JSON lines; empty for a timeline.
    pub job_log: String,
    /// The agent's log, JSON lines; empty for a timeline.
    pub agent_log: String,
}

/// Why a scenario cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The kube-proxy configuration cannot be read.
    #[error(transparent)]
    KubeProxy(#[from] KubeProxyError),
    /// The scenario names a kube-proxy configuration that is not there.
    #[error("kube-proxy configuration {0:?}, which the scenario names, is not there")]
    NoKubeProxy(String),
    /// No such profile.
    #[error("profile {0:?} is not one of: {known}", known = Profile::names().join(", "))]
    Profile(String),
}

/// Runs `scenario` on the simulator.
///
/// # Errors
/// [`RunError`], where the path cannot be decided.
pub fn run(scenario: &Scenario, options: &RunOptions) -> Result<Run, RunError> {
    let path = Path::decide(scenario, options)?;
    let mut run = on(scenario, &path, options);
    hold(scenario, options, &path, &mut run.result);
    Ok(run)
}

/// Runs it on a path that is decided.
pub(crate) fn on(scenario: &Scenario, path: &Path, options: &RunOptions) -> Run {
    match &scenario.incident {
        Some(incident) => incident::run(scenario, incident, path, options),
        None => timeline::run(scenario, path, options),
    }
}

/// Holds a result against what is expected of the whole.
pub(crate) fn hold(scenario: &Scenario, options: &RunOptions, path: &Path, result: &mut RunResult) {
    if let Some(totals) = expected_totals(scenario, options) {
        result.failures.extend(failed_totals(&totals, result));
    }
    if scenario.incident.is_some() && path.profile.server_meets != stillopen_model::Miss::Recreate {
        result.failures.extend(unexplained(result));
    }
}

/// What the file expects of this run; `None` where the caller changed what it speaks of.
fn expected_totals(scenario: &Scenario, options: &RunOptions) -> Option<Totals> {
    let changed = options.kube_proxy.is_some()
        || options.profile.is_some()
        || options.idle_timeout.is_some()
        || options.seed.is_some()
        || options.hz.is_some_and(|hz| hz != scenario.path.hz);
    if changed {
        return None;
    }
    match options.keepalive {
        None => Some(scenario.totals),
        values => scenario.cure.filter(|cure| cure.keepalive.0 == values).map(|cure| cure.totals),
    }
}

fn failed_totals(totals: &Totals, result: &RunResult) -> Vec<String> {
    let counts: [(&str, Option<Bounds>, u32); 4] = [
        ("lost", totals.lost, result.lost),
        ("answered", totals.answered, result.answered),
        ("told_at_cut", totals.told_at_cut, result.told_at_cut),
        ("told_later", totals.told_later, result.told_later),
    ];
    let failed = counts.iter().filter_map(|(what, bounds, count)| {
        let Bounds { least, most } = (*bounds)?;
        let held = (least..=most).contains(count);
        (!held).then(|| format!("{what} is {count}, expected {least} to {most}"))
    });
    failed.collect()
}

/// How much later than it dies an entry may be seen to be gone: a kernel's table is read each second, by a guest
/// that may be late. The simulator sees it at once.
pub(crate) fn entry_seen_late(driver: &str) -> Duration {
    if driver == "vm" { Duration::from_secs(2) } else { Duration::ZERO }
}

/// Whatever the options: an attempt is lost exactly when it was silent for longer than its entry lived, or when the
/// job would not wait for it.
fn unexplained(result: &RunResult) -> Vec<String> {
    let late = entry_seen_late(result.driver).as_secs_f64();
    let odd = result.per_attempt.iter().filter(|attempt| !is_explained(attempt, late));
    odd.map(|attempt| {
        let (id, number, outcome) = (&attempt.id, attempt.attempt, attempt.outcome);
        let (silent, lived) = (attempt.silent_s, attempt.entry_lived_s);
        format!("{id} attempt {number}: {outcome:?}, silent for {silent}, entry lived {lived:?}")
    })
    .collect()
}

/// Whether its entry's life, seen so many seconds late, or the job's own timer says why it ended as it did.
fn is_explained(attempt: &AttemptResult, late: f64) -> bool {
    match (attempt.outcome, attempt.entry_lived_s) {
        (Outcome::Lost, Some(lived)) => attempt.silent_s >= lived - late,
        (Outcome::Lost, None) => attempt.client_saw == "own_timer",
        (Outcome::Answered, Some(_)) => false,
        // What crossed in the silence put the end off.
        (Outcome::Answered, None) => {
            let due = attempt.entry_due_s.filter(|_| attempt.probes == 0);
            due.is_none_or(|due| attempt.silent_s <= due + late)
        }
    }
}

/// A result with what is known before anything happens.
pub(crate) fn blank(scenario: &Scenario, path: &Path, options: &RunOptions) -> RunResult {
    let text = |values: Option<KeepaliveValues>| values.map(|values| values.to_string());
    RunResult {
        scenario: options.scenario.clone(),
        name: scenario.name.clone(),
        driver: "sim",
        seed: options.seed.unwrap_or(scenario.seed),
        path: path.result(),
        client_keepalive: text(client_keepalive(scenario, options)),
        server_keepalive: text(scenario.server.keepalive.0),
        requests: 0,
        attempts: 0,
        answered: 0,
        lost: 0,
        told_at_cut: 0,
        told_later: 0,
        retried: 0,
        gave_up: 0,
        wasted_s: 0.0,
        probes: [0, 0],
        virtual_s: 0.0,
        wall_s: None,
        kernel: None,
        real_time: None,
        per_attempt: Vec::new(),
        lost_request: None,
        saw: Vec::new(),
        failures: Vec::new(),
    }
}

/// The clients' keepalive: the caller's, or else the scenario's.
pub(crate) fn client_keepalive(
    scenario: &Scenario,
    options: &RunOptions,
) -> Option<KeepaliveValues> {
    options.keepalive.or(scenario.client.keepalive.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_lost_exactly_when_it_was_silent_for_longer_than_its_entry_lived() {
        use Outcome::{Answered, Lost};
        for (outcome, silent_s, lived, due, client_saw, exact, late) in [
            (Lost, 905.5, Some(906.1), None, "own_timer", false, true),
            (Lost, 800.0, Some(906.1), None, "own_timer", false, false),
            (Lost, 950.0, Some(906.1), None, "own_timer", true, true),
            (Lost, 950.0, None, None, "own_timer", true, true),
            (Lost, 950.0, None, None, "ECONNRESET", false, false),
            (Answered, 899.0, None, Some(901.0), "answer", true, true),
            (Answered, 950.0, None, Some(901.0), "answer", false, false),
            (Answered, 950.0, Some(901.0), None, "answer", false, false),
        ] {
            let attempt = AttemptResult {
                id: "extract-001".into(),
                attempt: 1,
                sent_s: 0.0,
                silent_s,
                agent_took_s: None,
                entry_lived_s: lived,
                entry_due_s: due,
                outcome,
                client_saw,
                server_saw: "nothing",
                probes: 0,
            };
            let held = [entry_seen_late("sim"), entry_seen_late("vm")]
                .map(|late| is_explained(&attempt, late.as_secs_f64()));
            assert_eq!(held, [exact, late], "{attempt:?}");
        }
    }
}
