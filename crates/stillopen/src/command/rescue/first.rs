//! The probe that goes out at once on a connection that has been quiet for longer than its new idle time: what is said
//! of it before, and what it met.

use std::time::Duration;

use stillopen_model::{Connection, KeepaliveValues};
use stillopen_remedy::{FirstProbe, Probed, first_probes, open_at_once};

use super::{Act, Row};
use crate::report::{table::wrap, words};

/// Whether it is asked, for three seconds perhaps, before it is armed.
pub(super) fn is_asked_first(c: &Connection) -> bool {
    c.user_timeout.is_some_and(|time| !time.get().is_zero())
}

/// How long ago the peer was heard, where that is longer ago than a first probe waits for. A connection with a
/// `TCP_USER_TIMEOUT` is asked first, once it has been quiet for a second.
pub(super) fn probed_at_once(c: &Connection, values: KeepaliveValues) -> Option<Duration> {
    let counters = c.counters?;
    let idle = if is_asked_first(c) { Duration::from_secs(1) } else { values.idle };
    let heard = counters.last_data_recv.min(counters.last_ack_recv).get();
    (heard >= idle && counters.unacked == 0).then_some(heard)
}

/// Connections that were probed and not looked at yet, with their positions among the rows.
pub(super) struct First {
    probed: Vec<(usize, Probed)>,
    most: usize,
}

impl Default for First {
    fn default() -> Self {
        // One more is open while it is armed, and some are for what reads the host.
        Self { probed: Vec::new(), most: open_at_once() / 2 }
    }
}

impl First {
    pub(super) fn add(&mut self, at: usize, probed: Option<Probed>) {
        self.probed.extend(probed.map(|probed| (at, probed)));
    }

    /// No more can be open.
    pub(super) fn settle_if_full(&mut self, rows: &mut [Row]) {
        if self.probed.len() >= self.most {
            self.settle(rows);
        }
    }

    /// Waits until it is known what each met, for two seconds at the most.
    pub(super) fn settle(&mut self, rows: &mut [Row]) {
        let (places, probed): (Vec<_>, Vec<_>) = self.probed.drain(..).unzip();
        for (at, result) in places.into_iter().zip(first_probes(probed)) {
            if let Act::Arm { met, .. } = &mut rows[at].act {
                *met = Some(result);
            }
        }
    }
}

/// Before: of how many, and what it may meet.
pub(super) fn warning(n: usize) -> String {
    if n == 0 {
        return String::new();
    }
    let n = words::plural(n, "connection");
    wrap(
        &format!(
            "A probe goes out at once on {n}, quiet for long enough: where the path has forgotten one, it may \
             draw a reset, which ends it."
        ),
        4,
    )
}

/// After: what they met.
pub(super) fn outcome(armed: &[&Row]) -> String {
    let count = |wanted| {
        let is = |row: &&&Row| matches!(row.act, Act::Arm { met: Some(met), .. } if met == wanted);
        armed.iter().filter(is).count()
    };
    let (answered, open) = (count(FirstProbe::Answered), count(FirstProbe::NoAnswerYet));
    let (ended, closed) = (count(FirstProbe::Ended), count(FirstProbe::Closed));
    let mut out = String::new();
    if answered + open + ended + closed > 0 {
        let closed = match closed {
            0 => String::new(),
            n => format!(", {} closed by its program", words::count(n)),
        };
        let line = format!(
            "Probed at once: {} answered, {} not answered yet, {} ended{closed}.",
            words::count(answered),
            words::count(open),
            words::count(ended)
        );
        out.push_str(&wrap(&line, 4));
    }
    if ended > 0 {
        out.push_str(&wrap(ENDED, 4));
    }
    out
}

const ENDED: &str = "ENDED: the probe drew a reset, so the path or the peer had forgotten the connection (or \
                     got no answer, where the values give up within 2s). Its program gets an error.";
