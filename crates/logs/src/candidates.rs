//! What could have done it: the catalogue's rows that the numbers allow.
//!
//! A number alone names nobody: several components share each of the usual ones, and every default can be
//! changed. So these are candidates, and something else has to decide between them.

use std::time::Duration;

use stillopen_model::{Catalogue, Expiry, Kind, Row};

use crate::analysis::{Analysis, Class};

/// A timer is set in seconds, and found to a few.
const NEAR: Duration = Duration::from_secs(2);

/// The rows that could explain the result, in the catalogue's order.
#[must_use]
pub fn candidates(analysis: &Analysis) -> Vec<&'static Row> {
    let rows = |fits: &dyn Fn(&Row) -> bool| -> Vec<&'static Row> {
        Catalogue::builtin().rows().iter().filter(|row| fits(row)).collect()
    };
    let near =
        |time: Option<Duration>, to: Duration| time.is_some_and(|time| time.abs_diff(to) <= NEAR);
    let ended_after = analysis.one_sided.and_then(|one| one.ended_after);
    match (analysis.class, analysis.limit, analysis.client_timer) {
        // The clients were told nothing: what closes or resets a connection is none.
        (Class::IdleLimit, Some(limit), _) => rows(&|row| {
            let fits = row.idle_timeout.is_some_and(|t| (limit.low..=limit.high).contains(&t));
            row.kind == Kind::Idle && fits && matches!(row.on_expiry, None | Some(Expiry::Silent))
        }),
        (Class::ClientTimer, _, Some(timer)) => {
            rows(&|row| row.kind == Kind::ProgramTimer && near(row.after, timer.after))
        }
        _ => match analysis.cap.or(ended_after) {
            // Who was told: by a cap, by a timer of a program, or by something that closes what is idle.
            Some(cap) => rows(&|row| match row.kind {
                Kind::DurationCap | Kind::ProgramTimer => near(row.after, cap.after),
                Kind::Idle => {
                    near(row.idle_timeout, cap.after) && row.on_expiry != Some(Expiry::Silent)
                }
                _ => false,
            }),
            None => Vec::new(),
        },
    }
}
