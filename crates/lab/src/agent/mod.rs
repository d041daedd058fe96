//! The agent of the incident: an HTTP service that lists a document's management issues, reviews its
//! own list N rounds with a language model, and says nothing on the wire until it is done.
//!
//! It works on at most K requests at once and queues the rest, so its own "took" is shorter than the
//! silence on the wire.
//!
//! Read first: `work.rs` (one request, and its log), `review.rs` (who thinks), then `serve.rs`.

mod openai;
mod prompt;
mod review;
mod script;
mod serve;
mod work;

use std::{io, net::SocketAddr, num::NonZeroUsize, path::PathBuf, sync::Arc};

use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
};

pub use openai::{CallError, EndpointError, OpenAiConfig};
pub use prompt::NotAList;
pub use review::ModelError;
pub use script::{NotOnTheList, Script, ScriptError};
pub use serve::{router, serve};
pub use work::Agent;

use crate::{
    Clock,
    log::{Log, LogError},
};

/// What `lab agent` is asked for.
pub struct AgentConfig {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// How often the agent reviews its own list; 0 is allowed. A document costs 1 + `rounds` calls.
    pub rounds: u32,
    /// How many requests are worked on at once; the others wait in order of arrival.
    pub concurrency: NonZeroUsize,
    /// Who thinks.
    pub model: ModelConfig,
    /// Where the log goes; standard error without.
    pub log: Option<PathBuf>,
}

/// Who thinks.
pub enum ModelConfig {
    /// An OpenAI-compatible endpoint.
    OpenAi(OpenAiConfig),
    /// A file with think times and edits.
    Script(PathBuf),
}

/// An agent that can't start, or can't go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The endpoint can't be used.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The script can't be used.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The log can't be opened.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The address can't be taken.
    #[error("can't listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The system refuses threads, signals or the listening socket.
    #[error("can't {operation}: {source}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// Why not.
        source: io::Error,
    },
}

/// Runs the agent until SIGINT or SIGTERM, calling `on_listening` with its address.
///
/// At the first signal it takes no more requests, refuses those that queue with 503, and finishes
/// those that it works on; at the second it ends at once.
///
/// # Errors
/// The model can't be used, the log can't be opened, or the address can't be taken.
pub fn run(config: &AgentConfig, on_listening: impl FnOnce(SocketAddr)) -> Result<(), AgentError> {
    let agent = Arc::new(Agent::new(config, Log::open(config.log.as_deref())?, Clock::Wall)?);
    let system = |operation| move |source| AgentError::System { operation, source };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(system("start the runtime"))?;
    runtime.block_on(async {
        let listen = |source| AgentError::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(listen)?;
        let mut asked = Asked::new().map_err(system("watch for signals"))?;
        let mut asked_again = Asked::new().map_err(system("watch for signals"))?;
        on_listening(listener.local_addr().map_err(listen)?);
        let twice = async {
            asked_again.stop().await;
            asked_again.stop().await;
        };
        tokio::select! {
            served = serve(agent, listener, async move { asked.stop().await }) => served,
            () = twice => Ok(()),
        }
    })
}

/// SIGINT and SIGTERM.
struct Asked {
    interrupt: Signal,
    terminate: Signal,
}

impl Asked {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn stop(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
