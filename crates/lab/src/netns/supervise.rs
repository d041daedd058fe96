//! Watches over the two programs: starts them, hands signals on, hears how they end.
#![allow(clippy::disallowed_methods, reason = "a server is waited for in real time")]

use std::{
    net::SocketAddr,
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
    namespaces::{Event, Namespaces, Which},
    server::Output,
    signals::Signals,
};
use crate::{
    exec::{
        Request, ServerEnded, ServerError, Status, places,
        waiting::{SETTLED, Waiting},
    },
    netlink::sockets::Sockets,
};

/// Who waits for a server that listens elsewhere is told after this.
const PUZZLING: Duration = Duration::from_secs(3);
/// The kernel tells nobody that a socket listens: its list is read this often, at first and later.
const LOOKS: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(200)];

pub(super) struct Supervisor {
    namespaces: Namespaces,
    output: Output,
    signals: Signals,
    client: Option<OwnedFd>,
    /// The client was asked for, and may run already. Signals are for it: they wait until it can be given them.
    starting: bool,
    server_ended: Option<Status>,
}

impl Supervisor {
    pub(super) fn new(namespaces: Namespaces, output: Output, signals: Signals) -> Self {
        Self { namespaces, output, signals, client: None, starting: false, server_ended: None }
    }

    /// Starts the server's command and waits until it listens at `at`, as its namespace's `sockets` tell.
    pub(super) fn start_server(
        &mut self,
        sockets: &Sockets,
        at: SocketAddr,
    ) -> Result<(), NetnsError> {
        self.namespaces.start(Which::Server)?;
        let port = at.port();
        let began = Instant::now();
        let (mut waiting, mut told) = (Waiting::until_served(at), false);
        loop {
            if let Some(status) = self.server_ended {
                return Err(ServerError::Ended { port, status, said: self.output.last() }.into());
            }
            let listens = sockets.listeners().map_err(|cause| NetnsError::System {
                operation: "list the server's sockets (CONFIG_INET_DIAG)",
                cause,
            })?;
            let waited = began.elapsed();
            if waiting.look(waited, &listens, || self.output.last())? {
                return Ok(());
            }
            let on_port = listens.iter().any(|listener| listener.port() == port);
            if waited > PUZZLING && !told && !on_port && !listens.is_empty() {
                let on = places(&listens, None);
                self.output.say(&format!(
                    "waiting for the server to listen on port {port}, which it finds in PORT; it listens on {on}"
                ));
                told = true;
            }
            self.next(Some(LOOKS[usize::from(waited > SETTLED)]))?;
        }
    }

    /// Starts the client and waits for its end.
    pub(super) fn run_client(&mut self, request: &Request) -> Result<Status, NetnsError> {
        self.namespaces.start(Which::Client)?;
        self.starting = true;
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
        if let Some(signals) = self.signals.fd().filter(|_| !self.starting) {
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
        while !self.starting
            && let Some((signal, hand_on)) = self.signals.next()
        {
            self.signal(signal, hand_on)?;
        }
        if !happened {
            return Ok(None);
        }
        let event = self.namespaces.next()?;
        match event {
            Event::Started(Which::Client, handle) => {
                (self.client, self.starting) = (Some(handle), false);
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
