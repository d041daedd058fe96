//! The middlebox: a table of TCP connections that translates, times and forgets, with no I/O and no clock.
//!
//! A driver gives it packets and the time (`now`, since the driver's own start) and does what it says:
//! [`Middlebox::handle_packet`] for each packet, [`Middlebox::handle_timeout`] when the time that
//! [`Middlebox::poll_timeout`] named has come, and [`Middlebox::poll_output`] until it is empty after each
//! of both. The same object serves the simulator and forwarders of real packets.
//!
//! Read first: `profile.rs` (what kinds there are), `grid.rs` (states), `expiry.rs` (when an entry dies).

mod checksum;
mod expiry;
pub mod fuzz;
mod grid;
mod index;
mod packet;
mod profile;
mod ring;
mod table;
#[cfg(test)]
mod tests;
mod wire;

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use stillopen_model::{Expiry, Miss, Refresh};

pub use self::{
    expiry::ExpiryRule,
    grid::{Grid, TcpState},
    packet::{Carried, Malformed, Segment, View},
    profile::{PROFILES, Passage, Profile, Timeouts},
};
use self::{
    expiry::{Armed, nanos},
    grid::{Kind, Next, STATES},
    table::{Entry, Key, Table},
};
pub(crate) use self::{
    packet::{End, flag},
    wire::{Draft, reset_for, unreachable_quote},
};

#[cfg(all(feature = "programs", target_os = "linux", not(stillopen_portable)))]
pub(crate) use self::wire::complete_checksum;

/// How many packets' cache misses overlap: about what a core can have in flight.
const BATCH: usize = 16;

/// Which side of the middlebox a packet comes from or goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Side {
    /// Where connections are opened.
    Client,
    /// Where the backends are.
    Server,
}

impl Side {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// What becomes of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It goes on to the other side; translated in place where it belongs to a connection.
    Forward {
        /// Whether it belongs to a connection of the table.
        known: bool,
    },
    /// It is gone.
    Drop(Why),
    /// It is gone, and this packet goes back to its sender.
    Answer(Vec<u8>),
}

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It is not a packet.
    Malformed(Malformed),
    /// The TCP checksum is wrong.
    Checksum,
    /// A fragment.
    Fragment,
    /// Another protocol.
    OtherProtocol,
    /// It does not fit the state of its connection.
    Invalid,
    /// Its connection is not known.
    Unknown,
    /// The proxy has closed this connection and takes no more of it.
    Closed,
}

/// A connection, as its client names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow {
    /// Who opened it.
    pub client: SocketAddr,
    /// Whom the client connected to.
    pub vip: SocketAddr,
    /// Who serves it.
    pub backend: SocketAddr,
}

/// What the middlebox has to say on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A packet to send; nobody asked for it.
    Packet {
        /// To this side.
        to: Side,
        /// The bytes.
        packet: Vec<u8>,
    },
    /// It forgot a connection.
    Forgot {
        /// Which.
        flow: Flow,
        /// When its last packet had come.
        last: Duration,
        /// When it was forgotten.
        at: Duration,
        /// Whether because the table was full.
        evicted: bool,
        /// What state it was in.
        state: TcpState,
    },
}

/// A virtual address and who serves it, in turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Whom clients connect to.
    pub vip: SocketAddr,
    /// Who serves them; without translation this is the virtual address itself.
    pub backends: Vec<SocketAddr>,
}

/// How to build a middlebox.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Its kind.
    pub profile: Profile,
    /// Its timeouts, where they are not the profile's own.
    pub timeouts: Timeouts,
    /// Ticks a second of its kernel, for profiles whose timer is on the wheel.
    pub hz: u32,
    /// Whom it serves.
    pub services: Vec<Service>,
    /// The most connections that it remembers; the idlest of a few goes when one more comes.
    pub capacity: u32,
}

impl Config {
    /// A middlebox of this kind with its own timeouts, on a kernel with 250 ticks a second.
    #[must_use]
    pub fn new(profile: Profile, services: Vec<Service>) -> Self {
        Self { timeouts: profile.timeouts, profile, hz: 250, services, capacity: 65_536 }
    }
}

#[derive(Debug)]
struct ServiceState {
    vip: End,
    backends: Vec<End>,
    turn: usize,
}

/// The middlebox. See the [module](self) for how to drive it.
#[derive(Debug)]
pub struct Middlebox {
    profile: Profile,
    rule: ExpiryRule,
    armed: [Armed; STATES],
    services: Vec<ServiceState>,
    table: Table,
    output: VecDeque<Output>,
}

impl Middlebox {
    /// An empty one.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let rule = if config.profile.on_wheel {
            ExpiryRule::Wheel { hz: config.hz }
        } else {
            ExpiryRule::Exact
        };
        let service = |service: Service| ServiceState {
            vip: service.vip.into(),
            backends: service.backends.into_iter().map(End::from).collect(),
            turn: 0,
        };
        Self {
            profile: config.profile,
            rule,
            armed: config.timeouts.map(|timeout| Armed::new(rule, timeout)),
            services: config.services.into_iter().map(service).collect(),
            table: Table::new(config.capacity),
            output: VecDeque::new(),
        }
    }

    /// Changes the timeouts at run time, as `ipvsadm --set` does: an idle entry keeps the timer it has.
    pub fn set_timeouts(&mut self, timeouts: &Timeouts) {
        self.armed = timeouts.map(|timeout| Armed::new(self.rule, timeout));
    }

    /// Decides what becomes of `packet`, which came from the side `from`; translates it in place.
    ///
    /// Call [`Middlebox::poll_output`] and [`Middlebox::poll_timeout`] afterwards.
    pub fn handle_packet(&mut self, now: Duration, from: Side, packet: &mut [u8]) -> Fate {
        match View::parse(packet) {
            Ok(view) => self.handle_view(now, from, packet, &view),
            Err(malformed) => Fate::Drop(Why::Malformed(malformed)),
        }
    }

    /// The same for a packet that has been looked at.
    pub(crate) fn handle_view(
        &mut self,
        now: Duration,
        from: Side,
        packet: &mut [u8],
        view: &View,
    ) -> Fate {
        let segment = match view.carried {
            Carried::Tcp(segment) => segment,
            Carried::Fragment => return unknown(self.profile.fragments, Why::Fragment),
            Carried::Other(_) => return unknown(self.profile.other_protocols, Why::OtherProtocol),
        };
        let checked = self.profile.wrong_checksum;
        if checked != Passage::NotChecked && !view.tcp_checksum_holds(packet) {
            return unknown(checked, Why::Checksum);
        }
        let now = nanos(now);
        let key = Key::of(view, &segment);
        if let Some(index) = self.find(now, from, key) {
            if self.table.get(index).state == TcpState::Lingering {
                return lingering(view, &segment);
            }
            return self.known(now, from, packet, view, &segment, index);
        }
        self.miss(now, from, packet, view, &segment)
    }

    /// The same as [`Middlebox::handle_packet`] for each of `packets` in turn, faster: with a large table
    /// a packet's time is that of its cache misses, and here those of a few packets overlap.
    pub fn handle_packets<P: AsMut<[u8]> + AsRef<[u8]>>(
        &mut self,
        now: Duration,
        from: Side,
        packets: &mut [P],
        mut fate: impl FnMut(&mut P, Fate),
    ) {
        for batch in packets.chunks_mut(BATCH) {
            let mut hinted = [None; BATCH];
            for (hint, packet) in hinted.iter_mut().zip(&*batch) {
                let Ok(view) = View::parse(packet.as_ref()) else { continue };
                if let Carried::Tcp(segment) = view.carried {
                    *hint = self.table.hint(Key::of(&view, &segment));
                }
            }
            let touched = hinted.iter().fold(0, |sum, &hint| sum ^ self.table.touch(hint));
            std::hint::black_box(touched);
            for packet in batch {
                let of = self.handle_packet(now, from, packet.as_mut());
                fate(packet, of);
            }
        }
    }

    /// Forgets what is due. Call it when the time of [`Middlebox::poll_timeout`] has come; later is
    /// harmless: an overdue entry is never used, and its death is dated right.
    pub fn handle_timeout(&mut self, now: Duration) {
        // Twice where a proxy's lingering is over too.
        loop {
            let due = self.table.due(nanos(now));
            if due.is_empty() {
                return;
            }
            for index in due {
                self.forget(index);
            }
        }
    }

    /// When to call [`Middlebox::handle_timeout`] next: never later than the next entry's death. It may be
    /// earlier, and is named again then.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.table.next_deadline().map(Duration::from_nanos)
    }

    /// What it has to say: empty it after each packet and each timeout.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.output.pop_front()
    }

    /// How many connections it remembers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len() as usize
    }

    /// Whether it remembers none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most that it can remember.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.table.capacity() as usize
    }

    /// What its table occupies in memory.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.table.bytes()
    }

    /// When the connection from `client` to `vip` dies unless a packet comes, and what state it is in.
    #[must_use]
    pub fn entry(&self, client: SocketAddr, vip: SocketAddr) -> Option<(TcpState, Duration)> {
        let key = Key { v6: client.is_ipv6(), from: client.into(), to: vip.into() };
        let entry = self.table.get(self.table.find(Side::Client, key)?);
        Some((entry.state, Duration::from_nanos(entry.deadline)))
    }

    /// The entry of a packet, unless it is overdue: then it dies first.
    fn find(&mut self, now: u64, from: Side, key: Key) -> Option<u32> {
        let index = self.table.find(from, key)?;
        if self.table.get(index).deadline > now {
            return Some(index);
        }
        self.forget(index);
        // A proxy lingers, if not for so long; the others have nothing now.
        let lingers = self.table.find(from, key)?;
        if self.table.get(lingers).deadline > now {
            return Some(lingers);
        }
        self.forget(lingers);
        None
    }

    fn known(
        &mut self,
        now: u64,
        from: Side,
        packet: &mut [u8],
        view: &View,
        segment: &Segment,
        index: u32,
    ) -> Fate {
        let state = self.table.get(index).state;
        let refresh = match self.profile.grid.next(from, Kind::of(segment.flags), state) {
            Next::To(next) => {
                self.table.get_mut(index).state = next;
                let counts = self.profile.refreshed_by == Refresh::AnyPacket
                    || segment.payload > 0
                    || next != state;
                counts.then(|| self.armed[next as usize])
            }
            Next::Stay => None,
            Next::Invalid => return unknown(self.profile.invalid, Why::Invalid),
        };
        let entry = self.table.get_mut(index);
        entry.sends_next[from as usize] = segment.next_seq();
        if segment.has(flag::ACK) {
            entry.expects[from as usize] = segment.ack;
        }
        let (source, destination) = match from {
            Side::Client => (entry.client(), entry.backend()),
            Side::Server => (entry.vip(), entry.client()),
        };
        if let Some(armed) = refresh {
            entry.last = now;
            self.table.set_deadline(index, armed.at(now));
        }
        view.rewrite(packet, source, destination);
        Fate::Forward { known: true }
    }

    /// A segment without an entry: a new connection, one that has been forgotten, or none of ours.
    fn miss(
        &mut self,
        now: u64,
        from: Side,
        packet: &mut [u8],
        view: &View,
        segment: &Segment,
    ) -> Fate {
        let (source, destination) = (view.from(segment), view.to(segment));
        let service = self.services.iter().position(|service| match from {
            Side::Client => service.vip == destination,
            Side::Server => service.backends.contains(&source),
        });
        let Some(service) = service else { return Fate::Forward { known: false } };
        let kind = Kind::of(segment.flags);
        let opens = from == Side::Client && kind == Kind::Syn;
        let meets = match from {
            Side::Client if opens => Miss::Recreate,
            Side::Client => self.profile.client_meets,
            Side::Server => self.profile.server_meets,
        };
        let answer = match meets {
            Miss::PassUntranslated => return Fate::Forward { known: false },
            // Nobody answers a reset, and none makes an entry (RFC 9293 §3.10.7.1).
            Miss::Recreate if from == Side::Client && !segment.has(flag::RST) => {
                if self.profile.grid.next(from, kind, TcpState::None) == Next::Invalid {
                    return unknown(self.profile.invalid, Why::Invalid);
                }
                return match self.open(now, service, view, segment) {
                    Some(index) => self.known(now, from, packet, view, segment, index),
                    None => Fate::Drop(Why::Unknown),
                };
            }
            Miss::Drop | Miss::Recreate => None,
            Miss::Reset => reset_for(view, segment),
            Miss::IcmpUnreachable => wire::unreachable_for(packet, view, segment),
        };
        answer.map_or(Fate::Drop(Why::Unknown), Fate::Answer)
    }

    /// Makes an entry to the backend whose turn it is (`ip_vs_rr.c`), where the service has one.
    fn open(&mut self, now: u64, service: usize, view: &View, segment: &Segment) -> Option<u32> {
        let service = &mut self.services[service];
        let backend = *service.backends.get(service.turn)?;
        service.turn = (service.turn + 1) % service.backends.len();
        if self.table.is_full() {
            let victim = self.table.victim()?;
            let entry = self.table.get(victim);
            // One that lingers has been reported.
            if entry.state != TcpState::Lingering {
                self.output.push_back(forgot(entry, now, true));
            }
            self.table.remove(victim);
        }
        let key = Key::of(view, segment);
        let mut entry = Entry::new(key, backend);
        entry.last = now;
        entry.deadline = self.armed[TcpState::None as usize].at(now);
        Some(self.table.insert(entry))
    }

    /// Forgets one entry at its deadline, and says what the profile says then.
    fn forget(&mut self, index: u32) {
        let entry = self.table.get(index);
        let at = entry.deadline;
        if entry.state != TcpState::Lingering {
            let told: Option<u8> = match self.profile.on_expiry {
                Expiry::Silent | Expiry::Unknown => None,
                Expiry::Reset => Some(flag::RST | flag::ACK),
                Expiry::Fin => Some(flag::FIN | flag::ACK),
            };
            // Only an open connection is worth telling of.
            let open = !matches!(entry.state, TcpState::TimeWait | TcpState::Close);
            let packets = told.filter(|_| open).map(|flags| farewell(entry, flags));
            self.output.push_back(forgot(entry, at, false));
            self.output.extend(packets.into_iter().flatten());
            if open && self.profile.on_expiry == Expiry::Fin {
                let linger = self.armed[TcpState::Lingering as usize].at(at);
                self.table.get_mut(index).state = TcpState::Lingering;
                self.table.refile(index, linger);
                return;
            }
        }
        self.table.remove(index);
    }
}

/// What becomes of a packet that is not treated as part of a connection.
fn unknown(passage: Passage, why: Why) -> Fate {
    match passage {
        Passage::Drop => Fate::Drop(why),
        Passage::Pass | Passage::NotChecked => Fate::Forward { known: false },
    }
}

/// A proxy that has closed both sides: data meets a reset, a FIN its ACK, the rest nothing
/// (`tcp_rcv_state_process` in `FIN_WAIT2` after `close`).
fn lingering(view: &View, segment: &Segment) -> Fate {
    let answer = if segment.payload > 0 {
        reset_for(view, segment)
    } else if segment.has(flag::FIN) {
        let (from, to) = (view.to(segment), view.from(segment));
        let (seq, ack) = (segment.ack, segment.next_seq());
        Some(Draft { v6: view.v6, from, to, seq, ack, flags: flag::ACK, payload: 0 }.write())
    } else {
        None
    };
    answer.map_or(Fate::Drop(Why::Closed), Fate::Answer)
}

/// What both ends are told at the cut: the side that did not send it must believe that the other did.
fn farewell(entry: &Entry, flags: u8) -> [Output; 2] {
    let v6 = entry.v6;
    let to = |side: Side, from: End, end: End| {
        let (seq, ack) = (entry.expects[side as usize], entry.sends_next[side as usize]);
        let draft = Draft { v6, from, to: end, seq, ack, flags, payload: 0 };
        Output::Packet { to: side, packet: draft.write() }
    };
    [
        to(Side::Client, entry.vip(), entry.client()),
        to(Side::Server, entry.client(), entry.backend()),
    ]
}

fn forgot(entry: &Entry, at: u64, evicted: bool) -> Output {
    let flow = Flow {
        client: entry.client().into(),
        vip: entry.vip().into(),
        backend: entry.backend().into(),
    };
    let (last, at) = (Duration::from_nanos(entry.last), Duration::from_nanos(at));
    Output::Forgot { flow, last, at, evicted, state: entry.state }
}
