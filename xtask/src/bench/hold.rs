//! `cargo xtask bench-hold`: one end of many connections, in the network namespace that it runs in.
//!
//! It says what it has done line by line on standard output, goes on where it is told to on standard
//! input, and holds everything until that ends. So nothing is left of it when its parent is gone, however
//! that ended.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::SocketAddrV4,
    os::fd::OwnedFd,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use rustix::{
    net::{
        AddressFamily, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
        sockopt::{set_socket_keepalive, set_tcp_keepidle},
    },
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

/// What it says once it runs, and so is in its namespace.
pub(super) const STARTED: &str = "started";
/// What it says of an end that listens, once that does.
pub(super) const LISTENING: &str = "listening";
/// What it says once everything is open.
pub(super) const READY: &str = "ready";
/// Connections are reported open in steps of so many.
const STEP: u32 = 1_000;
/// Files that are open besides the connections, with plenty to spare.
const OTHER_FILES: u64 = 100;
/// However high the limit is, owners are many. Well below the local ports that a client has for one
/// listener.
const MOST_CONNECTIONS: u32 = 19_000;

/// Which end.
#[derive(Debug, Subcommand)]
pub(crate) enum End {
    /// Listen, and accept when told again.
    Accept { at: SocketAddrV4, connections: u32 },
    /// Connect; every second connection has keepalive on, with 7200/75/9.
    Connect { to: SocketAddrV4, connections: u32 },
}

pub(crate) fn run(end: &End) -> Result<()> {
    say(STARTED)?;
    if !told_to_go_on()? {
        return Ok(());
    }
    let _held = match *end {
        End::Accept { at, connections } => {
            let listener = listener(at, connections)?;
            say(LISTENING)?;
            // All are in its queue by then: none is waited for, so the end of the parent is not missed.
            if !told_to_go_on()? {
                return Ok(());
            }
            accepted(listener, connections)?
        }
        End::Connect { to, connections } => connected(to, connections)?,
    };
    say(READY)?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

/// Waits for the parent; `false`: it is gone.
fn told_to_go_on() -> Result<bool> {
    Ok(io::stdin().read(&mut [0])? > 0)
}

fn listener(at: SocketAddrV4, connections: u32) -> Result<OwnedFd> {
    let backlog = connections + STEP;
    sysctl("core/somaxconn", &backlog.to_string())?;
    sysctl("ipv4/tcp_max_syn_backlog", &backlog.to_string())?;
    let socket = tcp_socket()?;
    bind(&socket, &at).with_context(|| format!("bind {at}"))?;
    listen(&socket, i32::try_from(backlog)?)?;
    Ok(socket)
}

/// The connections in the queue of `listener`, and itself.
fn accepted(listener: OwnedFd, connections: u32) -> Result<Vec<OwnedFd>> {
    allow_files(connections)?;
    let mut held = Vec::with_capacity(connections as usize + 1);
    for number in 0..connections {
        let socket = accept_with(&listener, SocketFlags::CLOEXEC)
            .with_context(|| format!("accept connection {number}"))?;
        held.push(socket);
    }
    held.push(listener);
    Ok(held)
}

fn connected(to: SocketAddrV4, connections: u32) -> Result<Vec<OwnedFd>> {
    allow_files(connections)?;
    sysctl("ipv4/ip_local_port_range", "1024 65535")?;
    let mut held = Vec::with_capacity(connections as usize);
    for number in 0..connections {
        let socket = tcp_socket()?;
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

fn allow_files(connections: u32) -> Result<()> {
    let files = u64::from(connections) + OTHER_FILES;
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum })
        .with_context(|| format!("raise the limit of open files to {files}"))
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
