//! Each class from logs that are made for it: no limit is claimed where there is none.

mod common;

use std::time::Duration;

use common::Pair;
use stillopen_logs::Class;

fn id(i: u32) -> String {
    format!("r-{i:03}")
}

/// So many requests that take from 1 s to `longest`.
fn healthy(pair: &mut Pair, requests: u32, longest: f64) {
    for i in 0..requests {
        let takes = 1.0 + (longest - 1.0) * f64::from(i) / f64::from(requests - 1);
        pair.arrives(f64::from(i) * 10.0, &id(i), takes);
    }
}

const OWN_TIMER: &str = r#","error":"ReadTimeout""#;
const EOF: &str = r#","error":"connection closed by peer: eof""#;

#[test]
fn nothing_was_lost() {
    let mut pair = Pair::default();
    healthy(&mut pair, 40, 1500.0);
    let analysis = pair.analyse();
    assert_eq!((analysis.class, analysis.limit, analysis.counts.lost), (Class::None, None, 0));
}

#[test]
fn the_clients_timer_cut_at_300_s() {
    let mut pair = Pair::default();
    healthy(&mut pair, 40, 299.0);
    for i in 40..55 {
        // The server goes on working, and sends to nobody.
        pair.never_arrives(f64::from(i) * 10.0, &id(i), 301.5 + f64::from(i), 300.0, OWN_TIMER);
    }
    let analysis = pair.analyse();
    assert_eq!((analysis.class, analysis.limit), (Class::ClientTimer, None));
    assert_eq!(analysis.client_timer.unwrap().after, Duration::from_secs(300));
    assert_eq!((analysis.counts.lost, analysis.counts.too_late), (15, 15));
}

#[test]
fn a_cap_cut_at_60_s_whatever_the_silence() {
    let mut pair = Pair::default();
    healthy(&mut pair, 40, 58.0);
    for i in 40..55 {
        let (asked, id) = (f64::from(i) * 10.0, id(i));
        pair.client(asked, &id, "sent", "");
        pair.server(asked + 0.01, &id, "received", "");
        // Some stream for all of the time, some are silent.
        for part in 1..i - 40 {
            pair.server(asked + f64::from(part) * 4.0, &id, "chunk", "");
        }
        pair.client(asked + 60.02, &id, "failed", EOF);
        pair.server(asked + 90.0, &id, "sent", "");
    }
    let analysis = pair.analyse();
    assert_eq!((analysis.class, analysis.limit), (Class::DurationCap, None));
    assert_eq!(analysis.cap.unwrap().after, Duration::from_secs(60));
}

#[test]
fn a_cap_in_the_midst_of_a_stream() {
    let mut pair = Pair::default();
    healthy(&mut pair, 40, 58.0);
    for i in 40..55 {
        // The answer began early, and its end never came.
        pair.never_arrives(f64::from(i) * 10.0, &id(i), f64::from(i - 38) * 3.0, 60.02, EOF);
    }
    let analysis = pair.analyse();
    assert_eq!((analysis.class, analysis.limit), (Class::DurationCap, None));
}

#[test]
fn a_gateway_that_answers_504_at_60_s() {
    let mut pair = Pair::default();
    healthy(&mut pair, 40, 58.0);
    for i in 40..55 {
        let (asked, id) = (f64::from(i) * 10.0, id(i));
        pair.client(asked, &id, "sent", "");
        pair.server(asked + 0.01, &id, "received", "");
        pair.client(asked + 60.0, &id, "received", r#","status":504"#);
        pair.server(asked + 75.0, &id, "sent", r#","status":200"#);
    }
    let analysis = pair.analyse();
    assert_eq!((analysis.class, analysis.limit), (Class::DurationCap, None));
}

#[test]
fn losses_are_random() {
    let mut pair = Pair::default();
    for i in 0..60 {
        let takes = f64::from((i * i * 37 + i * 101) % 600);
        if i % 5 == 0 {
            pair.never_arrives(f64::from(i) * 10.0, &id(i), takes, 3600.0, OWN_TIMER);
        } else {
            pair.arrives(f64::from(i) * 10.0, &id(i), takes);
        }
    }
    let analysis = pair.analyse();
    assert_eq!((analysis.class, analysis.limit), (Class::Random, None));
    assert_eq!(analysis.counts.lost, 12);
}

#[test]
fn three_requests_say_nothing() {
    let mut pair = Pair::default();
    pair.arrives(0.0, "a", 10.0);
    pair.arrives(1.0, "b", 20.0);
    pair.never_arrives(2.0, "c", 1000.0, 3600.0, OWN_TIMER);
    let analysis = pair.analyse();
    assert_eq!((analysis.class, analysis.limit), (Class::NotEnoughData, None));
    assert_eq!(analysis.counts.lost, 1);
}

#[test]
fn an_idle_limit_that_some_other_loss_contradicts() {
    let mut pair = Pair::default();
    healthy(&mut pair, 60, 340.0);
    for i in 60..80 {
        pair.never_arrives(f64::from(i) * 10.0, &id(i), 292.0 + f64::from(i), 1800.0, OWN_TIMER);
    }
    pair.never_arrives(900.0, "unlucky", 12.0, 1800.0, OWN_TIMER);
    let analysis = pair.analyse();
    assert_eq!(analysis.class, Class::IdleLimit);
    let limit = analysis.limit.unwrap();
    assert_eq!((limit.best, limit.lost_below), (Duration::from_secs(350), 1));
    assert_eq!(analysis.client_timer.unwrap().after, Duration::from_secs(1800));
}

#[test]
fn each_request_without_an_end_is_in_a_class_of_its_own() {
    let mut pair = Pair::default();
    healthy(&mut pair, 40, 300.0);
    // Answered, and no word from the client although its log goes on: lost.
    pair.client(0.0, "open", "sent", "");
    pair.server(0.1, "open", "received", "");
    pair.server(100.0, "open", "sent", "");
    // Answered after the client's log ends.
    pair.client(600.0, "after", "sent", "");
    pair.server(600.1, "after", "received", "");
    pair.server(5000.0, "after", "sent", "");
    // Nobody ends it.
    pair.client(650.0, "working", "sent", "");
    pair.server(650.1, "working", "received", "");
    // The server fails.
    pair.client(650.0, "failing", "sent", "");
    pair.server(650.1, "failing", "received", "");
    pair.server(651.0, "failing", "failed", "");
    pair.client(651.1, "failing", "failed", "");
    // One side only.
    pair.client(660.0, "unarrived", "sent", "");
    pair.server(660.0, "stranger", "received", "");
    let counts = pair.analyse().counts;
    assert_eq!((counts.matched, counts.received, counts.lost), (44, 40, 1));
    assert_eq!((counts.unseen, counts.open, counts.no_answer), (1, 1, 1));
    assert_eq!((counts.client_only, counts.server_only), (1, 1));
}

#[test]
fn a_client_that_died_is_told_from_the_one_that_lives() {
    let mut lives = Pair::default();
    healthy(&mut lives, 40, 300.0);
    let mut died = Pair::default();
    died.client(0.0, "died", "sent", "");
    died.client(1.0, "before", "sent", "");
    died.client(2.0, "before", "received", "");
    lives.server(0.1, "died", "received", "");
    lives.server(500.0, "died", "sent", "");
    lives.server(1.1, "before", "received", "");
    lives.server(1.9, "before", "sent", "");
    let clients =
        [common::source("lives.log", lives.client), common::source("died.log", died.client)];
    let server = [common::source("server.log", lives.server)];
    let overrides = stillopen_logs::Overrides::default();
    let analysis = stillopen_logs::analyse(&clients, &server, &overrides, &|_| ()).unwrap();
    assert_eq!((analysis.counts.unseen, analysis.counts.lost), (1, 0));
}

#[test]
fn no_request_in_common_is_an_error_that_shows_both() {
    let (mut client, mut server) = (Pair::default(), Pair::default());
    healthy(&mut client, 10, 10.0);
    server.server(1.0, "other", "received", "");
    server.server(2.0, "other", "sent", "");
    let error = common::try_both(&client.client, &server.server).unwrap_err().to_string();
    assert!(error.contains("r-000") && error.contains("other"), "{error}");
}
