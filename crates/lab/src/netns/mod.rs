//! The driver `netns`: real Linux TCP at both ends, the middlebox as a forwarder between them, real time, without
//! root.
//!
//! A user namespace gives an ordinary user three network namespaces: the client's, the server's and one between
//! that has no addresses, only a packet socket on a veth device to each side. Packets that the ends' kernels
//! send are read there, handed to the middlebox, and written to the other side.
//! TUN would need /dev/net/tun, which many hosts close to users, and is no faster: one way serves all.
//!
//! ```no_run
//! use std::time::Duration;
//! use stillopen_lab::{exec::{Request, Server}, netns::{self, Options}};
//!
//! let mut request = Request::new(["python3", "my_client.py"]);
//! request.idle_timeout = Some(Duration::from_secs(3));
//! request.server = Server::AnswerAfter(Duration::from_secs(6));
//! let summary = netns::run(&request, &Options::default())?;
//! assert_eq!(summary.counts.answers_lost, 0, "{}", summary.text());
//! # Ok::<(), netns::NetnsError>(())
//! ```
//!
//! Read first: `namespaces.rs`, what is made; `init.rs`, the process that makes it; then `forward.rs`; for scenarios
//! `timeline/mod.rs`.
#![allow(clippy::disallowed_methods, reason = "devices start in real time")]
#![allow(unsafe_code, reason = "clone, packet sockets and signals; each with its reason")]

mod error;
mod forward;
mod init;
mod namespaces;
mod noted;
mod port;
mod queue;
mod record;
mod server;
mod signals;
mod supervise;
mod timeline;

use std::{
    net::{IpAddr, SocketAddr, TcpListener},
    os::fd::{AsFd as _, OwnedFd},
    path::{Path as FilePath, PathBuf},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    event::{EventfdFlags, eventfd},
    io::write,
    net::{bind, listen},
};

use self::{
    error::NetnsError as Error,
    forward::{Forwarded, Forwarder, Weather},
    namespaces::{Made, Namespaces, Wires},
    port::{MAC, Port},
    record::Record,
    signals::Signals,
    supervise::Supervisor,
};
pub use self::{
    error::NetnsError,
    timeline::{Refused, TimelineError, run_scenario, tolerance},
};
use crate::{
    descriptor,
    exec::{self, Request, SCHEMA, Summary, server::Builtin},
    middlebox::{Profile, TcpState},
    netlink::links::{Links, VethEnd},
    path::{Addresses, Path},
};

/// The end's device in its own namespace.
const DEVICE: &str = "eth0";
/// `CONFIG_HZ` of most distributions: how late a profile's entries die that are on a kernel's timer wheel.
const HZ: u32 = 250;
/// As many connections are remembered as any middlebox here does.
const CAPACITY: u32 = 65_536;
/// Enough for every client that connects at once.
const BACKLOG: i32 = 1024;

/// A device has so long to start; it takes a few milliseconds.
const STARTS_WITHIN: Duration = Duration::from_secs(10);
/// A device that has started is looked for this often.
const LOOK: Duration = Duration::from_millis(1);

/// What a caller may want besides the request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Options {
    /// How long a packet is under way, each way.
    pub delay: Duration,
    /// The share of packets that is lost, from 0 to 1.
    pub loss: f64,
    /// Which ones follows from this.
    pub seed: u64,
    /// Where to write what crosses the path, as pcapng.
    pub record: Option<PathBuf>,
    /// Whether signals that this process gets are the client's: SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and
    /// SIGUSR2 are blocked in the calling thread meanwhile, which should be the only one. Without it, a signal
    /// that ends this process ends the client too.
    pub forward_signals: bool,
}

/// Runs the request's client behind its path, and says what came of it. Everything that it started is gone when
/// this returns, and when the calling process dies.
///
/// # Errors
/// [`NetnsError`]: the host does not allow it, or the server or the client cannot be started.
pub fn run(request: &Request, options: &Options) -> Result<Summary, NetnsError> {
    let path = path(request)?;
    let record =
        options.record.as_deref().map(|file| descriptor::create(file).map_err(unwritten(file)));
    let record = record.transpose()?;
    let signals = if options.forward_signals {
        Signals::take().map_err(|cause| Error::System { operation: "take signals", cause })?
    } else {
        Signals::untouched()
    };
    let backend = path.backends[0];
    let (output, theirs) = server::pipe()?;
    let (namespaces, made) =
        Namespaces::make(request, path.vip, backend.port(), theirs, signals.before())?;
    let Made { wires, client_sockets, server_sockets, listener } = made;
    let ports = connect(wires, &path, options.loss > 0.0)?;
    let weather = Weather { delay: options.delay, loss: options.loss, seed: options.seed };
    let middlebox = path.middlebox(CAPACITY);
    let forwarder = Forwarder::new(middlebox, ports, client_sockets, weather, record)
        .map_err(|cause| Error::System { operation: "start a thread", cause })?;
    let forwarding = Forwarding::start(forwarder)?;

    let mut supervisor = Supervisor::new(namespaces, output, signals);
    let builtin = match request.server {
        exec::Server::AnswerAfter(time) => Some(serve(listener, backend, time)?),
        exec::Server::Command(_) => {
            drop(listener);
            supervisor.start_server(&server_sockets, backend)?;
            None
        }
    };
    let status = supervisor.run_client(request)?;
    let Forwarded { tally, took, record } = forwarding.stop()?;
    let shortage = builtin.as_ref().and_then(Builtin::shortage);
    drop(builtin);
    // Signals are this process's own again: what is yet to be written may take a while.
    let (server_ended, unread) = supervisor.end();
    let notes = [
        tally.counts.of_keepalive(path.profile.refreshed_by, path.idle_timeout()),
        shortage,
        (unread > 0).then(|| {
            format!(
                "{unread} bytes of what the server said are left out: standard error did not take them"
            )
        }),
        record.and_then(Record::end).zip(options.record.as_ref()).map(|(why, file)| {
            format!("{} is not whole: {why}", file.display())
        }),
    ];
    Ok(Summary {
        schema: SCHEMA,
        driver: "netns",
        path: path.result(),
        status,
        took_s: took.as_secs_f64(),
        counts: tally.counts,
        server_ended,
        notes: notes.into_iter().flatten().collect(),
    })
}

fn unwritten(file: &FilePath) -> impl FnOnce(std::io::Error) -> NetnsError {
    let file = file.to_owned();
    move |cause| Error::Record { file, cause }
}

fn path(request: &Request) -> Result<Path, NetnsError> {
    let name = &request.profile;
    let profile = Profile::named(name).ok_or_else(|| Error::Profile {
        profile: name.clone(),
        known: Profile::names().join(", "),
    })?;
    let timeouts = match request.idle_timeout {
        Some(idle) => profile.timeouts.with(TcpState::Established, idle),
        None => profile.timeouts,
    };
    Ok(Path::new(profile, timeouts, HZ, Addresses::new(0, request.ipv6, 1)))
}

/// Makes the wires; returns the packet sockets in the middle.
fn connect(wires: Wires, path: &Path, one_segment_each: bool) -> Result<[Port; 2], NetnsError> {
    let Wires { middle, ports: [to_client, to_server], client, server } = wires;
    let middle = Links::of(middle);
    let far = VethEnd { name: DEVICE, mac: MAC };
    // Another address than the ends': the middle's own kernel takes nothing that is for them.
    let near = |name, last| VethEnd { name, mac: [2, 0, 0, 0, 0, last] };
    middle.veth(near("client", 2), far, client.1.as_fd())?;
    middle.veth(near("server", 3), far, server.1.as_fd())?;
    let addresses = |ends: &[SocketAddr]| ends.iter().map(SocketAddr::ip).collect::<Vec<_>>();
    let (own, backends) = (addresses(&[path.client(0)]), addresses(&path.backends));
    let mut services = backends.clone();
    services.extend((!backends.contains(&path.vip.ip())).then_some(path.vip.ip()));
    let prefix = path.addresses().host_prefix();
    let mut ends = Vec::new();
    for (netlink, addresses, others) in [(client.0, &own, &services), (server.0, &backends, &own)] {
        let links = Links::of(netlink);
        links.up("lo")?;
        if one_segment_each {
            links.one_segment_each(DEVICE)?;
        }
        for &address in addresses {
            links.address(DEVICE, address, prefix)?;
        }
        links.up_without_neighbours(DEVICE)?;
        for &other in others {
            links.route(other, prefix, None, DEVICE)?;
        }
        ends.push((links, addresses));
    }
    let mut bound = Vec::new();
    for (name, socket) in [("client", to_client), ("server", to_server)] {
        let index = middle.index(name)?;
        bound.push(Port::bind(socket, index).map_err(Error::system("bind a packet socket"))?);
        middle.up(name)?;
    }
    for (links, addresses) in ends {
        started(&links, addresses)?;
    }
    <[Port; 2]>::try_from(bound).map_err(|_| Error::Gone)
}

/// Waits until an end's device sends and its addresses are taken. A veth device that is up does neither yet: its
/// queue and an IPv6 address' route begin a moment later, and a first SYN that is lost comes again after 1 s.
fn started(links: &Links, addresses: &[IpAddr]) -> Result<(), NetnsError> {
    let began = Instant::now();
    let has_started = || -> Result<bool, NetnsError> {
        let mut all = links.operates(DEVICE)?;
        for &address in addresses {
            all = all && links.takes(address)?;
        }
        Ok(all)
    };
    while !has_started()? {
        if began.elapsed() > STARTS_WITHIN {
            let cause = std::io::ErrorKind::TimedOut.into();
            return Err(Error::System { operation: "start a veth device", cause });
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Starts the built-in server.
fn serve(socket: OwnedFd, at: SocketAddr, answer_after: Duration) -> Result<Builtin, NetnsError> {
    bind(&socket, &at).map_err(Error::system("bind the server's address"))?;
    listen(&socket, BACKLOG).map_err(Error::system("listen"))?;
    Builtin::start(TcpListener::from(socket), answer_after)
        .map_err(|cause| Error::System { operation: "start the server", cause })
}

/// The forwarder's thread. It ends when this is dropped.
struct Forwarding {
    stop: OwnedFd,
    thread: Option<JoinHandle<std::io::Result<Forwarded>>>,
}

impl Forwarding {
    fn start(forwarder: Forwarder) -> Result<Self, NetnsError> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(Error::system("make an eventfd"))?;
        let failed = |cause| Error::System { operation: "start a thread", cause };
        let theirs = stop.try_clone().map_err(failed)?;
        let thread = thread::Builder::new()
            .name("lab-path".into())
            .spawn(move || forwarder.run(&theirs))
            .map_err(failed)?;
        Ok(Self { stop, thread: Some(thread) })
    }

    fn stop(mut self) -> Result<Forwarded, NetnsError> {
        let ended = self.end().unwrap_or_else(|| Err(std::io::ErrorKind::Other.into()));
        ended.map_err(|cause| Error::System { operation: "forward packets", cause })
    }

    fn end(&mut self) -> Option<std::io::Result<Forwarded>> {
        let thread = self.thread.take()?;
        // An eventfd takes it unless its count is full.
        let _ = write(&self.stop, &1_u64.to_ne_bytes());
        // A panic of it has been printed.
        thread.join().ok()
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
