//! Watches over the two programs: starts them, hands signals on, hears how they end.
#![allow(clippy::disallowed_methods, reason = "a server is waited for in real time")]

use std::{
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Signal, pidfd_send_signal},
};

use super::{
    error::NetnsError,
    listening::{Listening, listening},
    namespaces::{Event, Namespaces, Which},
    server::Output,
    signals::Signals,
};
use crate::exec::{Request, ServerEnded, Status};

/// A server has so long until it listens.
const PATIENCE: Duration = Duration::from_secs(60);
/// The kernel tells nobody that a socket listens: its list is read this often.
const LOOK: Duration = Duration::from_millis(20);

pub(super) struct Supervisor {
    namespaces: Namespaces,
    output: Output,
    signals: Signals,
    client: Option<OwnedFd>,
    server_ended: Option<Status>,
}

impl Supervisor {
    pub(super) fn new(namespaces: Namespaces, output: Output, signals: Signals) -> Self {
        Self { namespaces, output, signals, client: None, server_ended: None }
    }

    /// Starts the server's command and waits until it listens.
    pub(super) fn start_server(&mut self, port: u16, v6: bool) -> Result<(), NetnsError> {
        self.namespaces.start(Which::Server)?;
        let began = Instant::now();
        loop {
            if let Some(status) = self.server_ended {
                return Err(NetnsError::ServerEnded { port, status, said: self.output.last() });
            }
            let listening = listening(self.namespaces.pid(), port, v6);
            if listening == Listening::Yes {
                return Ok(());
            }
            let waited = began.elapsed();
            if waited > PATIENCE {
                let on_loopback = listening == Listening::OnLoopback;
                let said = self.output.last();
                return Err(NetnsError::ServerSilent { port, waited, on_loopback, said });
            }
            self.next(Some(LOOK))?;
        }
    }

    /// Starts the client and waits for its end.
    pub(super) fn run_client(&mut self, request: &Request) -> Result<Status, NetnsError> {
        self.namespaces.start(Which::Client)?;
        let mut why = None;
        loop {
            match self.next(None)? {
                Some(Event::NotExecuted(Which::Client, errno)) => why = Some(errno),
                Some(Event::Ended(Which::Client, status)) => {
                    let Some(errno) = why else { return Ok(status) };
                    let command = request.command.first().cloned().unwrap_or_default();
                    return Err(NetnsError::NotExecuted { command, cause: errno.into() });
                }
                _ => {}
            }
        }
    }

    /// Ends everything in the namespaces. How the server had ended by itself, if it had, and how many bytes of
    /// what it said standard error did not take.
    pub(super) fn end(self) -> (Option<ServerEnded>, usize) {
        let Self { namespaces, mut output, server_ended, .. } = self;
        drop(namespaces);
        let said = output.last();
        (server_ended.map(|status| ServerEnded { status, said }), output.end())
    }

    /// The next thing that happens to a program, if one does in time; hands on meanwhile what the server says
    /// and what signals come.
    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Event>, NetnsError> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let ready = PollFlags::IN;
        let mut fds = vec![PollFd::new(&self.namespaces, ready)];
        if let Some(signals) = self.signals.fd() {
            fds.push(PollFd::from_borrowed_fd(signals, ready));
        }
        if !self.output.ended {
            fds.push(PollFd::new(&self.output, ready));
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(NetnsError::system("wait for programs")(errno)),
        }
        let happened = !fds[0].revents().is_empty();
        drop(fds);
        self.output.take();
        while let Some((signal, hand_on)) = self.signals.next() {
            self.signal(signal, hand_on)?;
        }
        if !happened {
            return Ok(None);
        }
        let event = self.namespaces.next()?;
        match event {
            Event::Started(Which::Client, handle) => {
                self.client = Some(handle);
                return Ok(None);
            }
            Event::Ended(Which::Server, status) => self.server_ended = Some(status),
            _ => {}
        }
        Ok(Some(event))
    }

    fn signal(&self, signal: Signal, hand_on: bool) -> Result<(), NetnsError> {
        match &self.client {
            Some(client) if hand_on => {
                // It may have ended.
                let _ = pidfd_send_signal(client, signal);
                Ok(())
            }
            Some(_) => Ok(()),
            None => {
                let number = u8::try_from(signal.as_raw()).unwrap_or(0);
                Err(NetnsError::Interrupted(number))
            }
        }
    }
}
