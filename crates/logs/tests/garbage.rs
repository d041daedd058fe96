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

#[test]
fn an_id_that_is_too_long_is_a_line_that_cant_be_read_and_not_one_that_says_nothing() {
    let mut pair = good();
    let long = "x".repeat(513);
    pair.never_arrives(500.0, &long, 700.0, 900.0, "");
    let analysis = pair.analyse();
    assert_eq!((analysis.counts.matched, analysis.unreadable()), (20, 4));
    pair.arrives(600.0, &long[1..], 3.0);
    assert_eq!(pair.analyse().counts.matched, 21);
}

#[test]
fn numbers_that_lose_digits_are_no_ids() {
    let number = |text: &str| {
        let of =
            |log: String| log.replace("\"request_id\":\"#\"", &format!("\"request_id\":{text}"));
        let mut pair = Pair::default();
        pair.arrives(500.0, "#", 3.0);
        (of(pair.client), of(pair.server))
    };
    for (text, exact) in [
        ("18446744073709551615", true),
        ("-9223372036854775808", true),
        ("1772442000.25", true),
        ("18446744073709551616", false),
        ("-9223372036854775809", false),
        ("1772442000.12345678", false),
    ] {
        let (mut pair, (client, server)) = (good(), number(text));
        pair.client.push_str(&client);
        pair.server.push_str(&server);
        let analysis = pair.analyse();
        let expected = if exact { (21, 0) } else { (20, 4) };
        assert_eq!((analysis.counts.matched, analysis.unreadable()), expected, "{text}");
    }
}

#[test]
fn one_wrong_clock_in_the_first_line_tells_nothing_of_the_others() {
    for year in ["1970", "2004", "2060"] {
        let mut pair = good();
        let wrong = format!("{year}-01-01T00:00:00Z");
        let line = format!("{{\"ts\":\"{wrong}\",\"event\":\"sent\",\"request_id\":\"boot\"}}\n");
        pair.client.insert_str(0, &line);
        let analysis = pair.analyse();
        assert_eq!((analysis.counts.received, analysis.unreadable()), (20, 1), "{year}");
    }
}

#[test]
fn sends_of_one_id_in_two_files_are_each_of_its_own_whatever_the_order_of_files() {
    let line = |seconds: f64, event: &str, id: &str| {
        let mut pair = Pair::default();
        pair.client(seconds, id, event, "");
        pair.client
    };
    let a = line(0.0, "sent", "r1") + &line(10.0, "sent", "r2");
    let b = line(5.0, "sent", "r1") + &line(300.0, "sent", "r3");
    let server = line(0.1, "received", "r1")
        + &line(10.1, "received", "r2")
        + &line(60.0, "answered", "r1")
        + &line(300.1, "received", "r3");
    let counts = |clients: [&str; 2]| {
        let clients = clients.map(|client| source("client.log", client));
        let server = source("server.log", server.as_str());
        let analysis = analyse(&clients, &[server], &Overrides::default(), &|_| ()).unwrap();
        (analysis.counts.lost, analysis.counts.unseen)
    };
    assert_eq!(counts([&a, &b]), counts([&b, &a]));
    assert_eq!(counts([&a, &b]).0 + counts([&a, &b]).1, 1);
}
