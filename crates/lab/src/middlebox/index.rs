//! The hash index: from a key's hash to the few nodes that may have it, in one cache line.
//!
//! Open addressing with linear probing. A slot holds 32 bits of the hash beside the node, so neither a
//! look-up nor a removal touches an entry that is not the one, and removal leaves no tombstone.

/// An empty slot: no node is that large.
const EMPTY: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Index {
    slots: Box<[u64]>,
    mask: usize,
}

// Halves of a slot, on purpose.
#[allow(clippy::cast_possible_truncation)]
fn halves(slot: u64) -> (u32, u32) {
    ((slot >> 32) as u32, slot as u32)
}

impl Index {
    /// Room for `keys`, at most three quarters full.
    pub(crate) fn new(keys: usize) -> Self {
        let slots = (keys + keys / 3 + 1).next_power_of_two();
        Self { slots: vec![EMPTY; slots].into(), mask: slots - 1 }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// The first node with this hash that `is` the one.
    #[inline]
    pub(crate) fn find(&self, hash: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = hash as usize & self.mask;
        loop {
            let slot = self.slots[at];
            if slot == EMPTY {
                return None;
            }
            let (tag, node) = halves(slot);
            if tag == hash && is(node) {
                return Some(node);
            }
            at = (at + 1) & self.mask;
        }
    }

    pub(crate) fn insert(&mut self, hash: u32, node: u32) {
        let mut at = hash as usize & self.mask;
        while self.slots[at] != EMPTY {
            at = (at + 1) & self.mask;
        }
        self.slots[at] = u64::from(hash) << 32 | u64::from(node);
    }

    pub(crate) fn remove(&mut self, hash: u32, node: u32) {
        let gone = u64::from(hash) << 32 | u64::from(node);
        let mut hole = hash as usize & self.mask;
        while self.slots[hole] != gone {
            if self.slots[hole] == EMPTY {
                return;
            }
            hole = (hole + 1) & self.mask;
        }
        // Whatever may move back into the hole does (Knuth 6.4, algorithm R).
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let slot = self.slots[at];
            if slot == EMPTY {
                break;
            }
            let wanted = halves(slot).0 as usize & self.mask;
            if at.wrapping_sub(wanted) & self.mask >= at.wrapping_sub(hole) & self.mask {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_removed_is_gone_and_the_rest_is_found() {
        let mut index = Index::new(64);
        // Hashes that collide in clusters.
        let hash = |node: u32| node / 5 * 3;
        for node in 0..64 {
            index.insert(hash(node), node);
        }
        for gone in (0..64).step_by(3) {
            index.remove(hash(gone), gone);
        }
        for node in 0..64 {
            let found = index.find(hash(node), |at| at == node);
            assert_eq!(found.is_some(), node % 3 != 0, "{node}");
        }
    }
}
