//! The incident's two programs in the guest: an agent in each pod, the job at the client, each in threads of its
//! own. Their logs are what they say.

use std::{
    fs, io,
    num::{NonZeroU32, NonZeroUsize},
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::{
    event::{EventfdFlags, epoll, eventfd},
    fd::OwnedFd,
};

use super::{
    super::protocol::{Lane, Line, Programs as Asked},
    Done, failed,
    links::Namespace,
};
use crate::{
    agent::{self, AgentConfig, ModelConfig},
    job::{self, JobConfig},
    path::Addresses,
};

/// The programs of all lanes.
pub(super) struct Programs {
    /// Signalled when a job ends.
    bell: Arc<OwnedFd>,
    jobs: Vec<JoinHandle<()>>,
    ended: usize,
    /// Lane, program, its log.
    logs: Vec<(u8, &'static str, PathBuf)>,
}

impl Programs {
    pub(super) fn new(on: &OwnedFd, token: epoll::EventData) -> Done<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bell = Arc::new(bell.map_err(failed("make", "an eventfd"))?);
        epoll::add(on, &*bell, token, epoll::EventFlags::IN).map_err(failed("watch", "jobs"))?;
        Ok(Self { bell, jobs: Vec::new(), ended: 0, logs: Vec::new() })
    }

    /// Whether there are jobs and each has ended.
    pub(super) fn all_done(&self) -> bool {
        !self.jobs.is_empty() && self.ended == self.jobs.len()
    }

    /// Counts the jobs that have ended.
    pub(super) fn look(&mut self) {
        let mut count = [0; 8];
        if rustix::io::read(&*self.bell, &mut count).is_ok() {
            self.ended += usize::try_from(u64::from_ne_bytes(count)).unwrap_or(0);
        }
    }

    pub(super) fn start(
        &mut self,
        lane: &Lane,
        asked: &Asked,
        at: &Addresses,
        client: &Namespace,
        pods: &Namespace,
    ) -> Done<()> {
        let folder = PathBuf::from(format!("/tmp/lane-{}", lane.number));
        let documents = folder.join("documents");
        make(&documents)?;
        let script = folder.join("script.toml");
        write(&script, &asked.script)?;
        for (id, text) in &asked.documents {
            write(&documents.join(format!("{id}.txt")), text)?;
        }
        let positive = |number: usize| NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN);
        pods.enter()?;
        for (number, &listen) in at.backends.iter().enumerate() {
            let log = folder.join(format!("agent-{number}.log"));
            self.logs.push((lane.number, "agent", log.clone()));
            let config = AgentConfig {
                listen,
                rounds: asked.rounds,
                concurrency: positive(asked.agent_concurrency),
                model: ModelConfig::Script(script.clone()),
                log: Some(log),
            };
            let (tell, told) = std::sync::mpsc::channel();
            // Threads are born in the namespace that their maker is in.
            thread::spawn(move || {
                let ready = tell.clone();
                let ended = agent::run(&config, |_| drop(ready.send(Ok(()))));
                let _ = tell.send(ended.map_err(|error| error.to_string()));
            });
            told.recv().map_err(failed("start", "an agent"))??;
        }
        client.enter()?;
        let log = folder.join("job.log");
        self.logs.push((lane.number, "job", log.clone()));
        let keepalive = lane.keepalive[0].map(|[idle, interval, count]| {
            let seconds = |seconds: u32| Duration::from_secs(seconds.into());
            stillopen_model::KeepaliveValues {
                idle: seconds(idle),
                interval: seconds(interval),
                count,
            }
        });
        let config = JobConfig {
            server: at.vip.to_string().parse().map_err(failed("name", "the Service"))?,
            documents,
            concurrency: positive(asked.job_concurrency),
            timeout: Duration::from_secs(asked.timeout_s),
            retry_after: Duration::from_secs(asked.retry_after_s),
            max_attempts: NonZeroU32::new(asked.max_attempts).unwrap_or(NonZeroU32::MIN),
            keepalive,
            log: Some(log),
            out: Some(folder.join("answers")),
        };
        let bell = Arc::clone(&self.bell);
        self.jobs.push(thread::spawn(move || {
            if let Err(error) = job::run(&config) {
                eprintln!("stillopen: the job: {error}");
            }
            let _ = rustix::io::write(&*bell, &1_u64.to_ne_bytes());
        }));
        Ok(())
    }

    /// What the programs wrote.
    pub(super) fn logs(&self, lines: &mut Vec<Line>) {
        for (lane, program, path) in &self.logs {
            let text = fs::read_to_string(path).unwrap_or_default();
            lines.extend(text.lines().map(|line| Line::Log {
                lane: *lane,
                program: (*program).to_owned(),
                text: line.to_owned(),
            }));
        }
    }
}

fn make(folder: &Path) -> Done<()> {
    fs::create_dir_all(folder).map_err(failed("make folder", &folder.display().to_string()))
}

fn write(path: &Path, text: &str) -> Done<()> {
    let written: io::Result<()> = fs::write(path, text);
    written.map_err(failed("write", &path.display().to_string()))
}
