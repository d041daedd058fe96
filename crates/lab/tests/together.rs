//! The two programs together, and the job in Python (`examples/job_httpx.py`) in the Rust one's place.
//!
//! Python's tests need `python3` with venv, and httpx from the package index or pip's own settings;
//! what is missing fails them.

mod common;

use std::{
    fs,
    net::SocketAddr,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{Arc, LazyLock},
    time::Duration,
};

use common::{Captured, Folder, captured_log, in_time, read_request};
use stillopen_lab::{
    Answer, Clock,
    agent::{self, Agent, AgentConfig, ModelConfig},
    job::{self, JobConfig, Results},
    log::{ClientSaw, Event, Record, Service},
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

/// An agent whose list shows which document it is for.
const SCRIPT: &str = r#"
    [default]
    issues = ["first"]
    [[default.round]]
    replace = [{ title = "first", with = "reviewed" }]
    [document.tamarind-foods-integrated-report]
    issues = ["cocoa"]
"#;

async fn agent(folder: &Folder) -> (SocketAddr, Captured) {
    let config = AgentConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        rounds: 1,
        concurrency: NonZeroUsize::new(2).unwrap(),
        model: ModelConfig::Script(folder.file("script.toml")),
        log: None,
    };
    let (log, captured) = captured_log();
    let agent = Arc::new(Agent::new(&config, log, Clock::Wall).unwrap());
    let listener = TcpListener::bind(config.listen).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(agent::serve(agent, listener, std::future::pending()));
    (address, captured)
}

/// One answer for each example document, and the one with a list of its own has it.
fn check_answers(lines: &str) {
    let mut answers: Vec<Answer> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    answers.sort_by(|a, b| a.id.cmp(&b.id));
    let ids: Vec<_> = answers.iter().map(|answer| answer.id.as_str()).collect();
    assert_eq!(ids, example_ids());
    for answer in answers {
        let own = answer.id.starts_with("tamarind");
        let titles: Vec<_> = answer.issues.iter().map(|issue| issue.title.as_str()).collect();
        assert_eq!((titles, answer.rounds), (vec![if own { "cocoa" } else { "reviewed" }], 1));
    }
}

/// Both logs name the same requests, and each was sent and received on both sides.
fn check_logs(job: &[Record], agent: &[Record]) {
    for (service, records) in [(Service::Job, job), (Service::Agent, agent)] {
        assert!(records.iter().all(|record| record.service == service && record.attempt == 1));
        for event in [Event::Sent, Event::Received] {
            let with = records.iter().filter(|record| record.event == event);
            let mut ids: Vec<_> = with.map(|record| record.id.as_str()).collect();
            ids.sort_unstable();
            assert_eq!(ids, example_ids(), "{service:?} {event:?}");
        }
    }
}

fn example_ids() -> Vec<String> {
    let files = fs::read_dir(Path::new(EXAMPLES).join("documents")).unwrap();
    let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let mut ids: Vec<_> = files.map(|file| stem(file.unwrap().path())).collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn the_job_gets_its_answers_from_the_agent() {
    let folder = Folder::with("together", &[("script.toml", SCRIPT)]);
    let (address, agent_log) = agent(&folder).await;
    let config = JobConfig {
        server: address.to_string().parse().unwrap(),
        documents: Path::new(EXAMPLES).join("documents"),
        concurrency: NonZeroUsize::new(3).unwrap(),
        timeout: Duration::from_mins(1),
        retry_after: Duration::from_mins(1),
        max_attempts: job::DEFAULT_MAX_ATTEMPTS,
        keepalive: Some("60/30/3".parse().unwrap()),
        log: None,
        out: None,
    };
    let (log, job_log) = captured_log();
    let out = folder.file("answers");
    let results = Results::lines(fs::File::create(&out).unwrap());
    let summary = in_time(job::ask_all(&config, log, Clock::Wall, results)).await.unwrap();
    assert_eq!((summary.documents, summary.unanswered.len()), (example_ids().len(), 0));
    check_answers(&fs::read_to_string(out).unwrap());
    check_logs(&job_log.records(), &agent_log.records());
}

/// A Python with the example's requirements, made once for this target directory.
static PYTHON: LazyLock<PathBuf> = LazyLock::new(|| {
    let requirements = Path::new(EXAMPLES).join("requirements.txt");
    let name = fs::read_to_string(&requirements).unwrap().trim().replace("==", "-");
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("venv-{name}"));
    let (python, ready) = (venv.join("bin/python"), venv.join("ready"));
    if !ready.exists() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
        run(Command::new(&python).args(["-m", "pip", "install", "-q", "-r"]).arg(&requirements));
        fs::write(ready, "").unwrap();
    }
    python
});

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The Python job, to its end; with its log.
async fn python_job(
    server: SocketAddr,
    documents: &Path,
    log: &Path,
    more: &[&str],
) -> (Output, Vec<Record>) {
    let python = tokio::task::spawn_blocking(|| PYTHON.clone()).await.unwrap();
    let output = tokio::process::Command::new(python)
        .arg(Path::new(EXAMPLES).join("job_httpx.py"))
        .args(["--server", &server.to_string(), "--log"])
        .arg(log)
        .arg("--documents")
        .arg(documents)
        .args(more)
        .kill_on_drop(true)
        .output();
    let output = in_time(output).await.unwrap();
    let log = fs::read_to_string(log).unwrap_or_default();
    (output, log.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn steps(records: &[Record]) -> Vec<String> {
    records.iter().map(|r| format!("{} {} {}", common::word(r.event), r.id, r.attempt)).collect()
}

#[tokio::test]
async fn the_python_job_gets_its_answers_from_the_agent() {
    let folder = Folder::with("python", &[("script.toml", SCRIPT)]);
    let (address, agent_log) = agent(&folder).await;
    let documents = Path::new(EXAMPLES).join("documents");
    let more = ["--concurrency", "3", "--timeout", "3600s", "--retry-after", "60m"];
    let log = folder.file("job.log");
    let (output, job_log) = python_job(address, &documents, &log, &more).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    check_answers(&String::from_utf8(output.stdout).unwrap());
    check_logs(&job_log, &agent_log.records());
}

/// In real time, because it is the subject: the client's own timer.
#[tokio::test]
async fn the_python_job_ends_a_lost_attempt_itself() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let folder = Folder::with("python-swallow", &[("経営.txt", "x")]);
    let more = ["--timeout", "2s", "--retry-after", "2s"];
    let address = listener.local_addr().unwrap();
    let log = folder.file("job.log");
    let (output, log) = python_job(address, &folder.0, &log, &more).await;
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(
        steps(&log),
        [
            "sent 経営 1",
            "lost 経営 1",
            "retry 経営 2",
            "sent 経営 2",
            "lost 経営 2",
            "gave_up 経営 2"
        ]
    );
    for lost in log.iter().filter(|record| record.event == Event::Lost) {
        assert_eq!(lost.client_saw, Some(ClientSaw::OwnTimer), "{}", lost.line());
        assert!(lost.silent_s.unwrap() >= Duration::from_millis(1990), "{}", lost.line());
    }
    assert!(output.stdout.is_empty());
}

#[tokio::test]
async fn the_python_job_names_what_ended_the_wait() {
    for (peer, saw) in [("fin", ClientSaw::Eof), ("reset", ClientSaw::Reset)] {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_request(&mut stream).await;
            if peer == "reset" {
                stream.set_zero_linger().unwrap();
            }
        });
        let folder = Folder::with(peer, &[("a.txt", "x")]);
        let log = folder.file("job.log");
        let (output, log) = python_job(address, &folder.0, &log, &["--max-attempts", "1"]).await;
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert_eq!(steps(&log), ["sent a 1", "lost a 1", "gave_up a 1"]);
        assert_eq!(log[1].client_saw, Some(saw), "{}", log[1].line());
    }
    // Bound and not listening: nobody else can get the port.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let folder = Folder::with("python-refused", &[("a.txt", "x")]);
    let address = socket.local_addr().unwrap();
    let log = folder.file("job.log");
    let (output, log) = python_job(address, &folder.0, &log, &["--max-attempts", "1"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(log[0].client_saw, Some(ClientSaw::Refused), "{}", log[0].line());
    assert_eq!(steps(&log), ["lost a 1", "gave_up a 1"]);
}

#[tokio::test]
async fn the_python_job_calls_bad_input_an_error() {
    let folder = Folder::with("python-bad", &[("a.pdf", "x")]);
    let address: SocketAddr = ([127, 0, 0, 1], 9).into();
    let log = folder.file("job.log");
    for (documents, more, part) in [
        (folder.0.as_path(), &[][..], "no documents"),
        (Path::new("/nonexistent"), &[], "/nonexistent"),
        (&folder.0, &["--keepalive", "60/30"], "60/30/3"),
        (&folder.0, &["--timeout", "soon"], "soon"),
        (&folder.0, &["--server", "agent"], "HOST:PORT"),
    ] {
        let (output, records) = python_job(address, documents, &log, more).await;
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
        assert!(records.is_empty());
    }
}

/// The kernel's own view: which timer runs on the client's socket. 0 is none, 2 keepalive's.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_python_jobs_keepalive_is_on_only_when_asked_for() {
    for (more, expected) in [(&[][..], 0), (&["--keepalive", "60/30/3"], 2)] {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let looked = tokio::spawn(async move {
            let (mut stream, client) = listener.accept().await.unwrap();
            read_request(&mut stream).await;
            let timer = common::timer::of_quiet_socket(client).await;
            answer(&mut stream).await;
            timer
        });
        let folder = Folder::with("python-keepalive", &[("a.txt", "x")]);
        let log = folder.file("job.log");
        let (output, _) = python_job(address, &folder.0, &log, more).await;
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let (timer, left) = looked.await.unwrap();
        assert_eq!(timer, expected);
        assert!(left <= Duration::from_mins(1), "{left:?} until the first probe");
    }
}

async fn answer(stream: &mut TcpStream) {
    let body = r#"{"id":"a","issues":[],"rounds":0,"took_s":0}"#;
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all((head + body).as_bytes()).await.unwrap();
}
