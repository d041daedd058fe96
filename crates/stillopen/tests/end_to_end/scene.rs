//! Two network namespaces of their own, `client` and `server`, with a veth pair between them.
//!
//! Names and addresses are unique to the process and the scene, so that tests run side by side and a
//! reading of all namespaces can tell them apart.

use std::{
    fs::File,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use rustix::{
    net::sockopt,
    process::geteuid,
    thread::{LinkNameSpaceType, move_into_link_name_space},
};
use tempfile::TempDir;

use crate::{program::Program, socket::Connection};

/// Scenes of one process at the same time: each has four addresses of a /24.
const MOST_SCENES: u8 = 64;

/// Over which protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// Both, for a test that holds over each.
pub(crate) const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// A client and a server, each in a namespace of its own.
pub(crate) struct Scene {
    pub(crate) client: Netns,
    pub(crate) server: Netns,
    /// The program's working folder: what `stillopen.toml` it finds is the test's choice.
    pub(crate) folder: TempDir,
    listeners: [TcpListener; 2],
    /// Last: it is free once the namespaces are gone.
    number: Number,
}

/// One of the numbers below [`MOST_SCENES`], this scene's alone while it lives.
struct Number(u8);

impl Number {
    fn take() -> Self {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let free = (0..MOST_SCENES).find(|n| !taken.contains(n));
        let free = free.expect("give the scenes more addresses");
        taken.push(free);
        Self(free)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).retain(|&n| n != self.0);
    }
}

static TAKEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// A network namespace with a name, an IPv4 and an IPv6 address. Dropping it removes it.
pub(crate) struct Netns {
    pub(crate) name: String,
    v4: Ipv4Addr,
    v6: Ipv6Addr,
    mac: String,
}

impl Scene {
    pub(crate) fn new() -> Self {
        assert!(geteuid().is_root(), "these tests make network namespaces: run them as root");
        let number = Number::take();
        let n = number.0;
        let client = Netns::new(n, 1, "client");
        let server = Netns::new(n, 2, "server");
        ip(&format!(
            "link add eth0 netns {} address {} type veth peer name eth0 netns {} address {}\n",
            client.name, client.mac, server.name, server.mac
        ));
        client.set_up(&server);
        server.set_up(&client);
        let listeners = FAMILIES.map(|family| {
            let address = SocketAddr::new(server.address(family), 0);
            server.enter(|| TcpListener::bind(address)).expect("listen in the server's namespace")
        });
        let folder = tempfile::tempdir().expect("make a folder");
        let scene = Self { client, server, folder, listeners, number };
        scene.configure("");
        scene
    }

    /// A new connection from the client to the server.
    pub(crate) fn connect(&self, family: Family) -> Connection {
        let listener = &self.listeners[usize::from(family == Family::V6)];
        let address = listener.local_addr().expect("a listener has an address");
        Connection::new(self.client.enter(|| TcpStream::connect(address)), listener)
    }

    /// A third namespace that has a loopback device only. There may be one at a time.
    pub(crate) fn bystander(&self) -> Netns {
        let netns = Netns::new(self.number.0, 3, "bystander");
        ip(&format!("-n {} link set lo up\n", netns.name));
        netns
    }

    /// Writes the `stillopen.toml` that the program finds first.
    pub(crate) fn configure(&self, toml: &str) {
        std::fs::write(self.path("stillopen.toml"), toml).expect("write stillopen.toml");
    }

    /// A file in the program's working folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `stillopen check` of the client's namespace, with these further arguments.
    pub(crate) fn check_client(&self, args: &[&str]) -> Program {
        self.check(&["--netns", &self.client.name]).args(args)
    }

    /// `stillopen check` of all namespaces, only of this scene's connections.
    pub(crate) fn check_all(&self, args: &[&str]) -> Program {
        let [v4, v6] = FAMILIES.map(|family| {
            let prefix = if family == Family::V4 { 30 } else { 64 };
            format!("{}/{prefix}", self.client.address(family))
        });
        self.check(&["--all-netns", "--peer", &v4, "--peer", &v6]).args(args)
    }

    /// `stillopen check` in the working folder.
    pub(crate) fn check(&self, args: &[&str]) -> Program {
        self.program(&["check"]).args(args)
    }

    /// The program in the working folder.
    pub(crate) fn program(&self, args: &[&str]) -> Program {
        Program::new(self.folder.path()).args(args)
    }
}

impl Netns {
    fn new(scene: u8, host: u8, role: &str) -> Self {
        let pid = process::id();
        let [_, _, high, low] = pid.to_be_bytes();
        let name = format!("stillopen-test-{pid}-{scene}-{role}");
        let v4 = Ipv4Addr::new(10, high, low, scene * 4 + host);
        let network = u16::from_be_bytes([high, low]);
        let v6 = Ipv6Addr::new(0xfd00, 0, network, scene.into(), 0, 0, 0, host.into());
        let mut netns = Self::with(name, v4, v6);
        netns.mac = format!("02:00:00:00:00:{host:02x}");
        netns
    }

    /// One that gets these addresses from whoever makes it.
    pub(crate) fn with(name: String, v4: Ipv4Addr, v6: Ipv6Addr) -> Self {
        ip(&format!("netns add {name}\n"));
        Self { name, v4, v6, mac: String::new() }
    }

    /// The neighbour is given: asking for it over IPv6 costs a second while the link comes up.
    fn set_up(&self, other: &Self) {
        let Self { name, v4, v6, .. } = self;
        ip(&format!(
            "-n {name} link set lo up\n\
             -n {name} addr add {v4}/30 dev eth0\n\
             -n {name} addr add {v6}/64 dev eth0 nodad\n\
             -n {name} link set eth0 up\n\
             -n {name} neigh replace {} lladdr {} dev eth0\n\
             -n {name} neigh replace {} lladdr {} dev eth0\n",
            other.v4, other.mac, other.v6, other.mac
        ));
    }

    /// Its address.
    pub(crate) fn address(&self, family: Family) -> IpAddr {
        match family {
            Family::V4 => self.v4.into(),
            Family::V6 => self.v6.into(),
        }
    }

    /// Calls `make` in a thread that has entered it; the sockets that it makes stay in there.
    pub(crate) fn enter<T: Send>(&self, make: impl FnOnce() -> T + Send) -> T {
        let path = Path::new("/run/netns").join(&self.name);
        let file = File::open(&path).expect("open the namespace's file");
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("enter the namespace");
                make()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Its device is up again, after it was down: routes and neighbours went with that.
    pub(crate) fn come_up(&self, other: &Self) {
        let Self { name, v6, .. } = self;
        ip(&format!(
            "-n {name} link set eth0 up\n\
             -n {name} addr replace {v6}/64 dev eth0 nodad\n\
             -n {name} neigh replace {} lladdr {} dev eth0\n\
             -n {name} neigh replace {} lladdr {} dev eth0\n",
            other.v4, other.mac, other.v6, other.mac
        ));
    }

    /// Its end of a connection will be closed without the peer's hearing of it, until [`come_up`](Self::come_up).
    pub(crate) fn lose_end(&self, end: &TcpStream) {
        ip(&format!("-n {} link set eth0 down\n", self.name));
        sockopt::set_socket_linger(end, Some(Duration::ZERO)).expect("close with a reset");
    }

    /// From now on nothing reaches `peer` from here, and nothing tells `peer` so.
    pub(crate) fn lose_way_to(&self, peer: &Netns) {
        let Self { name, .. } = self;
        ip(&format!(
            "-n {name} route add blackhole {}/32\n-n {name} -6 route add blackhole {}/128\n",
            peer.v4, peer.v6
        ));
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        // A panic here would end the whole run, and the test that failed would not be named.
        if let Err(said) = try_ip(&format!("netns del {}\n", self.name)) {
            eprintln!("{said}");
        }
    }
}

/// Runs `ip` with each of these lines as its arguments.
#[track_caller]
pub(crate) fn ip(lines: &str) {
    if let Err(said) = try_ip(lines) {
        panic!("{said}");
    }
}

fn try_ip(lines: &str) -> Result<(), String> {
    for line in lines.lines() {
        let output = Command::new("ip")
            .args(line.split_whitespace())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("these tests need ip (iproute2): {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("ip {line}: {said}"));
        }
    }
    Ok(())
}
