//! The JSON output, schema `stillopen.rescue/1`: documented in `docs/json.md`.

use std::net::SocketAddr;

use serde::Serialize;
use stillopen_collect::{Handle, SocketOptions};
use stillopen_model::{Connection, Gap, Snapshot};

use super::{Act, Rescue, Row};
use crate::report::json::KeepaliveRow;

pub(super) const SCHEMA: &str = "stillopen.rescue/1";

/// One object; `action`: `keepalive`, `close`, `undo`.
#[derive(Serialize)]
pub(super) struct Document<'a, T> {
    pub(super) schema: &'static str,
    pub(super) taken_at: &'a str,
    pub(super) action: &'static str,
    pub(super) applied: bool,
    pub(super) connections: Vec<T>,
    pub(super) gaps: &'a [Gap],
}

/// Where a connection is, for each of the actions.
#[derive(Serialize)]
pub(crate) struct Place<'a> {
    pub(crate) pid: Option<u32>,
    pub(crate) fd: Option<u32>,
    pub(crate) command: Option<&'a str>,
    pub(crate) netns: Option<&'a str>,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

impl<'a> Place<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot, c: &Connection, handle: Option<Handle>) -> Self {
        let owner = snapshot.process(c.owner);
        Self {
            pid: owner.map(|owner| owner.pid),
            fd: handle.map(|handle| handle.fd),
            command: owner.map(|owner| owner.command.as_str()),
            netns: snapshot.namespace(c.netns).map(|namespace| namespace.name.as_str()),
            local: c.local,
            peer: c.peer,
        }
    }
}

#[derive(Serialize)]
struct Armed<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    quiet_s: Option<f64>,
    verdict: &'static str,
    before: Options,
    after: Option<Options>,
    predicted: Option<&'static str>,
    one_lost_probe_kills: bool,
    first_probe: Option<&'static str>,
    done: bool,
    left: Option<&'static str>,
    error: Option<String>,
}

/// The options of a socket.
#[derive(Serialize)]
pub(super) struct Options {
    keepalive: KeepaliveRow,
    user_timeout_s: Option<f64>,
}

impl From<SocketOptions> for Options {
    fn from(options: SocketOptions) -> Self {
        Self {
            keepalive: options.keepalive.into(),
            user_timeout_s: Some(options.user_timeout.get().as_secs_f64()),
        }
    }
}

pub(super) fn text(rescue: &Rescue<'_>) -> anyhow::Result<String> {
    let snapshot = &rescue.collected.snapshot;
    json_text(&Document {
        schema: SCHEMA,
        taken_at: &snapshot.taken_at,
        action: "keepalive",
        applied: rescue.args.apply,
        connections: rescue.rows.iter().map(|row| armed(rescue, row)).collect(),
        gaps: &snapshot.gaps,
    })
}

fn armed<'a>(rescue: &'a Rescue<'_>, row: &Row) -> Armed<'a> {
    let snapshot = &rescue.collected.snapshot;
    let c = &snapshot.connections[row.index as usize];
    let (after, predicted, left, error) = match &row.act {
        Act::Leave(left) => (None, None, Some(left.name()), None),
        Act::Arm { predicted, done, .. } => {
            let ended =
                || Some("its first probe ended it: the path or the peer had forgotten it".into());
            let (after, error) = match done {
                Some(Ok(_)) if row.has_ended() => (None, ended()),
                Some(Ok(after)) => (Some((*after).into()), None),
                Some(Err(refusal)) => (None, Some(refusal.to_string())),
                None => (None, None),
            };
            (after, Some(predicted.name()), None, error)
        }
    };
    Armed {
        place: Place::of(snapshot, c, row.handle),
        quiet_s: c.quiet().map(|quiet| quiet.as_secs_f64()),
        verdict: rescue.diagnoses[row.index as usize].verdict.name(),
        before: Options {
            keepalive: c.keepalive.into(),
            user_timeout_s: c.user_timeout.map(|time| time.get().as_secs_f64()),
        },
        one_lost_probe_kills: row.one_lost_probe_kills(c),
        first_probe: row.first_probe(c),
        done: after.is_some(),
        after,
        predicted,
        left,
        error,
    }
}

/// One line.
pub(crate) fn json_text(document: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string(document)? + "\n")
}
