//! Whatever is read the fast way is what the general way reads.

use proptest::prelude::*;

use super::{learn::MOST_FIELDS, *};
use crate::{detect::detect, event::Side, layout::Overrides};

/// Logs of several ways to write them.
const SAMPLES: [(Side, &str); 5] = [
    (
        Side::Client,
        r#"{"ts":"2026-03-02T09:00:00.120Z","service":"job","event":"sent","id":"extract-001","attempt":1}
{"ts":"2026-03-02T09:00:00.820Z","service":"job","event":"sent","id":"extract-002","attempt":1}
{"ts":"2026-03-02T09:03:00.120Z","service":"job","event":"received","id":"extract-001","attempt":1,"silent_s":180.2,"status":200,"client_saw":"answer"}
{"ts":"2026-03-02T09:03:01.120Z","service":"job","event":"received","id":"extract-003","attempt":1,"silent_s":180.2,"status":504,"client_saw":"answer"}
{"ts":"2026-03-02T10:00:00.120Z","service":"job","event":"lost","id":"extract-002","attempt":1,"silent_s":3600,"client_saw":"own_timer"}
{"ts":"2026-03-02T10:00:00.120Z","service":"job","event":"retry","id":"extract-002","attempt":2}"#,
    ),
    (
        Side::Server,
        r#"{"ts":"2026-03-02T09:00:00.120Z","service":"agent","event":"received","id":"extract-001","attempt":1}
{"ts":"2026-03-02T09:00:00.120Z","service":"agent","event":"started","id":"extract-001","attempt":1,"queued_s":0.0}
{"ts":"2026-03-02T09:01:00.120Z","service":"agent","event":"round","id":"extract-001","attempt":1,"round":0,"took_s":60.1}
{"ts":"2026-03-02T09:03:00.120Z","service":"agent","event":"sent","id":"extract-001","attempt":1,"queued_s":0.0,"took_s":180.1,"status":200}
{"ts":"2026-03-02T09:03:00.120Z","service":"agent","event":"failed","id":"extract-002","attempt":1,"error":"the model says \"no\""}"#,
    ),
    (
        Side::Server,
        r#"{"time": 1772442000.120, "message": "request received", "request_id": 7, "ok": true}
{"time": 1772442060.5, "message": "response sent", "request_id": 7, "ok": true, "status": "200"}
{"time": 1772442060.5, "message": "response sent", "request_id": 8, "ok": false, "status": "503"}"#,
    ),
    (
        Side::Server,
        r#"{"timestamp":"2026-03-02T09:00:08.100+01:00","requestId":"inv-0","status":"success","latency_ms":8000}
{"timestamp":"2026-03-02T09:00:09.100+01:00","requestId":"inv-1","status":"success","latency_ms":9000.5}"#,
    ),
    (
        Side::Client,
        r#"{"at":"2026-03-02 09:00:00","msg":"sending a","uuid":"0b9c2f6e-8d1a-4c3b-9e7f-00112233aabb"}
{"at":"2026-03-02 09:00:01","msg":"failed with code 7","error":"ReadTimeout","uuid":"0b9c2f6e-8d1a-4c3b-9e7f-00112233aabb"}
{"at":"2026-03-02 09:00:02","msg":"failed with code 8","error":"eof","uuid":"1b9c2f6e-8d1a-4c3b-9e7f-00112233aabb"}"#,
    ),
];

/// What makes a difference in JSON, in a time, in a number.
const BYTES: &[u8] = b"\"\\{}[]:,09.-+eEtfnZTu \t\r\n\0\x1f\x7f\xc3\xbc\xff";

fn layout(side: Side, sample: &str) -> Layout {
    detect("sample", side, sample.as_bytes(), &Overrides::default()).unwrap()
}

/// What may follow a line: nothing, so much that each way to read it is taken, or less.
const FOLLOWING: &[u8] =
    b"\n{\"ts\":\"2026-03-02T09:00:00.120Z\",\"service\":\"job\",\"event\":\"sent\"}";

/// Whether the line is read the fast way, and then as the general way reads it, whatever follows.
fn assert_alike(layout: &Layout, shapes: &mut Shapes<'_>, line: &[u8]) -> bool {
    assert_bytes_alike(layout, shapes, &[line, FOLLOWING].concat());
    assert_bytes_alike(layout, shapes, line)
}

fn assert_bytes_alike(layout: &Layout, shapes: &mut Shapes<'_>, line: &[u8]) -> bool {
    let Some((fast, rest)) = shapes.read(line, None) else { return false };
    let own = &line[..line.len() - rest.len()];
    let own = own.strip_suffix(b"\n").unwrap_or(own);
    let own = own.strip_suffix(b"\r").unwrap_or(own);
    let mut id = Vec::new();
    let general = layout.read(own, None, &mut id);
    assert_eq!(fast, general, "{}", String::from_utf8_lossy(line));
    true
}

#[test]
fn the_lines_that_were_learnt_from_are_read_the_fast_way() {
    for (side, sample) in SAMPLES {
        let layout = layout(side, sample);
        let mut shapes = Shapes::learn(&layout, sample.as_bytes());
        let fast =
            sample.lines().filter(|line| assert_alike(&layout, &mut shapes, line.as_bytes()));
        let (fast, all) = (fast.count(), sample.lines().count());
        // One has an escape; a reason that varies is not learnt.
        assert!(fast * 2 > all, "{fast} of {all}: {sample}");
    }
}

#[test]
fn a_line_is_read_the_fast_way_however_near_the_end_of_its_block() {
    for (side, sample) in SAMPLES {
        let layout = layout(side, sample);
        let mut shapes = Shapes::learn(&layout, sample.as_bytes());
        for line in sample.lines() {
            let fast = assert_bytes_alike(&layout, &mut shapes, line.as_bytes());
            for length in 1..FOLLOWING.len() {
                let followed = [line.as_bytes(), &FOLLOWING[..length]].concat();
                assert_eq!(assert_bytes_alike(&layout, &mut shapes, &followed), fast, "{line}");
            }
        }
    }
}

#[test]
fn a_line_of_very_many_fields_is_not_learnt() {
    let (side, sample) = SAMPLES[0];
    let layout = layout(side, sample);
    let first = sample.lines().next().unwrap();
    for (more, learnt) in [(MOST_FIELDS - 5, true), (MOST_FIELDS - 4, false), (30_000, false)] {
        let more: Vec<String> = (0..more).map(|i| format!(",\"f{i}\":{i}")).collect();
        let line = first.replace('}', &format!("{}}}", more.concat()));
        let mut shapes = Shapes::learn(&layout, line.as_bytes());
        assert_eq!(assert_alike(&layout, &mut shapes, line.as_bytes()), learnt);
    }
}

#[test]
fn a_status_that_is_no_error_changes_nothing() {
    for status in (0..=u16::MAX).filter(|status| is_answer(*status)) {
        for kind in [Kind::Answered, Kind::Sent, Kind::Broken, Kind::Failed, Kind::Part] {
            assert_eq!(without_answer(kind, status), kind, "{status}");
        }
    }
}

/// As after many lines like `line`.
fn know_heads_like(shapes: &mut Shapes<'_>, line: &[u8]) {
    shapes.read(line, None);
    shapes.heads = Heads::of(&shapes.first, shapes.minute, shapes.id, shapes.expected.as_ref());
}

fn has_head(shapes: &Shapes<'_>, line: &[u8]) -> bool {
    let mut event = BLANK;
    shapes.heads.read(&[line, FOLLOWING].concat(), &mut event, &mut None).is_some()
}

#[test]
fn lines_like_many_before_have_a_head() {
    for (side, sample) in &SAMPLES[..2] {
        let layout = layout(*side, sample);
        let mut shapes = Shapes::learn(&layout, sample.as_bytes());
        // An escape is for the general way.
        let lines = || sample.lines().filter(|line| !line.contains('\\'));
        for line in lines() {
            know_heads_like(&mut shapes, line.as_bytes());
            assert!(has_head(&shapes, line.as_bytes()), "{line}");
        }
        let line = lines().next().unwrap();
        know_heads_like(&mut shapes, line.as_bytes());
        for (from, to) in [
            (":00.120Z", ":01.120Z"),
            ("extract-001", "extract-999"),
            ("extract-001", "\u{7f}, {'[=-001"),
            ("\"attempt\":1", "\"attempt\":9"),
            ("\"attempt\":1", "\"attempt\":0"),
        ] {
            assert!(has_head(&shapes, line.replace(from, to).as_bytes()), "{to}");
        }
        for (from, to) in [
            ("T09:00", "T09:01"),
            (":00.120Z", ":60.120Z"),
            ("extract-001", "extract-01"),
            ("extract-001", "extract-0001"),
            ("extract-001", "extract\"001"),
            ("extract-001", "extract\\n01"),
            ("\"attempt\":1", "\"attempt\":10"),
            ("\"attempt\":1", "\"attempt\":?"),
            ("\"attempt\":1", "\"attempt\":-1"),
            ("service", "Service"),
        ] {
            assert!(!has_head(&shapes, line.replace(from, to).as_bytes()), "{to}");
        }
    }
}

#[test]
fn times_of_two_minutes_in_turns_are_each_of_their_own() {
    let (side, sample) = SAMPLES[0];
    let layout = layout(side, sample);
    let mut shapes = Shapes::learn(&layout, sample.as_bytes());
    let line = sample.lines().next().unwrap();
    know_heads_like(&mut shapes, line.as_bytes());
    let of = |minute: usize| {
        let line = line.replace("T09:00:00.120Z", &format!("T09:0{minute}:59.98{minute}Z"));
        [line.as_bytes(), FOLLOWING].concat()
    };
    for minutes in [[0, 1], [1, 0], [1, 1], [2, 1], [1, 2], [2, 2], [2, 2], [0, 2], [0, 0], [0, 0]]
    {
        for minute in minutes {
            assert!(assert_alike(&layout, &mut shapes, &of(minute)));
        }
    }
    assert!(has_head(&shapes, &of(0)) && !has_head(&shapes, &of(1)));
}

fn expected(start: &str, digits: usize) -> Expected {
    Expected { series: 3, start: start.into(), digits }
}

#[test]
fn an_id_as_expected_is_told_by_its_number_and_any_other_is_not() {
    let (side, sample) = SAMPLES[0];
    let layout = layout(side, sample);
    let mut shapes = Shapes::learn(&layout, sample.as_bytes());
    let line = sample.lines().next().unwrap();
    let counted = |shapes: &mut Shapes<'_>, id: &str| {
        let line = [line.replace("extract-001", id).as_bytes(), FOLLOWING].concat();
        know_heads_like(shapes, &line);
        assert_alike(&layout, shapes, &line);
        let (mut event, mut counted) = (BLANK, None);
        shapes.read_into(&mut event, &mut counted, &line).unwrap();
        assert_eq!(event.id, id.as_bytes());
        counted.map(|Counted { series, number }| (series, number))
    };
    for (start, digits, id, number) in [
        ("extract-", 3, "extract-001", Some(1)),
        ("extract-", 3, "extract-987", Some(987)),
        ("extract-", 3, "extract-98:", None),
        ("extract-", 3, "extract-9/7", None),
        ("extract-", 3, "extract-9?7", None),
        ("extract-", 3, "extract_987", None),
        ("extract-", 3, "extract-0001", None),
        ("extract-", 8, "extract-12345678", Some(12_345_678)),
        ("#", 1, "#7", Some(7)),
        ("", 2, "42", Some(42)),
        ("1234", 8, "123400000000", Some(0)),
        ("a-request-of-many-words-", 5, "a-request-of-many-words-00017", Some(17)),
    ] {
        shapes.expect(Some(expected(start, digits)));
        assert_eq!(counted(&mut shapes, id), number.map(|number| (3, number)), "{start} {id}");
    }
    // In the line it would be written otherwise.
    for start in ["a\"", "a\\", "\u{e4}", "a\n"] {
        shapes.expect(Some(expected(start, 3)));
        assert_eq!(shapes.expected, None);
    }
}

#[test]
fn heads_are_made_of_ids_as_they_are_and_made_anew_when_those_grow() {
    let (side, sample) = SAMPLES[0];
    let layout = layout(side, sample);
    let mut shapes = Shapes::learn(&layout, sample.as_bytes());
    let line = sample.lines().next().unwrap();
    for id in ["extract-001", "extract-1234567890", "0b9c2f6e-8d1a-4c3b-9e7f-00112233aabb", "x"] {
        let line = [line.replace("extract-001", id).as_bytes(), FOLLOWING].concat();
        let first = shapes.read(&line, None).map(|(said, _)| said);
        for _ in 0..2000 {
            assert_eq!(shapes.read(&line, None).map(|(said, _)| said), first);
        }
        assert!(has_head(&shapes, &line), "{id}");
    }
}

/// Lines that are almost `line`.
fn almost(line: &str) -> Vec<Vec<u8>> {
    let inner = line.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
    let (first, rest) = inner.split_once(',').unwrap();
    let mut all = vec![
        // In another order, said twice, missing, in an object, in a text.
        format!("{{{rest},{first}}}"),
        format!("{{{inner},{first}}}"),
        format!("{{{inner},{rest}}}"),
        format!("{{{inner},\"ts\":\"2026-03-02T09:00:07.120Z\"}}"),
        format!("{{{first}}}"),
        format!("{{{rest}}}"),
        format!("{{{first},\"in\":{line},{rest}}}"),
        format!("{{\"in\":{line},{inner}}}"),
        format!("{{{inner},\"text\":{line:?}}}"),
        format!("{{\"text\":{line:?},{inner}}}"),
        // Blanks elsewhere, and what follows.
        line.replace("\":", "\": "),
        line.replace(',', " ,\t"),
        format!(" {line} "),
        format!("{line}x"),
        format!("{line}}}"),
        format!("{line}{line}"),
        format!("{line}\r\n{line}"),
        format!("{line}\n{line}"),
        format!("{line}\r"),
    ];
    for (from, to) in [
        (":00.", ":60."),
        (":00.", ":61."),
        (":00.120Z", ":00.12Z"),
        (":00.120Z", ":00.1200Z"),
        (":00.120Z", ":00.120z"),
        (":00.120Z", ":00,120Z"),
        (":00.120Z", ":00Z"),
        (":00.120Z", ":00.120+01:00"),
        (":00.120Z", ":00.120"),
        ("T09:", " 09:"),
        ("T09:", "T24:"),
        ("-03-", "-02-"),
        ("-02T", "-31T"),
        ("extract-", "extract\\u002d"),
        ("extract-", "extract-\\\""),
        ("extract-", "\u{e4}xtract-"),
        ("extract-001", ""),
        ("extract-001", "\",\"attempt\":2,\"x\":\""),
        ("\"attempt\":1", "\"attempt\":01"),
        ("\"attempt\":1", "\"attempt\":10"),
        ("\"attempt\":1", "\"attempt\":1.0"),
        ("\"attempt\":1", "\"attempt\":1e1"),
        ("\"attempt\":1", "\"attempt\":-1"),
        ("\"attempt\":1", "\"attempt\":\"1\""),
        ("\"attempt\":1", "\"attempt\":null"),
        ("\"attempt\":1", "\"attempt\":4294967296"),
        ("\"attempt\":1", "\"attempt\":1,\"attempt\":2"),
        ("\"attempt\":1", "\"attempt\":{\"attempt\":1}"),
        ("200", "504"),
        ("200", "\"200\""),
        ("180.2", "180.200000000000000001"),
        ("180.2", "0180.2"),
        ("180.2", "-0.2"),
        ("sent", "SENT"),
        ("sent", "se\\u006et"),
    ] {
        if line.contains(from) {
            all.push(line.replacen(from, to, 1));
        }
    }
    let mut all: Vec<Vec<u8>> = all.into_iter().map(String::into_bytes).collect();
    for at in 0..line.len() {
        all.push(line.as_bytes()[..at].to_vec());
        for &byte in BYTES {
            let mut other = line.as_bytes().to_vec();
            other[at] = byte;
            all.push(other);
        }
    }
    all
}

#[test]
fn what_is_almost_a_known_line_is_read_as_the_general_way_reads_it() {
    for (side, sample) in SAMPLES {
        let layout = layout(side, sample);
        let mut shapes = Shapes::learn(&layout, sample.as_bytes());
        for line in sample.lines() {
            for other in almost(line) {
                // What is remembered of the line before must not be taken for this one's.
                assert_alike(&layout, &mut shapes, line.as_bytes());
                assert_alike(&layout, &mut shapes, &other);
            }
            know_heads_like(&mut shapes, line.as_bytes());
            for other in almost(line) {
                assert_alike(&layout, &mut shapes, line.as_bytes());
                assert_alike(&layout, &mut shapes, &other);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn whatever_is_read_the_fast_way_is_what_the_general_way_reads(
        which in 0..SAMPLES.len(),
        line in any::<prop::sample::Index>(),
        heads in any::<bool>(),
        counted in any::<bool>(),
        edits in prop::collection::vec(
            (any::<prop::sample::Index>(), 0..4_u8, prop::sample::select(BYTES)), 0..4),
    ) {
        let (side, sample) = SAMPLES[which];
        let layout = layout(side, sample);
        let mut shapes = Shapes::learn(&layout, sample.as_bytes());
        let lines: Vec<&str> = sample.lines().collect();
        let mut line = line.get(&lines).as_bytes().to_vec();
        shapes.expect(counted.then(|| expected("extract-", 3)));
        if heads {
            know_heads_like(&mut shapes, &line);
        }
        for (at, how, byte) in edits {
            let at = at.index(line.len().max(1));
            match how {
                0 if at < line.len() => line[at] = byte,
                1 => line.insert(at.min(line.len()), byte),
                2 if at < line.len() => drop(line.remove(at)),
                // A part of it twice.
                _ => line.extend_from_within(at.min(line.len())..),
            }
        }
        assert_alike(&layout, &mut shapes, &line);
    }
}
