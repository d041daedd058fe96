//! A fake OpenAI-compatible endpoint that notes what it was asked and how many calls were under way.

use std::sync::{Arc, Mutex};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use serde_json::{Value, json};
use stillopen_lab::agent::OpenAiConfig;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
};

/// From the number of the call, from 1, and its prompt to the model's words.
type Speak = dyn Fn(usize, &str) -> String + Send + Sync;

pub struct FakeModel {
    address: String,
    shared: Arc<Shared>,
}

struct Shared {
    speak: Box<Speak>,
    calls: Mutex<Vec<Call>>,
    /// A call is answered for each permit.
    gate: Semaphore,
    under_way: watch::Sender<usize>,
    most_under_way: Mutex<usize>,
}

#[derive(Debug, Clone)]
pub struct Call {
    pub prompt: String,
    pub model: String,
    pub authorization: Option<String>,
}

impl FakeModel {
    pub async fn start(speak: impl Fn(usize, &str) -> String + Send + Sync + 'static) -> Self {
        let fake = Self::closed(speak).await;
        fake.open(Semaphore::MAX_PERMITS);
        fake
    }

    /// One that answers nothing until it is opened.
    pub async fn closed(speak: impl Fn(usize, &str) -> String + Send + Sync + 'static) -> Self {
        let shared = Arc::new(Shared {
            speak: Box::new(speak),
            calls: Mutex::default(),
            gate: Semaphore::new(0),
            under_way: watch::Sender::new(0),
            most_under_way: Mutex::new(0),
        });
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let router = Router::new()
            .route("/v1/chat/completions", post(completions))
            .with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, shared }
    }

    pub fn open(&self, calls: usize) {
        self.shared.gate.add_permits(calls);
    }

    pub fn config(&self) -> OpenAiConfig {
        OpenAiConfig {
            base_url: self.address.clone(),
            api_key: Some("secret".into()),
            model: "fake-1".into(),
        }
    }

    pub fn calls(&self) -> Vec<Call> {
        self.shared.calls.lock().unwrap().clone()
    }

    pub fn most_under_way(&self) -> usize {
        *self.shared.most_under_way.lock().unwrap()
    }

    pub async fn until_under_way(&self, calls: usize) {
        self.shared.under_way.subscribe().wait_for(|now| *now >= calls).await.unwrap();
    }
}

async fn completions(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> (StatusCode, Json<Value>) {
    let prompt = body["messages"][1]["content"].as_str().expect("a user's message").to_owned();
    let call = Call {
        prompt: prompt.clone(),
        model: body["model"].as_str().unwrap().to_owned(),
        authorization: headers.get("authorization").map(|v| v.to_str().unwrap().to_owned()),
    };
    let number = {
        let mut calls = shared.calls.lock().unwrap();
        calls.push(call);
        calls.len()
    };
    shared.under_way.send_modify(|now| {
        *now += 1;
        let mut most = shared.most_under_way.lock().unwrap();
        *most = (*most).max(*now);
    });
    shared.gate.acquire().await.unwrap().forget();
    shared.under_way.send_modify(|now| *now -= 1);
    let words = (shared.speak)(number, &prompt);
    match words.strip_prefix("429 ") {
        Some(message) => {
            (StatusCode::TOO_MANY_REQUESTS, Json(json!({ "error": { "message": message } })))
        }
        None => (
            StatusCode::OK,
            Json(json!({
                "choices": [{ "message": { "content": words }, "finish_reason": "stop" }]
            })),
        ),
    }
}

/// The model's words for a list with these titles.
pub fn list(titles: &[&str]) -> String {
    let issues: Vec<_> = titles.iter().map(|title| json!({ "title": title })).collect();
    json!({ "issues": issues }).to_string()
}
