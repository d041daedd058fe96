//! Whether a scenario with divided durations still shows what is expected, and not its opposite: real time is late, so
//! whatever decides must be further from its opposite than that. The model says what decides. No I/O.

use std::time::Duration;

use stillopen_model::human;

use super::divided::{LATE, Refused, watch};
use crate::{
    observed::{Crossing, ONE_EVENT, Observed},
    path::Path,
    result::{RunResult, Saw},
    run::{RunOptions, blank},
    scenario::{Expect, Scenario, Sees, Span, Who},
    sim::timeline,
};

/// A packet that answers another comes within this, and so does what a program sees of the last step.
const ANSWER: Duration = Duration::from_millis(100);
/// A kernel delays an acknowledgment by so much at most (`TCP_DELACK_MAX`): an entry then lives longer.
const DELAYED: Duration = Duration::from_millis(200);

/// A time of the scenario that must not be too short when it is divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Margin {
    /// Whose.
    what: String,
    /// Not divided.
    lasts: Duration,
    /// What must be left of it, in real time.
    needs: Duration,
}

impl Margin {
    /// The largest factor that leaves enough.
    fn most(&self) -> u128 {
        self.lasts.as_nanos() / self.needs.as_nanos().max(1)
    }

    /// Why it is too short.
    pub(super) fn why(&self, faster: u32) -> String {
        let Self { what, lasts, needs } = self;
        let next = match self.most() {
            0 => "no `faster` leaves that, --driver vm needs none".to_owned(),
            most => format!("the most that leaves it is `faster = {most}` in the [netns] table"),
        };
        let is = lasts.as_secs_f64() / f64::from(faster);
        let (lasts, needs) = (human(*lasts), needs.as_secs_f64());
        format!(
            "{what}, is {is:.3} s instead of {lasts}; real time may be late, so less than {needs} s shows nothing: {next}"
        )
    }
}

/// Refuses what would show nothing; names the shortest.
pub(super) fn check(
    scenario: &Scenario,
    options: &RunOptions,
    path: &Path,
    faster: u32,
) -> Result<(), Refused> {
    let watch = watch(scenario);
    let watched = Scenario { watch: Some(Span(watch)), ..scenario.clone() };
    let observed = timeline::observe(&watched, path, options);
    let mut margins = lives(&observed);
    let last = scenario.timeline.last().map_or(watch, |step| step.at.0);
    let rest = watch.saturating_sub(last);
    margins.push(Margin { what: "what follows the last step".into(), lasts: rest, needs: ANSWER });
    let mut result = blank(&watched, path, options);
    observed.sum_up(&watched, &mut result);
    for (number, expect) in (1..).zip(&scenario.expect) {
        margins.extend(of_expectation(number, expect, &result, watch));
    }
    match margins.into_iter().min_by_key(Margin::most) {
        Some(margin) if margin.most() < u128::from(faster) => {
            Err(Refused::Margin { faster, margin })
        }
        _ => Ok(()),
    }
}

/// How near packets come to the death of their entries.
fn lives(observed: &Observed) -> Vec<Margin> {
    let mut margins = Vec::new();
    for (number, of) in observed.connections.iter().enumerate() {
        let mut add = |between: String, lasts, needs| {
            margins.push(Margin { what: format!("the time {between}"), lasts, needs });
        };
        let name =
            |packet: &Crossing| format!("a packet of connection {number} at {}", human(packet.at));
        for pair in of.crossings.windows(2) {
            let [before, packet] = pair else { continue };
            let needs = if packet.at.saturating_sub(before.at) > ONE_EVENT { LATE } else { ANSWER };
            if let Some(due) = packet.due {
                let between = format!("from {} to the end of its entry", name(packet));
                add(between, due.saturating_sub(packet.at), needs);
            }
        }
        let Some((died, _)) = of.forgot else { continue };
        // An end that was told of it answers at once.
        let told = of.told.contains(&true);
        let follows = |packet: &&Crossing| packet.at >= died + ONE_EVENT * u32::from(told);
        if let Some(packet) = of.crossings.iter().find(follows) {
            let between = format!("from the end of the entry to {}", name(packet));
            add(between, packet.at.saturating_sub(died), DELAYED);
        }
    }
    margins
}

/// How near what the model sees comes to the border of an expectation.
fn of_expectation(
    number: usize,
    expect: &Expect,
    result: &RunResult,
    watch: Duration,
) -> Vec<Margin> {
    let (from, wanted) = (expect.at.0, expect.sees.to_string());
    let until = expect.within.map_or(watch, |within| (from + within.0).min(watch));
    let who = if expect.who == Who::Client { "client" } else { "server" };
    let own = |saw: &&Saw| (saw.connection, saw.who) == (expect.connection, who);
    let at = |saw: &Saw| Duration::from_secs_f64(saw.at_s);
    let seen: Vec<&Saw> = result.saw.iter().filter(own).collect();
    let margin = |what: &str, lasts, needs| {
        let what = format!("{what}, of expectation {number} ({who} sees {wanted})");
        Margin { what, lasts, needs }
    };
    if expect.sees == Sees::Nothing {
        // Its beginning is not held, as what came before may be late.
        let window = margin("the window", until.saturating_sub(from), LATE * 2);
        let against = seen.iter().map(|saw| at(saw)).find(|at| (from..=until).contains(at));
        let against = against
            .map(|at| margin("the time until something is seen", at.saturating_sub(from), LATE));
        return against.into_iter().chain([window]).collect();
    }
    let times: Vec<Duration> =
        seen.iter().filter(|saw| saw.what == wanted).map(|saw| at(saw)).collect();
    if times.iter().any(|at| (from..=until).contains(at)) {
        return Vec::new();
    }
    let apart = |at: &Duration| {
        margin(
            "the time by which it is missed",
            from.saturating_sub(*at) + at.saturating_sub(until),
            LATE,
        )
    };
    times.iter().map(apart).collect()
}
