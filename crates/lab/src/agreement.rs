//! What it is for two runs of the same connections, the model's and a real kernel's, to agree: on what each end's
//! program saw (outcome, error, who was told) and when.
//!
//! Times may differ by a [`Tolerance`] that whoever compares states. Where the two differ, the kernel is right.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use serde::{Deserialize, Serialize};
use stillopen_model::Miss;

use crate::{
    middlebox::TcpState,
    path::Path,
    result::RunResult,
    run::{self, RunError, RunOptions},
    scenario::Scenario,
};

/// What may be apart and is the same, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// The same event in both runs.
    pub at_s: f64,
    /// The same, where a kernel gives up after a quarter of an hour of retransmissions, whose first interval
    /// follows the measured round trip.
    pub giving_up_s: f64,
    /// Pieces of one answer, which are one event.
    pub one_answer_s: f64,
}

/// One thing that an end's program saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) at_s: f64,
    what: String,
    bytes: usize,
}

/// By connection and end.
pub(crate) type Events = BTreeMap<(usize, String), Vec<Event>>;

/// A model to hold against a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// As it is.
    Right,
    /// Wrong on purpose: entries live 10 s less than they do.
    TenSecondsLess,
    /// Wrong on purpose: what the server sends without an entry is dropped.
    DropsUntranslated,
    /// Wrong on purpose: entries live for a day.
    LivesForADay,
}

impl Model {
    /// Runs a timeline as this model would have it.
    ///
    /// # Errors
    /// The path cannot be decided.
    pub fn run(self, scenario: &Scenario, options: &RunOptions) -> Result<RunResult, RunError> {
        let mut path = Path::decide(scenario, options)?;
        match self {
            Self::TenSecondsLess => {
                let less = path.idle_timeout().saturating_sub(Duration::from_secs(10));
                path.timeouts = path.timeouts.with(TcpState::Established, less);
            }
            Self::DropsUntranslated if path.profile.server_meets == Miss::PassUntranslated => {
                path.profile.server_meets = Miss::Drop;
            }
            Self::LivesForADay => {
                let day = Duration::from_secs(24 * 60 * 60);
                path.timeouts = path.timeouts.with(TcpState::Established, day);
                path.timeouts = path.timeouts.with(TcpState::CloseWait, day);
            }
            Self::Right | Self::DropsUntranslated => {}
        }
        Ok(run::on(scenario, &path, options).result)
    }
}

impl Tolerance {
    /// What each program saw; what comes of one answer is one event.
    pub(crate) fn events(&self, result: &RunResult) -> Events {
        let mut events = Events::new();
        for saw in &result.saw {
            let of = events.entry((saw.connection, saw.who.to_owned())).or_default();
            match of.last_mut() {
                Some(Event { at_s, what, bytes })
                    if (what.as_str(), saw.what) == ("data", "data")
                        && saw.at_s - *at_s < self.one_answer_s =>
                {
                    *bytes += saw.bytes;
                }
                _ => {
                    let (at_s, what, bytes) = (saw.at_s, saw.what.to_owned(), saw.bytes);
                    of.push(Event { at_s, what, bytes });
                }
            }
        }
        events
    }

    pub(crate) fn agree(&self, one: &Events, other: &Events) -> bool {
        let same = |one: &Event, other: &Event| {
            let gives_up =
                matches!(one.what.as_str(), "ETIMEDOUT" | "ECONNREFUSED" | "EHOSTUNREACH");
            let tolerance = if gives_up { self.giving_up_s } else { self.at_s };
            (&one.what, one.bytes) == (&other.what, other.bytes)
                && (one.at_s - other.at_s).abs() <= tolerance
        };
        one.len() == other.len()
            && one.iter().zip(other).all(|((key, one), (other_key, other))| {
                key == other_key
                    && one.len() == other.len()
                    && one.iter().zip(other).all(|(one, other)| same(one, other))
            })
    }

    /// Where two runs of a timeline differ: a text for each connection, and for each sum. Empty: they agree.
    #[must_use]
    pub fn differences(
        &self,
        scenario: &Scenario,
        model: &RunResult,
        kernel: &RunResult,
    ) -> Vec<String> {
        let (in_model, on_kernel) = (self.events(model), self.events(kernel));
        let differ = (0..scenario.connections()).filter_map(|connection| {
            let (model, kernel) = (of(&in_model, connection), of(&on_kernel, connection));
            let text = || describe(scenario, connection, &model, &kernel);
            (!self.agree(&model, &kernel)).then(text)
        });
        let mut differ: Vec<String> = differ.collect();
        let sums = |result: &RunResult| {
            let outcomes: Vec<_> = result.per_attempt.iter().map(|sent| sent.outcome).collect();
            format!(
                "sends {outcomes:?}, {} ends told at the cut, {} later",
                result.told_at_cut, result.told_later
            )
        };
        let (in_model, on_kernel) = (sums(model), sums(kernel));
        if in_model != on_kernel {
            differ.push(format!("In the model   {in_model}\nOn the kernel  {on_kernel}\n"));
        }
        differ
    }
}

/// What the ends of one connection saw.
pub(crate) fn of(events: &Events, connection: usize) -> Events {
    let own = events.iter().filter(|((number, _), _)| *number == connection);
    own.map(|(key, seen)| (key.clone(), seen.clone())).collect()
}

pub(crate) fn describe(
    scenario: &Scenario,
    connection: usize,
    model: &Events,
    kernel: &Events,
) -> String {
    let mut text = String::new();
    for step in scenario.timeline.iter().filter(|step| step.connection == connection) {
        let _ = writeln!(text, "  {:>9.3} {:?} {:?}", step.at.0.as_secs_f64(), step.who, step.does);
    }
    for (title, events) in [("In the model", model), ("On the kernel", kernel)] {
        let _ = writeln!(text, "{title}");
        for ((_, who), seen) in events {
            for Event { at_s, what, bytes } in seen {
                let _ = writeln!(text, "  {at_s:>9.3} {who} sees {what} {bytes}");
            }
        }
    }
    text
}
