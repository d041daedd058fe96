//! Why nobody serves the client.

use std::{net::SocketAddr, time::Duration};

use super::Status;
use crate::netlink::sockets::any;

/// What became of the server's command before the client was started.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The server's command ended before it served.
    #[error("the server ended before it listened on port {port}: {status}{}", words(.said))]
    Ended {
        /// What it was told to listen on.
        port: u16,
        /// How it ended.
        status: Status,
        /// The last lines that it wrote.
        said: Vec<String>,
    },
    /// It listens on its port, and not where the path reaches it.
    #[error(
        "the server listens on {} only, which the client does not reach: it must listen on {}{}{}",
        places(.listens, Some(.at.port())), SocketAddr::new(any(*.at), .at.port()),
        other_family(*.at, .listens), words(.said)
    )]
    Elsewhere {
        /// Where it must listen, or on all addresses.
        at: SocketAddr,
        /// Where it listens.
        listens: Vec<SocketAddr>,
        /// The last lines that it wrote.
        said: Vec<String>,
    },
    /// It runs and does not listen on its port.
    #[error(
        "the server did not listen on port {port} within {} s{} (the port is in the environment variable PORT){}",
        .waited.as_secs(),
        if .listens.is_empty() { String::new() } else {
            format!(", but on {}", places(.listens, None))
        }, words(.said)
    )]
    Silent {
        /// What it was told to listen on.
        port: u16,
        /// For how long it was waited for, by the clock that it has.
        waited: Duration,
        /// Where it listens.
        listens: Vec<SocketAddr>,
        /// The last lines that it wrote.
        said: Vec<String>,
    },
}

fn words(lines: &[String]) -> String {
    if lines.is_empty() { String::new() } else { format!("; it said: {}", lines.join(" / ")) }
}

/// Where a server listens: on this port, or on any.
pub(crate) fn places(listens: &[SocketAddr], port: Option<u16>) -> String {
    let mut places: Vec<_> =
        listens.iter().filter(|at| port.is_none_or(|port| at.port() == port)).collect();
    places.sort_unstable();
    places.dedup();
    places.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

/// What would help besides, where it serves the other family.
fn other_family(at: SocketAddr, listens: &[SocketAddr]) -> &'static str {
    let serves_other = |other: &SocketAddr| {
        other.port() == at.port() && other.is_ipv4() != at.is_ipv4() && !other.ip().is_loopback()
    };
    match (listens.iter().any(serves_other), at.is_ipv4()) {
        (false, _) => "",
        (true, true) => ", or the run be on IPv6 (--ipv6)",
        (true, false) => ", or the run be on IPv4 (without --ipv6)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elsewhere(at: &str, listens: &[&str]) -> String {
        let listens = listens.iter().map(|at| at.parse().unwrap()).collect();
        ServerError::Elsewhere { at: at.parse().unwrap(), listens, said: vec![] }.to_string()
    }

    #[test]
    fn where_a_server_listens_and_where_it_must() {
        let reaches = "only, which the client does not reach: it must listen on";
        let (v4, v6) = ("10.0.2.2:80", "[fd00::2]:80");
        for (at, listens, is) in [
            (v4, &["127.0.0.1:80", "0.0.0.0:81"][..], format!("127.0.0.1:80 {reaches} 0.0.0.0:80")),
            (v6, &["[::1]:80"], format!("[::1]:80 {reaches} [::]:80")),
            (
                v4,
                &["[::]:80"],
                format!("[::]:80 {reaches} 0.0.0.0:80, or the run be on IPv6 (--ipv6)"),
            ),
            (
                v6,
                &["0.0.0.0:80"],
                format!("0.0.0.0:80 {reaches} [::]:80, or the run be on IPv4 (without --ipv6)"),
            ),
        ] {
            assert_eq!(elsewhere(at, listens), format!("the server listens on {is}"));
        }
        let listens = vec!["0.0.0.0:3000".parse().unwrap()];
        let waited = Duration::from_secs(60);
        let silent = ServerError::Silent { port: 80, waited, listens, said: vec![] };
        assert_eq!(
            silent.to_string(),
            "the server did not listen on port 80 within 60 s, but on 0.0.0.0:3000 (the port is in the environment \
             variable PORT)"
        );
    }
}
