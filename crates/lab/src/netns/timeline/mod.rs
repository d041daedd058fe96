//! Scenarios on real Linux TCP, in real time: a timeline's connections on sockets of the two namespaces, every
//! duration divided by the factor that the scenario's file states; results are multiplied back.
//!
//! Not divided is what the kernel does by itself: retransmission, delayed acknowledgments, what is on its timer wheel.
//! Read first: `divided.rs`, what can be run; then `engine.rs`.

mod divided;
mod engine;
mod margin;

use self::divided::LATE;
pub use self::divided::Refused;
use super::{
    Error, NetnsError, connect,
    forward::{Forwarder, Weather},
    namespaces::{Made, Namespaces, Which},
};
use crate::{
    agreement::Tolerance,
    ends,
    path::Path,
    result::RealTimeResult,
    run::{self, Run, RunError, RunOptions},
    scenario::Scenario,
};

/// Why a scenario has no result.
#[derive(Debug, thiserror::Error)]
pub enum TimelineError {
    /// Its path cannot be decided.
    #[error(transparent)]
    Path(#[from] RunError),
    /// It cannot be run in real time.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The host does not allow it.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// Real time went on meanwhile.
    #[error(
        "this host is too busy: step {step} was done {late_ms} ms late, and the result would be of another \
         scenario. Try again, or a smaller `faster` in its [netns] table"
    )]
    Late {
        /// Which, from 1.
        step: usize,
        /// How late.
        late_ms: u128,
    },
}

/// What a model and real time, so many times faster, may differ by: what the scheduler, and the kernel's timers,
/// which have whole seconds, may be late.
#[must_use]
pub fn tolerance(faster: u32) -> Tolerance {
    let at_s = (LATE * faster).as_secs_f64();
    Tolerance { at_s, giving_up_s: at_s, one_answer_s: (engine::ONE_EVENT * faster).as_secs_f64() }
}

/// Runs a scenario's timeline. Everything that it made is gone when this returns.
///
/// # Errors
/// [`TimelineError`]: the scenario is not one for real time, or the host does not allow it or is too busy.
pub fn run_scenario(scenario: &Scenario, options: &RunOptions) -> Result<Run, TimelineError> {
    let whole = Path::decide(scenario, options)?;
    let divided = divided::divided(scenario, options, &whole)?;
    let path = &divided.path;
    let (namespaces, made) = Namespaces::without_programs(options.ipv6)?;
    let Made { wires, client_sockets, .. } = made;
    let ports = connect(wires, path, false)?;
    let mut listeners = Vec::new();
    for &backend in &path.backends {
        let listener = namespaces.socket(Which::Server)?;
        ends::listen_on(&listener, backend, divided.keepalive[1])
            .map_err(Error::system("listen"))?;
        listeners.push(listener);
    }
    let weather = Weather::default();
    let middlebox = path.middlebox(super::CAPACITY);
    let forwarder = Forwarder::new(middlebox, ports, client_sockets, weather, None)
        .map_err(|cause| Error::System { operation: "start a thread", cause })?;
    let observed = engine::run(&divided, &namespaces, forwarder, listeners)?;

    let expected = divided::expected(scenario, divided.faster);
    let mut result = run::blank(&expected, &whole, options);
    result.driver = "netns";
    let (faster, tolerance_s) = (divided.faster, tolerance(divided.faster).at_s);
    result.real_time = Some(RealTimeResult { faster, tolerance_s });
    observed.sum_up(&expected, &mut result);
    result.virtual_s = expected.watch.unwrap_or_default().0.as_secs_f64();
    run::hold(&expected, options, &whole, &mut result);
    Ok(Run { result, job_log: String::new(), agent_log: String::new() })
}
