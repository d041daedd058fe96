//! What becomes of an entry that was not there, after the second reading.

use super::*;
use crate::{conntrack::parse::DESTINATION_NAT, flow::Flow};

const CLIENT: &str = "10.0.1.2:40000";
const OTHER: &str = "10.0.1.3:40001";
const SERVICE: &str = "10.96.0.10:80";
const SERVER: &str = "10.0.2.2:8080";

fn flow(from: &str, to: &str) -> Flow {
    Flow::new(from.parse().unwrap(), to.parse().unwrap())
}

fn translated(client: &str) -> Tracked {
    Tracked::new(flow(client, SERVICE), flow(SERVER, client), 77, DESTINATION_NAT)
}

fn as_it_is(client: &str) -> Tracked {
    Tracked::new(flow(client, SERVICE), flow(SERVICE, client), 77, 0)
}

fn all(entries: Vec<Tracked>) -> All {
    let untranslated = entries.iter().filter(|entry| !entry.translates_destination());
    let untranslated = untranslated.map(|entry| entry.original.destination).collect();
    All { tracked: Index::new(entries), untranslated }
}

fn row() -> Row {
    let remaining = std::time::Duration::from_secs(88);
    Row { original: flow(CLIENT, SERVICE), server: SERVER.parse().unwrap(), remaining }
}

fn missing(by_rule: bool, beside_ipvs: bool, unchanged_at: &[usize]) -> Missing {
    let flow = flow(CLIENT, SERVICE);
    Missing { flow, by_rule, beside_ipvs, unchanged_at: unchanged_at.to_vec() }
}

fn settled(tables: &Tables, kind: TableKind, missing: &Missing, alive: bool) -> String {
    let by_others = Held { translated: [SERVICE.parse().unwrap()].into(), ..Held::default() };
    let known = Known { alive, translated: true };
    match tables.settle(0, kind, missing, &[by_others, Held::default()], known) {
        None => "nothing".to_owned(),
        Some(Entry::Present { remaining, .. }) => format!("{} s", remaining.as_secs()),
        Some(other) => format!("{other:?}"),
    }
}

#[test]
fn ipvs_has_no_entry_only_where_every_reading_says_so_and_the_socket_is_still_there() {
    let readings = |of: Vec<Vec<Row>>| Some(of.into_iter().map(Index::new).collect());
    for (case, rows, alive, expected) in [
        ("it is not there", readings(vec![vec![]]), true, "Absent"),
        ("it has gone, or received something", readings(vec![vec![]]), false, "NotRead"),
        ("it is there after all", readings(vec![vec![row()]]), true, "88 s"),
        ("one of the readings has it", readings(vec![vec![row()], vec![]]), true, "88 s"),
        ("the budget was spent", None, true, "NotRead"),
    ] {
        let tables = Tables { tracked: HashMap::new(), rows: HashMap::from([(0, rows)]) };
        let missing = missing(false, false, &[]);
        assert_eq!(settled(&tables, TableKind::Ipvs, &missing, alive), expected, "{case}");
    }
}

#[test]
fn conntrack_has_no_entry_only_where_every_flow_to_the_destination_would_have_one() {
    for (case, tracked, expected) in [
        ("others are translated", Some(all(vec![translated(OTHER)])), "Absent"),
        ("it is there after all", Some(all(vec![translated(CLIENT)])), "77 s"),
        ("it passes as it is", Some(all(vec![as_it_is(CLIENT)])), "nothing"),
        ("others pass as they are", Some(all(vec![translated(OTHER), as_it_is(OTHER)])), "nothing"),
        ("the budget was spent", None, "NotRead"),
    ] {
        let tables = Tables { tracked: HashMap::from([(0, tracked)]), rows: HashMap::new() };
        for by_rule in [false, true] {
            let missing = missing(by_rule, false, &[]);
            let got = settled(&tables, TableKind::Conntrack, &missing, true);
            assert_eq!(got, expected, "{case}, by rule {by_rule}");
        }
    }
}

#[test]
fn a_namespace_before_that_may_have_changed_the_addresses_leaves_it_open() {
    for (case, before, expected) in [
        ("it did not", Some(all(vec![as_it_is(CLIENT)])), "Absent"),
        ("it translates", Some(all(vec![translated(CLIENT)])), "nothing"),
        ("it has forgotten", Some(all(Vec::new())), "nothing"),
        ("not read", None, "NotRead"),
    ] {
        let tracked = HashMap::from([(0, Some(all(Vec::new()))), (1, before)]);
        let tables = Tables { tracked, rows: HashMap::new() };
        let missing = missing(true, false, &[1]);
        assert_eq!(settled(&tables, TableKind::Conntrack, &missing, true), expected, "{case}");
    }
}

#[test]
fn what_conntrack_says_beside_ipvs_is_kept_only_where_that_has_none() {
    let found = |kind, entry, aside| Found { connection: 7, place: 0, kind, entry, aside };
    for (of_ipvs, kept) in [(Entry::Absent, 2), (Entry::NotRead, 1)] {
        let mut all = vec![
            found(TableKind::Ipvs, of_ipvs, false),
            found(TableKind::Conntrack, Entry::Absent, true),
        ];
        only_where_ipvs_has_none(&mut all);
        assert_eq!(all.len(), kept, "{of_ipvs:?}");
    }
}
