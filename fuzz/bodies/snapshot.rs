//! A snapshot file of unknown origin: an error, or a snapshot that everything else can work on.

use stillopen_model::{Snapshot, diagnose, pair_ends, plan, predict};

/// Reads `data` as `check --from` does and works on it as `check` does.
pub(crate) fn run(data: &[u8]) {
    let Ok(mut snapshot) = Snapshot::from_json(data) else { return };
    assert_eq!(snapshot, written_and_read(&snapshot), "what was written is what is read");

    let connections = snapshot.connections.len();
    let folded = pair_ends(&mut snapshot).len();
    assert_eq!(snapshot.connections.len() + folded, connections, "no end is lost");
    written_and_read(&snapshot);

    let diagnoses = diagnose(&snapshot);
    assert_eq!(diagnoses.len(), snapshot.connections.len(), "one diagnosis for each connection");
    for planned in plan(&snapshot, &diagnoses) {
        if let Some(predicted) = predict(&snapshot, &planned) {
            assert_eq!(predicted.count(), planned.connections.len());
        }
    }
}

fn written_and_read(snapshot: &Snapshot) -> Snapshot {
    let mut json = Vec::new();
    snapshot.to_json(&mut json).expect("a snapshot can be written");
    Snapshot::from_json(&json).expect("what was written can be read")
}
