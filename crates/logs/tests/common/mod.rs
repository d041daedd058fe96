//! Logs for tests: the incident's, simulated, and made-up ones line by line.
#![allow(dead_code, reason = "each test uses its part")]

use std::fmt::Write as _;

use stillopen_lab::{
    embedded,
    run::{self, Run, RunOptions},
    scenario::Scenario,
};
use stillopen_logs::{Analysis, LogsError, Overrides, Source, analyse};

/// The incident as it is, or with another seed.
pub(crate) fn incident(seed: Option<u64>) -> Run {
    let scenario = embedded::scenario(embedded::DEFAULT).unwrap();
    let scenario = Scenario::parse(scenario.text).unwrap();
    run::run(&scenario, &RunOptions { seed, ..RunOptions::default() }).unwrap()
}

pub(crate) fn source(name: &str, bytes: impl Into<Vec<u8>>) -> Source {
    Source::Bytes(name.to_owned(), bytes.into())
}

pub(crate) fn try_both(client: &str, server: &str) -> Result<Analysis, LogsError> {
    let (client, server) = (source("client.log", client), source("server.log", server));
    analyse(&[client], &[server], &Overrides::default(), &|_| ())
}

pub(crate) fn both(client: &str, server: &str) -> Analysis {
    try_both(client, server).unwrap_or_else(|error| panic!("{error}"))
}

/// 2026-03-02T09:00:00Z and so many seconds.
pub(crate) fn at(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "of a test")]
    let ms = 1_772_442_000_000 + (seconds * 1000.0).round() as i64;
    stillopen_logs::stamp(ms)
}

/// Two logs of JSON lines as they are written.
#[derive(Default)]
pub(crate) struct Pair {
    pub(crate) client: String,
    pub(crate) server: String,
}

impl Pair {
    pub(crate) fn client(&mut self, seconds: f64, id: &str, event: &str, more: &str) {
        let ts = at(seconds);
        let _ =
            writeln!(self.client, r#"{{"ts":"{ts}","event":"{event}","request_id":"{id}"{more}}}"#);
    }

    pub(crate) fn server(&mut self, seconds: f64, id: &str, event: &str, more: &str) {
        let ts = at(seconds);
        let _ =
            writeln!(self.server, r#"{{"ts":"{ts}","event":"{event}","request_id":"{id}"{more}}}"#);
    }

    /// A request that is answered after `takes`, and whose answer arrives.
    pub(crate) fn arrives(&mut self, asked: f64, id: &str, takes: f64) {
        self.client(asked, id, "sent", "");
        self.server(asked + 0.01, id, "received", "");
        self.server(asked + 0.01 + takes, id, "sent", "");
        self.client(asked + 0.02 + takes, id, "received", "");
    }

    /// One whose answer is sent after `takes` and never arrives; `more` is what the client says at its end.
    pub(crate) fn never_arrives(
        &mut self,
        asked: f64,
        id: &str,
        takes: f64,
        waits: f64,
        more: &str,
    ) {
        self.client(asked, id, "sent", "");
        self.server(asked + 0.01, id, "received", "");
        self.server(asked + 0.01 + takes, id, "sent", "");
        self.client(asked + waits, id, "failed", more);
    }

    pub(crate) fn analyse(&self) -> Analysis {
        both(&self.client, &self.server)
    }
}
