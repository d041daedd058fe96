//! Two network namespaces of this host with a veth pair between them: one connects, the other accepts.
//! Processes own both ends, as many as the limit of open files demands.
//!
//! The namespaces have no names: they live as long as the processes in them, and those end when this one
//! does, after SIGKILL too. So nothing can be left behind.

use std::{
    env,
    io::{BufRead as _, BufReader, Lines, Write as _},
    net::{Ipv4Addr, SocketAddrV4},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use super::hold::{self, LISTENING, READY, STARTED};
use crate::sh;

/// The addresses of the two ends: RFC 2544's, for benchmarks.
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// Each pair of processes has a port of its own, from here on.
const FIRST_PORT: u16 = 5_001;

/// The two namespaces, connected, without connections yet.
pub(super) struct Network {
    pairs: Vec<Pair>,
    connections: u32,
}

/// Two processes that hold the two ends of the same connections. The first pair made the namespaces.
struct Pair {
    client: Holder,
    server: Holder,
}

impl Network {
    pub(super) fn new(connections: u32) -> Result<Self> {
        let most = hold::most_connections()?;
        let mut network = Self { pairs: Vec::new(), connections };
        for (port, before) in (FIRST_PORT..).zip((0..connections).step_by(most as usize)) {
            let at = SocketAddrV4::new(SERVER, port).to_string();
            let count = most.min(connections - before).to_string();
            let start = |end, first: fn(&Pair) -> &Holder| {
                let place =
                    network.pairs.first().map_or_else(unshare, |pair| first(pair).nsenter());
                Holder::start(place, &[end, &at, &count])
            };
            let server = start("accept", |pair| &pair.server)?;
            let client = start("connect", |pair| &pair.client)?;
            network.pairs.push(Pair { client, server });
        }
        let Pair { client, server } = network.first();
        let ip = |holder: &Holder, arguments: &str| {
            sh::output(holder.nsenter().arg("ip").args(arguments.split(' '))).map(drop)
        };
        let server_pid = server.child.id();
        ip(client, &format!("link add bench0 type veth peer name bench1 netns {server_pid}"))?;
        for (holder, device, address) in [(client, "bench0", CLIENT), (server, "bench1", SERVER)] {
            ip(holder, &format!("address add {address}/30 dev {device}"))?;
            ip(holder, &format!("link set {device} up"))?;
        }
        Ok(network)
    }

    /// Opens the connections. From now on both namespaces hold them.
    pub(super) fn open(&mut self) -> Result<()> {
        let style = ProgressStyle::with_template("opening {pos}/{len} connections {wide_bar}")?;
        let bar = ProgressBar::new(self.connections.into()).with_style(style);
        for Pair { client, server } in &mut self.pairs {
            server.go_on()?;
            server.until(LISTENING, |_| {})?;
            let before = bar.position();
            client.go_on()?;
            client.until(READY, |opened| bar.set_position(before + opened))?;
            server.go_on()?;
            server.until(READY, |_| {})?;
        }
        bar.finish_and_clear();
        eprintln!("{} connections are open", self.connections);
        Ok(())
    }

    /// A process in the client's namespace.
    pub(super) fn client_pid(&self) -> u32 {
        self.first().client.child.id()
    }

    /// The processes that hold the clients' ends.
    pub(super) fn client_pids(&self) -> impl Iterator<Item = u32> {
        self.pairs.iter().map(|pair| pair.client.child.id())
    }

    /// `program`, run in the client's namespace.
    pub(super) fn nsenter(&self, program: &str) -> Command {
        let mut command = self.first().client.nsenter();
        command.arg(program);
        command
    }

    fn first(&self) -> &Pair {
        // There is one at least: new() fails otherwise, and connections is above 0.
        &self.pairs[0]
    }
}

/// To run a program in a namespace of its own.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.arg("--net");
    command
}

/// A `bench-hold` process.
struct Holder {
    child: Child,
    input: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    /// `place` runs the program that is added to it in some namespace.
    fn start(place: Command, arguments: &[&str]) -> Result<Self> {
        let mut command = place;
        let this = env::current_exe().context("find this program")?;
        command.arg(this).arg("bench-hold").args(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("run {}", sh::shown(&command)))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("{} has no pipes", sh::shown(&command));
        };
        let mut holder = Self { child, input, said: BufReader::new(output).lines() };
        match holder.next_line()?.as_str() {
            STARTED => Ok(holder),
            line => bail!("bench-hold says {line:?}"),
        }
    }

    fn go_on(&mut self) -> Result<()> {
        self.input.write_all(b"\n").context("tell bench-hold to go on")
    }

    /// Waits until it says `word`, and hands on how many connections it says it has until then.
    fn until(&mut self, word: &str, progress: impl Fn(u64)) -> Result<()> {
        loop {
            let line = self.next_line()?;
            if line == word {
                return Ok(());
            }
            progress(line.parse().with_context(|| format!("bench-hold says {line:?}"))?);
        }
    }

    fn next_line(&mut self) -> Result<String> {
        match self.said.next() {
            Some(line) => line.context("read from bench-hold"),
            // It has written its error to standard error.
            None => bail!("bench-hold ended: {}", self.child.wait()?),
        }
    }

    /// To run a program in its namespace.
    fn nsenter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.child.id()));
        command
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
