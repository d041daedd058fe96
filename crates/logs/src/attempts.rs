//! From what is kept to attempts: one send of one request, as both sides saw it.
//!
//! Mostly a record is an attempt. Where an id is there more than once, without a number that tells the attempts
//! apart, its events are put in order and cut into attempts; those of the two sides are paired in that order.

use crate::{
    event::{Kind, Millis},
    store::{
        Extra, Store,
        index::Number,
        record::{Slot, time},
    },
};

/// What the client saw of an attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ClientSide {
    pub(crate) asked: Option<Millis>,
    pub(crate) end: Option<(Millis, Kind)>,
}

/// What the server saw of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ServerSide {
    pub(crate) received: Option<Millis>,
    pub(crate) started: Option<Millis>,
    /// The first and the last part of an answer that was sent in parts, and the longest time between two.
    pub(crate) parts: Option<Parts>,
    pub(crate) end: Option<(Millis, Kind)>,
}

/// An answer that is sent in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) first: Millis,
    pub(crate) last: Millis,
    pub(crate) longest_between: Millis,
}

/// An attempt. A side that says nothing of it is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) record: Number,
    /// The how manyth of this id, from 0, where only its order tells.
    pub(crate) nth: u32,
    /// The file that the client's send is from.
    pub(crate) file: u16,
    pub(crate) client: Option<ClientSide>,
    pub(crate) server: Option<ServerSide>,
}

impl ClientSide {
    fn is_known(&self) -> bool {
        self.asked.is_some() || self.end.is_some()
    }
}

impl ServerSide {
    fn is_known(&self) -> bool {
        self.begin().is_some() || self.end.is_some()
    }

    /// The first that the server knew of it.
    pub(crate) fn begin(&self) -> Option<Millis> {
        self.received.or(self.started)
    }

    pub(crate) fn sent(&self) -> Option<Millis> {
        self.end.filter(|(_, kind)| *kind == Kind::Sent).map(|(at, _)| at)
    }

    /// How long it worked, by its own account.
    pub(crate) fn took(&self) -> Option<Millis> {
        let (end, _) = self.end?;
        Some((end - self.started.or(self.received)?).max(0))
    }
}

/// A client's send and a server's beginning that are this far apart the wrong way may still be one attempt.
const TOLERANCE: Millis = 1000;

/// Calls `visit` with each attempt. `skew` is by how much the server's clock is ahead, as far as it is known.
pub(crate) fn each(store: &Store, skew: Millis, mut visit: impl FnMut(&Attempt)) {
    let mut events = Vec::new();
    let mut attempts = Vec::new();
    for number in 0..store.len() {
        // A store holds no more records than a number can count.
        let number = Number::try_from(number).unwrap_or(Number::MAX);
        let record = store.get(number);
        if record.is_free() {
            continue;
        }
        attempts.clear();
        // One call for both kinds, so that it becomes part of the loop.
        let plain_one;
        let all: &[Attempt] = if record.has_more() {
            cut(store, number, skew, &mut events, &mut |attempt: &Attempt| attempts.push(*attempt));
            &attempts
        } else {
            plain_one = plain(store, number);
            std::slice::from_ref(&plain_one)
        };
        for attempt in all {
            visit(attempt);
        }
    }
}

/// Of a record that is one attempt.
#[inline(always)]
#[expect(clippy::inline_always, reason = "so that whoever visits all need not have it in memory")]
pub(crate) fn plain(store: &Store, number: Number) -> Attempt {
    let record = store.get(number);
    let at = |slot| record.get(slot).map(|offset| time(offset, store.base()));
    let end = |slot| at(slot).map(|at| (at, record.kind(slot)));
    let client = ClientSide { asked: at(Slot::Asked), end: end(Slot::ClientEnd) };
    let server = ServerSide {
        received: at(Slot::Received),
        started: at(Slot::Started),
        parts: None,
        end: end(Slot::ServerEnd),
    };
    Attempt {
        record: number,
        nth: 0,
        file: record.file,
        client: client.is_known().then_some(client),
        server: server.is_known().then_some(server),
    }
}

fn cut(
    store: &Store,
    number: Number,
    skew: Millis,
    events: &mut Vec<(Millis, Kind)>,
    visit: &mut impl FnMut(&Attempt),
) {
    let (record, base) = (store.get(number), store.base());
    events.clear();
    for slot in Slot::ALL {
        events.extend(record.get(slot).map(|offset| (time(offset, base), record.kind(slot))));
    }
    let extras = store.extras_of(number);
    events.extend(extras.iter().map(|extra| (time(extra.at, base), extra.kind)));
    // At one moment an end goes first: what begins then is the next attempt.
    events.sort_by_key(|&(at, kind)| (at, kind.begins(), kind));
    let clients = of_client(events);
    let servers = of_server(events);
    // The slot has one send only, which is the first that was read.
    let file = |client: Option<ClientSide>| {
        let asked = client.and_then(|client| client.asked);
        let is_it =
            |extra: &&Extra| extra.kind == Kind::Asked && Some(time(extra.at, base)) == asked;
        extras.iter().find(is_it).map_or(record.file, |extra| extra.file)
    };
    let attempt = |nth: usize, client, server| Attempt {
        record: number,
        nth: u32::try_from(nth).unwrap_or(u32::MAX),
        file: file(client),
        client,
        server,
    };
    if clients.len() == servers.len() {
        for (nth, (client, server)) in clients.into_iter().zip(servers).enumerate() {
            visit(&attempt(nth, Some(client), Some(server)));
        }
        return;
    }
    let mut of_clients: Vec<Option<ServerSide>> = vec![None; clients.len()];
    let mut nth = clients.len();
    for server in servers {
        let begin = server.begin().or(server.end.map(|(at, _)| at)).unwrap_or(0) - skew;
        let before = |client: &ClientSide| client.asked.is_some_and(|at| at <= begin + TOLERANCE);
        if let Some(at) = clients.iter().rposition(before).filter(|&at| of_clients[at].is_none()) {
            of_clients[at] = Some(server);
        } else {
            visit(&attempt(nth, None, Some(server)));
            nth += 1;
        }
    }
    for (nth, (client, server)) in clients.into_iter().zip(of_clients).enumerate() {
        visit(&attempt(nth, Some(client), server));
    }
}

fn of_client(events: &[(Millis, Kind)]) -> Vec<ClientSide> {
    let mut all: Vec<ClientSide> = Vec::new();
    let own =
        |kind: Kind| Slot::of(kind).is_some_and(|s| matches!(s, Slot::Asked | Slot::ClientEnd));
    for (at, kind) in in_order(events, own) {
        match (kind, all.last_mut()) {
            (Kind::Asked, _) => all.push(ClientSide { asked: Some(at), end: None }),
            (_, Some(last)) if last.end.is_none() => last.end = Some((at, kind)),
            // Late, but it came.
            (Kind::Answered, Some(last)) => last.end = Some((at, kind)),
            (_, Some(_)) => {}
            (_, None) => all.push(ClientSide { asked: None, end: Some((at, kind)) }),
        }
    }
    all
}

fn of_server(events: &[(Millis, Kind)]) -> Vec<ServerSide> {
    let mut all: Vec<ServerSide> = Vec::new();
    let own =
        |kind: Kind| !Slot::of(kind).is_some_and(|s| matches!(s, Slot::Asked | Slot::ClientEnd));
    for (at, kind) in in_order(events, own) {
        let continues = all.last().is_some_and(|last| match kind {
            Kind::Received => false,
            Kind::Started => last.started.is_none() && last.end.is_none() && last.parts.is_none(),
            _ => true,
        });
        if !continues {
            all.push(ServerSide::default());
        }
        let Some(last) = all.last_mut() else { continue };
        match kind {
            Kind::Received => last.received = Some(at),
            Kind::Started => last.started = Some(at),
            Kind::Part => {
                let parts =
                    last.parts.get_or_insert(Parts { first: at, last: at, longest_between: 0 });
                parts.longest_between = parts.longest_between.max(at - parts.last);
                parts.last = at;
            }
            _ => last.end = last.end.or(Some((at, kind))),
        }
    }
    all
}

/// The events of one side. Where nothing is open, what begins at a moment goes before what ends at it.
fn in_order(events: &[(Millis, Kind)], own: impl Fn(Kind) -> bool) -> Vec<(Millis, Kind)> {
    let mut events: Vec<_> = events.iter().copied().filter(|&(_, kind)| own(kind)).collect();
    let mut open = false;
    for at in 0..events.len() {
        let (moment, kind) = events[at];
        if kind.ends() && !open {
            let begins = |&(other, kind): &(Millis, Kind)| other == moment && kind.begins();
            if let Some(next) = events[at..].iter().position(begins) {
                events[at..=at + next].rotate_right(1);
            }
        }
        open = if events[at].1.begins() { true } else { open && !events[at].1.ends() };
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;

    fn attempts(events: &[(Millis, Kind)]) -> Vec<Attempt> {
        let mut store = Store::default();
        for &(at, kind) in events {
            store.add(&Event { at, id: b"a", attempt: 0, kind, took: None }, 0).unwrap();
        }
        store.finish().unwrap();
        let mut all = Vec::new();
        each(&store, 0, |attempt| all.push(*attempt));
        all
    }

    #[test]
    fn a_retry_under_the_same_id_is_an_attempt_of_its_own_in_whatever_order_the_lines_are() {
        let mut events = vec![
            (0, Kind::Asked),
            (5, Kind::Received),
            (5, Kind::Started),
            (950, Kind::Sent),
            (3600, Kind::TimedOut),
            (3600, Kind::Asked),
            (3605, Kind::Received),
            (3605, Kind::Started),
            (3700, Kind::Sent),
            (3705, Kind::Answered),
        ];
        let expected = attempts(&events);
        assert_eq!(expected.len(), 2);
        let [first, second] = [expected[0], expected[1]];
        assert_eq!(first.client.unwrap().end, Some((3600, Kind::TimedOut)));
        assert_eq!(first.server.unwrap().sent(), Some(950));
        assert_eq!(second.client.unwrap().asked, Some(3600));
        assert_eq!(second.server.unwrap().took(), Some(95));
        events.reverse();
        assert_eq!(attempts(&events), expected);
        events.swap(2, 7);
        // A line that is there twice changes nothing.
        events.push((950, Kind::Sent));
        events.push((3700, Kind::Sent));
        assert_eq!(attempts(&events), expected);
    }

    #[test]
    fn what_the_server_got_twice_of_one_send_stays_the_servers() {
        let all = attempts(&[
            (0, Kind::Asked),
            (5, Kind::Received),
            (300, Kind::Sent),
            (905_000, Kind::Received),
            (905_300, Kind::Sent),
        ]);
        assert_eq!(all.len(), 2);
        assert!(all.iter().any(|attempt| attempt.client.is_none()));
    }

    #[test]
    fn parts_are_joined_to_the_longest_time_between_two() {
        let all = attempts(&[
            (0, Kind::Asked),
            (0, Kind::Received),
            (10, Kind::Part),
            (50, Kind::Part),
            (60, Kind::Part),
            (70, Kind::Sent),
        ]);
        let parts = all[0].server.unwrap().parts.unwrap();
        assert_eq!(parts, Parts { first: 10, last: 60, longest_between: 40 });
    }
}
