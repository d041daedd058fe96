//! Does the steps at their times on real sockets while the path forwards, and notes what both programs see: one
//! thread, which waits for packets, for sockets, and for the next step.
//!
//! The scenario's clock stands still while a step is late: no silence is shorter than its file says.

use std::{
    collections::BTreeSet,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
    time::Duration,
};

use rustix::{
    buffer::spare_capacity,
    event::{Timespec, epoll},
    io::Errno,
};

use super::{
    super::{
        Error, NetnsError,
        forward::Forwarder,
        namespaces::{Namespaces, Which},
        noted::{Noted, What},
    },
    TimelineError,
    divided::{Divided, LATE},
};
use crate::{
    ends::{End, Ends, Socket, keepalive},
    middlebox::{Side, TcpState},
    observed::{Crossing, Observed},
    path::Addresses,
    scenario::{Does, Step},
};

/// Pieces of one answer that a program reads within this are one event.
pub(super) const ONE_EVENT: Duration = Duration::from_millis(50);
/// A step waits so long for what the one before it on its connection led to: the path may drop it.
const PATIENCE: Duration = Duration::from_millis(100);
/// The kernel tells nobody that a segment was acknowledged: it is asked this often.
const LOOK: Duration = Duration::from_millis(2);
/// What is watched: a listener by its number, or above that a socket.
const SOCKETS: u64 = 1 << 32;

/// What a step waits for.
enum Awaits {
    Accept,
    Acknowledgment,
}

struct Engine<'a> {
    of: &'a Divided,
    namespaces: &'a Namespaces,
    forwarder: Forwarder,
    epoll: OwnedFd,
    listeners: Vec<OwnedFd>,
    ends: Ends,
    /// Connections that no server has accepted yet.
    opening: BTreeSet<usize>,
    observed: Observed,
    /// How long the scenario's clock has stood still.
    stood: Duration,
    /// When each connection's last packet came, on the path's clock, which does not stand still.
    last: Vec<Duration>,
}

/// Runs it to its end.
pub(super) fn run(
    of: &Divided,
    namespaces: &Namespaces,
    mut forwarder: Forwarder,
    listeners: Vec<OwnedFd>,
) -> Result<Observed, TimelineError> {
    let epoll =
        epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::system("make an epoll"))?;
    for (number, listener) in (0..).zip(&listeners) {
        watch(&epoll, listener, number)?;
    }
    forwarder.note(of.path.vip);
    let mut engine = Engine {
        of,
        namespaces,
        forwarder,
        epoll,
        listeners,
        ends: Ends::default(),
        opening: BTreeSet::new(),
        observed: Observed::new(of.scenario.connections(), ONE_EVENT * of.faster),
        stood: Duration::ZERO,
        last: vec![Duration::ZERO; of.scenario.connections()],
    };
    for (number, step) in (1..).zip(&of.scenario.timeline) {
        engine.wait_until(step.at.0)?;
        engine.settle(step.connection)?;
        let late = engine.now().saturating_sub(step.at.0);
        if late > LATE {
            return Err(TimelineError::Late { step: number, late_ms: late.as_millis() });
        }
        engine.stood += late;
        engine.step(step)?;
    }
    engine.wait_until(of.watch)?;
    Ok(engine.observed)
}

fn watch(epoll: &OwnedFd, what: impl std::os::fd::AsFd, number: u64) -> Result<(), NetnsError> {
    let mut flags = epoll::EventFlags::IN;
    if number >= SOCKETS {
        flags |= epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
    }
    epoll::add(epoll, what, epoll::EventData::new_u64(number), flags)
        .map_err(Error::system("watch a socket"))
}

/// The number that a socket is watched by.
fn number(connection: usize, end: End) -> u64 {
    SOCKETS + (connection as u64) * 2 + u64::from(end == End::Server)
}

/// A moment of the path's clock as the scenario's own, which has stood still for so long, multiplied back.
fn whole(moment: Duration, stood: Duration, faster: u32) -> Duration {
    moment.saturating_sub(stood) * faster
}

impl Engine<'_> {
    /// The scenario's clock, divided.
    fn now(&self) -> Duration {
        self.forwarder.now().saturating_sub(self.stood)
    }

    /// The scenario's clock, multiplied back.
    fn at(&self) -> Duration {
        whole(self.forwarder.now(), self.stood, self.of.faster)
    }

    fn wait_until(&mut self, until: Duration) -> Result<(), NetnsError> {
        while self.now() < until {
            self.turn(until + self.stood)?;
        }
        Ok(())
    }

    /// Waits until a connection is accepted, and what its steps have led to has come back; not for ever.
    fn settle(&mut self, connection: usize) -> Result<(), NetnsError> {
        let began = self.forwarder.now();
        loop {
            let patience = match self.awaits(connection)? {
                None => return Ok(()),
                Some(Awaits::Accept) => LATE,
                Some(Awaits::Acknowledgment) => PATIENCE,
            };
            let now = self.forwarder.now();
            if now.saturating_sub(began) > patience {
                return Ok(());
            }
            self.turn(now + LOOK)?;
        }
    }

    /// What is yet to come of a connection's steps; of an end that has failed, nothing.
    fn awaits(&self, connection: usize) -> Result<Option<Awaits>, NetnsError> {
        for end in [End::Client, End::Server] {
            let Some(socket) = self.ends.get(connection, end) else { continue };
            if socket.has_failed() {
                continue;
            }
            if end == End::Client && self.opening.contains(&connection) {
                return Ok(Some(Awaits::Accept));
            }
            if socket.has_pending() || unacknowledged(socket)? > 0 {
                return Ok(Some(Awaits::Acknowledgment));
            }
        }
        Ok(None)
    }

    /// Lets the path forward until `until` of its clock, or until something happens; handles that.
    fn turn(&mut self, until: Duration) -> Result<(), NetnsError> {
        let ready = self.forwarder.turn(&[self.epoll.as_fd()], Some(until));
        let ready = ready.map_err(|cause| Error::System { operation: "forward packets", cause })?;
        for noted in self.forwarder.noted() {
            self.take(noted);
        }
        if ready.contains(&true) {
            self.look()?;
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), NetnsError> {
        let mut events = Vec::with_capacity(64);
        match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&Timespec::default())) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Error::system("wait for events")(error)),
        }
        for event in events {
            let number = event.data.u64();
            if let Some(socket) = number.checked_sub(SOCKETS) {
                let connection = usize::try_from(socket / 2).unwrap_or(usize::MAX);
                let end = if socket % 2 == 0 { End::Client } else { End::Server };
                for (what, bytes) in self.ends.look(connection, end) {
                    let at = self.at();
                    self.observed.saw(connection, end.who(), &what, bytes, at);
                }
            } else if let Some(listener) =
                usize::try_from(number).ok().and_then(|n| self.listeners.get(n))
            {
                for connection in self.ends.accept(listener) {
                    self.opening.remove(&connection);
                    if let Some(socket) = self.ends.get(connection, End::Server) {
                        watch(&self.epoll, socket, self::number(connection, End::Server))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// What the path noted of a connection.
    fn take(&mut self, noted: Noted) {
        let (stood, faster) = (self.stood, self.of.faster);
        let whole = |moment: Duration| whole(moment, stood, faster);
        let connection = Addresses::connection(noted.client.port());
        let connections = &mut self.observed.connections;
        let Some(number) = connection.filter(|&number| number < connections.len()) else { return };
        let of = &mut connections[number];
        match noted.what {
            What::Crossed { crossing, probe } => {
                let at = whole(crossing.at);
                let before = of.crossings.last().map_or(at, |before| before.at);
                let last = std::mem::replace(&mut self.last[number], crossing.at);
                // An entry lives on the path's clock: what stood meanwhile is of its life.
                let due = crossing.due.map(|due| before + due.saturating_sub(last) * faster);
                of.crossings.push(Crossing { at, due, ..crossing });
                of.probes += u32::from(probe);
            }
            What::Told(to) => of.told[usize::from(to == Side::Server)] = true,
            What::Forgot { at, last } => {
                of.forgot.get_or_insert((whole(at), at.saturating_sub(last) * faster));
            }
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), NetnsError> {
        let (connection, end) = (step.connection, End::of(step.who));
        match step.does {
            Does::Connect => self.connect(connection)?,
            Does::SetIdleTimeout { idle_timeout } => {
                let timeouts = self.of.path.timeouts.with(TcpState::Established, idle_timeout.0);
                self.forwarder.set_timeouts(&timeouts);
            }
            Does::SetKeepalive { keepalive: values } => {
                self.ends.set_keepalive(connection, end, values.0.map(keepalive));
            }
            Does::Send { bytes } => {
                // Before it is on its way: packets are noted by their arrival.
                let at = self.at();
                if let Some(sent) = self.ends.send(connection, end, bytes) {
                    let error = sent.err();
                    self.observed.sent(connection, step.who, bytes, at, error.as_deref());
                }
            }
            Does::Shutdown | Does::Close => {
                let of = &mut self.observed.connections[connection];
                of.closing |= self.ends.get(connection, end).is_some();
                if step.does == Does::Shutdown {
                    self.ends.shutdown(connection, end);
                } else {
                    if let Some(socket) = self.ends.get(connection, end) {
                        end_fin_wait2_after(socket, self.of.fin_wait2_s)?;
                    }
                    self.ends.close(connection, end);
                }
            }
        }
        Ok(())
    }

    fn connect(&mut self, connection: usize) -> Result<(), NetnsError> {
        let (from, to) = (self.of.path.client(connection), self.of.path.vip);
        let fd = self.namespaces.socket(Which::Client)?;
        let socket = Socket::connect(fd, from, to, self.of.keepalive[0])
            .map_err(Error::system("connect"))?;
        watch(&self.epoll, &socket, number(connection, End::Client))?;
        self.ends.insert(connection, End::Client, socket);
        self.opening.insert(connection);
        Ok(())
    }
}

/// How long its host remembers it when it is closed and its peer has not (`TCP_LINGER2`, see `tcp(7)`).
fn end_fin_wait2_after(socket: &Socket, seconds: i32) -> Result<(), NetnsError> {
    let length = libc::socklen_t::try_from(size_of_val(&seconds)).unwrap_or(0);
    let (fd, value) = (socket.as_fd().as_raw_fd(), (&raw const seconds).cast());
    // SAFETY: the kernel reads an int there.
    let done = unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_LINGER2, value, length) };
    if done == 0 {
        Ok(())
    } else {
        let cause = std::io::Error::last_os_error();
        Err(Error::System { operation: "set how long FIN_WAIT2 lasts", cause })
    }
}

/// Bytes that the other end has not acknowledged (`SIOCOUTQ`, see `tcp(7)`).
fn unacknowledged(socket: &Socket) -> Result<i32, NetnsError> {
    let mut bytes = 0;
    // SAFETY: the kernel writes an int there.
    let done = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if done == 0 {
        Ok(bytes)
    } else {
        Err(Error::System {
            operation: "ask for what is unacknowledged",
            cause: std::io::Error::last_os_error(),
        })
    }
}
