//! Two network namespaces with a veth pair between them: one connects, the other stands for elsewhere.
//!
//! They have no names: they live as long as the processes in them, and those end when this one does,
//! after SIGKILL too. So nothing can be left behind.

use std::{
    env,
    io::{BufRead as _, BufReader, Lines, Write as _},
    net::Ipv4Addr,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use super::hold::{self, READY, STARTED};
use crate::sh;

/// The addresses of the two ends: RFC 2544's, for benchmarks.
const HERE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// The two namespaces, connected, without connections yet.
pub(super) struct Network {
    /// All in one namespace; the first one made it.
    clients: Vec<Holder>,
    server: Holder,
    connections: u32,
}

impl Network {
    pub(super) fn new(connections: u32) -> Result<Self> {
        let address = ELSEWHERE.to_string();
        let server = Holder::start(unshare(), &["listen", &address, &connections.to_string()])?;
        let mut network = Self { clients: Vec::new(), server, connections };
        let most = hold::most_connections()?;
        for before in (0..connections).step_by(most as usize) {
            let place = network.clients.first().map_or_else(unshare, Holder::nsenter);
            let count = most.min(connections - before).to_string();
            let connect = ["connect", &address, &count, &before.to_string()];
            network.clients.push(Holder::start(place, &connect)?);
        }
        let server_pid = network.server.child.id().to_string();
        let ip = |holder: &Holder, arguments: &str| {
            sh::output(holder.nsenter().arg("ip").args(arguments.split(' '))).map(drop)
        };
        ip(
            network.client(),
            &format!("link add bench0 type veth peer name bench1 netns {server_pid}"),
        )?;
        for (holder, device, address) in
            [(network.client(), "bench0", HERE), (&network.server, "bench1", ELSEWHERE)]
        {
            ip(holder, &format!("address add {address}/30 dev {device}"))?;
            ip(holder, &format!("link set {device} up"))?;
        }
        Ok(network)
    }

    /// Opens the connections. From now on the client's namespace holds them.
    pub(super) fn open(&mut self) -> Result<()> {
        self.server.go_on()?;
        self.server.until_ready(|_| {})?;
        let style = ProgressStyle::with_template("opening {pos}/{len} connections {wide_bar}")?;
        let bar = ProgressBar::new(self.connections.into()).with_style(style);
        for client in &mut self.clients {
            client.go_on()?;
            client.until_ready(|opened| bar.set_position(opened))?;
        }
        bar.finish_and_clear();
        eprintln!("{} connections are open", self.connections);
        Ok(())
    }

    /// A process in the client's namespace.
    pub(super) fn client_pid(&self) -> u32 {
        self.client().child.id()
    }

    /// `program`, run in the client's namespace.
    pub(super) fn nsenter(&self, program: &str) -> Command {
        let mut command = self.client().nsenter();
        command.arg(program);
        command
    }

    fn client(&self) -> &Holder {
        // There is one at least: new() fails otherwise, and connections is above 0.
        &self.clients[0]
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

    fn until_ready(&mut self, progress: impl Fn(u64)) -> Result<()> {
        loop {
            match self.next_line()?.as_str() {
                READY => return Ok(()),
                line => {
                    progress(line.parse().with_context(|| format!("bench-hold says {line:?}"))?);
                }
            }
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
