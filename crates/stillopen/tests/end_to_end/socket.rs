//! A connection with both its ends in this process: what passes on it is the test's choice.

use std::{
    io::{self, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    time::Duration,
};

use rustix::net::sockopt;

/// A small request, and a small answer.
const MESSAGE: [u8; 5] = *b"hello";
/// After so long a read is a failed test, not one that hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// Both ends of a connection.
pub(crate) struct Connection {
    pub(crate) client: TcpStream,
    pub(crate) server: TcpStream,
}

/// Idle, interval (seconds) and count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Values(pub(crate) u64, pub(crate) u64, pub(crate) u32);

/// Every option of a socket that `stillopen` deals with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    keepalive: bool,
    idle: Duration,
    interval: Duration,
    count: u32,
    user_timeout: u32,
}

impl Options {
    pub(crate) fn new(keepalive: bool, values: Values, user_timeout: u32) -> Self {
        let Values(idle, interval, count) = values;
        let [idle, interval] = [idle, interval].map(Duration::from_secs);
        Self { keepalive, idle, interval, count, user_timeout }
    }
}

impl Connection {
    /// `client` has connected to `listener`.
    #[track_caller]
    pub(crate) fn new(client: io::Result<TcpStream>, listener: &TcpListener) -> Self {
        let client = client.expect("connect");
        let wanted = client.local_addr().expect("a connected socket has an address");
        let (server, from) = listener.accept().expect("accept");
        assert_eq!(from, wanted, "this listener is one test's alone");
        Self::of(client, server)
    }

    /// `client` has connected, perhaps by other addresses, and `listener` has its other end next.
    pub(crate) fn translated(client: TcpStream, listener: &TcpListener) -> Self {
        let (server, _) = listener.accept().expect("accept");
        Self::of(client, server)
    }

    fn of(client: TcpStream, server: TcpStream) -> Self {
        for end in [&client, &server] {
            end.set_read_timeout(Some(PATIENCE)).expect("set a read timeout");
            end.set_nodelay(true).expect("send at once");
        }
        Self { client, server }
    }

    /// The client asks; the server reads that and does not answer yet.
    pub(crate) fn ask(&mut self) {
        pass(&mut self.client, &mut self.server);
    }

    /// The server sends, and the client reads that.
    pub(crate) fn answer(&mut self) {
        pass(&mut self.server, &mut self.client);
    }

    /// The client asks and the server answers, so many times.
    pub(crate) fn exchange(&mut self, times: u32) {
        for _ in 0..times {
            self.ask();
            self.answer();
        }
    }

    /// The client's end as `--json` names it.
    pub(crate) fn local(&self) -> String {
        self.client.local_addr().expect("a connected socket has an address").to_string()
    }

    /// The server's end as `--json` names it.
    pub(crate) fn peer(&self) -> String {
        self.client.peer_addr().expect("a connected socket has a peer").to_string()
    }
}

fn pass(from: &mut TcpStream, to: &mut TcpStream) {
    from.write_all(&MESSAGE).expect("send");
    let mut read = [0; MESSAGE.len()];
    to.read_exact(&mut read).expect("receive");
}

/// Turns keepalive on with these values.
pub(crate) fn keep_alive(socket: &TcpStream, values: Values) {
    set_values(socket, values);
    sockopt::set_socket_keepalive(socket, true).expect("set SO_KEEPALIVE");
}

/// Sets the three values and leaves `SO_KEEPALIVE` as it is.
pub(crate) fn set_values(socket: &TcpStream, Values(idle, interval, count): Values) {
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(idle)).expect("set TCP_KEEPIDLE");
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(interval)).expect("set TCP_KEEPINTVL");
    sockopt::set_tcp_keepcnt(socket, count).expect("set TCP_KEEPCNT");
}

/// Reads every option back.
pub(crate) fn options(socket: &TcpStream) -> Options {
    Options {
        keepalive: sockopt::socket_keepalive(socket).expect("get SO_KEEPALIVE"),
        idle: sockopt::tcp_keepidle(socket).expect("get TCP_KEEPIDLE"),
        interval: sockopt::tcp_keepintvl(socket).expect("get TCP_KEEPINTVL"),
        count: sockopt::tcp_keepcnt(socket).expect("get TCP_KEEPCNT"),
        user_timeout: sockopt::tcp_user_timeout(socket).expect("get TCP_USER_TIMEOUT"),
    }
}
