//! Runs a scenario's timeline: the two ends do what the steps say, and what their programs see is noted.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{Notice, SocketId, World, tcp::Seen};
use crate::{
    middlebox::{End, TcpState},
    observed::{self, Observed, Sent},
    path::Path,
    result::Saw,
    run::{Run, RunOptions, blank, client_keepalive},
    scenario::{Does, Scenario, Step, Who},
};

/// One connection of the timeline.
#[derive(Debug)]
struct Connection {
    client: SocketId,
    server: Option<SocketId>,
    /// When the path forgot it, and its last packet before that.
    forgot: Option<(Duration, Duration)>,
    /// Whether an end has closed or said that it will send no more: an end of file is then no news.
    closing: bool,
}

struct Timeline<'a> {
    scenario: &'a Scenario,
    path: &'a Path,
    world: World,
    connections: Vec<Connection>,
    by_client: BTreeMap<End, usize>,
    sent: Vec<Sent>,
    saw: Vec<(Duration, Saw)>,
    told: BTreeSet<SocketId>,
    told_later: BTreeSet<SocketId>,
}

pub(crate) fn run(scenario: &Scenario, path: &Path, options: &RunOptions) -> Run {
    let mut world = World::new(
        path.middlebox(u32::try_from(scenario.timeline.len()).unwrap_or(u32::MAX)),
        path.vip,
        path.hz,
    );
    for &backend in &path.backends {
        world.listen(backend, scenario.server.keepalive.0);
    }
    for (number, step) in (0..).zip(&scenario.timeline) {
        world.wake_at(step.at.0, number);
    }
    let mut timeline = Timeline {
        scenario,
        path,
        world,
        connections: Vec::new(),
        by_client: BTreeMap::new(),
        sent: Vec::new(),
        saw: Vec::new(),
        told: BTreeSet::new(),
        told_later: BTreeSet::new(),
    };
    let end = scenario.watch.unwrap_or_default().0;
    while let Some(notice) = timeline.world.next(end) {
        timeline.handle(notice, options);
    }
    let mut result = blank(scenario, path, options);
    timeline.observed().sum_up(scenario, &mut result);
    result.virtual_s = end.as_secs_f64();
    Run { result, job_log: String::new(), agent_log: String::new() }
}

impl Timeline<'_> {
    fn handle(&mut self, notice: Notice, options: &RunOptions) {
        match notice {
            Notice::Wake(number) => {
                let number = usize::try_from(number).unwrap_or(usize::MAX);
                if let Some(step) = self.scenario.timeline.get(number) {
                    self.step(step, options);
                }
            }
            Notice::Accepted(server) => {
                let client = self.world.peer(server);
                if let Some(&connection) = self.by_client.get(&client) {
                    self.connections[connection].server = Some(server);
                }
            }
            Notice::Seen(socket, seen) => self.seen(socket, seen),
            Notice::Told(socket) => {
                self.told.insert(socket);
            }
            Notice::Forgot { client, last } => {
                let at = self.world.now();
                if let Some(&connection) = self.by_client.get(&client) {
                    self.connections[connection].forgot.get_or_insert((at, last));
                }
            }
        }
    }

    fn step(&mut self, step: &Step, options: &RunOptions) {
        if let Does::SetIdleTimeout { idle_timeout } = step.does {
            let timeouts = self.path.timeouts.with(TcpState::Established, idle_timeout.0);
            self.world.set_timeouts(&timeouts);
            return;
        }
        if step.does == Does::Connect {
            let from = self.path.client(step.connection);
            let keepalive = client_keepalive(self.scenario, options);
            let client = self.world.connect(from, keepalive);
            self.by_client.insert(self.world.local(client), step.connection);
            let fresh = Connection { client, server: None, forgot: None, closing: false };
            self.connections.push(fresh);
            return;
        }
        let connection = &mut self.connections[step.connection];
        let socket = match step.who {
            Who::Client => Some(connection.client),
            Who::Server | Who::Path => connection.server,
        };
        let Some(socket) = socket else { return };
        match step.does {
            Does::Send { bytes } => self.send(step, socket, bytes),
            Does::SetKeepalive { keepalive } => self.world.set_keepalive(socket, keepalive.0),
            Does::Shutdown => {
                connection.closing = true;
                self.world.shutdown(socket);
            }
            Does::Close => {
                connection.closing = true;
                self.world.close(socket);
            }
            Does::Connect | Does::SetIdleTimeout { .. } => {}
        }
    }

    fn send(&mut self, step: &Step, socket: SocketId, bytes: usize) {
        let refused = self.world.send(socket, bytes).err();
        let (connection, by, at) = (step.connection, step.who, self.world.now());
        let before = self
            .sent
            .iter()
            .filter(|sent| (sent.connection, sent.by, sent.refused) == (connection, by, false));
        let last_byte = before.map(|sent| sent.last_byte).max().unwrap_or_default() + bytes;
        let was_refused = refused.is_some();
        self.sent.push(Sent { connection, by, at, last_byte, refused: was_refused });
        if let Some(errno) = refused {
            self.note(socket, errno.name(), 0);
        }
    }

    fn seen(&mut self, socket: SocketId, seen: Seen) {
        let (what, bytes) = match seen {
            Seen::Open => return,
            Seen::Data(bytes) => ("data", bytes),
            Seen::Eof => ("eof", 0),
            Seen::Error(errno) => (errno.name(), 0),
        };
        self.note(socket, what, bytes);
        let Some((connection, _)) = self.end(socket) else { return };
        let Connection { forgot, closing, .. } = self.connections[connection];
        let news = matches!(seen, Seen::Error(_)) || seen == Seen::Eof && !closing;
        if forgot.is_some() && news && !self.told.contains(&socket) {
            self.told_later.insert(socket);
        }
    }

    fn note(&mut self, socket: SocketId, what: &'static str, bytes: usize) {
        let Some((connection, who)) = self.end(socket) else { return };
        let at = self.world.now();
        let name = if who == Who::Client { "client" } else { "server" };
        // Segments of one answer are one event to its reader.
        if let Some((last, saw)) = self.saw.last_mut() {
            let same = (saw.connection, saw.who, saw.what) == (connection, name, "data");
            if what == "data" && same && at.saturating_sub(*last) < Duration::from_millis(100) {
                saw.bytes += bytes;
                return;
            }
        }
        let saw = Saw { at_s: at.as_secs_f64(), connection, who: name, what, bytes };
        self.saw.push((at, saw));
    }

    fn end(&self, socket: SocketId) -> Option<(usize, Who)> {
        self.connections.iter().enumerate().find_map(|(number, connection)| {
            if connection.client == socket {
                Some((number, Who::Client))
            } else {
                (connection.server == Some(socket)).then_some((number, Who::Server))
            }
        })
    }

    fn observed(self) -> Observed {
        let Self { world, connections, sent, saw, told, told_later, .. } = self;
        let connections = connections.iter().map(|connection| {
            let Connection { client, server, forgot, .. } = *connection;
            let both = |of: &BTreeSet<SocketId>| {
                [of.contains(&client), server.is_some_and(|server| of.contains(&server))]
            };
            observed::Connection {
                crossings: world.crossings(world.local(client)).to_vec(),
                forgot,
                probes: world.probes(client),
                told: both(&told),
                told_later: both(&told_later),
            }
        });
        Observed { connections: connections.collect(), sent, saw }
    }
}
