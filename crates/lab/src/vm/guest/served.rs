//! Who serves a lane's backends where its steps don't: the built-in server of `lab exec`, or the user's, which is
//! waited for.

use std::{
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use rustix::net::netlink::SOCK_DIAG;

use super::{super::protocol::Serves, Done, failed};
use crate::{
    exec::{ServerError, server::Builtin, waiting::Waiting},
    netlink::{Netlink, sockets::Sockets},
};

/// Who serves.
#[derive(Debug)]
pub(super) enum Served {
    /// It listens, until this is dropped.
    Already { _servers: Vec<Builtin> },
    /// A process of the job does, or will; the sockets of the backends' namespace.
    ByAnother { sockets: Sockets, waiting: Waiting },
}

/// What there is to see of it.
pub(super) enum Look {
    Serves,
    NotYet { listens: Vec<SocketAddr> },
    GivenUp { listens: Vec<SocketAddr> },
}

impl Served {
    /// In the namespace that this thread is in.
    pub(super) fn by(who: Serves, backends: &[SocketAddr]) -> Done<Self> {
        let answer_after = match who {
            Serves::Steps => return Ok(Self::Already { _servers: Vec::new() }),
            Serves::BuiltIn(answer_after) => Duration::from_millis(answer_after),
            Serves::Process => {
                let at = *backends.first().ok_or("the lane has no backend")?;
                let sockets =
                    Netlink::open(Some(SOCK_DIAG)).map_err(failed("open", "sock_diag"))?;
                let waiting = Waiting::until_served(at);
                return Ok(Self::ByAnother { sockets: Sockets(sockets), waiting });
            }
        };
        let serve = |at: &SocketAddr| {
            let listener = TcpListener::bind(at).map_err(failed("listen on", &at.to_string()))?;
            Builtin::start(listener, answer_after).map_err(failed("start", "the built-in server"))
        };
        Ok(Self::Already { _servers: backends.iter().map(serve).collect::<Done<_>>()? })
    }

    /// Whether something serves the first backend, which has been waited for so long.
    pub(super) fn look(&mut self, waited: Duration) -> Done<Look> {
        let Self::ByAnother { sockets, waiting } = self else { return Ok(Look::Serves) };
        let listens = sockets.listeners().map_err(failed("list", "the server's sockets"))?;
        // The host has heard what it said.
        Ok(match waiting.look(waited, &listens, Vec::new) {
            Ok(true) => Look::Serves,
            Ok(false) => Look::NotYet { listens },
            Err(
                ServerError::Elsewhere { .. }
                | ServerError::Silent { .. }
                | ServerError::Ended { .. },
            ) => Look::GivenUp { listens },
        })
    }
}
