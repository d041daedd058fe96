//! `cargo xtask bench-hold`: one end of many connections, in the network namespace that it runs in.
//!
//! It says what it has done line by line on standard output and holds everything until its standard
//! input ends. So nothing is left of it when its parent is gone, however that ended.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddrV4},
    ops::Range,
    os::fd::OwnedFd,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use rustix::{
    net::{
        AddressFamily, SocketFlags, SocketType, bind, connect, listen, socket_with,
        sockopt::{set_socket_keepalive, set_tcp_keepidle},
    },
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

/// What it says once it runs, and so is in its namespace.
pub(super) const STARTED: &str = "started";
/// What it says once everything is open.
pub(super) const READY: &str = "ready";
/// How many connections go to one listener: well below the local ports that a client has for each.
pub(super) const PER_LISTENER: u32 = 20_000;
/// Connections are reported open in steps of so many.
const STEP: u32 = 1_000;
const FIRST_LISTENER: u16 = 5_001;
/// Files that are open besides the connections, with plenty to spare.
const OTHER_FILES: u64 = 100;
/// However high the limit is, owners are many.
const MOST_CONNECTIONS: u32 = 20_000;

/// Which end.
#[derive(Debug, Subcommand)]
pub(crate) enum End {
    /// Listen, and leave the connections in the listeners' queues: no process of this host owns them,
    /// just as if they ended on another.
    Listen { address: Ipv4Addr, connections: u32 },
    /// Connect; every second connection has keepalive on, with 7200/75/9.
    Connect {
        address: Ipv4Addr,
        connections: u32,
        /// How many others hold already.
        before: u32,
    },
}

pub(crate) fn run(end: &End) -> Result<()> {
    say(STARTED)?;
    // The parent has moved a network device here, or tells so by closing.
    let mut line = [0];
    if io::stdin().read(&mut line)? == 0 {
        return Ok(());
    }
    let _held = match *end {
        End::Listen { address, connections } => listeners(address, connections)?,
        End::Connect { address, connections, before } => {
            connected(address, before..before + connections)?
        }
    };
    say(READY)?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

fn listeners(address: Ipv4Addr, connections: u32) -> Result<Vec<OwnedFd>> {
    let backlog = PER_LISTENER + STEP;
    sysctl("core/somaxconn", &backlog.to_string())?;
    sysctl("ipv4/tcp_max_syn_backlog", &backlog.to_string())?;
    let mut held = Vec::new();
    for port in FIRST_LISTENER..=listener_of(connections)? {
        let socket = tcp_socket()?;
        bind(&socket, &SocketAddrV4::new(address, port))
            .with_context(|| format!("bind {address}:{port}"))?;
        listen(&socket, i32::try_from(backlog)?)?;
        held.push(socket);
    }
    Ok(held)
}

fn connected(address: Ipv4Addr, numbers: Range<u32>) -> Result<Vec<OwnedFd>> {
    let files = u64::try_from(numbers.len())? + OTHER_FILES;
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum: most })
        .with_context(|| format!("raise the limit of open files to {files}"))?;
    sysctl("ipv4/ip_local_port_range", "1024 65535")?;
    let mut held = Vec::with_capacity(numbers.len());
    for number in numbers {
        let socket = tcp_socket()?;
        let to = SocketAddrV4::new(address, listener_of(number)?);
        connect(&socket, &to).with_context(|| format!("connection {number} to {to}"))?;
        if number % 2 == 1 {
            set_tcp_keepidle(&socket, Duration::from_secs(7200))?;
            set_socket_keepalive(&socket, true)?;
        }
        held.push(socket);
        if (number + 1) % STEP == 0 {
            say(&(number + 1).to_string())?;
        }
    }
    Ok(held)
}

/// How many connections one process may hold. Raising the hard limit takes more than root in a container.
pub(super) fn most_connections() -> Result<u32> {
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let most = u32::try_from(most.saturating_sub(OTHER_FILES)).unwrap_or(u32::MAX);
    let most = most.min(MOST_CONNECTIONS);
    if most == 0 {
        bail!("the limit of open files (ulimit -Hn) leaves none for connections");
    }
    Ok(most)
}

/// The port that connection `number` goes to.
fn listener_of(number: u32) -> Result<u16> {
    let listener = u16::try_from(number.div_euclid(PER_LISTENER))?;
    FIRST_LISTENER.checked_add(listener).context("too many connections")
}

fn tcp_socket() -> Result<OwnedFd> {
    socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .context("open a socket")
}

/// Of the network namespace that this runs in.
fn sysctl(name: &str, value: &str) -> Result<()> {
    fs::write(format!("/proc/sys/net/{name}"), value)
        .with_context(|| format!("set net.{} to {value}", name.replace('/', ".")))
}

fn say(line: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}
