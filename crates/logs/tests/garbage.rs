//! What is no log, or a broken one: a clear error, or a counted line.

mod common;

use common::{Pair, both, source, try_both};
use stillopen_logs::{LONGEST_LINE, Overrides, analyse};

fn good() -> Pair {
    let mut pair = Pair::default();
    for i in 0..20 {
        pair.arrives(f64::from(i) * 10.0, &format!("r{i}"), f64::from(i) * 20.0);
    }
    pair
}

#[test]
fn what_is_no_log_is_refused_with_what_was_tried() {
    let server = good().server;
    let binary: String = (0..4000_u32).map(|i| char::from((i % 7) as u8)).collect();
    for (client, says) in [
        ("", "is empty"),
        ("\n\n\n", "no whole line"),
        (binary.as_str(), "tried: JSON lines, key=value"),
        ("just\nsome\nwords\n", "--pattern REGEX"),
        ("{\"a\":1}\n{\"a\":2}\n", "--started, --sent and --received"),
        ("{\"event\":\"sent\",\"id\":\"a\"}\n", "--time FIELD"),
        ("event=sent id=a time=yesterday\n", "--time FIELD"),
    ] {
        let error = try_both(client, &server).unwrap_err().to_string();
        assert!(error.contains(says), "{client:?}: {error}");
    }
}

#[test]
fn lines_that_cant_be_read_are_counted_and_the_first_shown() {
    let mut pair = good();
    let (first, rest) = pair.client.split_at(pair.client.find('\n').unwrap() + 1);
    let huge = "x".repeat(LONGEST_LINE * 3);
    let bad = format!(
        "{first}oops\n{{\"ts\":\"2026-03-02T09:00:00Z\",\"event\":\"sent\",\n\
         {{\"ts\":\"never\",\"event\":\"sent\",\"request_id\":\"z\"}}\n\
         {{\"ts\":\"9999-03-02T09:00:00Z\",\"event\":\"sent\",\"request_id\":\"z\"}}\n{rest}{huge}\n"
    );
    let mut bytes = bad.into_bytes();
    bytes.extend(b"{\"ts\":\"2026-03-02T09:00:00Z\",\"event\":\"sent\",\"request_id\":\"\xff\"}\n");
    pair.client.clear();
    let server = source("server.log", pair.server);
    let client = source("client.log", bytes);
    let analysis = analyse(&[client], &[server], &Overrides::default(), &|_| ()).unwrap();
    assert_eq!(analysis.counts.received, 20);
    assert_eq!(analysis.unreadable(), 6);
    let shown = &analysis.logs[0].first_unreadable;
    assert_eq!(shown.len(), 3);
    assert_eq!((shown[0].line, shown[0].text.as_str()), (2, "oops"));
}

#[test]
fn a_gzip_file_that_is_cut_off_says_what_it_still_says() {
    use std::io::Write as _;
    let pair = good();
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    to.write_all(pair.client.as_bytes()).unwrap();
    let whole = to.finish().unwrap();
    let read = |length: usize| {
        let client = source("client.log.gz", &whole[..length]);
        let server = source("server.log", pair.server.as_str());
        analyse(&[client], &[server], &Overrides::default(), &|_| ())
    };
    let analysis = read(whole.len() * 3 / 4).unwrap();
    assert!(analysis.logs[0].cut_off.is_some());
    assert!((5..20).contains(&analysis.counts.received), "{}", analysis.counts.received);
    let error = read(5).unwrap_err();
    assert!(format!("{error} {:?}", std::error::Error::source(&error)).contains("client.log.gz"));
}

#[test]
fn time_that_goes_backwards_is_no_trouble() {
    let pair = good();
    let reversed = |log: &str| log.lines().rev().collect::<Vec<_>>().join("\n");
    let analysis = both(&reversed(&pair.client), &reversed(&pair.server));
    assert_eq!(analysis.counts, both(&pair.client, &pair.server).counts);
    // An answer from before its request: no silence is below zero.
    let mut pair = good();
    pair.client(5000.0, "odd", "sent", "");
    pair.server(4000.0, "odd", "sent", "");
    pair.client(3000.0, "odd", "received", "");
    assert_eq!(pair.analyse().counts.received, 21);
}
