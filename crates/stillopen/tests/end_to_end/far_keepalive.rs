//! A limit of 3 s on connections that have been quiet for 10 s: cut, unless only the far end keeps them
//! alive, which leaves no stamp at this end.

use std::time::Duration;

use crate::{
    deadline::wait_until,
    report::{Report, Row},
    scene::{FAMILIES, Family, Scene},
    socket::{Connection, Values, keep_alive},
};

/// So long must the client's stamps be quiet before anything is judged.
const QUIET_S: f64 = 10.0;
/// The far end's keepalive.
const EVERY_SECOND: Values = Values(1, 1, 3);
/// Small exchanges of a pooled connection: their ACKs leave room for as many probes.
const POOLED: u32 = 300;

/// The connections of one family.
struct Connections {
    /// One request, no keepalive at either end.
    silent: Connection,
    /// One request, and only the server keeps it alive.
    fresh: Connection,
    /// Many exchanges, and only the server keeps it alive.
    pooled: Connection,
}

impl Connections {
    fn open(scene: &Scene, family: Family) -> Self {
        let [mut silent, mut fresh, mut pooled] = [(); 3].map(|()| scene.connect(family));
        keep_alive(&fresh.server, EVERY_SECOND);
        keep_alive(&pooled.server, EVERY_SECOND);
        silent.ask();
        fresh.ask();
        pooled.exchange(POOLED);
        Self { silent, fresh, pooled }
    }

    fn kept_alive(&self) -> [&Connection; 2] {
        [&self.fresh, &self.pooled]
    }
}

/// One wait for all that is judged under this limit.
#[test]
fn only_what_nobody_keeps_alive_is_cut() {
    let scene = Scene::new();
    let connections = FAMILIES.map(|family| Connections::open(&scene, family));
    let alone = wait_until("all of them are quiet", Duration::from_secs(30), || {
        let (report, _) = scene.check_client(&["--limit", "3s"]).look();
        let quiet = report.connections.iter().all(|row| row.quiet_s >= Some(QUIET_S));
        quiet.then_some(report)
    });
    // Both reports come within the same second or two: nothing here depends on how much later.
    let both_ends = scene.check_all(&["--limit", "3s"]).report(1);
    let watched = scene.check_client(&["--limit", "3s", "--sample", "3s"]).report(1);

    for of_family in &connections {
        seen_from_the_client_alone(&alone, of_family);
        seen_at_both_ends(&both_ends, of_family, &scene);
    }
    for of_family in &connections {
        watched_for_3s(&watched, of_family);
    }
}

fn seen_from_the_client_alone(report: &Report, connections: &Connections) {
    is_cut(report.row(&connections.silent));
    for kept_alive in connections.kept_alive() {
        let row = report.row(kept_alive);
        assert_eq!(row.verdict, "unknown", "{row:#?}");
        assert_eq!(row.missing.as_deref(), Some("peer_keepalive"), "{row:#?}");
        assert_eq!((&row.proof, row.cut_in_s), (&None, None), "{row:#?}");
    }
}

fn seen_at_both_ends(report: &Report, connections: &Connections, scene: &Scene) {
    is_cut(report.row(&connections.silent));
    for kept_alive in connections.kept_alive() {
        // Both ends are one row, the connecting end's.
        let row = report.row(kept_alive);
        assert_eq!(row.netns, scene.client.name);
        assert_eq!(row.verdict, "safe", "{row:#?}");
        assert!(row.has("peer_keeps_alive"), "{row:#?}");
        let mirrored = |other: &&Row| other.local == row.peer && other.peer == row.local;
        assert_eq!(report.connections.iter().find(mirrored), None);
    }
}

fn watched_for_3s(report: &Report, connections: &Connections) {
    is_cut(report.row(&connections.silent));
    for kept_alive in connections.kept_alive() {
        let row = report.row(kept_alive);
        assert!(["safe", "unknown"].contains(&row.verdict.as_str()), "{row:#?}");
    }
}

fn is_cut(row: &Row) {
    row.is("cut", "user-3s", &["keepalive_off"]);
    assert_eq!(row.proof.as_deref(), Some("inferred"), "{row:#?}");
    assert_eq!(row.cut_in_s, None, "{row:#?}");
}
