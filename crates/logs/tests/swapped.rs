//! A log that is given for the wrong side is refused: what would come of it is a wrong diagnosis.

mod common;

use common::{Pair, at, both, incident, source, try_both};
use stillopen_logs::{Class, LogsError, Overrides, analyse};

/// The incident's logs: the client's, the server's.
fn logs() -> (String, String) {
    let run = incident(None);
    (run.job_log, run.agent_log)
}

fn refusal(client: &str, server: &str) -> String {
    let error = try_both(client, server).unwrap_err();
    assert!(matches!(error, LogsError::Swapped { .. } | LogsError::Same { .. }), "{error}");
    error.to_string()
}

#[test]
fn the_incident_with_its_sides_swapped_is_no_proof_that_nothing_was_lost() {
    let (client, server) = logs();
    let error = refusal(&server, &client);
    assert!(error.starts_with("these look swapped: client.log, read as the client's"), "{error}");
    assert!(error.contains("--client and --server the other way round"), "{error}");
    assert_eq!(both(&client, &server).class, Class::IdleLimit);
}

#[test]
fn swapped_sides_whose_attempts_have_no_number_are_refused_too() {
    let unnumbered = |log: String| log.replace(r#","attempt":"#, r#","no":"#);
    let (client, server) = logs();
    let (client, server) = (unnumbered(client), unnumbered(server));
    refusal(&server, &client);
    assert_eq!(both(&client, &server).class, Class::IdleLimit);
}

#[test]
fn one_log_on_both_sides_is_no_random_loss() {
    let (client, server) = logs();
    for log in [&client, &server] {
        assert!(refusal(log, log).contains("are the same log"));
        // It has grown since it was read for the first time.
        let half = log.len() / 2 + log[log.len() / 2..].find('\n').unwrap() + 1;
        assert!(refusal(&log[..half], log).contains("are the same log"));
    }
}

#[test]
fn the_servers_log_alone_as_the_clients_is_refused_too() {
    let (client, server) = logs();
    let alone = |client: Option<&str>, server: Option<&str>| {
        let of = |name, text: Option<&str>| -> Vec<_> {
            text.map(|text| source(name, text)).into_iter().collect()
        };
        let (client, server) = (of("client.log", client), of("server.log", server));
        analyse(&client, &server, &Overrides::default(), &|_| ())
    };
    assert!(matches!(alone(Some(&server), None), Err(LogsError::Swapped { .. })));
    assert!(matches!(alone(None, Some(&client)), Err(LogsError::Swapped { .. })));
    assert!(alone(Some(&client), None).is_ok());
    assert!(alone(None, Some(&server)).is_ok());
}

/// One line for each request, with how long it took, has no order of its own.
#[test]
fn a_server_that_waits_longer_than_its_client_is_refused() {
    let line = |id: u32, end: f64, took: f64| {
        let ts = at(end);
        format!(
            "{{\"ts\":\"{ts}\",\"event\":\"completed\",\"id\":\"r-{id:03}\",\"took_s\":{took}}}\n"
        )
    };
    let (mut client, mut server) = (String::new(), String::new());
    for i in 0..40 {
        let begin = f64::from(i) * 10.0;
        let took = 2.0 + f64::from(i);
        client += &line(i, begin + took + 0.02, took + 0.04);
        server += &line(i, begin + took, took);
    }
    assert_eq!(both(&client, &server).class, Class::None);
    assert!(
        refusal(&server, &client).contains("the server has 40 of 40 requests before the client")
    );
}

#[test]
fn lines_of_one_moment_that_changed_places_are_no_swap() {
    let mut pair = Pair::default();
    for i in 0..40 {
        let id = format!("r-{i:03}");
        let begin = f64::from(i) * 10.0;
        pair.arrives(begin, &id, if i % 5 == 0 { -0.005 } else { 3.0 });
    }
    assert_eq!(pair.analyse().counts.lost, 0);
}
