//! What came of a run of `lab exec`: for programs, and in a sentence for people.

use std::{
    fmt::{self, Write as _},
    net::SocketAddr,
    time::Duration,
};

use serde::Serialize;
use stillopen_model::Refresh;

use crate::result::PathResult;

/// The version of [`Summary`]'s fields.
pub const SCHEMA: &str = "stillopen.lab-exec/1";

/// The sentence names so many times; the others are counted.
const NAMED: usize = 5;

/// How a run of a client went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What ran it: `netns` or `vm`.
    pub driver: &'static str,
    /// What was between the ends.
    pub path: PathResult,
    /// How the client ended.
    pub status: Status,
    /// How long it ran, by the clock that the path has.
    pub took_s: f64,
    /// What the path did.
    #[serde(flatten)]
    pub counts: Counts,
    /// How the server's command ended, where it did so before the client.
    pub server_ended: Option<ServerEnded>,
    /// What else there is to say, a sentence each without its end.
    pub notes: Vec<String>,
}

/// What a path did.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Counts {
    /// Connections that the path has known.
    pub connections: u32,
    /// Those of them that it forgot while they were open.
    pub forgotten: Vec<Forgotten>,
    /// Forgotten connections on which the server sent data that did not reach the client.
    pub answers_lost: u32,
    /// Forgotten connections on which the client sent data that did not reach the server.
    pub requests_lost: u32,
    /// Resets that the path made itself.
    pub resets: u32,
    /// What crossed it.
    pub packets: Packets,
}

/// The end of a server's command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerEnded {
    /// How.
    pub status: Status,
    /// The last lines that it wrote.
    pub said: Vec<String>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// With this exit status.
    Exit(u8),
    /// By this signal.
    Signal(u8),
}

impl Status {
    /// As a shell has it: 128 and the signal's number for a death by signal.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Exit(code) => code,
            Self::Signal(number) => 128_u8.saturating_add(number),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit status {code}"),
            Self::Signal(number) => write!(f, "signal {number}"),
        }
    }
}

/// A connection that was forgotten while it was open.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forgotten {
    /// When, since the start.
    pub at_s: f64,
    /// When its last packet had come.
    pub last_s: f64,
    /// When the client's keepalive would have probed next. `None`: it is off, or that is not known.
    pub probe_s: Option<f64>,
    /// Whether that probe comes after the keepalive's idle time, and not after a probe without an answer.
    #[serde(skip)]
    pub probe_is_first: bool,
    /// Who opened it.
    pub client: SocketAddr,
    /// Whom the client connected to.
    pub vip: SocketAddr,
    /// Who served it.
    pub backend: SocketAddr,
}

/// When a client's keepalive will probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextProbe {
    /// Since the start.
    pub at: Duration,
    /// [`Forgotten::probe_is_first`]
    pub is_first: bool,
}

/// Packets, as the path had them: what offloading keeps together is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Packets {
    /// That went on to the server's side.
    pub to_server: u64,
    /// That went on to the client's side.
    pub to_client: u64,
    /// That the path dropped.
    pub dropped: u64,
    /// That were lost at random, as asked.
    pub lost: u64,
}

impl Summary {
    /// What the path did, in a sentence without its end.
    #[must_use]
    pub fn text(&self) -> String {
        self.counts.text()
    }
}

impl Counts {
    /// What the path did, in a sentence without its end.
    #[must_use]
    pub fn text(&self) -> String {
        let count = |number: u32, one: &str, more: &str| match number {
            1 => format!("1 {one}"),
            _ => format!("{number} {more}"),
        };
        let forgot = u32::try_from(self.forgotten.len()).unwrap_or(u32::MAX);
        let mut text = match (self.connections, forgot) {
            (0, 0) => return "no connection came to the path".into(),
            (1, 0) => "forgot nothing of 1 connection".to_owned(),
            (all, 0) => format!("forgot none of {all} connections"),
            (_, some) => {
                format!("forgot {} at {}", count(some, "connection", "connections"), self.times())
            }
        };
        if self.answers_lost > 0 {
            let (one, more) = (
                "answer left for a peer that never got it",
                "answers left for peers that never got them",
            );
            let _ = write!(text, "; {}", count(self.answers_lost, one, more));
        }
        if self.requests_lost > 0 {
            let (one, more) = (
                "request left for a server that never got it",
                "requests left for a server that never got them",
            );
            let _ = write!(text, "; {}", count(self.requests_lost, one, more));
        }
        if forgot > 0 && self.answers_lost == 0 && self.requests_lost == 0 {
            let _ = write!(text, "; no data was lost by it");
        }
        if self.resets > 0 {
            let _ = write!(text, "; made {}", count(self.resets, "reset", "resets"));
        }
        text
    }

    /// What to say where keepalive was on and did not hold what a path forgot that is refreshed so, after
    /// `idle_timeout`.
    #[must_use]
    pub fn of_keepalive(&self, refreshed_by: Refresh, idle_timeout: Duration) -> Option<String> {
        match refreshed_by {
            Refresh::AnyPacket => self.late_keepalive(idle_timeout),
            Refresh::PayloadOnly => self.useless_keepalive(),
            Refresh::Unknown => None,
        }
    }

    fn useless_keepalive(&self) -> Option<String> {
        let on = self.forgotten.iter().filter(|one| one.probe_s.is_some()).count();
        (on > 0).then(|| {
            format!(
                "keepalive was on for {on} of the forgotten; keepalive does not help behind this profile: only data \
                 counts"
            )
        })
    }

    /// Any packet refreshes the path, so what it forgot was idle: a first probe that is later than the path is the
    /// keepalive's own idle time. Other probes were lost on their way.
    fn late_keepalive(&self, idle_timeout: Duration) -> Option<String> {
        let limit = idle_timeout.as_secs_f64();
        let after = |one: &Forgotten| Some(one.probe_s? - one.last_s);
        let first = self.forgotten.iter().filter(|one| one.probe_is_first).filter_map(after);
        let after: Vec<f64> = first.filter(|&after| after >= limit).collect();
        let first = after.iter().copied().reduce(f64::min)?;
        Some(format!(
            "keepalive was on for {} of the forgotten, but was to probe {first:.1} s after the last packet, and the \
             path forgets after {limit:.1} s: so short an idle timeout says nothing of keepalive behind a longer one",
            after.len()
        ))
    }

    fn times(&self) -> String {
        let named = self.forgotten.iter().take(NAMED).map(|one| format!("{:.1} s", one.at_s));
        let mut times: Vec<_> = named.collect();
        if self.forgotten.len() > NAMED {
            times.push(format!("{} more times", self.forgotten.len() - NAMED));
        }
        match times.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, before)) => format!("{} and {last}", before.join(", ")),
            None => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(connections: u32, forgotten: &[f64], lost: [u32; 2], resets: u32) -> String {
        let end = SocketAddr::from(([10, 0, 1, 2], 20_000));
        let forgotten = forgotten.iter().map(|&at_s| Forgotten {
            at_s,
            last_s: 0.0,
            probe_s: None,
            probe_is_first: false,
            client: end,
            vip: end,
            backend: end,
        });
        Counts {
            connections,
            forgotten: forgotten.collect(),
            answers_lost: lost[0],
            requests_lost: lost[1],
            resets,
            packets: Packets::default(),
        }
        .text()
    }

    #[test]
    fn one_sentence() {
        for (text, is) in [
            (summary(0, &[], [0, 0], 0), "no connection came to the path"),
            (summary(1, &[], [0, 0], 0), "forgot nothing of 1 connection"),
            (summary(3, &[], [0, 0], 0), "forgot none of 3 connections"),
            (
                summary(1, &[5.01], [1, 0], 0),
                "forgot 1 connection at 5.0 s; 1 answer left for a peer that never got it",
            ),
            (
                summary(2, &[5.0, 7.25], [0, 1], 1),
                "forgot 2 connections at 5.0 s and 7.2 s; 1 request left for a server that never got it; made \
                 1 reset",
            ),
            (
                summary(7, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], [0, 0], 0),
                "forgot 7 connections at 1.0 s, 2.0 s, 3.0 s, 4.0 s, 5.0 s and 2 more times; no data was lost \
                 by it",
            ),
        ] {
            assert_eq!(text, is);
        }
    }

    #[test]
    fn a_keepalive_that_is_later_than_the_path_is_told() {
        let end = SocketAddr::from(([10, 0, 1, 2], 20_000));
        let probes = [(None, false), (Some(61.0), true), (Some(76.0), true), (Some(5.0), false)];
        let forgotten = probes.map(|(probe_s, probe_is_first)| Forgotten {
            at_s: 4.1,
            last_s: 1.0,
            probe_s,
            probe_is_first,
            client: end,
            vip: end,
            backend: end,
        });
        let of = |refreshed_by, forgotten: &[Forgotten]| {
            let counts = Counts { forgotten: forgotten.to_vec(), ..Counts::default() };
            counts.of_keepalive(refreshed_by, Duration::from_secs(3))
        };
        assert_eq!(of(Refresh::AnyPacket, &forgotten[..1]), None);
        // Its earlier probes were lost on their way.
        assert_eq!(of(Refresh::AnyPacket, &forgotten[3..]), None);
        // The path was not idle for the keepalive's own time: data keeps its probe away.
        let soon = Forgotten { probe_s: Some(2.0), ..forgotten[1].clone() };
        assert_eq!(of(Refresh::AnyPacket, &[soon]), None);
        let said = of(Refresh::AnyPacket, &forgotten).unwrap();
        assert!(
            said.starts_with("keepalive was on for 2 of the forgotten, but was to probe 60.0 s"),
            "{said}"
        );
        assert!(said.contains("forgets after 3.0 s"), "{said}");
        // A proxy counts data alone, whenever keepalive probes.
        assert_eq!(of(Refresh::PayloadOnly, &forgotten[..1]), None);
        for forgotten in [&forgotten[..2], &forgotten[3..]] {
            let said = of(Refresh::PayloadOnly, forgotten).unwrap();
            assert!(
                said.contains("for 1 of the forgotten") && said.ends_with("only data counts"),
                "{said}"
            );
        }
    }

    #[test]
    fn a_death_by_signal_is_128_and_its_number() {
        assert_eq!((Status::Exit(3).code(), Status::Signal(15).code()), (3, 143));
    }
}
