//! One attempt: a connection of its own, one request on it, and what ended the wait.

use std::{error::Error as StdError, io, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{Request, StatusCode, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use stillopen_model::KeepaliveValues;
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{Instant, timeout},
};

use super::server::ServerAddress;
use crate::{
    http::{ATTEMPT, Answer, PATH, Problem, REQUEST_ID},
    log::ClientSaw,
};

/// A list of issues is kilobytes.
const LONGEST_ANSWER: usize = 16 << 20;

/// What an attempt sends, and where.
pub(super) struct Attempt<'a> {
    pub(super) server: &'a ServerAddress,
    pub(super) keepalive: Option<KeepaliveValues>,
    pub(super) id: &'a str,
    pub(super) number: u32,
    pub(super) body: Bytes,
    /// The client's own timer: for connecting, and again from the send on.
    pub(super) limit: Duration,
}

/// How an attempt ended.
#[derive(Debug)]
pub(super) struct End {
    pub(super) saw: ClientSaw,
    /// Since the send; `None` where nothing was sent.
    pub(super) silent: Option<Duration>,
    pub(super) status: Option<StatusCode>,
    /// What is wrong with it, where anything is.
    pub(super) answer: Result<Answer, Option<String>>,
}

/// No answer: what the client saw, and the words for it.
struct NoAnswer(ClientSaw, String);

impl Attempt<'_> {
    /// Connects, calls `on_sent` as the request leaves, and waits.
    pub(super) async fn run(self, on_sent: impl FnOnce()) -> End {
        let stream = match timeout(self.limit, self.connect()).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(no_answer)) => return End::none(no_answer, None),
            Err(_) => return End::own_timer(None),
        };
        on_sent();
        let sent = Instant::now();
        let exchanged = timeout(self.limit, self.exchange(stream)).await;
        let silent = Some(sent.elapsed());
        match exchanged {
            Ok(Ok((status, body))) => End::answered(status, &body, silent),
            Ok(Err(no_answer)) => End::none(no_answer, silent),
            Err(_) => End::own_timer(silent),
        }
    }

    async fn connect(&self) -> Result<TcpStream, NoAnswer> {
        let named = |operation: &str, error: &io::Error| {
            NoAnswer(saw(error), format!("can't {operation} {}: {error}", self.server))
        };
        let stream = TcpStream::connect(self.server.as_str())
            .await
            .map_err(|error| named("connect to", &error))?;
        stream.set_nodelay(true).map_err(|error| named("set TCP_NODELAY for", &error))?;
        if let Some(values) = self.keepalive {
            stillopen_remedy::turn_on(&stream, values)
                .map_err(|error| named("turn keepalive on for", &error.into()))?;
        }
        Ok(stream)
    }

    async fn exchange(&self, stream: TcpStream) -> Result<(StatusCode, Bytes), NoAnswer> {
        let request = Request::post(PATH)
            .header(header::HOST, self.server.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CONNECTION, "close")
            .header(REQUEST_ID, self.id.as_bytes())
            .header(ATTEMPT, self.number)
            .body(Full::new(self.body.clone()))
            .map_err(|error| NoAnswer(ClientSaw::Error, error.to_string()))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| no_answer(&error))?;
        // Dropped with this future, and the socket with it: so the client's own timer closes it.
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        let response = match sender.send_request(request).await {
            Ok(response) => response,
            // It ended before the request was on its way; only the connection knows of what.
            Err(error) if error.is_canceled() => {
                let of_connection = driver.join_next().await;
                let error = of_connection.and_then(|e| e.ok()?.err()).unwrap_or(error);
                return Err(no_answer(&error));
            }
            Err(error) => return Err(no_answer(&error)),
        };
        let status = response.status();
        let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
        Ok((status, body.map_err(|error| no_answer(&*error))?.to_bytes()))
    }
}

impl End {
    fn none(NoAnswer(saw, error): NoAnswer, silent: Option<Duration>) -> Self {
        Self { saw, silent, status: None, answer: Err(Some(error)) }
    }

    fn own_timer(silent: Option<Duration>) -> Self {
        Self { saw: ClientSaw::OwnTimer, silent, status: None, answer: Err(None) }
    }

    fn answered(status: StatusCode, body: &[u8], silent: Option<Duration>) -> Self {
        let answer = if status.is_success() {
            serde_json::from_slice(body)
                .map_err(|error| Some(format!("the answer is not the agent's: {error}")))
        } else {
            let problem = serde_json::from_slice(body).map(|Problem { error }| error).ok();
            Err(Some(problem.unwrap_or_else(|| format!("status {status}"))))
        };
        Self { saw: ClientSaw::Answer, silent, status: Some(status), answer }
    }
}

fn no_answer(error: &(dyn StdError + 'static)) -> NoAnswer {
    let mut saw_here = ClientSaw::Error;
    let mut words = error.to_string();
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            saw_here = saw(error);
        } else if error.downcast_ref::<hyper::Error>().is_some_and(is_eof) {
            saw_here = ClientSaw::Eof;
        } else if error.is::<LengthLimitError>() {
            words = format!("the answer is larger than {LONGEST_ANSWER} bytes");
        }
        next = error.source();
        if let Some(cause) = next {
            words = format!("{words}: {cause}");
        }
    }
    NoAnswer(saw_here, words)
}

fn is_eof(error: &hyper::Error) -> bool {
    error.is_incomplete_message() || error.is_canceled() || error.is_closed()
}

fn saw(error: &io::Error) -> ClientSaw {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => ClientSaw::Refused,
        // A broken pipe is a reset that came before the write.
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe => ClientSaw::Reset,
        io::ErrorKind::UnexpectedEof => ClientSaw::Eof,
        _ => ClientSaw::Error,
    }
}
