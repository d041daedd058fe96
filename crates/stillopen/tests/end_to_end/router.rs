//! Four network namespaces: `client` and `server` with `router` between them, and `past`, a second way
//! from the client to the same service addresses that only looks as if it led through the router.
//!
//! The router forgets an established connection after 6 s. What it translates is the test's choice. Every
//! router of every test has the same addresses: which one a connection passes, only its way tells.

use std::{
    fs,
    io::Write as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    process::{self, Command, Stdio},
    sync::atomic::{AtomicU8, Ordering},
    time::Duration,
};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use serde::Deserialize;
use tempfile::TempDir;

use crate::{
    program::Program,
    report::Report,
    scene::{FAMILIES, Family, Netns, ip},
    socket::Connection,
};

/// What the router translates, and what `past` has.
const SERVICE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(198, 18, 96, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd18, 0x96, 0, 0, 0, 0, 0, 1)),
];
const SERVICE_PORT: u16 = 80;
const SERVER_PORT: u16 = 8080;
/// The client's address on the way past the router.
const ON_THE_WAY_PAST: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(198, 18, 3, 2)),
    IpAddr::V6(Ipv6Addr::new(0xfd18, 3, 0, 0, 0, 0, 0, 2)),
];

/// The four, and who listens in two of them.
pub(crate) struct Router {
    client: Netns,
    between: Netns,
    server: Netns,
    _past: Netns,
    servers: [TcpListener; 2],
    servers_past: [TcpListener; 2],
    folder: TempDir,
}

/// Where a client connects to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The address that the router may translate.
    Service,
    /// The server itself.
    Server,
}

impl Router {
    pub(crate) fn new() -> Self {
        static ROUTERS: AtomicU8 = AtomicU8::new(0);
        let n = ROUTERS.fetch_add(1, Ordering::Relaxed);
        let make = |role, network: u8, host: u8| {
            let name = format!("stillopen-test-{}-r{n}-{role}", process::id());
            let v6 = Ipv6Addr::new(0xfd18, network.into(), 0, 0, 0, 0, 0, host.into());
            Netns::with(name, Ipv4Addr::new(198, 18, network, host), v6)
        };
        let [client, server] = [make("client", 1, 2), make("server", 2, 2)];
        let [router, past] = [make("router", 1, 1), make("past", 3, 1)];
        cable(&client, &router, &server, &past);
        let servers = FAMILIES.map(|family| {
            let at = SocketAddr::new(server.address(family), SERVER_PORT);
            server.enter(|| TcpListener::bind(at)).expect("listen in the server's namespace")
        });
        let servers_past = SERVICE.map(|service| {
            let at = SocketAddr::new(service, SERVICE_PORT);
            past.enter(|| TcpListener::bind(at)).expect("listen in the namespace past the router")
        });
        let folder = tempfile::tempdir().expect("make a folder");
        Self { client, between: router, server, _past: past, servers, servers_past, folder }
    }

    /// Connections to the service go to the server.
    pub(crate) fn translate(&self) {
        let [to4, to6] = FAMILIES.map(|family| self.server.address(family));
        let [service4, service6] = SERVICE;
        self.rules(&format!(
            "table inet test {{\n\
             chain prerouting {{\n\
             type nat hook prerouting priority dstnat\n\
             ip daddr {service4} tcp dport {SERVICE_PORT} dnat ip to {to4}:{SERVER_PORT}\n\
             ip6 daddr {service6} tcp dport {SERVICE_PORT} dnat ip6 to [{to6}]:{SERVER_PORT}\n\
             }}\n}}\n"
        ));
    }

    /// Connections to the server come from the router.
    pub(crate) fn masquerade(&self) {
        self.rules(&format!(
            "table inet test {{\n\
             chain postrouting {{\n\
             type nat hook postrouting priority srcnat\n\
             tcp dport {SERVER_PORT} masquerade\n\
             }}\n}}\n"
        ));
    }

    /// What belongs to no connection is not forwarded.
    pub(crate) fn drop_invalid(&self) {
        self.rules(Self::INVALID);
    }

    /// Whether what has no entry is picked up in the middle (`tcp_loose`).
    pub(crate) fn pick_up(&self, loose: bool) {
        let value = if loose { "1" } else { "0" };
        self.between.enter(|| {
            fs::write("/proc/sys/net/netfilter/nf_conntrack_tcp_loose", value)
                .expect("set a sysctl");
        });
    }

    const INVALID: &str = ("table inet test {\n\
             chain forward {\n\
             type filter hook forward priority filter\n\
             ct state invalid drop\n\
             }\n}\n");

    /// Takes every rule away; the entries stay.
    pub(crate) fn forget_rules(&self) {
        self.rules("flush chain inet test prerouting\n");
    }

    fn rules(&self, rules: &str) {
        let mut nft = Command::new("ip")
            .args(["netns", "exec", &self.between.name, "nft", "-f", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("start ip netns exec");
        let mut stdin = nft.stdin.take().expect("it is piped");
        stdin.write_all(rules.as_bytes()).expect("write the rules");
        drop(stdin);
        assert!(nft.wait().expect("wait for nft").success(), "these tests need nft: {rules}");
    }

    /// A new connection from the client, through the router.
    pub(crate) fn connect(&self, family: Family, wanted: Wanted) -> Connection {
        let of = usize::from(family == Family::V6);
        let to = match wanted {
            Wanted::Service => SocketAddr::new(SERVICE[of], SERVICE_PORT),
            Wanted::Server => SocketAddr::new(self.server.address(family), SERVER_PORT),
        };
        let client = self.client.enter(|| TcpStream::connect(to)).expect("connect");
        Connection::translated(client, &self.servers[of])
    }

    /// A new connection from the client to the service address that is not the router's.
    pub(crate) fn connect_past(&self, family: Family) -> Connection {
        let of = usize::from(family == Family::V6);
        let client = self.client.enter(|| {
            let domain = [AddressFamily::INET, AddressFamily::INET6][of];
            let client = socket(domain, SocketType::STREAM, None).expect("make a socket");
            bind(&client, &SocketAddr::new(ON_THE_WAY_PAST[of], 0)).expect("bind");
            connect(&client, &SocketAddr::new(SERVICE[of], SERVICE_PORT)).expect("connect");
            TcpStream::from(client)
        });
        Connection::new(Ok(client), &self.servers_past[of])
    }

    /// Whether the router has an entry of a connection, by the client's port.
    pub(crate) fn tracks(&self, connection: &Connection) -> bool {
        let from: SocketAddr = connection.local().parse().expect("an address");
        let family = if from.is_ipv4() { "ipv4" } else { "ipv6" };
        let output = Command::new("ip")
            .args(["netns", "exec", &self.between.name])
            .args(["conntrack", "-L", "-f", family, "-p", "tcp"])
            .args(["--orig-src", &from.ip().to_string(), "--sport", &from.port().to_string()])
            .output()
            .expect("start ip netns exec");
        assert!(output.status.success(), "these tests need conntrack: {output:?}");
        !output.stdout.is_empty()
    }

    /// What `check` says of the client's namespace, and its exit status.
    pub(crate) fn report(&self) -> (Report, i32) {
        Program::new(self.folder.path()).args(&["check", "--netns", &self.client.name]).look()
    }

    /// What `check` reads of the client's and the server's namespace.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let [client, server] = [&self.client, &self.server].map(|netns| {
            let file = self.folder.path().join("snapshot.json");
            let args = ["check", "--netns", &netns.name, "--save", &file.to_string_lossy()];
            let said = Program::new(self.folder.path()).args(&args).run();
            assert!([0, 1].contains(&said.status), "{said:#?}");
            fs::read(&file).expect("read the snapshot")
        });
        let read = |file: &[u8]| serde_json::from_slice(file).expect("a snapshot");
        let File { connections, limits } = read(&client);
        let File { connections: at_server, .. } = read(&server);
        Snapshot { connections, at_server, limits }
    }
}

fn cable(client: &Netns, router: &Netns, server: &Netns, past: &Netns) {
    let [c, r, s, p] = [client, router, server, past].map(|netns| netns.name.as_str());
    let address = |netns: &Netns| FAMILIES.map(|family| netns.address(family));
    let [[c4, c6], [r4, r6]] = [client, router].map(address);
    let [[s4, s6], [p4, p6]] = [server, past].map(address);
    let [[o4, o6], [v4, v6]] = [ON_THE_WAY_PAST, SERVICE];
    let (g4, g6) = ("198.18.2.1", "fd18:2::1");
    ip(&format!(
        "link add eth0 netns {c} type veth peer name client netns {r}\n\
         link add eth0 netns {s} type veth peer name server netns {r}\n\
         link add eth0 netns {p} type veth peer name past netns {r}\n\
         -n {r} link add link past name eth1 netns {c} type macvlan mode bridge\n\
         -n {c} addr add {c4}/24 dev eth0\n\
         -n {c} addr add {c6}/64 dev eth0 nodad\n\
         -n {c} addr add {o4}/24 dev eth1\n\
         -n {c} addr add {o6}/64 dev eth1 nodad\n\
         -n {r} addr add {r4}/24 dev client\n\
         -n {r} addr add {r6}/64 dev client nodad\n\
         -n {r} addr add {g4}/24 dev server\n\
         -n {r} addr add {g6}/64 dev server nodad\n\
         -n {s} addr add {s4}/24 dev eth0\n\
         -n {s} addr add {s6}/64 dev eth0 nodad\n\
         -n {p} addr add {p4}/24 dev eth0\n\
         -n {p} addr add {p6}/64 dev eth0 nodad\n\
         -n {p} addr add {v4}/32 dev lo\n\
         -n {p} addr add {v6}/128 dev lo nodad\n"
    ));
    for (netns, links) in [
        (c, &["lo", "eth0", "eth1"][..]),
        (s, &["lo", "eth0"]),
        (p, &["lo", "eth0"]),
        (r, &["lo", "client", "server", "past"]),
    ] {
        for link in links {
            ip(&format!("-n {netns} link set {link} up\n"));
        }
    }
    ip(&format!(
        "-n {c} route add default via {r4}\n\
         -n {c} -6 route add default via {r6}\n\
         -n {c} route add default via {p4} table 100\n\
         -n {c} -6 route add default via {p6} table 100\n\
         -n {c} rule add from {o4} table 100\n\
         -n {c} -6 rule add from {o6} table 100\n\
         -n {s} route add default via {g4}\n\
         -n {s} -6 route add default via {g6}\n"
    ));
    router.enter(|| {
        for (file, value) in [
            ("ipv4/ip_forward", "1"),
            ("ipv6/conf/all/forwarding", "1"),
            ("netfilter/nf_conntrack_tcp_timeout_established", "6"),
        ] {
            fs::write(format!("/proc/sys/net/{file}"), value).expect("set a sysctl");
        }
    });
}

/// What one snapshot of the client's namespace says, and one of the server's.
#[derive(Debug)]
pub(crate) struct Snapshot {
    connections: Vec<Row>,
    at_server: Vec<Row>,
    pub(crate) limits: Vec<Limit>,
}

#[derive(Debug, Deserialize)]
struct File {
    connections: Vec<Row>,
    limits: Vec<Limit>,
}

#[derive(Debug, Deserialize)]
struct Row {
    local: String,
    peer: String,
    #[serde(default)]
    tables: Vec<Witness>,
}

#[derive(Debug, Deserialize)]
struct Witness {
    entry: String,
    remaining_s: Option<f64>,
    translates_destination: Option<bool>,
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Limit {
    id: String,
    component: String,
    pub(crate) idle_timeout_s: f64,
}

/// What the router's table says of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// It is not asked, or the connection is not there.
    Nothing,
    Present {
        remaining: Duration,
        translates_destination: bool,
    },
    Absent,
    NotRead,
}

impl Snapshot {
    pub(crate) fn said(&self, connection: &Connection) -> Said {
        said(&self.connections, &connection.local(), &connection.peer())
    }

    pub(crate) fn said_between(&self, local: &str, peer: &str) -> Said {
        said(&self.connections, local, peer)
    }

    /// The accepting end's, as the server's kernel names it.
    pub(crate) fn said_at_server(&self, connection: &Connection) -> Said {
        let name = |address: std::io::Result<SocketAddr>| address.expect("connected").to_string();
        let server = &connection.server;
        said(&self.at_server, &name(server.local_addr()), &name(server.peer_addr()))
    }

    #[track_caller]
    pub(crate) fn limit(&self, id: &str) -> &Limit {
        let limit = self.limits.iter().find(|limit| limit.id == id);
        limit.unwrap_or_else(|| panic!("no limit {id}: {self:#?}"))
    }
}

fn said(rows: &[Row], local: &str, peer: &str) -> Said {
    let row = rows.iter().find(|row| row.local == local && row.peer == peer);
    let witnesses = row.map(|row| row.tables.as_slice()).unwrap_or_default();
    let [Witness { entry, remaining_s, translates_destination }] = witnesses else {
        assert!(witnesses.is_empty(), "one table is on the way: {rows:#?}");
        return Said::Nothing;
    };
    match (entry.as_str(), *remaining_s, *translates_destination) {
        ("present", Some(remaining), Some(translates_destination)) => {
            Said::Present { remaining: Duration::from_secs_f64(remaining), translates_destination }
        }
        ("absent", None, None) => Said::Absent,
        ("not_read", None, None) => Said::NotRead,
        other => panic!("{other:?}"),
    }
}
