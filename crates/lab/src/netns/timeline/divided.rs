//! A scenario in less time: every duration divided by the factor that its file states, or why it can't be.
//! No I/O.

use std::time::Duration;

use stillopen_model::{KeepaliveValues, human};

use super::margin::{self, Margin};
use crate::{
    ends::{Keepalive, keepalive},
    path::Path,
    run::{RunOptions, client_keepalive},
    scenario::{Does, KeepaliveSetting, RealTime, Scenario, Sees, Span, Step},
};

/// What is watched for longer belongs on warped time.
const LONGEST: Duration = Duration::from_secs(60);
/// How much later than asked a step may be done, and a program see what comes of it, in real time.
pub(super) const LATE: Duration = Duration::from_millis(500);
/// More ticks a second than this the middlebox's wheel does not have.
const MOST_HZ: u32 = 1_000_000;

/// Why a scenario is not run in real time.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Its file does not say how.
    #[error("it is not marked for --driver netns, its file has no [netns] table: {0}")]
    NotMarked(String),
    /// A factor for nothing.
    #[error("{0}")]
    Programs(&'static str),
    /// What is left is no whole number of seconds.
    #[error(
        "keepalive {values} can't be {faster} times faster: the kernel takes idle and interval in whole \
         seconds only; choose values, or `faster` in the [netns] table, so that both divide"
    )]
    Keepalive {
        /// Which.
        values: KeepaliveValues,
        /// The factor.
        faster: u32,
    },
    /// As little as keepalive's.
    #[error(
        "after a close the kernel stays in FIN_WAIT2 for {FIN_WAIT2_S} s, in whole seconds only, and they can't be {faster} \
         times faster: choose a `faster` in the [netns] table that divides {FIN_WAIT2_S}"
    )]
    FinWait2 {
        /// The factor.
        faster: u32,
    },
    /// It would not show whether what is expected happens.
    #[error("{faster} times faster, {0}", margin.why(*faster))]
    Margin {
        /// The factor.
        faster: u32,
        /// What is too short.
        margin: Margin,
    },
    /// Nobody waits for so long.
    #[error(
        "{faster} times faster it still lasts {lasts}, and the most is {most}: state a larger `faster` or a \
         shorter `watch` in the [netns] table; --driver vm runs it on warped time"
    )]
    TooLong {
        /// The factor.
        faster: u32,
        /// How long.
        lasts: String,
        /// And how long it may.
        most: String,
    },
}

/// `TCP_TIMEWAIT_LEN`, and `net.ipv4.tcp_fin_timeout` as kernels come.
const FIN_WAIT2_S: u32 = 60;

const PROGRAMS: &str =
    "its job and its agent are programs that need hours; --driver vm runs them on warped time";

/// A scenario with divided durations.
#[derive(Debug)]
pub(super) struct Divided {
    pub(super) faster: u32,
    /// Its timeline's times are divided.
    pub(super) scenario: Scenario,
    /// Of client and server.
    pub(super) keepalive: [Option<Keepalive>; 2],
    /// With divided timeouts.
    pub(super) path: Path,
    /// How long to watch.
    pub(super) watch: Duration,
    /// Seconds of `FIN_WAIT2` after a close.
    pub(super) fin_wait2_s: i32,
}

/// Divides.
pub(super) fn divided(
    scenario: &Scenario,
    options: &RunOptions,
    path: &Path,
) -> Result<Divided, Refused> {
    let RealTime { faster, .. } = marked(scenario, options)?;
    let whole = |values: Option<KeepaliveValues>| values.map(|v| whole(v, faster)).transpose();
    let client = whole(client_keepalive(scenario, options))?;
    let server = whole(scenario.server.keepalive.0)?;
    let watch = watch(scenario) / faster;
    if watch > LONGEST {
        let (lasts, most) = (human(watch), human(LONGEST));
        return Err(Refused::TooLong { faster, lasts, most });
    }
    let closes = scenario.timeline.iter().any(|step| step.does == Does::Close);
    if closes && !FIN_WAIT2_S.is_multiple_of(faster) {
        return Err(Refused::FinWait2 { faster });
    }
    let fin_wait2_s = i32::try_from(FIN_WAIT2_S / faster).unwrap_or(1);
    let mut shorter = scenario.clone();
    for step in &mut shorter.timeline {
        step.at.0 /= faster;
        match &mut step.does {
            Does::SetIdleTimeout { idle_timeout } => idle_timeout.0 /= faster,
            Does::SetKeepalive { keepalive: KeepaliveSetting(values) } => *values = whole(*values)?,
            _ => {}
        }
    }
    margin::check(scenario, options, path, faster)?;
    let mut path = path.clone();
    path.timeouts = path.timeouts.each(|timeout| timeout / faster);
    // A bucket of the wheel is shorter by the same factor.
    path.hz = path.hz.saturating_mul(faster).min(MOST_HZ);
    let keepalive = [client, server].map(|values| values.map(keepalive));
    Ok(Divided { faster, scenario: shorter, keepalive, path, watch, fin_wait2_s })
}

/// The scenario as what was seen of it is held against it: watched as long as in real time, its expectations
/// wider by what real time may be off.
pub(super) fn expected(scenario: &Scenario, faster: u32) -> Scenario {
    let mut wider = scenario.clone();
    let slack = LATE * faster;
    wider.watch = Some(Span(watch(scenario)));
    for expect in &mut wider.expect {
        match (expect.sees, &mut expect.within) {
            // What came before may be seen late; not what a later step of the connection leads to.
            (Sees::Nothing, _) => {
                let of = |step: &&Step| step.connection == expect.connection && step.at > expect.at;
                let next = scenario.timeline.iter().find(of).map(|step| step.at.0);
                let late = expect.at.0 + slack;
                expect.at.0 = next.map_or(late, |next| next.min(late));
            }
            (_, Some(within)) => within.0 += slack,
            (_, None) => {}
        }
    }
    wider
}

/// How long it is watched, not divided.
pub(super) fn watch(scenario: &Scenario) -> Duration {
    let own = scenario.watch.unwrap_or_default();
    scenario.netns.and_then(|netns| netns.watch).unwrap_or(own).0
}

fn marked(scenario: &Scenario, options: &RunOptions) -> Result<RealTime, Refused> {
    match (scenario.netns, &scenario.incident) {
        (Some(netns), None) => Ok(netns),
        (Some(_), Some(_)) => Err(Refused::Programs(PROGRAMS)),
        (None, Some(_)) => Err(Refused::NotMarked(PROGRAMS.into())),
        (None, None) => Err(Refused::NotMarked(unmarked(scenario, options))),
    }
}

/// Whether it could be marked.
fn unmarked(scenario: &Scenario, options: &RunOptions) -> String {
    let all = [client_keepalive(scenario, options), scenario.server.keepalive.0];
    let most =
        all.into_iter().flatten().map(|values| (most_faster(values), values)).min_by_key(|m| m.0);
    let watch = watch(scenario);
    match most {
        Some((faster, values)) if watch / faster.max(1) > LONGEST => format!(
            "with keepalive {values} it could be {faster} times faster at most, as the kernel takes whole seconds \
             only, and would last {}; --driver vm runs it on warped time",
            human(watch / faster.max(1))
        ),
        _ => {
            let faster = watch.as_nanos().div_ceil(LONGEST.as_nanos()).max(1);
            let faster = u32::try_from(faster).unwrap_or(u32::MAX);
            format!("`faster = {faster}` there makes it last {}", human(watch / faster))
        }
    }
}

/// The largest factor that leaves whole seconds of both.
fn most_faster(values: KeepaliveValues) -> u32 {
    let (mut a, mut b) = (values.idle.as_secs(), values.interval.as_secs());
    while b > 0 {
        (a, b) = (b, a % b);
    }
    u32::try_from(a).unwrap_or(u32::MAX)
}

fn whole(values: KeepaliveValues, faster: u32) -> Result<KeepaliveValues, Refused> {
    let KeepaliveValues { idle, interval, count } = values;
    let (idle, interval) = (idle / faster, interval / faster);
    let is_whole = |time: Duration| time.subsec_nanos() == 0 && time.as_secs() > 0;
    if is_whole(idle) && is_whole(interval) {
        Ok(KeepaliveValues { idle, interval, count })
    } else {
        Err(Refused::Keepalive { values, faster })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMELINE: &str = "name = \"A sentence.\"\nwatch = \"1000s\"\n[path]\nprofile = \"ipvs\"\n\
                            [client]\nkeepalive = \"300/100/3\"\n[[timeline]]\nat = \"0s\"\nwho = \"client\"\n\
                            does = \"connect\"\n[[timeline]]\nat = \"600s\"\nwho = \"path\"\n\
                            does = { set_idle_timeout = { idle_timeout = \"50s\" } }\n";

    fn of(text: &str, options: &RunOptions) -> Result<Divided, Refused> {
        let scenario = Scenario::parse(text).unwrap();
        let path = Path::decide(&scenario, options).unwrap();
        divided(&scenario, options, &path)
    }

    #[test]
    fn every_duration_is_divided() {
        let text = format!("{TIMELINE}[netns]\nfaster = 100\n");
        let divided = of(&text, &RunOptions::default()).unwrap();
        assert_eq!(divided.watch, Duration::from_secs(10));
        assert_eq!(divided.keepalive, [Some([3, 1, 3]), None]);
        assert_eq!(divided.path.idle_timeout(), Duration::from_secs(9));
        assert_eq!(divided.path.hz, 25_000);
        let step = &divided.scenario.timeline[1];
        let idle_timeout = Span(Duration::from_millis(500));
        assert_eq!(
            (step.at, &step.does),
            (Span(Duration::from_secs(6)), &Does::SetIdleTimeout { idle_timeout })
        );
    }

    #[test]
    fn what_cannot_be_divided_says_why() {
        let asked = |keepalive: &str| RunOptions {
            keepalive: Some(keepalive.parse().unwrap()),
            ..RunOptions::default()
        };
        let marked = |table: &str| format!("{TIMELINE}[netns]\n{table}\n");
        let long = TIMELINE.replace("1000s", "2h");
        for (text, options, says) in [
            (TIMELINE.to_owned(), RunOptions::default(), "`faster = 17`"),
            (long.clone(), asked("60/30/3"), "30 times faster at most"),
            (marked("faster = 50"), asked("60/30/3"), "60/30/3 can't be 50 times faster"),
            (marked("faster = 100"), asked("60/30/3"), "whole seconds"),
            (marked("faster = 16"), RunOptions::default(), "divide"),
            (marked("faster = 10"), RunOptions::default(), "lasts 1m40s"),
            (
                marked("faster = 100").replace("1000s", "2h"),
                RunOptions::default(),
                "lasts 1m12s, and the most is 1m00s",
            ),
        ] {
            let said = of(&text, &options).unwrap_err().to_string();
            assert!(said.contains(says), "{said}");
        }
    }
}
