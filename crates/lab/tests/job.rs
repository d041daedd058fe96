//! The job against peers that answer, swallow, reset, refuse; and against the agent.
//!
//! Hours pass on tokio's clock, which stands still until a test moves it: what the peer has read and
//! what the log says are the signs to move it.

mod common;

use std::{
    io::{self, Write},
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    sync::{Arc, Mutex},
    time::Duration,
};

use common::{Captured, Folder, captured_log, in_time, nine_o_clock, read_request, stand_still};
use stillopen_lab::{
    Answer, Clock,
    job::{self, JobConfig, JobError, Results, Summary},
    log::{ClientSaw, Event, Record},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::advance,
};

const HOUR: Duration = Duration::from_hours(1);
const MINUTE: Duration = Duration::from_mins(1);

fn config(server: SocketAddr, documents: &Folder) -> JobConfig {
    JobConfig {
        server: server.to_string().parse().unwrap(),
        documents: documents.0.clone(),
        concurrency: NonZeroUsize::new(4).unwrap(),
        timeout: HOUR,
        retry_after: HOUR,
        max_attempts: job::DEFAULT_MAX_ATTEMPTS,
        keepalive: None,
        log: None,
        out: None,
    }
}

/// What a job wrote to standard output.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn answers(&self) -> Vec<Answer> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Running {
    log: Captured,
    lines: Lines,
    done: JoinHandle<Result<Summary, JobError>>,
}

impl Running {
    async fn summary(self) -> (Summary, Vec<Record>, Vec<Answer>) {
        let summary = self.done.await.unwrap().unwrap();
        (summary, self.log.records(), self.lines.answers())
    }
}

fn start(config: JobConfig, clock: Clock) -> Running {
    let (log, captured) = captured_log();
    let lines = Lines::default();
    let results = Results::lines(lines.clone());
    let done = tokio::spawn(async move { job::ask_all(&config, log, clock, results).await });
    Running { log: captured, lines, done }
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// The next connection, and the request on it.
async fn asked(listener: &TcpListener) -> (TcpStream, String) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let request = read_request(&mut stream).await;
    (stream, request)
}

async fn answer(stream: &mut TcpStream, status: &str, body: &str) {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).await.unwrap();
}

async fn answer_list(stream: &mut TcpStream, id: &str) {
    let body = format!(r#"{{"id":"{id}","issues":[{{"title":"a"}}],"rounds":3,"took_s":1.5}}"#);
    answer(stream, "200 OK", &body).await;
}

/// `09:00:00 sent a 1`, with what ended the wait and how long it was.
fn row(record: &Record) -> String {
    let event = common::word(record.event);
    let saw = record.client_saw.map(|saw| format!(" {saw}")).unwrap_or_default();
    let silent =
        record.silent_s.map(|silent| format!(" {}s", silent.as_secs())).unwrap_or_default();
    let at = record.ts.strftime("%T");
    format!("{at} {event} {} {}{saw}{silent}", record.id, record.attempt)
}

fn rows(records: &[Record]) -> Vec<String> {
    records.iter().map(row).collect()
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_swallows_everything_costs_two_hours_and_a_status() {
    let _clock = stand_still();
    let (listener, address) = listener().await;
    let folder = Folder::with("swallow", &[("a.txt", "Report A")]);
    let running = start(config(address, &folder), nine_o_clock());
    for attempt in 1..=2 {
        let (mut stream, request) = asked(&listener).await;
        assert!(request.contains("x-request-id: a\r\n"), "{request}");
        assert!(request.contains(&format!("x-attempt: {attempt}\r\n")), "{request}");
        assert!(request.ends_with(r#"{"id":"a","text":"Report A"}"#), "{request}");
        advance(HOUR).await;
        // Its own timer closes the connection, and nothing else came on it.
        assert_eq!(stream.read(&mut [0; 64]).await.unwrap(), 0);
    }
    let (summary, records, answers) = running.summary().await;
    assert_eq!(
        rows(&records),
        [
            "09:00:00 sent a 1",
            "10:00:00 lost a 1 own_timer 3600s",
            "10:00:00 retry a 2",
            "10:00:00 sent a 2",
            "11:00:00 lost a 2 own_timer 3600s",
            "11:00:00 gave_up a 2",
        ]
    );
    let unanswered = vec!["a".to_owned()];
    assert_eq!(summary, Summary { documents: 1, lost_attempts: 2, unanswered });
    assert!(answers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_forced_retry_ends_an_attempt_that_the_timeout_would_not() {
    let _clock = stand_still();
    let (listener, address) = listener().await;
    let folder = Folder::with("forced", &[("a.txt", "x")]);
    let forced = JobConfig { retry_after: 20 * MINUTE, ..config(address, &folder) };
    let running = start(forced, nine_o_clock());
    let (_first, _) = asked(&listener).await;
    advance(20 * MINUTE).await;
    let (mut second, _) = asked(&listener).await;
    // The last attempt has the timeout alone.
    advance(59 * MINUTE).await;
    answer_list(&mut second, "a").await;
    let (summary, records, answers) = running.summary().await;
    assert_eq!(
        rows(&records),
        [
            "09:00:00 sent a 1",
            "09:20:00 lost a 1 own_timer 1200s",
            "09:20:00 retry a 2",
            "09:20:00 sent a 2",
            "10:19:00 received a 2 answer 3540s",
        ]
    );
    assert_eq!((summary.lost_attempts, summary.unanswered.len(), answers.len()), (1, 0, 1));
    assert_eq!(records[4].status, Some(200));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_waits_for_its_retry_holds_no_turn() {
    let _clock = stand_still();
    let (listener, address) = listener().await;
    let folder = Folder::with("turns", &[("a.txt", "x"), ("b.md", "y")]);
    let one_at_once = JobConfig {
        concurrency: NonZeroUsize::MIN,
        timeout: 15 * MINUTE,
        ..config(address, &folder)
    };
    let running = start(one_at_once, nine_o_clock());
    let (_first, _) = asked(&listener).await;
    advance(15 * MINUTE).await;
    let (mut b, _) = asked(&listener).await;
    answer_list(&mut b, "b").await;
    let mut running = running;
    running.log.until(Event::Received, 1).await;
    advance(45 * MINUTE).await;
    let (mut again, _) = asked(&listener).await;
    answer_list(&mut again, "a").await;
    let (_, records, _) = running.summary().await;
    assert_eq!(
        rows(&records),
        [
            "09:00:00 sent a 1",
            "09:15:00 lost a 1 own_timer 900s",
            "09:15:00 sent b 1",
            "09:15:00 received b 1 answer 0s",
            "10:00:00 retry a 2",
            "10:00:00 sent a 2",
            "10:00:00 received a 2 answer 0s",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_told_end_is_tried_again_soon() {
    let _clock = stand_still();
    let (listener, address) = listener().await;
    let folder = Folder::with("told", &[("a.txt", "x")]);
    let three = JobConfig { max_attempts: NonZeroU32::new(3).unwrap(), ..config(address, &folder) };
    let mut running = start(three, nine_o_clock());
    let (mut stream, _) = asked(&listener).await;
    answer(&mut stream, "502 Bad Gateway", r#"{"error":"the model is away"}"#).await;
    running.log.until(Event::Received, 1).await;
    advance(job::TOLD_RETRY_AFTER).await;
    let (stream, _) = asked(&listener).await;
    stream.set_zero_linger().unwrap();
    drop(stream);
    running.log.until(Event::Lost, 1).await;
    advance(job::TOLD_RETRY_AFTER).await;
    let (mut stream, _) = asked(&listener).await;
    answer_list(&mut stream, "a").await;
    let (_, records, _) = running.summary().await;
    assert_eq!(
        rows(&records),
        [
            "09:00:00 sent a 1",
            "09:00:00 received a 1 answer 0s",
            "09:00:05 retry a 2",
            "09:00:05 sent a 2",
            "09:00:05 lost a 2 reset 0s",
            "09:00:10 retry a 3",
            "09:00:10 sent a 3",
            "09:00:10 received a 3 answer 0s",
        ]
    );
    assert_eq!(records[1].status, Some(502));
    assert_eq!(records[1].error.as_deref(), Some("the model is away"));
}

/// What a peer does once it has the request.
#[derive(Clone, Copy)]
enum Peer {
    Fin,
    Reset,
    FinInTheAnswer,
    ResetUnread,
    Nonsense,
    WrongBody,
    BadRequest,
}

async fn meet(listener: TcpListener, peer: Peer) {
    if matches!(peer, Peer::ResetUnread) {
        let (stream, _) = listener.accept().await.unwrap();
        stream.peek(&mut [0]).await.unwrap();
        return stream.set_zero_linger().unwrap();
    }
    let (mut stream, _) = asked(&listener).await;
    match peer {
        Peer::Fin => {}
        Peer::Reset | Peer::ResetUnread => stream.set_zero_linger().unwrap(),
        Peer::FinInTheAnswer => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{").await.unwrap();
        }
        Peer::Nonsense => stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n\r\n").await.unwrap(),
        Peer::WrongBody => answer(&mut stream, "200 OK", "hello").await,
        Peer::BadRequest => answer(&mut stream, "400 Bad Request", r#"{"error":"no"}"#).await,
    }
}

#[tokio::test]
async fn what_ended_the_wait_has_its_name() {
    for (peer, saw, error) in [
        (Peer::Fin, ClientSaw::Eof, "closed"),
        (Peer::Reset, ClientSaw::Reset, "reset"),
        (Peer::ResetUnread, ClientSaw::Reset, "reset"),
        (Peer::FinInTheAnswer, ClientSaw::Eof, "before message length"),
        (Peer::Nonsense, ClientSaw::Error, "invalid HTTP version"),
        (Peer::WrongBody, ClientSaw::Answer, "not the agent's"),
        (Peer::BadRequest, ClientSaw::Answer, "no"),
    ] {
        let (listener, address) = listener().await;
        let folder = Folder::with("ends", &[("a.txt", "x")]);
        let once = JobConfig { max_attempts: NonZeroU32::MIN, ..config(address, &folder) };
        let running = start(once, Clock::Wall);
        let met = tokio::spawn(meet(listener, peer));
        let (summary, records, _) = in_time(running.summary()).await;
        met.await.unwrap();
        let end = &records[1];
        assert_eq!(end.client_saw, Some(saw), "{}", end.line());
        assert!(end.error.as_deref().unwrap().contains(error), "{}", end.line());
        assert_eq!(end.event == Event::Received, saw == ClientSaw::Answer);
        assert_eq!((records[2].event, records.len()), (Event::GaveUp, 3));
        assert_eq!(summary.unanswered, ["a"]);
    }
}

#[tokio::test]
async fn a_request_that_the_agent_calls_wrong_is_not_made_again() {
    let (listener, address) = listener().await;
    let folder = Folder::with("wrong", &[("a.txt", "x")]);
    let running = start(config(address, &folder), Clock::Wall);
    tokio::spawn(meet(listener, Peer::BadRequest));
    let (_, records, _) = in_time(running.summary()).await;
    assert_eq!((records.last().unwrap().event, records.len()), (Event::GaveUp, 3));
}

#[tokio::test]
async fn a_refused_connection_sends_nothing() {
    // Bound and not listening: nobody else can get the port.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let folder = Folder::with("refused", &[("a.txt", "x")]);
    let once = JobConfig {
        max_attempts: NonZeroU32::MIN,
        ..config(socket.local_addr().unwrap(), &folder)
    };
    let (_, records, _) = in_time(start(once, nine_o_clock()).summary()).await;
    let seen: Vec<_> = records.iter().map(|r| (r.event, r.client_saw, r.silent_s)).collect();
    assert_eq!(seen, [(Event::Lost, Some(ClientSaw::Refused), None), (Event::GaveUp, None, None)]);
}

#[tokio::test(start_paused = true)]
async fn no_more_than_c_are_under_way() {
    let _clock = stand_still();
    let (listener, address) = listener().await;
    let names: Vec<_> = (0..5).map(|n| format!("d{n}.txt")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), "x")).collect();
    let folder = Folder::with("under-way", &files);
    let two_at_once =
        JobConfig { concurrency: NonZeroUsize::new(2).unwrap(), ..config(address, &folder) };
    let mut running = start(two_at_once, nine_o_clock());
    // Two are here; an answer to one of them brings the next, and the log has the order.
    let (first, second) = (asked(&listener).await, asked(&listener).await);
    let mut waiting = [first.0, second.0].into_iter().collect::<std::collections::VecDeque<_>>();
    for answered in 1..=5 {
        let mut stream = waiting.pop_front().unwrap();
        advance(MINUTE).await;
        answer_list(&mut stream, "d").await;
        running.log.until(Event::Received, answered).await;
        if answered <= 3 {
            waiting.push_back(asked(&listener).await.0);
        }
    }
    let (_, records, _) = running.summary().await;
    let mut under_way = 0_i32;
    for record in &records {
        under_way += if record.event == Event::Sent { 1 } else { -1 };
        assert!(under_way <= 2, "{:?}", rows(&records));
    }
    let sent = records.iter().filter(|r| r.event == Event::Sent).map(row);
    let expected =
        ["09:00:00 sent d0 1", "09:00:00 sent d1 1", "09:01:00 sent d2 1", "09:02:00 sent d3 1"];
    assert_eq!(sent.take(4).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn bad_input_is_an_error_before_any_work() {
    let (listener, address) = listener().await;
    let empty = Folder::with("empty", &[("a.pdf", "x")]);
    let good = Folder::with("good", &[("a.txt", "x")]);
    let nowhere = JobConfig {
        server: "does-not-exist.invalid:8000".parse().unwrap(),
        ..config(address, &good)
    };
    for (config, part) in [(config(address, &empty), "no documents"), (nowhere, "can't look up")] {
        let (log, captured) = captured_log();
        let results = Results::lines(io::sink());
        let error = job::ask_all(&config, log, Clock::Wall, results).await.unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert!(captured.records().is_empty());
    }
    drop(listener);
}

#[tokio::test]
async fn answers_go_to_a_folder_when_asked() {
    let (listener, address) = listener().await;
    let folder = Folder::with("folder", &[("a.txt", "x")]);
    let (log, _captured) = captured_log();
    let out = folder.file("out");
    let results = Results::folder(&out).unwrap();
    let config = config(address, &folder);
    tokio::spawn(async move {
        let (mut stream, _) = asked(&listener).await;
        answer_list(&mut stream, "a").await;
    });
    in_time(job::ask_all(&config, log, Clock::Wall, results)).await.unwrap();
    let answer = std::fs::read_to_string(out.join("a.json")).unwrap();
    assert_eq!(serde_json::from_str::<Answer>(&answer).unwrap().issues.len(), 1);
}

/// The kernel's own view: which timer runs on the client's socket. 0 is none, 2 keepalive's.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn keepalive_is_on_only_when_asked_for() {
    for (keepalive, timer) in [(None, 0), (Some("60/30/3".parse().unwrap()), 2)] {
        let (listener, address) = listener().await;
        let folder = Folder::with("keepalive", &[("a.txt", "x")]);
        let running = start(JobConfig { keepalive, ..config(address, &folder) }, Clock::Wall);
        let (mut stream, _) = in_time(asked(&listener)).await;
        let client = stream.peer_addr().unwrap();
        let (got, left) = in_time(common::timer::of_quiet_socket(client)).await;
        assert_eq!(got, timer);
        assert!(left <= Duration::from_mins(1), "{left:?} until the first probe");
        answer_list(&mut stream, "a").await;
        in_time(running.summary()).await;
    }
}
