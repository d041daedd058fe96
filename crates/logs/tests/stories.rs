//! Stories that were reported in public, each with a small made-up pair of logs; and those of one side.

mod common;

use std::{fmt::Write as _, path::PathBuf, time::Duration};

use stillopen_logs::{Analysis, Class, Join, Named, Overrides, Side, Source, analyse, candidates};

fn story(folder: &str, sides: &[Side], overrides: &Overrides) -> Analysis {
    let file = |side: Side| -> Vec<Source> {
        let path = format!("tests/stories/{folder}/{}.log", side.name());
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
        sides.contains(&side).then_some(Source::File(path)).into_iter().collect()
    };
    let analysis = analyse(&file(Side::Client), &file(Side::Server), overrides, &|_| ());
    let analysis = analysis.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(analysis.unreadable(), 0, "{:?}", analysis.logs);
    analysis
}

const BOTH: [Side; 2] = [Side::Client, Side::Server];

fn pattern(text: &str) -> Overrides {
    Overrides { pattern: vec![Named::parse(text)], ..Overrides::default() }
}

fn ids(analysis: &Analysis) -> Vec<&str> {
    candidates(analysis).iter().map(|row| row.id.as_str()).collect()
}

#[test]
fn c21_requests_that_are_aborted_after_five_minutes() {
    let text = r"server:^\w+ (?<time>\S+) \[\w+\] (?<event>\w+) request (?<id>\S+)$";
    let analysis = story("C21-aborted-after-five-minutes", &BOTH, &pattern(text));
    assert_eq!((analysis.class, analysis.limit), (Class::DurationCap, None));
    assert_eq!(analysis.cap.unwrap().after, Duration::from_secs(300));
    // The number alone names none: a program's timer, proxies, a desktop's NAT, a balancer.
    let ids = ids(&analysis);
    for id in ["node-fetch", "docker-desktop-vpnkit", "f5-fastl4", "envoy-stream-idle"] {
        assert!(ids.contains(&id), "{id} is not in {ids:?}");
    }
}

#[test]
fn c21_as_the_server_alone_knows_it() {
    let text = r"^\w+ (?<time>\S+) \[\w+\] (?<event>\w+) request (?<id>\S+)$";
    let analysis = story("C21-aborted-after-five-minutes", &[Side::Server], &pattern(text));
    assert_eq!((analysis.class, analysis.limit), (Class::NotEnoughData, None));
    assert_eq!(analysis.one_sided.unwrap().ended_after.unwrap().after, Duration::from_secs(300));
    assert!(ids(&analysis).contains(&"node-fetch"));
}

#[test]
fn c37_the_sdks_read_timer_and_an_invocation_log_of_successes() {
    let analysis = story("C37-read-timer-of-the-sdk", &BOTH, &Overrides::default());
    assert_eq!((analysis.class, analysis.limit), (Class::ClientTimer, None));
    assert_eq!(analysis.client_timer.unwrap().after, Duration::from_secs(60));
    assert_eq!((analysis.counts.lost, analysis.counts.too_late), (5, 5));
    assert_eq!(ids(&analysis), ["botocore-read"]);
}

#[test]
fn c39_a_function_of_400_s_behind_a_nat_gateway() {
    let text = r"server:^(?<time>\S+) (?<event>START|END) RequestId: (?<id>\S+)";
    let analysis = story("C39-function-behind-a-nat-gateway", &BOTH, &pattern(text));
    assert_eq!(analysis.class, Class::IdleLimit);
    let limit = analysis.limit.unwrap();
    assert_eq!((limit.best, limit.contradictions()), (Duration::from_secs(350), 0));
    assert_eq!(analysis.client_timer.unwrap().after, Duration::from_secs(900));
    assert!(ids(&analysis).contains(&"aws-nat-gateway"));
    // What closes a connection would have told the client.
    assert!(!ids(&analysis).contains(&"aws-nlb-tls"));
}

#[test]
fn the_server_alone_shows_duplicates_900_s_apart() {
    let analysis = story("one-side-server-duplicates", &[Side::Server], &Overrides::default());
    let one = analysis.one_sided.unwrap();
    assert_eq!((one.attempts, one.answered, one.repeated), (15, 15, 3));
    assert_eq!(one.repeated_after.unwrap().after, Duration::from_secs(900));
    assert_eq!((analysis.class, analysis.counts.lost), (Class::NotEnoughData, 0));
}

#[test]
fn the_client_alone_shows_requests_that_never_ended() {
    let analysis = story("one-side-client-never-ended", &[Side::Client], &Overrides::default());
    let one = analysis.one_sided.unwrap();
    assert_eq!((one.attempts, one.answered, one.never_ended), (13, 10, 3));
    assert_eq!((analysis.class, analysis.counts.lost), (Class::NotEnoughData, 0));
}

#[test]
fn without_ids_order_and_time_have_to_do() {
    // One request after the other, as a batch does it.
    let (mut client, mut server) = (String::new(), String::new());
    let mut now = 0.0;
    for i in 0..14 {
        let takes = if i < 10 { f64::from(i) * 30.0 } else { 360.0 + f64::from(i) };
        let ends = if i < 10 { takes + 0.02 } else { 900.0 };
        let last = if i < 10 { "response received" } else { "request timed out" };
        let _ = writeln!(client, "{} level=info request sent", common::at(now));
        let _ = writeln!(server, "{} level=info request received", common::at(now + 0.01));
        let _ = writeln!(server, "{} level=info response sent", common::at(now + 0.01 + takes));
        let _ = writeln!(client, "{} level=info {last}", common::at(now + ends));
        now += ends + 1.0;
    }
    let analysis = common::both(&client, &server);
    assert_eq!(analysis.join, Join::Order);
    assert_eq!((analysis.counts.matched, analysis.counts.lost), (14, 4));
    assert_eq!(analysis.class, Class::IdleLimit);
}

#[test]
fn words_and_fields_of_ones_own() {
    let (mut client, mut server) = (String::new(), String::new());
    for i in 0..12 {
        let (at, id) = (f64::from(i) * 10.0, format!("k{i}"));
        let _ = writeln!(client, "when={} what=hinaus key2={id}", common::at(at));
        let _ = writeln!(server, "when={} what=los key={id}", common::at(at + 0.1));
        let _ = writeln!(server, "when={} what=weg key={id}", common::at(at + 5.0));
        let _ = writeln!(client, "when={} what=da key2={id}", common::at(at + 5.1));
    }
    let named = |list: &[&str]| list.iter().map(|text| Named::parse(text)).collect();
    let overrides = Overrides {
        id: named(&["client:key2", "server:key"]),
        time: named(&["when"]),
        sent: named(&["weg"]),
        received: named(&["what=da"]),
        started: named(&["client:hinaus", "server:los"]),
        pattern: Vec::new(),
    };
    let [client, server] = [client, server].map(|log| common::source("own.log", log));
    let analysis = analyse(&[client], &[server], &overrides, &|_| ()).unwrap();
    assert_eq!((analysis.counts.matched, analysis.counts.received), (12, 12));
    assert_eq!(analysis.class, Class::None);
}
