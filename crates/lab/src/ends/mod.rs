//! Both ends of scripted connections on real sockets: their programs do the steps, and what they see is handed
//! on. The drivers on real kernels share it; what makes and wakes the sockets is theirs.
//!
//! Read first: `socket.rs`.

mod socket;

use std::{collections::BTreeMap, net::SocketAddr};

use rustix::{
    fd::OwnedFd,
    io::Errno,
    net::{SocketFlags, acceptfrom_with},
};
use serde::{Deserialize, Serialize};
use stillopen_model::KeepaliveValues;

use self::socket::Seen;
pub(crate) use self::socket::{Socket, listen_on, tcp};
use crate::{path::Addresses, scenario::Who};

/// `TCP_KEEPIDLE` and `TCP_KEEPINTVL`, which are whole seconds, and `TCP_KEEPCNT`.
pub(crate) type Keepalive = [u32; 3];

/// Who does something or sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum End {
    Client,
    Server,
}

impl End {
    /// The end that a scenario means; the path's own steps have none.
    pub(crate) fn of(who: Who) -> Self {
        if who == Who::Server { Self::Server } else { Self::Client }
    }

    /// The same as a scenario has it.
    pub(crate) fn who(self) -> Who {
        match self {
            Self::Client => Who::Client,
            Self::Server => Who::Server,
        }
    }
}

/// The values as the kernel takes them: a part of a second counts as one.
pub(crate) fn keepalive(values: KeepaliveValues) -> Keepalive {
    [whole_seconds(values.idle), whole_seconds(values.interval), values.count]
}

/// Whole seconds, not fewer.
pub(crate) fn whole_seconds(time: std::time::Duration) -> u32 {
    let up = u64::from(time.subsec_nanos() > 0);
    u32::try_from(time.as_secs() + up).unwrap_or(u32::MAX)
}

/// The sockets that there are, by connection and end. A step of one that is not there is not done.
#[derive(Debug, Default)]
pub(crate) struct Ends(BTreeMap<(usize, End), Socket>);

impl Ends {
    pub(crate) fn insert(&mut self, connection: usize, end: End, socket: Socket) {
        self.0.insert((connection, end), socket);
    }

    pub(crate) fn get(&self, connection: usize, end: End) -> Option<&Socket> {
        self.0.get(&(connection, end))
    }

    /// Accepts all that wait; the numbers of their connections.
    pub(crate) fn accept(&mut self, listener: &OwnedFd) -> Vec<usize> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let mut accepted = Vec::new();
        while let Ok((fd, peer)) = acceptfrom_with(listener, flags) {
            let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
            if let Some(connection) = peer.and_then(|peer| Addresses::connection(peer.port())) {
                self.insert(connection, End::Server, Socket::of(fd));
                accepted.push(connection);
            }
        }
        accepted
    }

    /// Sends; the name of the error that the program sees instead.
    pub(crate) fn send(
        &mut self,
        connection: usize,
        end: End,
        bytes: usize,
    ) -> Option<Result<(), String>> {
        Some(self.0.get_mut(&(connection, end))?.send(bytes).map_err(name))
    }

    pub(crate) fn shutdown(&self, connection: usize, end: End) -> Option<()> {
        self.get(connection, end).map(Socket::shutdown)
    }

    pub(crate) fn close(&mut self, connection: usize, end: End) {
        self.0.remove(&(connection, end));
    }

    pub(crate) fn set_keepalive(&self, connection: usize, end: End, values: Option<Keepalive>) {
        if let Some(socket) = self.get(connection, end) {
            // A socket that has failed may refuse; it is not kept alive either way.
            let _ = socket.set_keepalive(values);
        }
    }

    /// All that this end's program sees now: `data`, `eof` or an error's name, and how many bytes. Sends what
    /// had no room before.
    pub(crate) fn look(&mut self, connection: usize, end: End) -> Vec<(String, usize)> {
        let Some(socket) = self.0.get_mut(&(connection, end)) else { return Vec::new() };
        let seen = socket.look().into_iter().map(|seen| match seen {
            Seen::Data(bytes) => ("data".to_owned(), bytes),
            Seen::Eof => ("eof".to_owned(), 0),
            Seen::Error(errno) => (name(errno), 0),
        });
        let seen = seen.collect();
        // Its error, if any, has been seen just now.
        let _ = socket.flush();
        seen
    }
}

/// As `errno.h` has it.
fn name(errno: Errno) -> String {
    let known = [
        (Errno::CONNRESET, "ECONNRESET"),
        (Errno::PIPE, "EPIPE"),
        (Errno::TIMEDOUT, "ETIMEDOUT"),
        (Errno::CONNREFUSED, "ECONNREFUSED"),
        (Errno::HOSTUNREACH, "EHOSTUNREACH"),
        (Errno::NETUNREACH, "ENETUNREACH"),
    ];
    let known = known.iter().find(|(known, _)| *known == errno);
    known.map_or_else(|| format!("{errno}"), |(_, name)| (*name).to_owned())
}
