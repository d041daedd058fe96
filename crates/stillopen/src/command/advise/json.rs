//! The JSON output, schema `stillopen.advise/1`: documented in `docs/json.md`.

use std::io::{self, Write};

use serde::Serialize;
use stillopen_model::{Cost, Gap, Judgement, KeepaliveValues, PROBE_BYTES_IPV4};

use super::{
    Setting, Source,
    assess::{Assessment, Judged, judged, next_probe_within},
    notes::{self, Note},
};
use crate::clients::{self, Client};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    limits_from: Source,
    limits: Vec<Limit<'a>>,
    keepalive: Option<KeepaliveValues>,
    given: bool,
    judgement: Option<Judgement>,
    better: Option<Better>,
    decided_by: Option<&'a str>,
    next_probe_within_s: Option<u64>,
    dead_peer_after_s: Option<u64>,
    cost: Option<CostOf>,
    beware: Vec<Note>,
    cures: Vec<Note>,
    gaps: &'a [Gap],
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<ClientOf<'a>>,
}

#[derive(Serialize)]
struct Limit<'a> {
    id: &'a str,
    component: &'a str,
    idle_timeout_s: f64,
    judgement: Judgement,
    lost_probes_survived: Option<u32>,
}

/// What is advised in the place of the given values, with the figures that the document has of those.
#[derive(Serialize)]
struct Better {
    #[serde(flatten)]
    keepalive: KeepaliveValues,
    judgement: Option<Judgement>,
    lost_probes_survived: Option<u32>,
    next_probe_within_s: u64,
    dead_peer_after_s: u64,
    cost: CostOf,
    beware: Vec<Note>,
}

#[derive(Serialize)]
struct CostOf {
    #[serde(flatten)]
    cost: Cost,
    bytes_per_packet: u64,
}

#[derive(Serialize)]
struct ClientOf<'a> {
    #[serde(flatten)]
    about: AboutClient<'a>,
    in_force: KeepaliveValues,
    judgement: Option<Judgement>,
    snippet: &'a str,
    beware: &'a [String],
    sources: &'a [String],
}

#[derive(Serialize)]
struct AboutClient<'a> {
    id: &'a str,
    title: &'a str,
    needs: &'a str,
    tested: Option<&'a str>,
    by_default: Option<&'a str>,
    language: &'a str,
}

#[derive(Serialize)]
struct Clients<'a> {
    schema: &'static str,
    clients: Vec<AboutClient<'a>>,
}

pub(super) fn write(
    assessment: &Assessment,
    setting: Option<&Setting>,
    to: &mut impl Write,
) -> io::Result<()> {
    let judgement = assessment.judged().map(|judged| judged.judgement).max();
    let after = assessment.values.map(KeepaliveValues::dead_peer_after);
    line(
        to,
        &Document {
            schema: "stillopen.advise/1",
            limits_from: assessment.source,
            limits: assessment.judged().map(|judged| Limit::of(&judged)).collect(),
            keepalive: assessment.values,
            given: assessment.given,
            judgement: judgement.filter(|_| assessment.is_of_a_path()),
            better: assessment.better.map(|values| Better::new(assessment, values)),
            decided_by: assessment.tightest().map(|limit| limit.id.as_str()),
            next_probe_within_s: assessment
                .values
                .map(|values| next_probe_within(values).as_secs()),
            dead_peer_after_s: after.map(|after| after.as_secs()),
            cost: assessment.values.map(|values| CostOf::new(assessment, values)),
            beware: assessment
                .values
                .map(|values| {
                    notes::beware(assessment, values).into_iter().chain(notes::general()).collect()
                })
                .unwrap_or_default(),
            cures: notes::cures(assessment),
            gaps: &assessment.gaps,
            client: setting.map(ClientOf::new),
        },
    )
}

pub(super) fn write_clients(to: &mut impl Write) -> io::Result<()> {
    let clients = clients::all().iter().map(AboutClient::new).collect();
    line(to, &Clients { schema: "stillopen.advise-clients/1", clients })
}

impl Better {
    fn new(assessment: &Assessment, keepalive: KeepaliveValues) -> Self {
        let decisive = assessment.tightest().map(std::slice::from_ref).unwrap_or_default();
        let survived = judged(decisive, keepalive).next();
        Self {
            keepalive,
            judgement: judged(assessment.limits(), keepalive).map(|judged| judged.judgement).max(),
            lost_probes_survived: survived.and_then(|judged| judged.lost_probes_survived),
            next_probe_within_s: next_probe_within(keepalive).as_secs(),
            dead_peer_after_s: keepalive.dead_peer_after().as_secs(),
            cost: CostOf::new(assessment, keepalive),
            beware: notes::for_values(assessment, keepalive),
        }
    }
}

impl CostOf {
    fn new(assessment: &Assessment, values: KeepaliveValues) -> Self {
        Self { cost: assessment.cost(values), bytes_per_packet: PROBE_BYTES_IPV4 }
    }
}

impl<'a> Limit<'a> {
    fn of(judged: &Judged<'a>) -> Self {
        Self {
            id: &judged.limit.id,
            component: &judged.limit.component,
            idle_timeout_s: judged.limit.idle_timeout.as_secs_f64(),
            judgement: judged.judgement,
            lost_probes_survived: judged.lost_probes_survived,
        }
    }
}

impl<'a> ClientOf<'a> {
    fn new(setting: &'a Setting) -> Self {
        Self {
            about: AboutClient::new(setting.client),
            in_force: setting.in_force,
            judgement: setting.judgement,
            snippet: &setting.snippet,
            beware: &setting.client.about.beware,
            sources: &setting.client.about.sources,
        }
    }
}

impl<'a> AboutClient<'a> {
    fn new(client: &'a Client) -> Self {
        Self {
            id: client.id,
            title: &client.about.title,
            needs: &client.about.needs,
            tested: client.about.tested.as_deref(),
            by_default: client.about.by_default.as_deref(),
            language: client.language,
        }
    }
}

fn line(to: &mut impl Write, document: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *to, document)?;
    writeln!(to)
}
