//! How long a server is waited for, by the clock that it has. No I/O, no clock.

use std::{net::SocketAddr, time::Duration};

use super::ServerError;
use crate::netlink::sockets::serve;

/// A server has so long until it listens.
const PATIENCE: Duration = Duration::from_secs(60);
/// One that listens on its port where the path does not reach it may have been about to listen there too.
pub(crate) const SETTLED: Duration = Duration::from_secs(2);

/// A server that is waited for.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Where it must listen.
    at: SocketAddr,
    elsewhere_since: Option<Duration>,
}

impl Waiting {
    pub(crate) fn until_served(at: SocketAddr) -> Self {
        Self { at, elsewhere_since: None }
    }

    /// Whether it serves, when it has been waited for so long and these are where something listens. `said`: its last
    /// lines, for the report.
    pub(crate) fn look(
        &mut self,
        waited: Duration,
        listens: &[SocketAddr],
        said: impl FnOnce() -> Vec<String>,
    ) -> Result<bool, ServerError> {
        let at = self.at;
        if serve(listens, at) {
            return Ok(true);
        }
        if !listens.iter().any(|listener| listener.port() == at.port()) {
            self.elsewhere_since = None;
        } else if waited > *self.elsewhere_since.get_or_insert(waited) + SETTLED {
            return Err(ServerError::Elsewhere { at, listens: listens.into(), said: said() });
        }
        if waited > PATIENCE {
            let (port, listens) = (at.port(), listens.into());
            return Err(ServerError::Silent { port, waited, listens, said: said() });
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_its_time_and_less_where_it_listens_elsewhere() {
        let [at, all, loopback] =
            ["10.0.2.2:80", "0.0.0.0:80", "127.0.0.1:80"].map(|at| at.parse().unwrap());
        let mut waiting = Waiting::until_served(at);
        let mut look = |seconds, listens: &[SocketAddr]| {
            waiting.look(Duration::from_secs(seconds), listens, Vec::new)
        };
        assert!(!look(0, &[]).unwrap() && !look(5, &[loopback]).unwrap());
        assert!(look(6, &[loopback, all]).unwrap(), "it serves");
        assert!(!look(7, &[]).unwrap() && !look(20, &[loopback]).unwrap(), "anew");
        assert!(matches!(look(23, &[loopback]), Err(ServerError::Elsewhere { .. })));
        assert!(!look(60, &[]).unwrap());
        assert!(matches!(look(61, &[]), Err(ServerError::Silent { .. })));
    }
}
