//! What a namespace's tables say of a packet that passes it, by where it comes from and goes to.

use std::net::SocketAddr;

use super::*;
use crate::{
    conntrack::parse::{DESTINATION_NAT, SOURCE_NAT},
    ipvs::{Ipvs, Row, Services},
    nft::Rules,
    tables::held::Index,
};

const CLIENT: &str = "10.0.1.2:40000";
const SERVICE: &str = "10.96.0.10:80";
const SERVER: &str = "10.0.2.2:8080";
const NODE: &str = "10.0.2.1:50000";
const ELSEWHERE: At = At { place: 0, from: Some(3) };
const HERE: At = At { place: 0, from: None };
const ON: Way = Way::Through { link: 4, gateway: None };

fn flow(from: &str, to: &str) -> Flow {
    Flow::new(from.parse().unwrap(), to.parse().unwrap())
}

fn row(seconds: u64) -> Row {
    let (original, server) = (flow(CLIENT, SERVICE), SERVER.parse().unwrap());
    Row { original, server, remaining: Duration::from_secs(seconds) }
}

fn ipvs(service: &str, rows: Option<Vec<Row>>) -> Held {
    let tcp = vec![service.parse::<SocketAddr>().unwrap()];
    let services = Services { tcp, by_mark: 0 };
    Held {
        ipvs: Some(Ipvs { services, timeouts: None, sloppy: false, icmp: false }),
        rows: rows.map(Index::new),
        tracked: Some(Index::new(Vec::new())),
        rules: Some(Rules::default()),
        ..Held::default()
    }
}

fn tracking(entries: Vec<Tracked>) -> Held {
    let translating = entries.iter().filter(|entry| entry.translates_destination());
    Held {
        translated: translating.map(|entry| entry.original.destination).collect(),
        tracked: Some(Index::new(entries)),
        rules: Some(Rules::default()),
        ..Held::default()
    }
}

fn dnat() -> Tracked {
    Tracked::new(flow(CLIENT, SERVICE), flow(SERVER, CLIENT), 86, DESTINATION_NAT)
}

/// What is said, in words, and where the packet goes on to.
fn said(held: Held, at: At, way: Way, flow: Flow, role: Role) -> (Vec<String>, Option<Flow>) {
    let dump = include_bytes!("../../sock_diag/testdata/connections.bin");
    let mut connection = crate::parse_connections(dump).unwrap().items.remove(0);
    connection.role = role;
    let mut drafts = Vec::new();
    let held = [held];
    let mut look = Look { held: &held, at: 0, connection: &connection, drafts: &mut drafts };
    let fate = look.pass(at, flow, way, &[]);
    let words = drafts.iter().map(|draft| {
        let said = match &draft.said {
            Said::Missing(Missing { beside_ipvs: true, .. }) => "missing beside".to_owned(),
            Said::Missing(Missing { by_rule, .. }) => format!("missing, rule {by_rule}"),
            Said::Entry(Entry::Present { remaining, translates_destination, .. }) => {
                format!("{} s, translated {translates_destination}", remaining.as_secs())
            }
            Said::Entry(other) => format!("{other:?}"),
        };
        format!("{}: {said}", draft.kind.name())
    });
    let on = match fate {
        Fate::On(flow) => Some(flow),
        Fate::End => None,
    };
    (words.collect(), on)
}

#[test]
fn a_virtual_service_is_asked_where_its_packets_arrive_or_start() {
    let to_service = flow(CLIENT, SERVICE);
    let client = |held, at, way| said(held, at, way, to_service, Role::Client);
    let present = vec!["IPVS: 851 s, translated true".to_owned()];
    assert_eq!(client(ipvs(SERVICE, Some(vec![row(851)])), ELSEWHERE, Way::Here).0, present);
    assert_eq!(client(ipvs(SERVICE, Some(vec![row(851)])), HERE, ON).0, present);
    let every_port = "10.96.0.10:0";
    assert_eq!(client(ipvs(every_port, Some(vec![row(851)])), HERE, ON).0, present);

    // What is only passed on does not come to IPVS.
    let (nothing, on) = client(ipvs(SERVICE, Some(vec![])), ELSEWHERE, ON);
    assert_eq!((nothing, on), (vec![], Some(to_service)));

    let missing = vec!["IPVS: missing, rule false".to_owned()];
    assert_eq!(client(ipvs(SERVICE, Some(vec![])), ELSEWHERE, Way::Here).0, missing);
    let not_read = vec!["IPVS: NotRead".to_owned()];
    assert_eq!(client(ipvs(SERVICE, None), ELSEWHERE, Way::Here).0, not_read);
    // A server's own answers are not for the service.
    let (nothing, _) = said(ipvs(SERVICE, Some(vec![])), HERE, ON, to_service, Role::Server);
    assert_eq!(nothing, Vec::<String>::new());
}

#[test]
fn an_older_translation_explains_that_ipvs_has_no_entry() {
    let held = Held { tracked: Some(Index::new(vec![dnat()])), ..ipvs(SERVICE, Some(vec![])) };
    let (words, _) = said(held, ELSEWHERE, Way::Here, flow(CLIENT, SERVICE), Role::Client);
    assert_eq!(words, ["conntrack: 86 s, translated true", "IPVS: missing, rule false"]);
}

#[test]
fn the_servers_end_is_known_by_its_answers() {
    let answer = flow(SERVER, CLIENT);
    let server = |held| said(held, ELSEWHERE, ON, answer, Role::Server);
    let (words, on) = server(ipvs(SERVICE, Some(vec![row(29)])));
    assert_eq!((words, on), (vec!["IPVS: 29 s, translated true".to_owned()], None));
    let (words, on) = server(tracking(vec![dnat()]));
    assert_eq!(words, ["conntrack: 86 s, translated true"]);
    assert_eq!(on, Some(flow(SERVICE, CLIENT)), "what the client sees");
    let (words, on) = server(tracking(Vec::new()));
    assert_eq!((words, on), (vec![], Some(answer)));
}

#[test]
fn conntrack_should_have_an_entry_where_another_or_a_rule_is_for_the_same_destination() {
    let other = flow("10.0.1.3:40001", SERVICE);
    let client = |held, at| said(held, at, ON, other, Role::Client);
    let (words, on) = client(tracking(vec![dnat()]), ELSEWHERE);
    assert_eq!((words, on), (vec!["conntrack: missing, rule false".to_owned()], None));

    let mut rules = Rules::default();
    let to = crate::nft::rules::Destination { ip: other.destination.ip(), port: Some(80) };
    rules.from_elsewhere.insert(to);
    let with_rule = || Held { rules: Some(rules.clone()), ..tracking(Vec::new()) };
    assert_eq!(client(with_rule(), ELSEWHERE).0, ["conntrack: missing, rule true"]);
    assert_eq!(client(with_rule(), HERE), (vec![], Some(other)), "the rule is for what comes in");
    assert_eq!(client(tracking(Vec::new()), ELSEWHERE), (vec![], Some(other)));
    let unread = Held { tracked: None, ..with_rule() };
    assert_eq!(client(unread, ELSEWHERE).0, ["conntrack: NotRead"]);
}

#[test]
fn what_goes_on_has_the_addresses_that_the_entry_gives_it() {
    let reply = flow(SERVER, NODE);
    let masqueraded = Tracked::new(flow(CLIENT, SERVER), reply, 5, SOURCE_NAT);
    let (words, on) =
        said(tracking(vec![masqueraded]), ELSEWHERE, ON, flow(CLIENT, SERVER), Role::Client);
    assert_eq!(words, ["conntrack: 5 s, translated false"]);
    assert_eq!(on, Some(flow(NODE, SERVER)));
}

#[test]
fn an_untranslated_entry_matters_where_strays_are_dropped() {
    let as_it_is = flow(CLIENT, SERVER);
    let entry = Tracked::new(as_it_is, as_it_is.inverse(), 5, 0);
    let held = |drop_forwarded, drop_incoming| {
        let rules = Rules { drop_forwarded, drop_incoming, drops_new: true, ..Rules::default() };
        Held { rules: Some(rules), ..tracking(vec![entry]) }
    };
    let only_invalid = || {
        let rules = Rules { drop_forwarded: true, ..Rules::default() };
        Held { rules: Some(rules), ..tracking(vec![entry]) }
    };
    let present = vec!["conntrack: 5 s, translated false".to_owned()];
    for (case, held, at, words) in [
        ("nothing is dropped", held(false, false), ELSEWHERE, &vec![]),
        ("it is forwarded", held(true, false), ELSEWHERE, &present),
        ("it would be picked up again", only_invalid(), ELSEWHERE, &vec![]),
        ("it is forwarded, others are dropped", held(false, true), ELSEWHERE, &vec![]),
        ("its answers come in", held(false, true), HERE, &present),
        ("its answers come in, others are dropped", held(true, false), HERE, &vec![]),
    ] {
        let (got, on) = said(held, at, ON, as_it_is, Role::Client);
        assert_eq!((&got, on), (words, Some(as_it_is)), "{case}");
    }
}
