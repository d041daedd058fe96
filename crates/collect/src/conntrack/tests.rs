//! The bytes of a real kernel. `testdata/README.md` tells what they are.

use super::parse::{Tracked, each_entry, parse_conntrack};
use crate::netlink::NetlinkError;

const DUMP: &[u8] = include_bytes!("testdata/entries.bin");

fn entries() -> Vec<Tracked> {
    let mut entries = Vec::new();
    assert!(each_entry(DUMP, |entry| entries.push(entry)).unwrap().done);
    entries
}

#[test]
fn recorded_entries() {
    let rows: Vec<_> = entries()
        .iter()
        .map(|entry| {
            let ends = format!("{} > {}", entry.original.source, entry.original.destination);
            let by = format!("{} > {}", entry.reply.source, entry.reply.destination);
            let seconds = entry.remaining.map(|time| time.as_secs());
            (ends, by, seconds, entry.translates(), entry.translates_destination())
        })
        .collect();
    let row = |ends: &str, by: &str, seconds, translates, destination| {
        (ends.to_owned(), by.to_owned(), Some(seconds), translates, destination)
    };
    let expected = [
        row("10.77.1.2:56572 > 10.96.77.1:80", "10.77.2.2:8080 > 10.77.1.2:56572", 59, true, true),
        row(
            "10.77.2.2:8080 > 10.77.1.2:39758",
            "10.77.1.2:39758 > 10.77.2.2:8080",
            5,
            false,
            false,
        ),
        row(
            "[fd77:1::2]:55080 > [fd96::1]:80",
            "[fd77:2::2]:8080 > [fd77:1::2]:55080",
            5,
            true,
            true,
        ),
        row("10.77.1.2:53350 > 10.96.77.1:80", "10.77.2.2:8080 > 10.77.1.2:53350", 5, true, true),
        row("10.77.1.2:33536 > 10.77.2.2:8081", "10.77.2.2:8081 > 10.77.2.1:33536", 5, true, false),
        row(
            "10.77.1.2:54484 > 10.77.2.2:8080",
            "10.77.2.2:8080 > 10.77.1.2:54484",
            5,
            false,
            false,
        ),
        row("10.77.1.2:53366 > 10.96.77.1:80", "10.77.2.2:8080 > 10.77.1.2:53366", 5, true, true),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn a_cut_dump_is_an_error_or_says_that_it_is_not_whole() {
    for end in 0..DUMP.len() {
        match parse_conntrack(&DUMP[..end]) {
            Ok(part) => assert!(!part.done, "{end} bytes"),
            Err(error) => assert!(matches!(error, NetlinkError::Malformed { .. }), "{error}"),
        }
    }
}
