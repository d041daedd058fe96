//! The second look: the same sockets, known by their cookies.

use stillopen_model::Connection;

use super::{Collected, gaps::Gaps, keep};
use crate::{
    CollectError,
    netlink::read::{Buffer, Whole},
    netns::{self, Place},
    sock_diag::read::each_connection,
    watch::update,
};

impl Collected {
    /// Reads the same namespaces again. A connection that is still there gets the newer reading and,
    /// where no data moved and what arrived is certain, its `watch`; the kernel's stamps say how long
    /// after the first look that was. One that has gone leaves the snapshot; new ones are not added.
    ///
    /// # Errors
    /// The only namespace can't be read any more. Of several, one that can't is a gap.
    pub fn look_again(&mut self) -> Result<(), CollectError> {
        let mut gaps = Gaps::default();
        let mut seen = vec![false; self.cookies.len()];
        let mut start = 0;
        for (at, place) in self.places.iter().enumerate() {
            // The connections of one namespace stand together, in the order of the namespaces.
            let here = &self.snapshot.connections[start..];
            let end = start + here.partition_point(|connection| connection.netns as usize <= at);
            let range = start..end;
            start = end;
            if range.is_empty() {
                continue;
            }
            let again = again(
                place,
                &mut self.snapshot.connections[range.clone()],
                &self.cookies[range.clone()],
                &mut seen[range.clone()],
            );
            match again {
                Ok(Whole::Yes) => {}
                // What was not seen may still be there.
                Ok(Whole::No) => {
                    gaps.partial(&place.name);
                    seen[range].fill(true);
                }
                Err(error) if self.places.len() == 1 => return Err(error),
                Err(error) => {
                    gaps.namespace(&place.name, error);
                    seen[range].fill(true);
                }
            }
        }
        keep(&mut self.cookies, |at| seen[at]);
        keep(&mut self.fds, |at| seen[at]);
        keep(&mut self.snapshot.connections, |at| seen[at]);
        self.ask_tables(&mut gaps);
        for gap in gaps.finish() {
            if !self.snapshot.gaps.contains(&gap) {
                self.snapshot.gaps.push(gap);
            }
        }
        Ok(())
    }
}

/// The connections of one namespace, being updated.
struct Again<'a> {
    cookies: &'a [u64],
    /// Positions, in the order of their cookies.
    index: Vec<u32>,
    connections: &'a mut [Connection],
    /// A dump that is asked for again does not compare a connection with itself.
    seen: &'a mut [bool],
}

impl Again<'_> {
    fn take(&mut self, cookie: u64, newer: &Connection) {
        let by_cookie = |&at: &u32| self.cookies[at as usize];
        let Ok(at) = self.index.binary_search_by_key(&cookie, by_cookie) else { return };
        let at = self.index[at] as usize;
        if !std::mem::replace(&mut self.seen[at], true) {
            update(&mut self.connections[at], newer);
        }
    }
}

fn again(
    place: &Place,
    connections: &mut [Connection],
    cookies: &[u64],
    seen: &mut [bool],
) -> Result<Whole, CollectError> {
    let mut index: Vec<u32> = (0..).take(cookies.len()).collect();
    index.sort_unstable_by_key(|&at| cookies[at as usize]);
    let mut again = Again { cookies, index, connections, seen };
    let read = || {
        let take = |cookie, newer, again: &mut Again<'_>| again.take(cookie, &newer);
        each_connection(0, &mut again, &mut Buffer::new(), take)
    };
    match netns::read::visit(place, read) {
        Ok(Ok(whole)) => Ok(whole),
        Ok(Err(cause)) => {
            Err(CollectError::Sockets { namespace: place.name.clone(), cause: cause.into() })
        }
        Err(cause) => Err(CollectError::Enter { name: place.name.clone(), cause }),
    }
}
