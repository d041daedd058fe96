//! What to beware of, and what cures a path where keepalive does not: tables, shown as they apply.

use std::time::Duration;

use serde::Serialize;
use stillopen_model::{Judgement, KeepaliveValues, equal_timers, human};

use super::assess::{Assessment, HZ};
use crate::report::{table::printable, words};

/// A sentence with the name that it has in the JSON output.
#[derive(Debug, Serialize)]
pub(super) struct Note {
    pub(super) id: &'static str,
    pub(super) text: String,
}

/// A dead peer should not be declared in less: a busy host or a short outage is silent for as long.
const SHORTEST_DETECTION: Duration = Duration::from_secs(30);

/// What holds for any values.
const ALWAYS: [(&str, &str); 7] = [
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

/// What to beware of with these values under these limits.
pub(super) fn beware(assessment: &Assessment, values: KeepaliveValues) -> Vec<Note> {
    let mut notes = of_values(assessment, values);
    notes.push(user_timeout(values));
    notes.extend(ALWAYS.map(|(id, text)| Note { id, text: text.to_owned() }));
    notes
}

/// What is wrong with the values themselves, besides being too late.
pub(super) fn of_values(assessment: &Assessment, values: KeepaliveValues) -> Vec<Note> {
    let mut notes = Vec::new();
    let limits = if assessment.is_of_a_path() { assessment.limits() } else { &[] };
    for timer in equal_timers(values, limits) {
        let time = words::limit_time(timer.time);
        let whose = if timer.time == Duration::from_secs(300) {
            " (conntrack's for unacknowledged data, among others)"
        } else {
            ""
        };
        notes.push(Note {
            id: "equals_timer",
            text: format!(
                "The {} of {time} equals a timer{whose}: which comes first is a race.",
                timer.which
            ),
        });
    }
    if values.dead_peer_after() < SHORTEST_DETECTION {
        notes.push(Note {
            id: "short_detection",
            text: format!(
                "A silence of {} is taken for a dead peer: a busy host or a short outage ends good \
                 connections so. Stay above {}.",
                human(values.dead_peer_after()),
                words::limit_time(SHORTEST_DETECTION)
            ),
        });
    }
    for limit in limits {
        let after = [limit.client_closed, limit.server_closed].into_iter().flatten().min();
        if let Some(after) = after.filter(|after| values.latest_refresh(HZ) >= *after) {
            notes.push(Note {
                id: "half_closed",
                text: format!(
                    "Once one end has closed its direction, {} forgets after {}: these values are too \
                     late for that.",
                    printable(&limit.id),
                    words::limit_time(after)
                ),
            });
        }
    }
    notes
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
    if useless {
        CURES.map(|(id, text)| Note { id, text: text.to_owned() }).into()
    } else {
        Vec::new()
    }
}
