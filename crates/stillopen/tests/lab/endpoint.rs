//! A fake OpenAI-compatible endpoint: it edits the list at each call and notes what it was asked.

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
};

use serde_json::{Value, json};

/// What it was asked, and how much at once.
#[derive(Default)]
struct Seen {
    prompts: Vec<String>,
    under_way: usize,
    most_under_way: usize,
}

/// It serves until the test ends.
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    seen: Arc<(Mutex<Seen>, Condvar)>,
}

impl Endpoint {
    /// No call is answered before `at_once` of them have been under way at the same time.
    pub(crate) fn start(at_once: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new((Mutex::new(Seen::default()), Condvar::new()));
        let shared = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&shared);
                thread::spawn(move || serve(stream, &seen, at_once));
            }
        });
        Self { address, seen }
    }

    pub(crate) fn prompts(&self) -> Vec<String> {
        self.seen.0.lock().unwrap().prompts.clone()
    }

    pub(crate) fn most_under_way(&self) -> usize {
        self.seen.0.lock().unwrap().most_under_way
    }
}

/// Answers the calls of one connection. Ends when the caller has closed it.
fn serve(stream: TcpStream, seen: &(Mutex<Seen>, Condvar), at_once: usize) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    while let Some(body) = read_request(&mut reader) {
        let prompt = prompt(&body);
        let list = edited(&prompt);
        {
            let mut state = seen.0.lock().unwrap();
            state.prompts.push(prompt);
            state.under_way += 1;
            state.most_under_way = state.most_under_way.max(state.under_way);
            seen.1.notify_all();
            let mut state =
                seen.1.wait_while(state, |state| state.most_under_way < at_once).unwrap();
            state.under_way -= 1;
        }
        let content = json!({ "issues": list }).to_string();
        let answer = json!({
            "id": "x", "object": "chat.completion", "created": 0, "model": "fake",
            "choices": [{
                "index": 0, "finish_reason": "stop",
                "message": { "role": "assistant", "content": content },
            }],
        })
        .to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
        if write!(writer, "{head}{}\r\n\r\n{answer}", answer.len()).is_err() {
            return;
        }
    }
}

/// A request's body; `None`: the connection has ended.
fn read_request(reader: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(serde_json::from_slice(&body).unwrap())
}

fn prompt(body: &Value) -> String {
    let messages = body["messages"].as_array().unwrap();
    messages.iter().map(|message| message["content"].as_str().unwrap()).collect()
}

/// The list that this call's model gives: one issue more than the prompt shows, named for its document.
fn edited(prompt: &str) -> Vec<String> {
    let document = if prompt.contains("ferries") { "ferries" } else { "cocoa" };
    let shown = (0..).take_while(|n| prompt.contains(&format!("{document} issue {n}"))).count();
    (0..=shown).map(|n| format!("{document} issue {n}")).collect()
}
