//! What to beware of, and what cures a path where keepalive does not: tables, shown as they apply.

use std::time::Duration;

use serde::Serialize;
use stillopen_model::{
    EqualsTimer, EvidenceSource, IdleLimit, Judgement, KeepaliveValues, equal_timers, human,
};

use super::assess::{Assessment, HZ, judged, round_up};
use crate::report::{table::printable, words};

/// A sentence with the name that it has in the JSON output.
#[derive(Debug, Serialize)]
pub(super) struct Note {
    pub(super) id: &'static str,
    pub(super) text: String,
}

impl From<(&'static str, &str)> for Note {
    fn from((id, text): (&'static str, &str)) -> Self {
        Self { id, text: text.to_owned() }
    }
}

/// A dead peer should not be declared in less: a busy host or a short outage is silent for as long.
const SHORTEST_DETECTION: Duration = Duration::from_secs(30);

/// What holds for any values.
const ALWAYS: [(&str, &str); 3] = [
    (
        "sysctl_alone",
        "The sysctls tcp_keepalive_* do nothing alone: they are the values of sockets that set SO_KEEPALIVE \
         and no values of their own, and each network namespace, so each pod, has its own sysctls.",
    ),
    (
        "either_end",
        "Either end's keepalive suffices on layers 3 and 4. A proxy ends TCP: each leg is a path of its \
         own, and needs its own.",
    ),
    (
        "unacknowledged",
        "While data that was sent is unacknowledged, keepalive does not run: a peer that dies then is \
         noticed by TCP_USER_TIMEOUT, without it after 924 to 939 s.",
    ),
];

/// What holds for any values, and for few programs.
const GENERAL: [(&str, &str); 4] = [
    (
        "own_liveness",
        "Leave out protocols with a liveness of their own (BGP, SSH's ServerAliveInterval, AMQP \
         heartbeats): probes could end a session before its own timer decides.",
    ),
    (
        "grpc_pings",
        "gRPC's pings are another matter: a server answers those above its minimum (300 s by default) with \
         GOAWAY, too_many_pings. No server sees TCP's probes.",
    ),
    (
        "scale_to_zero",
        "A database that scales to zero may take an open connection for use, or count queries only: ask \
         its vendor.",
    ),
    ("battery", "On a mobile device each probe wakes the radio: take the longest idle that fits."),
];

/// What helps where only payload counts, the best first.
const CURES: [(&str, &str); 6] = [
    ("streaming", "Stream the answer, so that its parts are the payload."),
    ("sse_comments", "Server-sent events: a comment line (a colon) while there is nothing to say."),
    ("heartbeat", "The protocol's own heartbeat: AMQP, WebSocket ping, a query that does nothing."),
    (
        "http2_ping",
        "HTTP/2 PING, only where that hop counts it; it goes no further than the next proxy.",
    ),
    ("submit_and_poll", "Submit the work, and poll for the answer with short requests."),
    ("proxy_timer", "Raise the proxy's own timer above the longest silence."),
];

/// What to beware of with these values under these limits, the most relevant first.
pub(super) fn beware(assessment: &Assessment, values: KeepaliveValues) -> Vec<Note> {
    let mut notes = for_values(assessment, values);
    notes.extend(ALWAYS.map(Note::from));
    notes
}

/// What holds for any values, and for few programs.
pub(super) fn general() -> impl Iterator<Item = Note> {
    GENERAL.map(Note::from).into_iter()
}

/// What depends on the values, the most relevant first.
pub(super) fn for_values(assessment: &Assessment, values: KeepaliveValues) -> Vec<Note> {
    let mut notes = equalities(assessment, values);
    notes.extend(thin(assessment, values));
    notes.push(user_timeout(values));
    notes.extend(short_detection(values));
    notes.extend(half_closed(assessment, values));
    notes
}

/// What is wrong with the values themselves, besides being too late or thin.
pub(super) fn of_values(assessment: &Assessment, values: KeepaliveValues) -> Vec<Note> {
    let mut notes = equalities(assessment, values);
    notes.extend(short_detection(values));
    notes.extend(half_closed(assessment, values));
    notes
}

/// The limits of the path.
fn of_path(assessment: &Assessment) -> &[IdleLimit] {
    if assessment.is_of_a_path() { assessment.limits() } else { &[] }
}

fn equalities(assessment: &Assessment, values: KeepaliveValues) -> Vec<Note> {
    let note = |timer: EqualsTimer| {
        let time = words::limit_time(timer.time);
        let whose = if timer.time == Duration::from_secs(300) {
            " (conntrack's for unacknowledged data, among others)"
        } else {
            ""
        };
        Note {
            id: "equals_timer",
            text: format!(
                "The {} of {time} equals a timer{whose}: which comes first is a race.",
                timer.which
            ),
        }
    };
    equal_timers(values, of_path(assessment)).map(note).collect()
}

/// Of the first limit that leaves no room for a lost probe.
fn thin(assessment: &Assessment, values: KeepaliveValues) -> Option<Note> {
    let mut all = judged(of_path(assessment), values);
    let limit = all.find(|judged| judged.judgement == Judgement::ThinMargin)?.limit;
    let text = if values.count == 1 {
        "A count of 1 ends the connection when one probe is lost.".to_owned()
    } else {
        let second = values.latest_refresh(HZ) + values.interval + HZ.slack(values.interval);
        format!(
            "One lost probe is too many under {}: the one after it may come {} after the last packet.",
            name(limit),
            human(round_up(second))
        )
    };
    Some(Note { id: "thin_margin", text })
}

fn short_detection(values: KeepaliveValues) -> Option<Note> {
    let after = values.dead_peer_after();
    (after < SHORTEST_DETECTION).then(|| Note {
        id: "short_detection",
        text: format!(
            "A silence of {} is taken for a dead peer: a busy host or a short outage ends good connections \
             so. Stay above {}.",
            human(after),
            words::limit_time(SHORTEST_DETECTION)
        ),
    })
}

/// Of each limit that is shorter once one end has closed, and too short then.
fn half_closed(
    assessment: &Assessment,
    values: KeepaliveValues,
) -> impl Iterator<Item = Note> + use<'_> {
    of_path(assessment).iter().filter_map(move |limit| {
        let after = [limit.client_closed, limit.server_closed].into_iter().flatten().min();
        let after = after.filter(|after| values.latest_refresh(HZ) >= *after)?;
        let text = format!(
            "Once one end has closed its direction, {} forgets after {}: these values are too late for \
             that.",
            printable(&limit.id),
            words::limit_time(after)
        );
        Some(Note { id: "half_closed", text })
    })
}

/// `aws-nat-gateway (350s)`, `a limit of 350s`
pub(super) fn name(limit: &IdleLimit) -> String {
    let time = words::limit_time(limit.idle_timeout);
    match limit.evidence.first() {
        Some(evidence) if evidence.source == EvidenceSource::User => format!("a limit of {time}"),
        _ => format!("{} ({time})", printable(&limit.id)),
    }
}

fn user_timeout(values: KeepaliveValues) -> Note {
    let after = values.dead_peer_after();
    Note {
        id: "user_timeout",
        text: format!(
            "TCP_USER_TIMEOUT replaces the count where a program sets it: not below {} ms with these \
             values, or lost probes end the connection sooner.",
            after.as_millis()
        ),
    }
}

/// What helps under the limits that count payload only; empty where there is none.
pub(super) fn cures(assessment: &Assessment) -> Vec<Note> {
    let useless = assessment.is_of_a_path() && assessment.first(Judgement::Useless).is_some();
    if useless { CURES.map(Note::from).into() } else { Vec::new() }
}
