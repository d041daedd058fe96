//! `lab agent` and `lab job` as real processes on loopback.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    path::Path,
    process::{Child, Stdio},
    thread,
};

use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::{endpoint::Endpoint, output, stillopen};

/// An agent that is ended with the test.
struct Agent {
    process: Child,
    address: String,
}

impl Agent {
    fn start(endpoint: &Endpoint, rounds: u32, concurrency: u32, log: &Path) -> Self {
        let mut process = stillopen(&["lab", "agent", "--listen", "127.0.0.1:0"])
            .args(["--rounds", &rounds.to_string(), "--concurrency", &concurrency.to_string()])
            .arg("--log")
            .arg(log)
            .env("OPENAI_BASE_URL", format!("http://{}/v1", endpoint.address))
            .env("OPENAI_MODEL", "fake")
            .env_remove("OPENAI_API_KEY")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stderr = BufReader::new(process.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(address.starts_with("127.0.0.1:"), "{line}");
        thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
        Self { process, address }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn documents(names: &[&str]) -> TempDir {
    let folder = tempdir().unwrap();
    for name in names {
        fs::write(folder.path().join(format!("{name}.txt")), format!("A report on {name}."))
            .unwrap();
    }
    folder
}

fn job(agent: &str, documents: &Path, more: &[&str]) -> (i32, Vec<Value>) {
    let documents = documents.to_str().unwrap();
    let args = ["lab", "job", "--server", agent, "--documents", documents];
    let (status, stdout, _) = output(&[&args, more].concat());
    (status, stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn records(log: &Path) -> Vec<Value> {
    let log = fs::read_to_string(log).unwrap();
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_document_costs_one_call_and_one_for_each_round() {
    let folder = tempdir().unwrap();
    let endpoint = Endpoint::start(1);
    let agent = Agent::start(&endpoint, 3, 1, &folder.path().join("agent.log"));
    let (status, answers) = job(&agent.address, documents(&["ferries"]).path(), &[]);
    assert_eq!((status, answers.len()), (0, 1));
    let prompts = endpoint.prompts();
    assert_eq!(prompts.len(), 1 + 3);
    // Each review's prompt holds the whole list of the call before it.
    for (round, prompt) in prompts.iter().enumerate() {
        for issue in 0..round {
            assert!(prompt.contains(&format!("ferries issue {issue}")), "round {round}: {prompt}");
        }
    }
    // What the model changed last is what is answered.
    assert_eq!(answers[0]["issues"].as_array().unwrap().len(), 4, "{}", answers[0]);
}

#[test]
fn two_documents_give_two_lists_and_no_more_than_k_are_worked_on() {
    let folder = tempdir().unwrap();
    let endpoint = Endpoint::start(2);
    let agent = Agent::start(&endpoint, 1, 2, &folder.path().join("agent.log"));
    let documents = documents(&["ferries", "cocoa", "ferries-2", "cocoa-2"]);
    let (status, answers) = job(&agent.address, documents.path(), &["--concurrency", "4"]);
    assert_eq!((status, answers.len()), (0, 4));
    assert_eq!(endpoint.most_under_way(), 2);
    for answer in answers {
        let document =
            if answer["id"].as_str().unwrap().starts_with("f") { "ferries" } else { "cocoa" };
        assert!(answer["issues"].to_string().contains(document), "{answer}");
        assert_eq!(answer["issues"].as_array().unwrap().len(), 2, "{answer}");
    }
    let started = records(&folder.path().join("agent.log"));
    assert_eq!(started.iter().filter(|record| record["event"] == "started").count(), 4);
}

#[test]
fn a_job_whose_peer_swallows_everything_logs_both_attempts_and_ends() {
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = peer.local_addr().unwrap().to_string();
    // It reads what comes and never answers; a connection ends when the job ends it.
    thread::spawn(move || {
        for mut stream in peer.incoming().flatten() {
            thread::spawn(move || stream.read_to_end(&mut Vec::new()));
        }
    });
    let folder = tempdir().unwrap();
    let log = folder.path().join("job.log");
    let more = ["--timeout", "300ms", "--retry-after", "300ms", "--log", log.to_str().unwrap()];
    let (status, answers) = job(&address, documents(&["ferries"]).path(), &more);
    assert_eq!((status, answers.len()), (1, 0));
    let records = records(&log);
    let events = |event: &str| records.iter().filter(|r| r["event"] == event).collect::<Vec<_>>();
    assert_eq!(events("sent").len(), 2, "{records:?}");
    let lost = events("lost");
    assert_eq!(lost.len(), 2, "{records:?}");
    for (attempt, lost) in (1..).zip(lost) {
        assert_eq!((&lost["attempt"], &lost["client_saw"]), (&attempt.into(), &"own_timer".into()));
    }
    assert_eq!(events("retry").len(), 1);
    assert_eq!(events("gave_up").len(), 1);
}

#[test]
fn bad_input_is_status_2_and_named() {
    let empty = tempdir().unwrap();
    let empty = empty.path().to_str().unwrap();
    for (args, named) in [
        (&["job", "--server", "nowhere", "--documents", empty][..], "nowhere"),
        (&["job", "--server", "127.0.0.1:1", "--documents", empty], empty),
        (&["job", "--server", "127.0.0.1:1", "--documents", "/no/such"], "/no/such"),
        (&["job", "--server", "127.0.0.1:1", "--documents", empty, "--timeout", "0s"], "0s"),
        (&["agent", "--listen", "nowhere"], "nowhere"),
        (&["agent", "--script", "/no/such.toml"], "/no/such.toml"),
        (&["agent", "--concurrency", "0"], "concurrency"),
    ] {
        let (status, _, stderr) = output(&[&["lab"], args].concat());
        assert_eq!(status, 2, "{args:?}: {stderr}");
        assert!(stderr.contains(named), "{args:?}: {stderr}");
    }
    let without = stillopen(&["lab", "agent"])
        .env_remove("OPENAI_BASE_URL")
        .env_remove("OPENAI_MODEL")
        .output()
        .unwrap();
    assert_eq!(without.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&without.stderr).contains("OPENAI_"));
}
