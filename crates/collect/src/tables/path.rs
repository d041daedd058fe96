//! The way of a connection from namespace to namespace.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
};

use crate::{
    netlink::read::Buffer,
    netns::{self, Place},
    route::{Link, Router, Way},
};

/// Where a packet comes into a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct At {
    /// Which of the places.
    pub place: usize,
    /// The link that it came through; `None`: it starts here.
    pub from: Option<u32>,
}

/// Answers, each asked for once.
pub(super) struct Paths<'a> {
    places: &'a [Place],
    routers: HashMap<usize, Option<Router>>,
    ways: HashMap<(At, Option<IpAddr>, SocketAddr), Way>,
    links: HashMap<(usize, u32), Link>,
    /// By a namespace and its number for another.
    numbers: HashMap<(usize, i32), Option<usize>>,
    /// Where the last other end was: that of the next is there too.
    last: usize,
}

impl<'a> Paths<'a> {
    pub(super) fn new(places: &'a [Place]) -> Self {
        Self {
            places,
            routers: HashMap::new(),
            ways: HashMap::new(),
            links: HashMap::new(),
            numbers: HashMap::new(),
            last: 0,
        }
    }

    /// Where a packet goes that is `at` a namespace.
    pub(super) fn way(
        &mut self,
        at: At,
        source: IpAddr,
        to: SocketAddr,
        buffer: &mut Buffer,
    ) -> Way {
        self.ask_way(at, Some(source), to, buffer)
    }

    fn ask_way(
        &mut self,
        at: At,
        source: Option<IpAddr>,
        to: SocketAddr,
        buffer: &mut Buffer,
    ) -> Way {
        if let Some(&way) = self.ways.get(&(at, source, to)) {
            return way;
        }
        let router = self.router(at.place);
        let way = router.and_then(|router| router.way(source, to, at.from, buffer).ok());
        let way = way.unwrap_or(Way::Nowhere);
        self.ways.insert((at, source, to), way);
        way
    }

    /// Where a packet comes out that leaves namespace `place` through `link` for `next`, the gateway or the
    /// destination; `None`: on another host, or that is not known.
    pub(super) fn beyond(
        &mut self,
        place: usize,
        link: u32,
        next: IpAddr,
        buffer: &mut Buffer,
    ) -> Option<At> {
        let (number, peer) = self.link(place, link, buffer)?.other_end()?;
        let place = self.place_of(place, number, buffer)?;
        let port = self.link(place, peer, buffer)?;
        let Some(master) = port.master else { return Some(At { place, from: Some(peer) }) };
        // A bridge hands on what is not for its own namespace: that passes no table of it.
        let is_bridge = self.link(place, master, buffer)?.is_bridge();
        let here = At { place, from: None };
        let mut is_own = || self.ask_way(here, None, SocketAddr::new(next, 0), buffer) == Way::Here;
        (is_bridge && is_own()).then_some(At { place, from: Some(master) })
    }

    fn link(&mut self, place: usize, index: u32, buffer: &mut Buffer) -> Option<Link> {
        if let Some(link) = self.links.get(&(place, index)) {
            return Some(link.clone());
        }
        let link = self.router(place)?.link(index, buffer).ok()?;
        self.links.insert((place, index), link.clone());
        Some(link)
    }

    /// Which of the places has this number in the namespace `of`.
    fn place_of(&mut self, of: usize, number: i32, buffer: &mut Buffer) -> Option<usize> {
        if let Some(&known) = self.numbers.get(&(of, number)) {
            return known;
        }
        let first = self.last;
        let order = std::iter::once(first).chain((0..self.places.len()).filter(|&at| at != first));
        let places = self.places;
        let router = self.router(of)?;
        let found = order
            .filter_map(|at| Some((at, places.get(at)?)))
            .find(|(_, place)| router.number_of(place, buffer) == Some(number))
            .map(|(at, _)| at);
        self.numbers.insert((of, number), found);
        self.last = found.unwrap_or(first);
        found
    }

    fn router(&mut self, place: usize) -> Option<&Router> {
        let places = self.places;
        let open = || netns::read::visit(places.get(place)?, Router::open).ok()?.ok();
        self.routers.entry(place).or_insert_with(open).as_ref()
    }
}
