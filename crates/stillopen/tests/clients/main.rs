//! `stillopen advise --client`: each snippet that is marked as tested is run as it is printed, and its
//! socket's options are read back from outside, by `stillopen check`.
//!
//! Read `held.rs` first, then `runtimes.rs`. They need root, python3 with venv, curl, a JDK, pgjdbc, and the
//! package indexes of Python, Node.js and Rust; what is missing fails them.
#![cfg(target_os = "linux")]

mod defaults;
mod held;
mod nginx;
mod run;
mod runtimes;
mod sysctl;

use std::{collections::BTreeSet, fs, net::SocketAddr, path::Path, process::Command};

use held::{Held, connection_of};
use serde::Deserialize;
use stillopen_model::{Keepalive, KeepaliveValues};

/// No default of anything: what is read back was set by the snippet.
const VALUES: &str = "61/31/4";

/// Everything that a test of this file runs.
const RUN: [&str; 20] = [
    "sysctl",
    "httpx",
    "httpx2",
    "requests",
    "urllib3",
    "aiohttp",
    "openai",
    "anthropic",
    "google-genai",
    "curl",
    "node-http",
    "undici",
    "java",
    "go",
    "reqwest",
    "socket2",
    "libpq",
    "jdbc",
    "redis-py",
    "nginx",
];

/// What the program says of a client.
#[derive(Debug, Deserialize)]
struct Advised {
    id: String,
    tested: Option<String>,
    by_default: Option<String>,
    #[serde(default)]
    snippet: String,
    in_force: Option<KeepaliveValues>,
}

impl Advised {
    /// As it is printed with [`VALUES`].
    fn of(id: &str) -> Self {
        #[derive(Deserialize)]
        struct Document {
            client: Advised,
        }
        let document: Document = advise(&["--client", id, "--keepalive", VALUES]);
        document.client
    }

    /// The text of `drivers/FILE` with the snippet in it.
    fn driven_by(&self, file: &str) -> String {
        driver(file).replace("@snippet@", &self.snippet)
    }
}

fn driver(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/drivers").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A driver with the server's address in it.
fn addressed(source: &str, server: SocketAddr) -> String {
    source
        .replace("@url@", &format!("http://{server}/"))
        .replace("@host@", &server.ip().to_string())
        .replace("@port@", &server.port().to_string())
}

fn advise<T: for<'de> Deserialize<'de>>(args: &[&str]) -> T {
    let folder = tempfile::tempdir().expect("make a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_stillopen"))
        .args(["advise", "--json", "--limit", "900s"])
        .args(args)
        .current_dir(folder.path())
        .output()
        .expect("start stillopen");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it writes JSON")
}

/// Runs what `command` makes of the server's address, and compares the options of its socket with those
/// that the program says are in force then.
#[track_caller]
fn hold(advised: &Advised, command: impl FnOnce(SocketAddr) -> Command) {
    let held = Held::by(command);
    let in_force = advised.in_force.expect("the values of a client are known");
    let connection = connection_of(&held);
    assert_eq!(connection.keepalive, Keepalive::On(in_force.times()), "{}", advised.id);
    // A shorter one would replace the count.
    let user_timeout = connection.user_timeout.expect("it is read").get();
    assert!(
        user_timeout.is_zero() || user_timeout >= in_force.dead_peer_after(),
        "{}: TCP_USER_TIMEOUT {user_timeout:?}",
        advised.id
    );
}

fn url(server: SocketAddr) -> String {
    format!("http://{server}/")
}

/// All clients that the program knows.
fn clients() -> Vec<Advised> {
    #[derive(Deserialize)]
    struct Document {
        clients: Vec<Advised>,
    }
    advise::<Document>(&["--client", "list"]).clients
}

#[test]
fn what_is_marked_as_tested_is_run_and_nothing_else_is_marked() {
    let marked: BTreeSet<String> =
        clients().into_iter().filter(|client| client.tested.is_some()).map(|c| c.id).collect();
    assert_eq!(marked, RUN.map(str::to_owned).into());
}

macro_rules! python {
    ($($name:ident: $id:literal),* $(,)?) => {
        $(#[test]
        fn $name() {
            let advised = Advised::of($id);
            runtimes::is_required(advised.tested.as_deref());
            hold(&advised, |server| {
                let source = addressed(&advised.driven_by(concat!($id, ".py")), server)
                    .replace(
                        "host=\"redis.example.com\"",
                        &format!("host=\"{}\", port={}", server.ip(), server.port()),
                    )
                    .replace(
                        "host=db.example.com",
                        &format!("host={} port={}", server.ip(), server.port()),
                    );
                runtimes::python(&source)
            });
        })*
    };
}

python! {
    httpx: "httpx",
    httpx2: "httpx2",
    requests: "requests",
    urllib3: "urllib3",
    aiohttp: "aiohttp",
    openai: "openai",
    anthropic: "anthropic",
    google_genai: "google-genai",
    libpq: "libpq",
    redis_py: "redis-py",
}

#[test]
fn curl() {
    let advised = Advised::of("curl");
    hold(&advised, |server| {
        runtimes::shell(&advised.snippet.replace("https://example.com/", &url(server)))
    });
}

fn node(id: &str) {
    let advised = Advised::of(id);
    runtimes::is_required(advised.tested.as_deref());
    hold(&advised, |server| {
        runtimes::node(&addressed(&advised.driven_by(&format!("{id}.js")), server))
    });
}

#[test]
fn node_http() {
    node("node-http");
}

#[test]
fn undici() {
    node("undici");
}

#[test]
fn java() {
    let advised = Advised::of("java");
    hold(&advised, |server| {
        let drive = addressed(&advised.driven_by("java.java"), server);
        runtimes::java("java", &[("KeepaliveSocketFactory", &advised.snippet), ("Drive", &drive)])
    });
}

#[test]
fn jdbc() {
    let factory = Advised::of("java");
    let advised = Advised::of("jdbc");
    let folder = tempfile::tempdir().expect("make a folder");
    let properties = folder.path().join("database.properties");
    hold(&advised, |server| {
        let properties_of_server = advised.snippet.replace("db.example.com", &server.to_string());
        fs::write(&properties, properties_of_server).expect("write the properties");
        let drive = advised.driven_by("jdbc.java");
        let sources = [("KeepaliveSocketFactory", factory.snippet.as_str()), ("Drive", &drive)];
        let mut java = runtimes::java("jdbc", &sources);
        java.arg(&properties);
        java
    });
}

#[test]
fn go() {
    let advised = Advised::of("go");
    runtimes::is_required(advised.tested.as_deref());
    hold(&advised, |server| {
        let mut program = Command::new(runtimes::go("snippet", &advised.driven_by("go.go")));
        program.arg(url(server));
        program
    });
}

#[test]
fn reqwest() {
    rust("reqwest", url);
}

#[test]
fn socket2() {
    rust("socket2", |server| server.to_string());
}

fn rust(id: &str, argument: impl FnOnce(SocketAddr) -> String) {
    let advised = Advised::of(id);
    runtimes::is_required(advised.tested.as_deref());
    hold(&advised, |server| {
        let mut program = Command::new(runtimes::rust(id));
        program.arg(argument(server));
        program
    });
}
