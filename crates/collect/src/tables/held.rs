//! What the tables of one namespace hold.

use std::{
    collections::{HashMap, HashSet},
    net::{IpAddr, SocketAddr},
};

use stillopen_model::ConntrackSettings;

use crate::{
    budget::{Budget, Spending},
    conntrack::{self, Tracked, read::Wanted},
    flow::Flow,
    ipvs::{self, Ipvs, Row},
    linux::{Gaps, TableGap},
    netlink::{NetlinkError, read::Buffer},
    netns::{self, Place},
    nft::{self, Rules},
};

/// The tables of one namespace, as far as they may be read.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub settings: Option<ConntrackSettings>,
    /// Its virtual services, where it has some.
    pub ipvs: Option<Ipvs>,
    /// Its entries; `None`: not read completely.
    pub rows: Option<Index<Row>>,
    /// The entries that matter; `None`: not read.
    pub tracked: Option<Index<Tracked>>,
    /// Destinations that its entries translate.
    pub translated: HashSet<SocketAddr>,
    /// `None`: not read.
    pub rules: Option<Rules>,
}

/// Entries, by the client's packets and by the server's.
#[derive(Debug)]
pub(super) struct Index<T> {
    by_client: HashMap<Flow, T>,
    by_server: HashMap<Flow, Flow>,
}

/// An entry of a connection.
pub(super) trait Entry: Copy {
    /// As the client's and as the server's packets come.
    fn ends(&self) -> (Flow, Flow);
}

impl Entry for Row {
    fn ends(&self) -> (Flow, Flow) {
        (self.original, Flow::new(self.server, self.original.source))
    }
}

impl Entry for Tracked {
    fn ends(&self) -> (Flow, Flow) {
        (self.original, self.reply)
    }
}

impl<T: Entry> Index<T> {
    pub(super) fn new(entries: Vec<T>) -> Self {
        let mut by_client = HashMap::with_capacity(entries.len());
        let mut by_server = HashMap::with_capacity(entries.len());
        for entry in entries {
            let (client, server) = entry.ends();
            by_client.insert(client, entry);
            by_server.insert(server, client);
        }
        Self { by_client, by_server }
    }

    pub(super) fn by_client(&self, flow: Flow) -> Option<&T> {
        self.by_client.get(&flow)
    }

    pub(super) fn by_server(&self, flow: Flow) -> Option<&T> {
        self.by_client.get(self.by_server.get(&flow)?)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &T> {
        self.by_client.values()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_client.is_empty()
    }

    /// Whether both have entries of the same connections.
    pub(super) fn has_the_same_as(&self, other: &Self) -> bool {
        self.by_client.len() == other.by_client.len()
            && self.by_client.keys().all(|flow| other.by_client.contains_key(flow))
    }
}

impl Held {
    /// Destinations that its tables translate, as far as is known: address and port, or every port.
    pub(super) fn destinations(&self) -> HashSet<(IpAddr, Option<u16>)> {
        let mut found = HashSet::new();
        for service in self.ipvs.iter().flat_map(|ipvs| &ipvs.services.tcp) {
            found.insert((service.ip(), Some(service.port()).filter(|&port| port != 0)));
        }
        found.extend(self.translated.iter().map(|to| (to.ip(), Some(to.port()))));
        if let Some(rules) = &self.rules {
            let named = rules.from_here.iter().chain(&rules.from_elsewhere);
            found.extend(named.map(|to| (to.ip, to.port)));
        }
        found
    }

    /// Flows of its entries, as one of the two ends sends them.
    pub(super) fn flows(&self) -> impl Iterator<Item = Flow> {
        let tracked = self.tracked.iter().flat_map(Index::entries).flat_map(both);
        let rows = self.rows.iter().flat_map(Index::entries).flat_map(both);
        tracked.chain(rows)
    }

    /// Whether it has a virtual service at `to`.
    pub(super) fn serves(&self, to: SocketAddr) -> bool {
        self.ipvs.as_ref().is_some_and(|ipvs| {
            let services = &ipvs.services.tcp;
            services.contains(&to) || services.contains(&SocketAddr::new(to.ip(), 0))
        })
    }

    /// Whether an entry of another connection to `to` translates that.
    pub(super) fn translates_for_others(&self, to: SocketAddr) -> bool {
        self.translated.contains(&to)
    }

    /// Whether it may give a connection another address without that being seen here.
    pub(super) fn may_translate(&self) -> bool {
        let rules = self.rules.as_ref().is_none_or(|rules| rules.has_nat);
        rules || self.tracked.as_ref().is_none_or(|tracked| !tracked.is_empty())
    }
}

fn both<T: Entry>(entry: &T) -> [Flow; 2] {
    let (client, server) = entry.ends();
    [client, server]
}

/// Reads those of the namespace at `place`.
pub(super) fn read(
    place: &Place,
    buffer: &mut Buffer,
    budget: &mut Budget,
    gaps: &mut Gaps,
) -> Held {
    let visited = netns::read::visit(place, || budget.spend(|spending| visited(buffer, spending)));
    match visited {
        Ok((held, missing)) => {
            for (source, error) in missing {
                gaps.table(source, &place.name, &error);
            }
            held
        }
        // Its sockets can't be read either, which is said of them.
        Err(_) => Held::default(),
    }
}

type Missing = Vec<(TableGap, NetlinkError)>;

fn visited(buffer: &mut Buffer, spending: &Spending) -> (Held, Missing) {
    let mut held = Held::default();
    let mut missing = Missing::new();
    let mut or_missing = |source, error| missing.push((source, error));
    match ipvs::read::ipvs(buffer) {
        Ok(None) => {}
        Ok(Some((ipvs, refused))) => {
            held.ipvs = Some(ipvs);
            if let Some(error) = refused {
                or_missing(TableGap::IpvsTimeouts, error);
            }
            match ipvs::read::entries(spending) {
                Ok(rows) => held.rows = Some(Index::new(rows)),
                Err(error) => or_missing(TableGap::IpvsEntries, error),
            }
        }
        Err(error) => or_missing(TableGap::Ipvs, error),
    }
    // Why they are not known is a gap of the namespace's row already.
    held.settings = conntrack::read::settings().ok().flatten();
    if held.settings.is_none() {
        held.tracked = Some(Index::new(Vec::new()));
        held.rules = Some(Rules::default());
        return (held, missing);
    }
    match nft::read::rules(buffer, spending) {
        Ok(rules) => held.rules = Some(rules),
        Err(error) => or_missing(TableGap::Rules, error),
    }
    let drop = held.rules.as_ref().is_some_and(|rules| rules.drop_forwarded || rules.drop_incoming);
    let wanted = if drop { Wanted::All } else { Wanted::Translated };
    match tracked(wanted, buffer, spending) {
        Ok(entries) => {
            let translating = entries.iter().filter(|entry| entry.translates_destination());
            held.translated = translating.map(|entry| entry.original.destination).collect();
            held.tracked = Some(Index::new(entries));
        }
        Err(error) => or_missing(TableGap::Conntrack, error),
    }
    (held, missing)
}

/// The entries of the calling thread's namespace.
pub(super) fn tracked(
    wanted: Wanted,
    buffer: &mut Buffer,
    spending: &Spending,
) -> Result<Vec<Tracked>, NetlinkError> {
    match conntrack::read::count() {
        Ok(0) => Ok(Vec::new()),
        _ => conntrack::read::entries(wanted, buffer, spending),
    }
}
