//! The agent against a fake OpenAI-compatible endpoint and against scripts.

mod common;

use std::{net::SocketAddr, num::NonZeroUsize, sync::Arc, time::Duration};

use axum::{
    body::{Body, to_bytes},
    http::Request,
};
use common::{
    Captured, Folder, captured_log, in_time,
    model::{FakeModel, list},
    nine_o_clock, post, question, request,
};
use serde_json::Value;
use stillopen_lab::{
    Answer, Clock,
    agent::{self, Agent, AgentConfig, ModelConfig},
    log::{Event, Record},
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::oneshot,
};
use tower::ServiceExt;

fn config(rounds: u32, concurrency: usize, model: ModelConfig) -> AgentConfig {
    AgentConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        rounds,
        concurrency: NonZeroUsize::new(concurrency).unwrap(),
        model,
        log: None,
    }
}

/// An agent on loopback; dropping `stop` stops it.
struct Running {
    address: SocketAddr,
    log: Captured,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<Result<(), agent::AgentError>>,
}

async fn start(config: &AgentConfig) -> Running {
    let (log, captured) = captured_log();
    let agent = Arc::new(Agent::new(config, log, Clock::Wall).unwrap());
    let listener = TcpListener::bind(config.listen).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let served = tokio::spawn(agent::serve(agent, listener, async {
        let _ = stopped.await;
    }));
    Running { address, log: captured, stop, served }
}

async fn with_model(rounds: u32, concurrency: usize, model: &FakeModel) -> Running {
    start(&config(rounds, concurrency, ModelConfig::OpenAi(model.config()))).await
}

fn titles(answer: &str) -> Vec<String> {
    let answer: Answer = serde_json::from_str(answer).unwrap();
    answer.issues.into_iter().map(|issue| issue.title).collect()
}

#[tokio::test]
async fn each_round_reviews_the_list_before_it() {
    let model =
        FakeModel::start(|call, _| list(&[&format!("kept from call {call}"), "common"])).await;
    let running = with_model(3, 1, &model).await;
    let (status, body) = in_time(post(running.address, "", &question("a", "Report A"))).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(titles(&body), ["kept from call 4", "common"]);

    let calls = model.calls();
    assert_eq!(calls.len(), 1 + 3);
    assert!(!calls[0].prompt.contains("kept from"), "{}", calls[0].prompt);
    for (index, call) in calls.iter().enumerate() {
        assert!(call.prompt.contains("Report A"));
        assert_eq!(call.model, "fake-1");
        assert_eq!(call.authorization.as_deref(), Some("Bearer secret"));
        if index > 0 {
            let before = format!("kept from call {index}");
            assert!(call.prompt.contains(&before) && call.prompt.contains("common"));
            assert_eq!(call.prompt.matches("kept from").count(), 1, "{}", call.prompt);
            assert!(call.prompt.contains(&format!("round {index} of 3")));
        }
    }
}

#[tokio::test]
async fn two_documents_at_once_give_two_lists() {
    // Adds to the list that it is shown, so that a list of the other document would be seen.
    let model = FakeModel::start(|_, prompt| {
        let own = if prompt.contains("Report A") { "a" } else { "b" };
        let before = prompt.matches(&format!("\"{own}")).count();
        let titles: Vec<_> = (0..=before).map(|n| format!("{own}{n}")).collect();
        list(&titles.iter().map(String::as_str).collect::<Vec<_>>())
    })
    .await;
    let running = with_model(2, 2, &model).await;
    let (a, b) = (question("a", "Report A"), question("b", "Report B"));
    let (a, b) = in_time(async {
        tokio::join!(post(running.address, "", &a), post(running.address, "", &b))
    })
    .await;
    assert_eq!(titles(&a.1), ["a0", "a1", "a2"]);
    assert_eq!(titles(&b.1), ["b0", "b1", "b2"]);
}

#[tokio::test]
async fn no_more_than_k_are_worked_on() {
    let model = FakeModel::closed(|_, _| list(&[])).await;
    let mut running = with_model(1, 2, &model).await;
    let ask = |id: u32| {
        let address = running.address;
        tokio::spawn(async move { post(address, "", &question(&id.to_string(), "text")).await.0 })
    };
    let asked: Vec<_> = (0..6).map(ask).collect();
    in_time(running.log.until(Event::Received, 6)).await;
    in_time(model.until_under_way(2)).await;
    model.open(12);
    for status in asked {
        assert_eq!(in_time(status).await.unwrap(), 200);
    }
    assert_eq!((model.calls().len(), model.most_under_way()), (12, 2));
}

#[tokio::test]
async fn an_answer_that_is_no_list_is_an_error_with_its_name() {
    for (words, part) in [
        ("I found three issues.", "not a list of issues"),
        ("{\"issues\": [{\"title\": \"\"}]}", "without a title"),
        ("429 quota used up", "429 Too Many Requests: quota used up"),
    ] {
        // The second call: the first list is good.
        let model = FakeModel::start(
            move |call, _| {
                if call == 1 { list(&["a"]) } else { words.to_owned() }
            },
        )
        .await;
        let running = with_model(1, 1, &model).await;
        let (status, body) = in_time(post(running.address, "", &question("a", "text"))).await;
        assert_eq!(status, 502, "{body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert!(body["error"].as_str().unwrap().contains(part), "{body}");
        let last = running.log.records().pop().unwrap();
        assert_eq!((last.event, last.status), (Event::Failed, Some(502)));
        assert!(last.error.unwrap().contains(part));
    }
}

#[tokio::test]
async fn an_endpoint_that_refuses_is_an_error_with_its_cause() {
    // Bound and not listening: nobody else can get the port.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let endpoint = agent::OpenAiConfig {
        base_url: format!("http://{}/v1", socket.local_addr().unwrap()),
        api_key: None,
        model: "m".into(),
    };
    let running = start(&config(0, 1, ModelConfig::OpenAi(endpoint))).await;
    let (status, body) = in_time(post(running.address, "", &question("a", "text"))).await;
    assert_eq!(status, 502);
    assert!(body.contains("/v1/chat/completions failed") && body.contains("refused"), "{body}");
}

#[tokio::test]
async fn at_stop_the_queue_is_refused_and_work_is_finished() {
    let model = FakeModel::closed(|_, _| list(&["a"])).await;
    let mut running = with_model(0, 1, &model).await;
    let address = running.address;
    let working =
        tokio::spawn(async move { post(address, "", &question("working", "text")).await.0 });
    in_time(running.log.until(Event::Started, 1)).await;
    let queued =
        tokio::spawn(async move { post(address, "", &question("queued", "text")).await.0 });
    in_time(running.log.until(Event::Received, 2)).await;

    running.stop.send(()).unwrap();
    assert_eq!(in_time(queued).await.unwrap(), 503);
    model.open(1);
    assert_eq!(in_time(working).await.unwrap(), 200);
    in_time(running.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_goes_is_in_the_log() {
    let model = FakeModel::closed(|_, _| list(&[])).await;
    let mut running = with_model(0, 1, &model).await;
    let mut client = TcpStream::connect(running.address).await.unwrap();
    client.write_all(request("", &question("a", "text")).as_bytes()).await.unwrap();
    in_time(running.log.until(Event::Started, 1)).await;
    drop(client);
    in_time(running.log.until(Event::Failed, 1)).await;
    let last = running.log.records().pop().unwrap();
    assert!(last.error.unwrap().contains("client closed"));
    assert_eq!(last.status, None);

    // And its turn is free.
    model.open(2);
    assert_eq!(in_time(post(running.address, "", &question("b", "text"))).await.0, 200);
}

const TEN_MINUTES: &str = r#"
    [default]
    think = "4m"
    issues = ["a"]
    [[default.round]]
    think = "6m"
    add = ["b"]
"#;

/// Without sockets, on the paused clock: the agent's own "took" is not the silence on the wire.
#[tokio::test(start_paused = true)]
async fn the_queue_is_in_order_and_not_in_took() {
    let folder = Folder::with("queue", &[("script.toml", TEN_MINUTES)]);
    let model = ModelConfig::Script(folder.file("script.toml"));
    let (log, captured) = captured_log();
    let agent = Agent::new(&config(1, 2, model), log, nine_o_clock()).unwrap();
    let router = agent::router(Arc::new(agent));
    let ask = |id: &str| {
        let request = Request::post("/v1/issues")
            .header("x-request-id", id)
            .header("x-attempt", "2")
            .body(Body::from(question("from-the-body", "text")))
            .unwrap();
        tokio::spawn(router.clone().oneshot(request))
    };
    for asked in ["a", "b", "c", "d", "e"].map(ask) {
        let answer = asked.await.unwrap().unwrap();
        let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["id"], "from-the-body");
        assert_eq!((&body["rounds"], &body["took_s"]), (&1.into(), &600.0.into()));
    }
    let sent = captured.records().into_iter().filter(|record| record.event == Event::Sent);
    let row = |r: Record| {
        let minutes = |d: Option<Duration>| d.unwrap().as_secs() / 60;
        assert_eq!(r.attempt, 2);
        format!("{} {:.0} queued {} took {}", r.id, r.ts, minutes(r.queued_s), minutes(r.took_s))
    };
    assert_eq!(
        sent.map(row).collect::<Vec<_>>(),
        [
            "a 2026-11-29T09:10:00Z queued 0 took 10",
            "b 2026-11-29T09:10:00Z queued 0 took 10",
            "c 2026-11-29T09:20:00Z queued 10 took 10",
            "d 2026-11-29T09:20:00Z queued 10 took 10",
            "e 2026-11-29T09:30:00Z queued 20 took 10",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn each_step_is_a_line() {
    let folder = Folder::with("steps", &[("script.toml", TEN_MINUTES)]);
    let model = ModelConfig::Script(folder.file("script.toml"));
    let (log, captured) = captured_log();
    let agent = Agent::new(&config(1, 1, model), log, nine_o_clock()).unwrap();
    let request = Request::post("/v1/issues").body(Body::from(question("a", "text"))).unwrap();
    agent::router(Arc::new(agent)).oneshot(request).await.unwrap();
    let lines: Vec<_> = captured.records().iter().map(Record::line).collect();
    let head = r#","service":"agent","event":"#;
    let id = r#","id":"a","attempt":1"#;
    assert_eq!(
        lines,
        [
            format!(r#"{{"ts":"2026-11-29T09:00:00.000Z"{head}"received"{id}}}"#),
            format!(r#"{{"ts":"2026-11-29T09:00:00.000Z"{head}"started"{id},"queued_s":0.0}}"#),
            format!(
                r#"{{"ts":"2026-11-29T09:04:00.000Z"{head}"round"{id},"round":0,"took_s":240.0,"issues":1}}"#
            ),
            format!(
                r#"{{"ts":"2026-11-29T09:10:00.000Z"{head}"round"{id},"round":1,"took_s":360.0,"issues":2}}"#
            ),
            format!(
                r#"{{"ts":"2026-11-29T09:10:00.000Z"{head}"sent"{id},"queued_s":0.0,"took_s":600.0,"status":200,"issues":2}}"#
            ),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn bad_requests_are_told_what_is_wrong() {
    let folder = Folder::with("bad", &[("script.toml", TEN_MINUTES)]);
    let model = ModelConfig::Script(folder.file("script.toml"));
    let (log, captured) = captured_log();
    let agent = Agent::new(&config(1, 1, model), log, nine_o_clock()).unwrap();
    let router = agent::router(Arc::new(agent));
    let large = question("a", &"x".repeat(17 << 20));
    for (method, path, body, status, part) in [
        ("POST", "/v1/issues", "not json", 400, "not JSON"),
        ("POST", "/v1/issues", "", 400, "not JSON"),
        ("POST", "/v1/issues", r#"{"id":"a"}"#, 400, "missing field `text`"),
        ("POST", "/v1/issues", r#"{"id":7,"text":"x"}"#, 400, "invalid type"),
        ("POST", "/v1/issues", r#"{"id":"a","text":" "}"#, 400, "text is empty"),
        ("POST", "/v1/issues", r#"{"id":"","text":"x"}"#, 400, "id is empty"),
        ("POST", "/v1/issues", &large, 413, "larger than"),
        ("GET", "/v1/issues", "", 405, "POST /v1/issues"),
        ("POST", "/issues", "", 404, "POST /v1/issues"),
    ] {
        let body = Body::from(body.to_owned());
        let request = Request::builder().method(method).uri(path).body(body).unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), status, "{method} {path} {part}");
        let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert!(body["error"].as_str().unwrap().contains(part), "{part}: {body}");
    }
    let failed = captured.records();
    assert!(failed.iter().all(|r| r.event == Event::Failed && r.id == "-"), "{failed:?}");
    assert_eq!(failed.len(), 7);
}

#[test]
fn the_example_script_is_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/agent-script.toml");
    agent::Script::read(path.as_ref()).unwrap();
}
