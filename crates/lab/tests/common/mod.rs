//! What the tests of agent and job share: captured logs, a clock that stands still, raw HTTP.
#![allow(dead_code, missing_docs, unreachable_pub)] // each test binary uses its part

pub mod model;
#[cfg(target_os = "linux")]
pub mod timer;

use std::{
    fs,
    io::{self, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::mpsc,
    time::Duration,
};

use stillopen_lab::{
    Clock,
    log::{Event, Log, Record},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
};

/// A log whose records can be waited for.
pub struct Captured(watch::Receiver<Vec<Record>>);

struct Capture(watch::Sender<Vec<Record>>);

impl Write for Capture {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let record = serde_json::from_slice(line).expect("one whole record a write");
        self.0.send_modify(|records| records.push(record));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn captured_log() -> (Log, Captured) {
    let (sender, receiver) = watch::channel(Vec::new());
    (Log::to(Capture(sender)), Captured(receiver))
}

impl Captured {
    pub fn records(&self) -> Vec<Record> {
        self.0.borrow().clone()
    }

    /// Waits until `count` records have this event.
    pub async fn until(&mut self, event: Event, count: usize) {
        let enough = |records: &Vec<Record>| count_of(records, event) >= count;
        self.0.wait_for(enough).await.expect("the log outlives the test");
    }

    /// The log as a table, without times: `sent a 1`.
    pub fn steps(&self) -> Vec<String> {
        let step = |r: Record| format!("{} {} {}", word(r.event), r.id, r.attempt);
        self.records().into_iter().map(step).collect()
    }
}

pub fn count_of(records: &[Record], event: Event) -> usize {
    records.iter().filter(|record| record.event == event).count()
}

pub fn word(event: Event) -> String {
    serde_json::to_value(event).unwrap().as_str().unwrap().to_owned()
}

/// Makes tokio's clock move by `tokio::time::advance` alone: a paused clock also jumps to the next
/// timer whenever a socket is slow, but not while a blocking task runs. The test starts it paused, so
/// that its milliseconds are the timers'.
pub struct StillClock(#[allow(dead_code)] mpsc::Sender<()>);

pub fn stand_still() -> StillClock {
    let (sender, receiver) = mpsc::channel();
    tokio::task::spawn_blocking(move || receiver.recv());
    StillClock(sender)
}

/// 09:00 on tokio's clock.
pub fn nine_o_clock() -> Clock {
    Clock::anchored("2026-11-29T09:00:00Z".parse().unwrap())
}

/// A folder that is gone at the end of the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn with(name: &str, files: &[(&str, &str)]) -> Self {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        for (file, text) in files {
            fs::write(path.join(file), text).unwrap();
        }
        Self(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Sends one request and reads to the end; status and body.
pub async fn post(address: SocketAddr, head: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request(head, body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a whole answer");
    (head[9..12].parse().unwrap(), body.to_owned())
}

pub fn request(head: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /v1/issues HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n{head}\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

pub fn question(id: &str, text: &str) -> String {
    serde_json::json!({ "id": id, "text": text }).to_string()
}

/// Reads one request with its body.
pub async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.split("content-length: ").nth(1).expect("a length");
            let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
            if body.len() >= length {
                return String::from_utf8(bytes).unwrap();
            }
        }
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "the request ends early");
    }
}

/// A test that hangs fails: nothing here takes a minute.
pub async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), future).await.expect("nothing happens any more")
}
