//! Makes the lanes' networks, then does their steps at their times on real sockets: one thread, one poll, no
//! busy wait, so that idle time costs nothing.

use std::{fs, time::Duration};

use rustix::{
    buffer::spare_capacity,
    event::{Timespec, epoll},
    fd::{AsFd, OwnedFd},
    io::Errno,
};

use super::{
    super::protocol::{Does, Job, Lane, Line, Place, Serves, Step, Table},
    Done,
    entries::Entries,
    failed,
    links::{self, Namespace},
    millis, now, packets,
    processes::{self, Processes, Seen as OfProcess},
    programs, served,
    tables::{self, Ipvs},
};
use crate::{
    ends::{self, End, Ends, Socket},
    path::Addresses,
};

/// Scenarios start where jiffies are a multiple of this: a bucket of the wheel for timers of up to 2 h 17 min
/// at 250 ticks a second (level 5).
const START_ALIGNED_TO: u64 = 32_768;
/// Room before the start for what set-up left behind.
const SETTLES: Duration = Duration::from_secs(1);
/// What was started just before the end may take so long to end.
const LEFT_TO_END: Duration = Duration::from_secs(60);
/// How often the host is told what time it is.
const TOLD_AGAIN: Duration = Duration::from_secs(20);
const NANOS: u64 = 1_000_000_000;

/// What an event is of, packed into a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Listener { lane: usize, number: usize },
    Packets { lane: usize },
    Socket { lane: usize, connection: usize, end: End },
    Program,
    Process { number: usize, what: OfProcess },
}

impl Token {
    fn data(self) -> epoll::EventData {
        let pack = |kind: u64, lane: usize, number: usize| {
            let (lane, number) = (lane as u64, number as u64);
            epoll::EventData::new_u64(kind << 56 | lane << 40 | number)
        };
        match self {
            Self::Listener { lane, number } => pack(0, lane, number),
            Self::Packets { lane } => pack(1, lane, 0),
            Self::Socket { lane, connection, end: End::Client } => pack(2, lane, connection),
            Self::Socket { lane, connection, end: End::Server } => pack(3, lane, connection),
            Self::Program => pack(4, 0, 0),
            Self::Process { number, what } => pack(5, what as usize, number),
        }
    }

    fn of(data: epoll::EventData) -> Self {
        let data = data.u64();
        let number = usize::try_from(data & 0xff_ffff_ffff).unwrap_or(0);
        let lane = usize::try_from(data >> 40 & 0xffff).unwrap_or(0);
        match data >> 56 {
            0 => Self::Listener { lane, number },
            1 => Self::Packets { lane },
            2 => Self::Socket { lane, connection: number, end: End::Client },
            3 => Self::Socket { lane, connection: number, end: End::Server },
            4 => Self::Program,
            _ => Self::Process { number, what: OfProcess::of(lane) },
        }
    }
}

/// One lane at work.
struct Running<'a> {
    lane: &'a Lane,
    at: Addresses,
    node: Namespace,
    ipvs: Option<Ipvs>,
    entries: Option<Entries>,
    listeners: Vec<OwnedFd>,
    served: served::Served,
    packets: OwnedFd,
    ends: Ends,
}

impl Running<'_> {
    fn note_packets(&mut self, at: Duration, lines: &mut Vec<Line>) {
        let mut shorter = false;
        packets::drain(&self.packets, self.lane.number, at, |packet| {
            shorter |= packet.flags.contains(['F', 'R']);
            lines.push(Line::Packet(packet));
        });
        // Its entry may have little left now: not what the table said of it before.
        if let Some(entries) = self.entries.as_mut().filter(|_| shorter) {
            entries.stir(at);
        }
    }
}

struct Engine<'a> {
    epoll: OwnedFd,
    client: Namespace,
    pods: Namespace,
    lanes: Vec<Running<'a>>,
    processes: Processes<'a>,
    lines: &'a mut Vec<Line>,
    /// When the scenarios started; times of lines are from there.
    start: Duration,
    /// When the time is told again, if at all.
    tells: Option<Duration>,
}

/// Does everything that the job asks.
pub(super) fn run(job: &Job, lines: &mut Vec<Line>) -> Done<()> {
    // The kernel's own statistics would wake it each second.
    tables::set("vm/stat_interval", "86400")?;
    // Each namespace costs: IPVS has a timer in it each second. So the clients have the guest's first one.
    let (client, pods) = (Namespace::own()?, Namespace::make()?);
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed("make", "an epoll"))?;
    let mut running = Vec::new();
    for lane in &job.lanes {
        running.push(set_up(lane, &client, &pods, lines)?);
    }
    for (number, lane) in running.iter().enumerate() {
        for (at, listener) in lane.listeners.iter().enumerate() {
            watch(&epoll, listener, Token::Listener { lane: number, number: at })?;
        }
        watch(&epoll, &lane.packets, Token::Packets { lane: number })?;
    }
    let start = aligned(job.hz)?;
    super::at_once(Line::Ready {
        at_ms: millis(now()),
        start_ms: millis(start),
        epoch_ms: epoch_of(start),
    })?;
    if !job.processes.is_empty() {
        name_namespaces(&client, &pods, &running)?;
    }
    let processes = Processes::new(&job.processes);
    let tells = job.tells_time.then_some(Duration::ZERO);
    let mut engine = Engine { epoll, client, pods, lanes: running, processes, lines, start, tells };
    let end = start + Duration::from_millis(job.watch_ms);
    let mut programs = programs::Programs::new(&engine.epoll, Token::Program.data())?;
    engine.wait_until(start)?;
    for lane in &engine.lanes {
        if let Some(asked) = &lane.lane.programs {
            programs.start(lane.lane, asked, &lane.at, &engine.client, &engine.pods)?;
        }
    }
    engine.steps(end, &mut programs)?;
    engine.processes.skip_the_rest();
    if engine.processes.any_awaited() {
        engine.processes.over_time(engine.at())?;
        // What the end of the rest makes is not the path's doing.
        engine.close_books()?;
        processes::kill_all()?;
        engine.processes_end()?;
        engine.processes.read_what_is_there()?;
    } else {
        engine.processes_end()?;
        engine.close_books()?;
    }
    programs.logs(engine.lines);
    Ok(())
}

/// A lane's namespaces, tables and listeners.
fn set_up<'a>(
    lane: &'a Lane,
    client: &Namespace,
    pods: &Namespace,
    lines: &mut Vec<Line>,
) -> Done<Running<'a>> {
    let at = Addresses::new(lane.number, lane.v6, lane.backends);
    let node = Namespace::make()?;
    links::connect(lane.number, &at, lane.table == Table::Ipvs, [client, &node, pods])?;
    node.enter()?;
    tables::set("net/ipv4/ip_forward", "1")?;
    tables::set("net/ipv6/conf/all/forwarding", "1")?;
    let dnat = at.backends.first().filter(|_| lane.table == Table::Conntrack);
    if dnat.is_some() || lane.drop_invalid {
        tables::rules(dnat.map(|&backend| (at.vip, backend)), lane.v6, lane.drop_invalid)?;
    }
    for (path, value) in &lane.sysctls {
        tables::set(path, value)?;
    }
    let (mut ipvs, mut entries) = (None, None);
    if lane.table == Table::Ipvs {
        let table = Ipvs::open()?;
        table.serve(at.vip, &at.backends)?;
        table.set_timeouts(lane.timeouts)?;
        lines.push(Line::Timeouts { lane: lane.number, seconds: table.timeouts()? });
        ipvs = Some(table);
        let by_steps = lane.programs.is_none() && lane.serves == Serves::Steps;
        entries = Some(Entries::open(lane.number, !by_steps)?);
    }
    let packets = packets::open().map_err(failed("open", "a packet socket"))?;
    pods.enter()?;
    let mut listeners = Vec::new();
    let served = served::Served::by(lane.serves, &at.backends)?;
    if lane.programs.is_none() && lane.serves == Serves::Steps {
        for &backend in &at.backends {
            let listener = ends::tcp(backend).and_then(|listener| {
                ends::listen_on(&listener, backend, lane.keepalive[1])?;
                Ok(listener)
            });
            listeners.push(listener.map_err(failed("listen on", &backend.to_string()))?);
        }
    }
    let ends = Ends::default();
    Ok(Running { lane, at, node, ipvs, entries, listeners, served, packets, ends })
}

/// As `ip netns add` does it, so that programs find them.
fn name_namespaces(client: &Namespace, pods: &Namespace, lanes: &[Running<'_>]) -> Done<()> {
    client.name("client")?;
    pods.name("pods")?;
    for lane in lanes {
        let name = match lanes.len() {
            1 => "node".to_owned(),
            _ => format!("node-{}", lane.lane.number),
        };
        lane.node.name(&name)?;
    }
    Ok(())
}

fn watch(epoll: &OwnedFd, what: impl AsFd, token: Token) -> Done<()> {
    let mut flags = epoll::EventFlags::IN;
    if matches!(token, Token::Socket { .. }) {
        flags |= epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
    }
    epoll::add(epoll, what, token.data(), flags).map_err(failed("watch", "a socket"))
}

/// The next moment at which jiffies are a multiple of [`START_ALIGNED_TO`].
fn aligned(hz: u32) -> Done<Duration> {
    const PATH: &str = "/proc/timer_list";
    let text = fs::read_to_string(PATH).map_err(failed("read", PATH))?;
    // "now at 4012345678 nsecs", and below each processor "jiffies: 4294893299".
    let number = |before: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(before))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let both = number("now at ").zip(number("jiffies: "));
    let (read_at, jiffies) = both.ok_or_else(|| format!("{PATH} has no time or no jiffies"))?;
    let jiffy = NANOS / u64::from(hz.max(1));
    let settled = millis(SETTLES) * 1_000_000 / jiffy;
    let ahead = (jiffies + settled).next_multiple_of(START_ALIGNED_TO) - jiffies;
    Ok(Duration::from_nanos(read_at + ahead * jiffy))
}

/// What the time of day is then, in milliseconds since 1970.
fn epoch_of(moment: Duration) -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let time =
        Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0));
    millis(time + moment.saturating_sub(now()))
}

impl Engine<'_> {
    /// Since the scenarios' start.
    fn at(&self) -> Duration {
        now().saturating_sub(self.start)
    }

    fn wait_until(&mut self, until: Duration) -> Done<()> {
        while now() < until {
            self.turn(Some(until))?;
        }
        Ok(())
    }

    fn steps(&mut self, end: Duration, programs: &mut programs::Programs) -> Done<()> {
        let mut steps: Vec<(u64, usize, &Step)> = Vec::new();
        for (number, lane) in self.lanes.iter().enumerate() {
            steps.extend(lane.lane.steps.iter().map(|step| (step.at_ms, number, step)));
        }
        steps.sort_by_key(|(at, ..)| *at);
        let mut steps = steps.into_iter().peekable();
        while !programs.all_done() && !self.processes.all_awaited_ended() {
            let since_start = |at: u64| self.start + Duration::from_millis(at);
            let end = self.processes.out_of_time().map_or(end, |at| since_start(at).min(end));
            if now() >= end {
                break;
            }
            let step_due = steps.peek().map(|(at, ..)| since_start(*at));
            let process_due = self.processes.next_at().map(since_start);
            let is_due = |due: Option<Duration>| due.is_some_and(|due| due <= now());
            if is_due(step_due) {
                if let Some((_, lane, step)) = steps.next() {
                    self.step(lane, step)?;
                }
                continue;
            }
            if is_due(process_due) {
                self.start_process()?;
                continue;
            }
            let due = step_due.into_iter().chain(process_due).min();
            if self.turn(Some(due.unwrap_or(end).min(end)))? {
                programs.look();
            }
        }
        Ok(())
    }

    /// Waits until all have ended.
    fn processes_end(&mut self) -> Done<()> {
        let last = now() + LEFT_TO_END;
        while self.processes.any_runs() && now() < last {
            self.turn(Some(last))?;
        }
        Ok(())
    }

    /// Writes down what is in the tables, and records no more packets.
    fn close_books(&mut self) -> Done<()> {
        let at = self.at();
        for lane in &mut self.lanes {
            lane.note_packets(at, self.lines);
            epoll::delete(&self.epoll, &lane.packets).map_err(failed("unwatch", "packets"))?;
            if let Some(mut entries) = lane.entries.take() {
                entries.dump(at, self.lines)?;
            }
        }
        Ok(())
    }

    /// Waits for what happens next, no longer than `until`, and handles it. Whether a program ended.
    fn turn(&mut self, until: Option<Duration>) -> Done<bool> {
        let looks = self.lanes.iter().filter_map(|lane| lane.entries.as_ref()?.next());
        let next = looks.map(|look| self.start + look).chain(until).min();
        let wait = next.map(|next| next.saturating_sub(now()));
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        let mut events = Vec::with_capacity(64);
        match epoll::wait(&self.epoll, spare_capacity(&mut events), wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(failed("wait for", "events")(error)),
        }
        let mut ended = false;
        for event in events {
            let data = event.data;
            match Token::of(data) {
                Token::Listener { lane, number } => self.accept(lane, number)?,
                Token::Packets { lane } => {
                    let at = self.at();
                    self.lanes[lane].note_packets(at, self.lines);
                }
                Token::Socket { lane, connection, end } => self.look(lane, connection, end),
                Token::Program => ended = true,
                Token::Process { number, what } => {
                    let at = self.at();
                    self.processes.look(number, what, at)?;
                }
            }
        }
        let at = self.at();
        for lane in &mut self.lanes {
            if let Some(entries) = &mut lane.entries {
                entries.look(at, self.lines)?;
            }
        }
        // Nothing is woken for it: while nothing happens, it passes in no time.
        if self.tells.is_some_and(|next| next <= at) {
            self.tells = Some(at + TOLD_AGAIN);
            super::at_once(Line::Clock { at_ms: millis(at) })?;
        }
        Ok(ended)
    }

    /// The next one. This thread stays in its namespace, so that there process 1, as on any host, is beside it.
    fn start_process(&mut self) -> Done<()> {
        let Some(asked) = self.processes.next() else { return Ok(()) };
        let lane = self.lanes.iter_mut().find(|lane| lane.lane.number == asked.lane);
        let lane = lane.ok_or_else(|| format!("no lane {}", asked.lane))?;
        let namespace = match asked.place {
            Place::Client => &self.client,
            Place::Node => &lane.node,
            Place::Pods => &self.pods,
        };
        let at = now().saturating_sub(self.start);
        if asked.when_served {
            let waited = at.saturating_sub(Duration::from_millis(asked.at_ms));
            match lane.served.look(waited)? {
                served::Look::Serves => {}
                served::Look::NotYet { listens } => {
                    return self.processes.put_off(at, false, listens);
                }
                served::Look::GivenUp { listens } => {
                    return self.processes.put_off(at, true, listens);
                }
            }
        }
        namespace.enter()?;
        if let Some(entries) = &mut lane.entries {
            entries.stir(at);
        }
        for (fd, (number, what)) in self.processes.start(at)? {
            watch(&self.epoll, fd, Token::Process { number, what })?;
        }
        Ok(())
    }

    fn accept(&mut self, lane: usize, number: usize) -> Done<()> {
        let running = &mut self.lanes[lane];
        for connection in running.ends.accept(&running.listeners[number]) {
            if let Some(socket) = running.ends.get(connection, End::Server) {
                watch(&self.epoll, socket, Token::Socket { lane, connection, end: End::Server })?;
            }
        }
        Ok(())
    }

    fn look(&mut self, lane: usize, connection: usize, who: End) {
        let at_ms = millis(self.at());
        let running = &mut self.lanes[lane];
        let lane = running.lane.number;
        for (what, bytes) in running.ends.look(connection, who) {
            self.lines.push(Line::Saw { lane, connection, who, what, bytes, at_ms });
        }
    }

    fn step(&mut self, number: usize, step: &Step) -> Done<()> {
        let at = self.at();
        let (at_ms, connection, who) = (millis(at), step.connection, step.who);
        let running = &mut self.lanes[number];
        let lane = running.lane.number;
        if let Some(entries) = &mut running.entries {
            entries.stir(at);
        }
        match &step.does {
            Does::Connect => {
                self.client.enter()?;
                let (from, to) = (running.at.client(connection), running.at.vip);
                let socket = ends::tcp(from)
                    .and_then(|fd| Socket::connect(fd, from, to, running.lane.keepalive[0]))
                    .map_err(failed("connect", &from.to_string()))?;
                watch(&self.epoll, &socket, Token::Socket { lane: number, connection, end: who })?;
                running.ends.insert(connection, who, socket);
            }
            Does::SetIdleTimeout(seconds) => {
                if let Some(ipvs) = &running.ipvs {
                    ipvs.set_timeouts([*seconds, 0])?;
                } else {
                    running.node.enter()?;
                    let path = "net/netfilter/nf_conntrack_tcp_timeout_established";
                    tables::set(path, &seconds.to_string())?;
                }
            }
            Does::Close => {
                running.ends.close(connection, who);
                self.lines.push(Line::Ended { lane, connection, at_ms });
            }
            &Does::Send(bytes) => {
                if let Some(sent) = running.ends.send(connection, who, bytes) {
                    let error = sent.err();
                    self.lines.push(Line::Sent { lane, connection, who, bytes, at_ms, error });
                }
            }
            Does::Shutdown => {
                if running.ends.shutdown(connection, who).is_some() {
                    self.lines.push(Line::Ended { lane, connection, at_ms });
                }
            }
            Does::SetKeepalive(values) => running.ends.set_keepalive(connection, who, *values),
        }
        Ok(())
    }
}
