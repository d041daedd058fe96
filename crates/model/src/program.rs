//! Timers that a program runs by itself, so that its own giving up is not blamed on the path.
//!
//! The numbers are rows of the catalogue; here they are found by the name of the process.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::catalogue::{Catalogue, Row};

/// What a program's timer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimerKind {
    /// The next byte of an answer; then the program gives up.
    Answer,
    /// The next request on a connection that is kept for reuse; then the program closes it.
    PoolIdle,
    /// The whole call, however busy its connection is.
    Total,
}

/// A timer of a program, by default: a setting of this very process may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramTimer {
    /// The process's name: `node`.
    pub program: &'static str,
    /// What it waits for.
    pub timer: TimerKind,
    /// For how long.
    pub after: Duration,
    /// The row of the catalogue that says so.
    pub row_id: &'static str,
}

/// The known timers of a program, by its name, its path or its command line.
///
/// One process may be client and server: which of them bears on a connection is for its role to say.
pub fn program_timers(command: &str) -> impl Iterator<Item = ProgramTimer> + use<> {
    let name = program_name(command).to_owned();
    Catalogue::builtin().rows().iter().filter_map(move |row| timer_of(row, &name))
}

fn timer_of(row: &'static Row, name: &str) -> Option<ProgramTimer> {
    let program = row.programs.iter().find(|program| *program == name)?;
    let after = row.after.or(row.idle_timeout)?;
    Some(ProgramTimer { program, timer: row.timer?, after, row_id: &row.id })
}

/// `node` of `/usr/bin/node server.js`.
fn program_name(command: &str) -> &str {
    let path = command.split_whitespace().next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timers(command: &str) -> Vec<(TimerKind, u64)> {
        program_timers(command).map(|timer| (timer.timer, timer.after.as_secs())).collect()
    }

    #[test]
    fn found_by_name_path_or_command_line() {
        let node = [(TimerKind::PoolIdle, 5), (TimerKind::Answer, 300)];
        for command in ["node", "/usr/bin/node", "/usr/bin/node server.js --port 80"] {
            assert_eq!(timers(command), node, "{command}");
        }
        assert_eq!(timers("envoy -c /etc/envoy.yaml"), [(TimerKind::PoolIdle, 3600)]);
    }

    #[test]
    fn no_timer_for_an_unknown_program() {
        for command in ["", " ", "/", "nodejs-exporter", "server.js node"] {
            assert_eq!(timers(command), [], "{command:?}");
        }
    }

    #[test]
    fn every_row_that_names_a_program_is_a_timer_that_was_seen() {
        for row in Catalogue::builtin().rows().iter().filter(|row| !row.programs.is_empty()) {
            assert!(timer_of(row, &row.programs[0]).is_some(), "{}", row.id);
            assert_ne!(row.evidence, crate::Verified::Unverified, "{}", row.id);
        }
    }
}
