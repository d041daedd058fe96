//! stub
use std::time::Duration;
/// k
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerKind {
    /// a
    Answer,
    /// p
    PoolIdle,
}
/// t
#[derive(Debug, Clone)]
pub struct ProgramTimer {
    /// t
    pub timer: TimerKind,
    /// a
    pub after: Duration,
}
pub(crate) fn program_timers(command: &str) -> impl Iterator<Item = ProgramTimer> {
    let t = match command {
        "node" => Some(ProgramTimer { timer: TimerKind::Answer, after: Duration::from_secs(300) }),
        "envoy" => {
            Some(ProgramTimer { timer: TimerKind::PoolIdle, after: Duration::from_secs(3600) })
        }
        _ => None,
    };
    t.into_iter()
}
