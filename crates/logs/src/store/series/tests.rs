//! Whatever the ids and their order, each has one record.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{
    event::{Event, Kind},
    store::{
        Store,
        record::{Slot, time},
    },
};

#[test]
fn an_id_ends_with_its_last_digits() {
    for (id, expected) in [
        ("extract-0000017", (7, 17)),
        ("extract-12345678", (8, 12_345_678)),
        ("1234567890", (8, 34_567_890)),
        ("7", (1, 7)),
        ("a7", (1, 7)),
        ("7a", (0, 0)),
        ("12a34567", (5, 34_567)),
        ("99999999", (8, 99_999_999)),
        ("extract", (0, 0)),
        ("", (0, 0)),
        ("\u{e4}\u{ff}", (0, 0)),
    ] {
        assert_eq!(ending(id.as_bytes()), expected, "{id}");
    }
}

/// Each id once or more often: whatever the order, it has one record, which is found by it and names it.
fn assert_one_record_each(ids: &[(String, u32)]) -> Store {
    let mut store = Store::default();
    let mut known: BTreeMap<&(String, u32), i64> = BTreeMap::new();
    for id in ids {
        let next = i64::try_from(known.len()).unwrap();
        let at = *known.entry(id).or_insert(next);
        let (id, attempt) = (id.0.as_bytes(), id.1);
        let event = Event { at, id, attempt, kind: Kind::Asked, took: None };
        let (digits, number) = ending(id);
        let expected = store.expected().filter(|expected| {
            (&id[..id.len() - digits], digits) == (&expected.start, expected.digits)
        });
        let counted = expected.map(|Expected { series, .. }| Counted { series, number });
        assert!(store.add_counted(&event, counted, 0).unwrap());
    }
    store.finish().unwrap();
    assert_eq!(store.duplicates, (ids.len() - known.len()) as u64);
    let records = (0..store.len()).map(|number| store.get(Number::try_from(number).unwrap()));
    assert_eq!(records.filter(|record| !record.is_free()).count(), known.len());
    for (id, at) in known {
        let number = store.find(&id.0, id.1).unwrap();
        assert_eq!(store.id(number), *id);
        assert_eq!(time(store.get(number).get(Slot::Asked).unwrap(), store.base()), at);
    }
    store
}

fn counted(numbers: impl IntoIterator<Item = u32>) -> Vec<(String, u32)> {
    numbers.into_iter().map(|number| (format!("extract-{number:07}"), 1)).collect()
}

#[test]
fn ids_that_count_up_take_no_room_in_the_index() {
    let store = assert_one_record_each(&counted((0..50_000).chain(0..50_000)));
    assert_eq!(store.series.all.len(), 1);
    assert!(store.series.all[0].used > 49_800 && store.ids.len() < 5000);
    // Without leading zeroes there is one for each length.
    let ids: Vec<_> = (0..50_000).map(|number| (format!("#{number}"), 0)).collect();
    assert!(assert_one_record_each(&ids).series.all.len() > 2);
}

#[test]
fn what_the_index_has_no_series_has() {
    // In the index before the series begins: below it, in its way, and far above.
    let far = counted([9_000_000, 3000, 77]);
    let up = counted(100..20_000);
    let store = assert_one_record_each(&[far.clone(), up.clone(), far, up].concat());
    assert_eq!(store.series.all[0].end, 3000);
    // Too far above what it has: it may not grow there later.
    let ids = [counted(0..200), counted([60_000]), counted(200..70_000)].concat();
    let store = assert_one_record_each(&ids);
    assert_eq!(store.series.all[0].end, 60_000);
    assert!((60_001..60_200).contains(&store.series.all[1].first));
}

#[test]
fn numbers_in_disorder_and_with_gaps_are_of_the_series_too() {
    let swapped = |number: u32| number ^ 0b11_0101;
    let store = assert_one_record_each(&counted((0..30_000).map(|n| swapped(n) * 3)));
    assert!(store.series.all[0].used > 29_000);
    // One in a thousand is no series.
    let store = assert_one_record_each(&counted((0..500).map(|n| n * 1000)));
    assert!(store.series.all.is_empty());
    assert_one_record_each(&counted((0..30_000).rev()));
}

#[test]
fn attempts_and_kinds_of_ids_are_series_of_their_own() {
    let mut ids = Vec::new();
    for number in 0..3000 {
        for attempt in [1, 1, 2] {
            ids.push((format!("a-{number:05}"), attempt));
            ids.push((format!("b-{number:05}"), attempt));
            ids.push((format!("{number}-x"), attempt));
            ids.push((format!("0b9c2f6e-8d1a-4c3b-9e7f-0011{number:08}"), attempt));
        }
    }
    let store = assert_one_record_each(&ids);
    assert_eq!(store.series.all.len(), 4);
    // More kinds than there are series.
    let kinds = |number: u32| (0..40).map(move |kind| (format!("{kind}-{number:04}"), 1));
    let ids: Vec<_> = (0..40)
        .flat_map(|kind| (0..300).map(move |number| (format!("{kind}-{number:04}"), 1)))
        .chain((0..400).flat_map(kinds))
        .collect();
    assert_eq!(assert_one_record_each(&ids).series.all.len(), MOST);
}

proptest! {
    #[test]
    fn every_id_has_one_record_in_any_order(
        runs in prop::collection::vec(
            (0_u32..12_000, 1_u32..900, 1_u32..4, 0_u32..3, prop::bool::ANY),
            1..30,
        )
    ) {
        let mut ids = Vec::new();
        for (from, count, step, attempt, padded) in runs {
            let numbers = (0..count).map(|n| from + n * step);
            ids.extend(numbers.map(|number| {
                let id = if padded { format!("r{number:05}") } else { format!("r{number}") };
                (id, attempt)
            }));
        }
        assert_one_record_each(&ids);
    }
}
