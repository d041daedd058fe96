//! `stillopen lab agent` and `stillopen lab job`: the incident's two programs.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::Result;
use stillopen_lab::{
    agent::{self, AgentConfig, ModelConfig, OpenAiConfig},
    job::{self, JobConfig},
};

use crate::cli::lab::{AgentArgs, JobArgs};

/// Serves until it is told to stop.
pub(crate) fn agent(args: AgentArgs) -> Result<ExitCode> {
    let model = match args.script {
        Some(script) => ModelConfig::Script(script),
        None => ModelConfig::OpenAi(OpenAiConfig::from_env()?),
    };
    let config = AgentConfig {
        listen: args.listen,
        rounds: args.rounds,
        concurrency: args.concurrency,
        model,
        log: args.log,
    };
    agent::run(&config, |address| {
        // Nobody may read it; the agent serves all the same.
        let _ = writeln!(io::stderr(), "stillopen: the agent listens on {address}");
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Status 0: every document has its answer; 1: one has none.
pub(crate) fn job(args: JobArgs) -> Result<ExitCode> {
    let config = JobConfig {
        server: args.server,
        documents: args.documents,
        concurrency: args.concurrency,
        timeout: args.timeout,
        retry_after: args.retry_after,
        max_attempts: args.max_attempts,
        keepalive: args.keepalive,
        log: args.log,
        out: args.out,
    };
    match job::run(&config) {
        Ok(summary) => Ok(ExitCode::from(u8::from(!summary.unanswered.is_empty()))),
        Err(error) if error.is_broken_pipe() => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error.into()),
    }
}
