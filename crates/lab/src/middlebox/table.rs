//! The connection table: a slab of entries, found by hash from either side, timed by a ring.
//!
//! It knows nothing of expiry rules or states: a deadline is a number that the middlebox gives it.

use super::{
    Side,
    grid::TcpState,
    index::Index,
    packet::{End, Segment, View},
    ring::{NONE, Place, Ring},
};

/// How many entries an eviction looks at: the idlest of them goes (conntrack's `early_drop` looks at a few
/// hash buckets; nobody keeps an order of a million).
const EVICTION_LOOKS: u32 = 8;

/// One connection.
#[derive(Debug)]
// Two cache lines that are fetched as a pair.
#[repr(align(128))]
pub(crate) struct Entry {
    pub(crate) client: u128,
    pub(crate) vip: u128,
    pub(crate) backend: u128,
    pub(crate) client_port: u16,
    pub(crate) vip_port: u16,
    pub(crate) backend_port: u16,
    pub(crate) v6: bool,
    pub(crate) state: TcpState,
    live: bool,
    /// The next free entry, where this one is free.
    next_free: u32,
    /// When the last packet came, in nanoseconds.
    pub(crate) last: u64,
    /// When it dies unless a packet comes.
    pub(crate) deadline: u64,
    /// Where the ring has it.
    pub(super) place: Place,
    /// The last acknowledgment number of each side: what that side expects next.
    pub(crate) expects: [u32; 2],
    /// The sequence number after the last segment of each side.
    pub(crate) sends_next: [u32; 2],
}

/// The packet header's ends, and the family, by which an entry is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) v6: bool,
    pub(crate) from: End,
    pub(crate) to: End,
}

impl Key {
    pub(crate) fn of(view: &View, segment: &Segment) -> Self {
        Self { v6: view.v6, from: view.from(segment), to: view.to(segment) }
    }
}

impl Entry {
    pub(crate) fn new(key: Key, backend: End) -> Self {
        Self {
            client: key.from.address,
            vip: key.to.address,
            backend: backend.address,
            client_port: key.from.port,
            vip_port: key.to.port,
            backend_port: backend.port,
            v6: key.v6,
            state: TcpState::None,
            live: true,
            next_free: NONE,
            last: 0,
            deadline: 0,
            place: Place::NOWHERE,
            expects: [0; 2],
            sends_next: [0; 2],
        }
    }

    pub(crate) fn client(&self) -> End {
        End { address: self.client, port: self.client_port }
    }

    pub(crate) fn vip(&self) -> End {
        End { address: self.vip, port: self.vip_port }
    }

    pub(crate) fn backend(&self) -> End {
        End { address: self.backend, port: self.backend_port }
    }

    /// What a packet from `side` looks like before translation.
    fn key(&self, side: Side) -> Key {
        match side {
            Side::Client => Key { v6: self.v6, from: self.client(), to: self.vip() },
            Side::Server => Key { v6: self.v6, from: self.backend(), to: self.client() },
        }
    }
}

#[derive(Debug)]
pub(crate) struct Table {
    entries: Vec<Entry>,
    /// Both keys of each entry; a node is an entry's number and a side.
    index: Index,
    free: u32,
    len: u32,
    capacity: u32,
    hand: u32,
    ring: Ring,
}

const fn node(index: u32, side: Side) -> u32 {
    index << 1 | side as u32
}

const fn parts(node: u32) -> (u32, Side) {
    (node >> 1, if node & 1 == 0 { Side::Client } else { Side::Server })
}

impl Table {
    /// The most entries that a table can be asked to hold: a node keeps one bit for the side.
    pub(crate) const MOST: u32 = (1 << 31) - 2;

    pub(crate) fn new(capacity: u32) -> Self {
        let capacity = capacity.clamp(1, Self::MOST);
        Self {
            entries: Vec::new(),
            index: Index::new(2 * capacity as usize),
            free: NONE,
            len: 0,
            capacity,
            hand: 0,
            ring: Ring::new(),
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len >= self.capacity
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// What it occupies.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + self.index.bytes()
            + self.ring.bytes()
            + size_of::<Self>()
    }

    pub(crate) fn get(&self, index: u32) -> &Entry {
        &self.entries[index as usize]
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Entry {
        &mut self.entries[index as usize]
    }

    /// The entry that a packet from `side` belongs to.
    pub(crate) fn find(&self, side: Side, key: Key) -> Option<u32> {
        let node = self.index.find(hash(key), |node| {
            let (index, of) = parts(node);
            of == side && self.entries[index as usize].key(side) == key
        })?;
        Some(parts(node).0)
    }

    /// Which entry a key may well have, at the cost of one cache line of the index.
    pub(crate) fn hint(&self, key: Key) -> Option<u32> {
        self.index.find(hash(key), |_| true).map(|node| parts(node).0)
    }

    /// Reads both cache lines of a hinted entry.
    pub(crate) fn touch(&self, hinted: Option<u32>) -> u64 {
        let entry = hinted.and_then(|index| self.entries.get(index as usize));
        entry.map_or(0, |entry| u64::from(entry.client_port) ^ entry.deadline)
    }

    /// Adds an entry whose deadline is set. The caller has made room.
    pub(crate) fn insert(&mut self, entry: Entry) -> u32 {
        let index = if self.free == NONE {
            if self.entries.len() == self.entries.capacity() {
                // Doubling, but never past the capacity: a full table wastes nothing.
                let most = self.capacity as usize - self.entries.len();
                self.entries
                    .reserve_exact(self.entries.len().clamp(64, most.max(64)).min(most.max(1)));
            }
            self.entries.push(entry);
            u32::try_from(self.entries.len() - 1).unwrap_or(NONE)
        } else {
            let index = self.free;
            self.free = self.entries[index as usize].next_free;
            self.entries[index as usize] = entry;
            index
        };
        for side in [Side::Client, Side::Server] {
            self.index.insert(hash(self.entries[index as usize].key(side)), node(index, side));
        }
        self.ring.file(&mut self.entries, index);
        self.len += 1;
        index
    }

    pub(crate) fn remove(&mut self, index: u32) {
        self.ring.remove(&mut self.entries, index);
        for side in [Side::Client, Side::Server] {
            self.index.remove(hash(self.entries[index as usize].key(side)), node(index, side));
        }
        let entry = &mut self.entries[index as usize];
        entry.live = false;
        entry.next_free = self.free;
        self.free = index;
        self.len -= 1;
    }

    /// Gives an entry another deadline.
    pub(crate) fn set_deadline(&mut self, index: u32, deadline: u64) {
        let entry = &mut self.entries[index as usize];
        let earlier = deadline < entry.deadline;
        entry.deadline = deadline;
        if earlier {
            self.ring.moved(&mut self.entries, index);
        }
    }

    /// The same for an entry that was due: its place in the ring is in the past.
    pub(crate) fn refile(&mut self, index: u32, deadline: u64) {
        self.ring.remove(&mut self.entries, index);
        self.entries[index as usize].deadline = deadline;
        self.ring.file(&mut self.entries, index);
    }

    /// The entries that are due at `now`, in the order of their deadlines.
    pub(crate) fn due(&mut self, now: u64) -> Vec<u32> {
        self.ring.due(&mut self.entries, now)
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        (self.len > 0).then(|| self.ring.next())
    }

    /// The idlest of the next few entries past a hand that goes round.
    pub(crate) fn victim(&mut self) -> Option<u32> {
        let mut idlest: Option<u32> = None;
        let mut looks = 0;
        for _ in 0..self.entries.len() {
            let index = self.hand;
            self.hand = if index as usize + 1 < self.entries.len() { index + 1 } else { 0 };
            let entry = &self.entries[index as usize];
            if entry.live {
                if idlest.is_none_or(|best| entry.last < self.entries[best as usize].last) {
                    idlest = Some(index);
                }
                looks += 1;
            }
            if looks == EVICTION_LOOKS {
                break;
            }
        }
        idlest
    }
}

/// Multiply and fold: two rounds over addresses and ports.
// Folding drops bits on purpose.
#[allow(clippy::cast_possible_truncation)]
fn hash(key: Key) -> u32 {
    const ODD: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93, 0xa076_1d64_78bd_642f];
    let fold = |a: u64, b: u64| {
        let wide = u128::from(a) * u128::from(b);
        (wide >> 64) as u64 ^ wide as u64
    };
    let half = |address: u128| (address >> 64) as u64 ^ (address as u64).rotate_left(29);
    let ports = u64::from(key.from.port) << 16 | u64::from(key.to.port);
    let one = fold(half(key.from.address) ^ ODD[0], half(key.to.address).rotate_left(17) ^ ODD[1]);
    fold(one ^ ports, ODD[2]) as u32
}
