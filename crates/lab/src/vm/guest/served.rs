//! Who serves a lane's backends where its steps don't: the built-in server of `lab exec`, or the user's, of
//! which is seen when it listens.

use std::{
    fs::File,
    io::{Read as _, Seek as _},
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use super::{super::protocol::Serves, Done, failed};
use crate::exec::server::Builtin;

/// `TCP_LISTEN` of `include/net/tcp_states.h`
const LISTEN: &str = "0A";

/// Who serves.
#[derive(Debug)]
pub(super) enum Served {
    /// It listens, until this is dropped.
    Already { _servers: Vec<Builtin> },
    /// `/proc/net/tcp` and `tcp6` of the backends' namespace, and the port.
    ByAnother { sockets: [File; 2], port: u16 },
}

impl Served {
    /// In the namespace that this thread is in.
    pub(super) fn by(who: Serves, backends: &[SocketAddr]) -> Done<Self> {
        let answer_after = match who {
            Serves::Steps => return Ok(Self::Already { _servers: Vec::new() }),
            Serves::BuiltIn(answer_after) => Duration::from_millis(answer_after),
            Serves::Process => {
                let open = |name: &str| {
                    let path = format!("/proc/thread-self/net/{name}");
                    File::open(&path).map_err(failed("open", &path))
                };
                let port = backends.first().map_or(0, SocketAddr::port);
                return Ok(Self::ByAnother { sockets: [open("tcp")?, open("tcp6")?], port });
            }
        };
        let serve = |at: &SocketAddr| {
            let listener = TcpListener::bind(at).map_err(failed("listen on", &at.to_string()))?;
            Builtin::start(listener, answer_after).map_err(failed("start", "the built-in server"))
        };
        Ok(Self::Already { _servers: backends.iter().map(serve).collect::<Done<_>>()? })
    }

    /// Whether something listens.
    pub(super) fn is_ready(&mut self) -> Done<bool> {
        let Self::ByAnother { sockets, port } = self else { return Ok(true) };
        for file in sockets {
            let mut text = String::new();
            file.rewind().map_err(failed("read", "/proc/net/tcp"))?;
            file.read_to_string(&mut text).map_err(failed("read", "/proc/net/tcp"))?;
            if text.lines().any(|line| listens_on(line, *port)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// `0: 0202000A:1F40 00000000:0000 0A …`
fn listens_on(line: &str, port: u16) -> bool {
    let mut words = line.split_whitespace().skip(1);
    let local = words.next().and_then(|end| u16::from_str_radix(end.rsplit(':').next()?, 16).ok());
    local == Some(port) && words.nth(1) == Some(LISTEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_by_its_port() {
        let of = |line| listens_on(line, 8000);
        assert!(of(" 0: 0202000A:1F40 00000000:0000 0A 00000000:00000000 00:00000000"));
        assert!(of(" 1: 00000000000000000000000000000000:1F40 0000:0000 0A 0:0 0"));
        assert!(!of(" 2: 0202000A:1F40 0201000A:9C40 01 00000000:00000000 00:00000000"));
        assert!(!of(" 3: 0202000A:1F41 00000000:0000 0A"));
        assert!(!of("  sl  local_address rem_address   st") && !of(""));
    }
}
