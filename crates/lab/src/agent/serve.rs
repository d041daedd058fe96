//! HTTP around the agent: routes, what a request must look like, what an error looks like.

use std::{future::Future, sync::Arc};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State, rejection::BytesRejection},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use tokio::net::TcpListener;

use super::{
    AgentError,
    work::{Agent, Failure},
};
use crate::http::{ATTEMPT, Answer, PATH, Problem, Question, REQUEST_ID};

/// An annual report's text is a few megabytes.
const LONGEST_DOCUMENT: usize = 16 << 20;

/// Serves until `stop` is ready; then refuses what queues, and finishes what is worked on.
///
/// # Errors
/// The listening socket fails.
pub async fn serve(
    agent: Arc<Agent>,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), AgentError> {
    let stopping = Arc::clone(&agent);
    axum::serve(listener, router(agent))
        .with_graceful_shutdown(async move {
            stop.await;
            stopping.stop();
        })
        .await
        .map_err(|source| AgentError::System { operation: "serve", source })
}

/// The agent's routes.
pub fn router(agent: Arc<Agent>) -> Router {
    let no_such_path = || async {
        problem(StatusCode::NOT_FOUND, format!("no such path; documents go to POST {PATH}"))
    };
    let no_such_method = || async {
        problem(StatusCode::METHOD_NOT_ALLOWED, format!("documents go to POST {PATH}"))
    };
    Router::new()
        .route(PATH, post(issues))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(LONGEST_DOCUMENT))
        .with_state(agent)
}

async fn issues(
    State(agent): State<Arc<Agent>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Answer>, Response> {
    let from_header = text(&headers, REQUEST_ID);
    let attempt = text(&headers, ATTEMPT).and_then(|text| text.parse().ok()).unwrap_or(1);
    let refused = |failure: &Failure| {
        let status = StatusCode::from_u16(failure.status());
        problem(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), failure.to_string())
    };
    match question(body) {
        Ok(question) => {
            let id = from_header.unwrap_or(&question.id);
            agent.answer(id, attempt, &question).await.map(Json).map_err(|error| refused(&error))
        }
        Err(failure) => {
            agent.refuse(from_header.unwrap_or("-"), attempt, &failure);
            Err(refused(&failure))
        }
    }
}

/// A header's text; ids come from file names, so UTF-8.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    std::str::from_utf8(headers.get(name)?.as_bytes()).ok().filter(|text| !text.is_empty())
}

fn question(body: Result<Bytes, BytesRejection>) -> Result<Question, Failure> {
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            Failure::TooLarge(format!("the body is larger than {LONGEST_DOCUMENT} bytes"))
        }
        _ => Failure::BadRequest(format!("the body can't be read: {}", rejection.body_text())),
    })?;
    let question: Question = serde_json::from_slice(&body).map_err(|error| {
        Failure::BadRequest(format!("the body is not JSON with the texts id and text: {error}"))
    })?;
    for (name, value) in [("id", &question.id), ("text", &question.text)] {
        if value.trim().is_empty() {
            return Err(Failure::BadRequest(format!("{name} is empty")));
        }
    }
    Ok(question)
}

fn problem(status: StatusCode, error: String) -> Response {
    (status, Json(Problem { error })).into_response()
}
