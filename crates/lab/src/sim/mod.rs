//! The simulator: two kinds of ends and the middlebox between them, on virtual time.
//!
//! Owns the one event queue and the one clock of a run. Programs (`timeline.rs`, `incident.rs`) drive it:
//! they call [`World::next`] for what happens, and act on sockets in between. Nothing here reads a clock or
//! a random source; the same calls give the same run.
//! Read first: `tcp.rs` (one socket), then this.

pub(crate) mod incident;
pub(crate) mod tcp;
pub(crate) mod timeline;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
    net::SocketAddr,
    time::Duration,
};

use stillopen_model::KeepaliveValues;

pub use self::tcp::Errno;
use self::tcp::{Origin, Seen, Socket, State};
use crate::{
    middlebox::{
        Carried, End, Fate, Middlebox, Output, Side, Timeouts, View, flag, reset_for,
        unreachable_quote,
    },
    observed::{Crossing, Met},
};

/// From an end to the middlebox, or from there to an end: a round trip is 1 ms.
const LINK: Duration = Duration::from_micros(250);

pub(crate) type SocketId = usize;

/// What happens in a run, for the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A program that waits on this socket sees this.
    Seen(SocketId, Seen),
    /// A listener has this new socket.
    Accepted(SocketId),
    /// A time came that a program asked for.
    Wake(u64),
    /// The middlebox told the end of this socket that it forgot the connection, when it did.
    Told(SocketId),
    /// The middlebox forgot the connection of this client socket.
    Forgot { client: End, last: Duration },
}

#[derive(Debug)]
enum Event {
    AtMiddlebox { from: Side, packet: Vec<u8> },
    AtEnd { packet: Vec<u8>, told: bool },
    SocketTimer(SocketId),
    MiddleboxTimer,
    Wake(u64),
}

/// An event in its queue: earliest first, and in the order of filing where that is the same.
#[derive(Debug)]
struct Filed {
    at: Duration,
    order: u64,
    event: Event,
}

impl Ord for Filed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}
impl PartialOrd for Filed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Filed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Filed {}

/// A network of two sides with a middlebox between.
#[derive(Debug)]
pub(crate) struct World {
    now: Duration,
    hz: u32,
    vip: SocketAddr,
    queue: BinaryHeap<Reverse<Filed>>,
    order: u64,
    notices: VecDeque<Notice>,
    middlebox: Middlebox,
    middlebox_due: Option<Duration>,
    sockets: Vec<Socket>,
    socket_due: Vec<Option<Duration>>,
    /// Open sockets by (local, peer).
    open: BTreeMap<(End, End), SocketId>,
    listeners: BTreeMap<End, Option<KeepaliveValues>>,
    /// Every address that a host has, and on which side.
    hosts: BTreeMap<u128, Side>,
    crossings: BTreeMap<End, Vec<Crossing>>,
}

impl World {
    /// An empty network: the middlebox, whom it serves, and the kernels' ticks a second.
    pub(crate) fn new(middlebox: Middlebox, vip: SocketAddr, hz: u32) -> Self {
        Self {
            now: Duration::ZERO,
            hz,
            vip,
            queue: BinaryHeap::new(),
            order: 0,
            notices: VecDeque::new(),
            middlebox,
            middlebox_due: None,
            sockets: Vec::new(),
            socket_due: Vec::new(),
            open: BTreeMap::new(),
            listeners: BTreeMap::new(),
            hosts: BTreeMap::new(),
            crossings: BTreeMap::new(),
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    /// A server listens at `address`; accepted sockets inherit its keepalive.
    pub(crate) fn listen(&mut self, address: SocketAddr, keepalive: Option<KeepaliveValues>) {
        let end = End::from(address);
        self.hosts.insert(end.address, Side::Server);
        self.listeners.insert(end, keepalive);
    }

    /// A client connects to the virtual address.
    pub(crate) fn connect(
        &mut self,
        from: SocketAddr,
        keepalive: Option<KeepaliveValues>,
    ) -> SocketId {
        self.hosts.insert(End::from(from).address, Side::Client);
        let origin = self.origin(from.into(), self.vip.into(), keepalive);
        self.adopt(Socket::connect(self.now, origin))
    }

    pub(crate) fn send(&mut self, id: SocketId, bytes: usize) -> Result<(), Errno> {
        let done = self.sockets[id].send(self.now, bytes);
        self.settle(id);
        done
    }

    pub(crate) fn close(&mut self, id: SocketId) {
        self.sockets[id].close(self.now);
        self.settle(id);
    }

    pub(crate) fn shutdown(&mut self, id: SocketId) {
        self.sockets[id].shutdown(self.now);
        self.settle(id);
    }

    pub(crate) fn set_keepalive(&mut self, id: SocketId, values: Option<KeepaliveValues>) {
        self.sockets[id].set_keepalive(self.now, values);
        self.settle(id);
    }

    pub(crate) fn set_timeouts(&mut self, timeouts: &Timeouts) {
        self.middlebox.set_timeouts(timeouts);
    }

    /// Asks for a [`Notice::Wake`].
    pub(crate) fn wake_at(&mut self, at: Duration, token: u64) {
        self.file(at, Event::Wake(token));
    }

    pub(crate) fn peer(&self, id: SocketId) -> End {
        self.sockets[id].peer
    }

    pub(crate) fn local(&self, id: SocketId) -> End {
        self.sockets[id].local
    }

    pub(crate) fn probes(&self, id: SocketId) -> u32 {
        self.sockets[id].probes
    }

    /// The packets of the connection from `client` at the middlebox.
    pub(crate) fn crossings(&self, client: End) -> &[Crossing] {
        self.crossings.get(&client).map_or(&[], Vec::as_slice)
    }

    /// What happens next, no later than `until`; `None` when nothing does.
    pub(crate) fn next(&mut self, until: Duration) -> Option<Notice> {
        loop {
            if let Some(notice) = self.notices.pop_front() {
                return Some(notice);
            }
            if self.queue.peek().is_none_or(|next| next.0.at > until) {
                return None;
            }
            let Reverse(Filed { at, event, .. }) = self.queue.pop()?;
            self.now = at;
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::AtMiddlebox { from, packet } => self.at_middlebox(from, packet),
            Event::AtEnd { packet, told } => self.at_end(&packet, told),
            Event::Wake(token) => self.notices.push_back(Notice::Wake(token)),
            // A timer that has moved on is filed anew; this one is stale.
            Event::SocketTimer(id) if self.socket_due[id] == Some(self.now) => {
                self.socket_due[id] = None;
                self.sockets[id].handle_timeout(self.now);
                self.settle(id);
            }
            Event::MiddleboxTimer if self.middlebox_due == Some(self.now) => {
                self.middlebox_due = None;
                self.middlebox.handle_timeout(self.now);
                self.settle_middlebox();
            }
            Event::SocketTimer(_) | Event::MiddleboxTimer => {}
        }
    }

    fn at_middlebox(&mut self, from: Side, mut packet: Vec<u8>) {
        let view = View::parse(&packet);
        let crossing = view
            .ok()
            .and_then(|view| Crossing::before(&self.middlebox, self.vip, (self.now, from), &view));
        let fate = self.middlebox.handle_packet(self.now, from, &mut packet);
        if let Some((client, crossing)) = crossing {
            let crossing = Crossing { met: Met::from(&fate), ..crossing };
            self.crossings.entry(client).or_default().push(crossing);
        }
        match fate {
            Fate::Forward { .. } => self.file_in(LINK, Event::AtEnd { packet, told: false }),
            Fate::Answer(packet) => self.file_in(LINK, Event::AtEnd { packet, told: false }),
            Fate::Drop(_) => {}
        }
        self.settle_middlebox();
    }

    /// A packet reaches the host that has its destination, if any has.
    fn at_end(&mut self, packet: &[u8], told: bool) {
        let Ok(view) = View::parse(packet) else { return };
        let Some(&side) = self.hosts.get(&view.destination) else { return };
        if let Some((local, peer, seq)) = unreachable_quote(packet) {
            if let Some(&id) = self.open.get(&(local, peer)) {
                self.sockets[id].handle_unreachable(seq);
                self.settle(id);
            }
            return;
        }
        let Carried::Tcp(segment) = view.carried else { return };
        if !view.tcp_checksum_holds(packet) {
            return;
        }
        let (local, peer) = (view.to(&segment), view.from(&segment));
        if let Some(&id) = self.open.get(&(local, peer)) {
            if told {
                self.notices.push_back(Notice::Told(id));
            }
            self.sockets[id].handle_segment(self.now, &segment);
            self.settle(id);
        } else if let (Some(&keepalive), flag::SYN) = (self.listeners.get(&local), segment.flags) {
            let origin = self.origin(local, peer, keepalive);
            let id = self.adopt(Socket::accept(self.now, origin, &segment));
            self.notices.push_back(Notice::Accepted(id));
        } else if let Some(packet) = reset_for(&view, &segment) {
            // `tcp_v4_rcv`: no such socket.
            self.file_in(LINK, Event::AtMiddlebox { from: side, packet });
        }
    }

    fn origin(&self, local: End, peer: End, keepalive: Option<KeepaliveValues>) -> Origin {
        // Any number does: nothing here depends on it, and runs repeat.
        let isn = u32::try_from(self.sockets.len()).unwrap_or(0).wrapping_mul(0x9e37_79b9);
        let v6 = SocketAddr::from(local).is_ipv6();
        Origin { local, peer, v6, hz: self.hz, isn, keepalive }
    }

    fn adopt(&mut self, socket: Socket) -> SocketId {
        let id = self.sockets.len();
        self.open.insert((socket.local, socket.peer), id);
        self.sockets.push(socket);
        self.socket_due.push(None);
        self.settle(id);
        id
    }

    /// Takes what a socket wants to send and say, and files its timer.
    fn settle(&mut self, id: SocketId) {
        let socket = &mut self.sockets[id];
        let from = self.hosts.get(&socket.local.address).copied().unwrap_or(Side::Client);
        let ends = (socket.local, socket.peer);
        let (drafts, seen) = (socket.drain_out(), socket.drain_seen());
        let (due, closed) = (socket.poll_timeout(), socket.state == State::Closed);
        for draft in drafts {
            self.file_in(LINK, Event::AtMiddlebox { from, packet: draft.write() });
        }
        self.notices.extend(seen.into_iter().map(|seen| Notice::Seen(id, seen)));
        if closed && self.open.get(&ends) == Some(&id) {
            self.open.remove(&ends);
        }
        if due != self.socket_due[id] {
            self.socket_due[id] = due;
            if let Some(at) = due {
                self.file(at, Event::SocketTimer(id));
            }
        }
    }

    fn settle_middlebox(&mut self) {
        while let Some(output) = self.middlebox.poll_output() {
            match output {
                Output::Packet { packet, .. } => {
                    self.file_in(LINK, Event::AtEnd { packet, told: true });
                }
                Output::Forgot { flow, last, .. } => {
                    self.notices.push_back(Notice::Forgot { client: flow.client.into(), last });
                }
            }
        }
        let due = self.middlebox.poll_timeout().map(|due| due.max(self.now));
        if due != self.middlebox_due {
            self.middlebox_due = due;
            if let Some(at) = due {
                self.file(at, Event::MiddleboxTimer);
            }
        }
    }

    fn file_in(&mut self, delay: Duration, event: Event) {
        self.file(self.now + delay, event);
    }

    fn file(&mut self, at: Duration, event: Event) {
        self.order += 1;
        self.queue.push(Reverse(Filed { at, order: self.order, event }));
    }
}
