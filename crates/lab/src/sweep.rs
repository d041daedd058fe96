//! The sweep: keepalive idle × idle timeout × kind of middlebox × who speaks first, as one table.
//!
//! The table is kept in `scenarios/sweep.txt` and compared by a test, so that a change of the model shows
//! what it moves. A cell is what the client's program sees after [`SILENCE`].

use std::{fmt::Write, time::Duration};

use crate::{
    middlebox::PROFILES,
    result::RunResult,
    run::{RunOptions, run},
    scenario::Scenario,
};

/// How long nobody says anything: longer than every idle timeout of the sweep and its timer's slack.
const SILENCE: Duration = Duration::from_secs(4000);
/// What the path's idle timeout is.
const IDLE_TIMEOUTS_S: [u64; 3] = [350, 900, 3600];
/// The client's keepalive.
const KEEPALIVES: [&str; 5] = ["off", "60/30/3", "300/30/3", "890/30/3", "1800/30/3"];

/// What the client's program sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    /// The answer.
    Answered,
    /// An error: the path or an end reset the connection.
    Reset,
    /// An error: the kernel gave up.
    TimedOut,
    /// The peer's close.
    Closed,
    /// Nothing.
    Silent,
}

impl Cell {
    fn of(result: &RunResult) -> Self {
        let first = result.saw.iter().find(|saw| saw.who == "client");
        match first.map(|saw| saw.what) {
            None => Self::Silent,
            Some("data") => Self::Answered,
            Some("eof") => Self::Closed,
            Some("ETIMEDOUT") => Self::TimedOut,
            Some(_) => Self::Reset,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Reset => "reset",
            Self::TimedOut => "timeout",
            Self::Closed => "closed",
            Self::Silent => "silent",
        }
    }
}

/// The whole table, on IPv4 or IPv6.
///
/// # Panics
/// Never: the scenarios that it makes are right, and a test runs them all.
#[must_use]
pub fn table(ipv6: bool) -> String {
    let mut table = format!(
        "What a client sees that has been silent for {} s, by its keepalive (idle/interval/count)\n\n\
         {:<23}{:<8}{:>6}  ",
        SILENCE.as_secs(),
        "MIDDLEBOX",
        "FIRST",
        "IDLE",
    );
    let header: Vec<String> = KEEPALIVES.iter().map(|k| format!("{k:<10}")).collect();
    table.push_str(header.concat().trim_end());
    table.push('\n');
    for profile in PROFILES {
        for first in ["client", "server"] {
            for idle_timeout_s in IDLE_TIMEOUTS_S {
                let cells = KEEPALIVES.map(|keepalive| {
                    let scenario = cell(profile.name, first, idle_timeout_s, keepalive);
                    let scenario = Scenario::parse(&scenario).expect("it is written right");
                    let options = RunOptions { ipv6, ..RunOptions::default() };
                    let run = run(&scenario, &options).expect("its profile is known");
                    format!("{:<10}", Cell::of(&run.result).word())
                });
                let row = format!("{:<23}{first:<8}{idle_timeout_s:>6}  ", profile.name);
                // Writing to a string cannot fail.
                let _ = writeln!(table, "{row}{}", cells.concat().trim_end());
            }
        }
    }
    table
}

/// The scenario of one cell: a request, silence, then one side speaks; the server answers what it gets.
fn cell(profile: &str, first: &str, idle_timeout_s: u64, keepalive: &str) -> String {
    let at = SILENCE.as_secs();
    let mut text = format!(
        "name = \"A cell of the sweep.\"\nwatch = \"{}s\"\n[path]\nprofile = \"{profile}\"\n\
         idle_timeout = \"{idle_timeout_s}s\"\n[client]\nkeepalive = \"{keepalive}\"\n",
        at + 1200,
    );
    let send = "{ send = { bytes = 500 } }";
    let mut steps = vec![("0s".to_owned(), "client", "\"connect\""), ("1s".into(), "client", send)];
    if first == "client" {
        steps.push((format!("{at}s"), "client", send));
    }
    steps.push((format!("{}s", at + 1), "server", send));
    for (at, who, does) in steps {
        let _ = write!(text, "[[timeline]]\nat = \"{at}\"\nwho = \"{who}\"\ndoes = {does}\n");
    }
    text
}
