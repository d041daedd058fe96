//! Runs a scenario's timeline: the two ends do what the steps say, and what their programs see is noted.

use std::collections::BTreeMap;

use super::{Errno, Notice, SocketId, World, tcp::Seen};
use crate::{
    middlebox::{End, TcpState},
    observed::{self, ONE_EVENT, Observed},
    path::Path,
    run::{Run, RunOptions, blank, client_keepalive},
    scenario::{Does, Scenario, Step, Who},
};

/// One connection of the timeline.
#[derive(Debug)]
struct Connection {
    client: SocketId,
    server: Option<SocketId>,
}

struct Timeline<'a> {
    scenario: &'a Scenario,
    path: &'a Path,
    world: World,
    connections: Vec<Connection>,
    by_client: BTreeMap<End, usize>,
    observed: Observed,
}

pub(crate) fn run(scenario: &Scenario, path: &Path, options: &RunOptions) -> Run {
    let mut result = blank(scenario, path, options);
    observe(scenario, path, options).sum_up(scenario, &mut result);
    result.virtual_s = scenario.watch.unwrap_or_default().0.as_secs_f64();
    Run { result, job_log: String::new(), agent_log: String::new() }
}

/// What happens, before it is summed up.
pub(crate) fn observe(scenario: &Scenario, path: &Path, options: &RunOptions) -> Observed {
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
        observed: Observed::new(0, ONE_EVENT),
    };
    let end = scenario.watch.unwrap_or_default().0;
    while let Some(notice) = timeline.world.next(end) {
        timeline.handle(notice, options);
    }
    timeline.observed()
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
                if let Some((connection, who)) = self.end(socket) {
                    let told = &mut self.observed.connections[connection].told;
                    told[usize::from(who == Who::Server)] = true;
                }
            }
            Notice::Forgot { client, last } => {
                let at = self.world.now();
                if let Some(&connection) = self.by_client.get(&client) {
                    self.observed.connections[connection]
                        .forgot
                        .get_or_insert((at, at.saturating_sub(last)));
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
            self.connections.push(Connection { client, server: None });
            self.observed.connections.push(observed::Connection::default());
            return;
        }
        let connection = &self.connections[step.connection];
        let socket = match step.who {
            Who::Client => Some(connection.client),
            Who::Server | Who::Path => connection.server,
        };
        let Some(socket) = socket else { return };
        match step.does {
            Does::Send { bytes } => self.send(step, socket, bytes),
            Does::SetKeepalive { keepalive } => self.world.set_keepalive(socket, keepalive.0),
            Does::Shutdown => {
                self.observed.connections[step.connection].closing = true;
                self.world.shutdown(socket);
            }
            Does::Close => {
                self.observed.connections[step.connection].closing = true;
                self.world.close(socket);
            }
            Does::Connect | Does::SetIdleTimeout { .. } => {}
        }
    }

    fn send(&mut self, step: &Step, socket: SocketId, bytes: usize) {
        let refused = self.world.send(socket, bytes).err().map(Errno::name);
        self.observed.sent(step.connection, step.who, bytes, self.world.now(), refused);
    }

    fn seen(&mut self, socket: SocketId, seen: Seen) {
        let (what, bytes) = match seen {
            Seen::Open => return,
            Seen::Data(bytes) => ("data", bytes),
            Seen::Eof => ("eof", 0),
            Seen::Error(errno) => (errno.name(), 0),
        };
        if let Some((connection, who)) = self.end(socket) {
            self.observed.saw(connection, who, what, bytes, self.world.now());
        }
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

    fn observed(mut self) -> Observed {
        for (connection, of) in self.connections.iter().zip(&mut self.observed.connections) {
            let client = connection.client;
            of.crossings = self.world.crossings(self.world.local(client)).to_vec();
            of.probes = self.world.probes(client);
        }
        self.observed
    }
}
