//! Logs without ids: the lines of each side are put together by their order, and the two sides by order and
//! time. Requests that overlap can be mistaken for each other, so this is weaker, and said to be.

use crate::{
    error::LogsError,
    event::{Event, Kind, Millis, Side},
    store::Store,
};

/// The events of both sides, without ids.
#[derive(Debug, Default)]
pub(crate) struct Unnamed {
    client: Vec<(Millis, Kind)>,
    server: Vec<(Millis, Kind)>,
}

/// A request as one side has it.
#[derive(Debug, Default)]
struct Request {
    begin: Millis,
    events: Vec<(Millis, Kind)>,
}

/// A server's beginning and the client's send that it belongs to are at most so far apart.
const APART: Millis = 60_000;

impl Unnamed {
    pub(crate) fn add(&mut self, side: Side, event: &Event<'_>) {
        let to = match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        to.push((event.at, event.kind));
        if let Some(took) = event.took.filter(|_| event.kind.ends()) {
            let began = if side == Side::Client { Kind::Asked } else { Kind::Started };
            to.push((event.at - took, began));
        }
    }

    /// Gives each request a number for an id.
    pub(crate) fn name(self, store: &mut Store) -> Result<(), LogsError> {
        let clients = requests(self.client);
        let servers = requests(self.server);
        let mut free: Vec<bool> = vec![true; servers.len()];
        let by_number = clients.len() == servers.len();
        let ahead = match (clients.first(), servers.first()) {
            (Some(client), Some(server)) => server.begin - client.begin,
            _ => 0,
        };
        let mut first_free = 0;
        for (number, client) in clients.iter().enumerate() {
            add(store, number, client)?;
            let of = if by_number {
                Some(number)
            } else {
                while free.get(first_free) == Some(&false) {
                    first_free += 1;
                }
                let fits = |&at: &usize| {
                    let apart = servers[at].begin - ahead - client.begin;
                    free[at] && (-APART / 60..=APART).contains(&apart)
                };
                (first_free..servers.len())
                    .take_while(|&at| servers[at].begin - ahead - client.begin <= APART)
                    .find(fits)
            };
            if let Some(at) = of {
                free[at] = false;
                add(store, number, &servers[at])?;
            }
        }
        for (at, server) in servers.iter().enumerate().filter(|&(at, _)| free[at]) {
            add(store, clients.len() + at, server)?;
        }
        Ok(())
    }
}

fn add(store: &mut Store, number: usize, request: &Request) -> Result<(), LogsError> {
    let id = format!("#{}", number + 1);
    for &(at, kind) in &request.events {
        store.add(&Event { at, id: id.as_bytes(), attempt: 0, kind, took: None }, 0)?;
    }
    Ok(())
}

/// First in, first out: an end is the oldest open request's.
fn requests(mut events: Vec<(Millis, Kind)>) -> Vec<Request> {
    events.sort_by_key(|&(at, kind)| (at, !kind.begins(), kind));
    let mut all: Vec<Request> = Vec::new();
    let mut oldest_open = 0;
    // Of a server that logs both, the start belongs to the oldest request without one.
    let mut oldest_not_started = 0;
    let receives = events.iter().any(|(_, kind)| *kind == Kind::Received);
    for (at, kind) in events {
        match kind {
            Kind::Started if receives => {
                if let Some(request) = all.get_mut(oldest_not_started) {
                    request.events.push((at, kind));
                    oldest_not_started += 1;
                }
            }
            kind if kind.begins() => {
                all.push(Request { begin: at, events: vec![(at, kind)] });
            }
            Kind::Part => {}
            _ => {
                match all.get_mut(oldest_open) {
                    Some(request) => request.events.push((at, kind)),
                    None => all.push(Request { begin: at, events: vec![(at, kind)] }),
                }
                oldest_open += 1;
            }
        }
    }
    all
}
