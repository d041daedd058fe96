//! What is heard of client and server while they run, and how the client ended.

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf, time::Duration};

use super::{
    super::{
        VmError,
        protocol::{Line, Stream},
    },
    missed,
};
use crate::exec::{ServerEnded, ServerError, Status, said::LastLines};

/// `timeout` of coreutils ends so.
const OVER_TIME: u8 = 124;
/// `SIGPIPE` of `uapi/asm-generic/signal.h`
const SIGPIPE: u8 = 13;
/// What went wrong is said last.
const MOST_SAID: usize = 256 * 1024;

/// What was heard so far.
pub(super) struct Heard {
    /// The client's number; any other is the server's.
    client: usize,
    began_ms: u64,
    /// The guest's clock, as it was last told.
    now_ms: u64,
    /// What both wrote, but for the client's output.
    said: Vec<u8>,
    server_said: LastLines,
    /// Before the client did.
    server_ended: Option<Status>,
    end: Option<End>,
}

/// What was the end of it.
enum End {
    Exited { status: Status, at_ms: u64 },
    OverTime { at_ms: u64 },
    NotStarted(String),
    NotServed { waited: Duration, listens: Vec<SocketAddr> },
}

/// How the client ended.
pub(super) struct Ended {
    pub(super) status: Status,
    pub(super) over_time: bool,
    pub(super) took: Duration,
    /// Files of this host that it may have missed.
    pub(super) missed: Vec<PathBuf>,
    /// How the server had ended before.
    pub(super) server: Option<ServerEnded>,
}

impl Heard {
    pub(super) fn of(client: usize) -> Self {
        Self {
            client,
            began_ms: 0,
            now_ms: 0,
            said: Vec::new(),
            server_said: LastLines::default(),
            server_ended: None,
            end: None,
        }
    }

    pub(super) fn take(&mut self, line: &Line) {
        let is_client = |process: &usize| *process == self.client;
        // What follows the end is the end of the guest.
        let end = match line {
            Line::Said { process, to, text } => {
                if !is_client(process) {
                    self.server_said.keep(&text.0);
                } else if *to == Stream::Out {
                    return;
                }
                self.said.extend(&text.0);
                self.said.drain(..self.said.len().saturating_sub(MOST_SAID));
                return;
            }
            _ if self.end.is_some() => return,
            Line::Started { process, at_ms } if is_client(process) => {
                (self.began_ms, self.now_ms) = (*at_ms, *at_ms);
                return;
            }
            Line::Clock { at_ms } => {
                self.now_ms = self.now_ms.max(*at_ms);
                return;
            }
            Line::Exited { process, at_ms, status, signal } => {
                let status = status.map(Status::Exit).or_else(|| signal.map(Status::Signal));
                if !is_client(process) {
                    self.server_ended = status;
                    return;
                }
                status.map(|status| End::Exited { status, at_ms: *at_ms })
            }
            Line::OverTime { process, at_ms } if is_client(process) => {
                Some(End::OverTime { at_ms: *at_ms })
            }
            Line::NotStarted { process, error } if is_client(process) => {
                Some(End::NotStarted(error.clone()))
            }
            Line::NotServed { waited_ms, listens, .. } => Some(End::NotServed {
                waited: Duration::from_millis(*waited_ms),
                listens: listens.clone(),
            }),
            _ => return,
        };
        self.end = end;
    }

    /// Nobody reads the client's output any more: it ends as it would where it writes to a pipe of its own.
    pub(super) fn lost_reader(&mut self) {
        let status = Status::Signal(SIGPIPE);
        self.end.get_or_insert(End::Exited { status, at_ms: self.now_ms });
    }

    /// `at`: where the server must listen; `there`: the guest's files.
    pub(super) fn ended(
        mut self,
        at: SocketAddr,
        there: &BTreeSet<PathBuf>,
    ) -> Result<Ended, VmError> {
        let said = self.server_said.get();
        let (status, at_ms, over_time) = match self.end {
            Some(End::Exited { status, at_ms }) => (status, at_ms, false),
            Some(End::OverTime { at_ms }) => (Status::Exit(OVER_TIME), at_ms, true),
            Some(End::NotStarted(error)) => return Err(VmError::NotStarted(error)),
            Some(End::NotServed { waited, listens }) => {
                let port = at.port();
                let on_port = listens.iter().any(|listener| listener.port() == port);
                let why = match self.server_ended {
                    Some(status) => ServerError::Ended { port, status, said },
                    None if on_port => ServerError::Elsewhere { at, listens, said },
                    None => ServerError::Silent { port, waited, listens, said },
                };
                return Err(VmError::Server { why, missed: missed(&self.said, there) });
            }
            None => return Err(VmError::Protocol("the client has no end".into())),
        };
        let failed = status != Status::Exit(0) && !over_time;
        Ok(Ended {
            status,
            over_time,
            took: Duration::from_millis(at_ms.saturating_sub(self.began_ms)),
            missed: if failed { missed(&self.said, there) } else { Vec::new() },
            server: self.server_ended.map(|status| ServerEnded { status, said }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::protocol::Bytes;

    const SERVER: usize = 0;
    const CLIENT: usize = 1;

    fn ended(lines: impl IntoIterator<Item = Line>) -> Result<Ended, VmError> {
        let mut heard = Heard::of(CLIENT);
        lines.into_iter().for_each(|line| heard.take(&line));
        heard.ended("10.0.2.2:8000".parse().unwrap(), &BTreeSet::new())
    }

    fn said(process: usize, to: Stream, text: &str) -> Line {
        Line::Said { process, to, text: Bytes(text.into()) }
    }

    fn exited(process: usize, at_ms: u64, status: u8) -> Line {
        Line::Exited { process, at_ms, status: Some(status), signal: None }
    }

    fn killed(process: usize) -> Line {
        Line::Exited { process, at_ms: 9000, status: None, signal: Some(9) }
    }

    #[test]
    fn what_is_killed_after_the_end_has_not_ended_by_itself() {
        let started = || Line::Started { process: CLIENT, at_ms: 1000 };
        let over = Line::OverTime { process: CLIENT, at_ms: 6000 };
        let ended_so = ended([started(), over, killed(SERVER), killed(CLIENT)]).unwrap();
        assert!(ended_so.over_time && ended_so.server.is_none());
        assert_eq!((ended_so.status, ended_so.took), (Status::Exit(124), Duration::from_secs(5)));

        let by_itself = ended([started(), exited(CLIENT, 2000, 3), killed(SERVER)]).unwrap();
        assert!(!by_itself.over_time && by_itself.server.is_none());
        assert_eq!((by_itself.status, by_itself.took), (Status::Exit(3), Duration::from_secs(1)));

        let bye = said(SERVER, Stream::Out, "bye\n");
        let before = ended([started(), bye, exited(SERVER, 1500, 1), exited(CLIENT, 2000, 0)]);
        let server = before.unwrap().server.unwrap();
        assert_eq!((server.status, server.said), (Status::Exit(1), vec!["bye".to_owned()]));
    }

    #[test]
    fn a_client_whose_output_nobody_reads_ends_as_of_sigpipe_unless_it_had_ended() {
        let after = |lines: Vec<Line>| {
            let mut heard = Heard::of(CLIENT);
            for line in &lines {
                heard.take(line);
            }
            heard.lost_reader();
            heard.ended("10.0.2.2:8000".parse().unwrap(), &BTreeSet::new()).unwrap()
        };
        let started = || Line::Started { process: CLIENT, at_ms: 1000 };
        let cut = after(vec![started(), Line::Clock { at_ms: 4000 }]);
        assert_eq!((cut.status, cut.took), (Status::Signal(13), Duration::from_secs(3)));
        assert_eq!(cut.status.code(), 141);
        let by_itself = after(vec![started(), exited(CLIENT, 2000, 3)]);
        assert_eq!(by_itself.status, Status::Exit(3));
    }

    #[test]
    fn a_server_that_does_not_serve_is_named_with_its_last_words() {
        let not_served = |listens: &[&str]| Line::NotServed {
            process: CLIENT,
            waited_ms: 60_050,
            listens: listens.iter().map(|at| at.parse().unwrap()).collect(),
        };
        let said = || said(SERVER, Stream::Err, "no luck today\n");
        for (lines, names) in [
            (vec![said(), exited(SERVER, 9, 3), not_served(&[])], ["exit status 3", "no luck"]),
            (
                vec![said(), not_served(&["0.0.0.0:80"])],
                ["within 60 s, but on 0.0.0.0:80", "no luck"],
            ),
            (vec![not_served(&["127.0.0.1:8000"])], ["on 127.0.0.1:8000 only", "on 0.0.0.0:8000"]),
        ] {
            let error = ended(lines).err().unwrap();
            assert_eq!(error.status(), 125, "{error}");
            for name in names {
                assert!(error.to_string().contains(name), "{name}: {error}");
            }
        }
    }
}
