//! A server that takes a client's request and never answers, so that its connection can be looked at.

use std::{
    io::Read as _,
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use rustix::process::geteuid;
use stillopen_model::{Connection, Snapshot};

/// After so long a client that has not asked is a failed test.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client that has asked and waits.
pub(crate) struct Held {
    client: Running,
    /// The server's end; its peer is the client.
    server: TcpStream,
    later: mpsc::Receiver<Event>,
}

/// A process that ends with the test.
pub(crate) struct Running(pub(crate) Child);

enum Event {
    Asked(TcpStream),
    /// With what it said on standard error.
    Ended(String),
}

impl Held {
    /// Starts what `command` makes of a server's address, and waits until it has sent something: its
    /// options are set by then.
    #[track_caller]
    pub(crate) fn by(command: impl FnOnce(SocketAddr) -> Command) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("listen");
        let mut command = command(listener.local_addr().expect("a listener has an address"));
        Self::on(listener, command.stdin(Stdio::null()))
    }

    /// The same with a listener of the test's own.
    #[track_caller]
    pub(crate) fn on(listener: TcpListener, command: &mut Command) -> Self {
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut client = Running(child);
        let (events, seen) = mpsc::channel();
        let mut stderr = client.0.stderr.take().expect("it is a pipe");
        let ended = events.clone();
        thread::spawn(move || {
            let mut said = Vec::new();
            let _ = stderr.read_to_end(&mut said);
            let _ = ended.send(Event::Ended(String::from_utf8_lossy(&said).into_owned()));
        });
        thread::spawn(move || {
            while let Ok((mut server, _)) = listener.accept() {
                // One that only tries the address sends nothing.
                let asked = server.read(&mut [0]).is_ok_and(|n| n > 0);
                if asked && events.send(Event::Asked(server)).is_err() {
                    return;
                }
            }
        });
        match seen.recv_timeout(PATIENCE) {
            Ok(Event::Asked(server)) => Self { client, server, later: seen },
            Ok(Event::Ended(said)) => panic!("{command:?} ended before it asked: {said}"),
            Err(error) => panic!("{command:?} did not ask within {PATIENCE:?}: {error}"),
        }
    }

    /// The server's end of a further connection of the same client.
    #[track_caller]
    pub(crate) fn next(&self) -> TcpStream {
        match self.later.recv_timeout(PATIENCE) {
            Ok(Event::Asked(server)) => server,
            Ok(Event::Ended(said)) => panic!("it ended: {said}"),
            Err(error) => panic!("it did not ask again within {PATIENCE:?}: {error}"),
        }
    }

    /// The process that was started.
    pub(crate) fn pid(&self) -> u32 {
        self.client.0.id()
    }

    /// The client's end.
    fn client(&self) -> SocketAddr {
        self.server.peer_addr().expect("a connected socket has a peer")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The client's connection.
#[track_caller]
pub(crate) fn connection_of(held: &Held) -> Connection {
    let client = held.client();
    let seen = connections(&["--port", &client.port().to_string()]);
    seen.into_iter().find(|c| c.local == client).expect("the connection is there")
}

/// What `stillopen check` sees of this host, those on loopback too.
#[track_caller]
pub(crate) fn connections(args: &[&str]) -> Vec<Connection> {
    assert!(geteuid().is_root(), "these tests read sockets of other processes: run them as root");
    let folder = tempfile::tempdir().expect("make a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_stillopen"))
        .args(["check", "--save", "seen.json"])
        .args(args)
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .output()
        .expect("start stillopen");
    let status = output.status.code();
    assert!(matches!(status, Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    let saved = std::fs::read(folder.path().join("seen.json")).expect("it saves what it saw");
    Snapshot::from_json(&saved).expect("it saves a snapshot").connections
}
