//! The one order in which keepalive is turned on.

use std::os::fd::AsFd;

use rustix::{io, net::sockopt};
use stillopen_model::KeepaliveValues;

/// Turns TCP keepalive of `socket` on. `TCP_KEEPIDLE` comes last: set on a socket whose keepalive is on
/// already, it counts from the last packet and not from now (`tcp_sock_set_keepidle_locked`,
/// `net/ipv4/tcp.c`; measured).
///
/// # Errors
/// Those of setsockopt(2): no TCP socket, or a value out of range.
pub fn turn_on(socket: impl AsFd, values: KeepaliveValues) -> io::Result<()> {
    sockopt::set_tcp_keepintvl(&socket, values.interval)?;
    sockopt::set_tcp_keepcnt(&socket, values.count)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, values.idle)
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, net::TcpStream};

    use super::*;

    #[test]
    fn the_socket_has_what_was_asked_for() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(!sockopt::socket_keepalive(&socket).unwrap());

        let values: KeepaliveValues = "61/31/4".parse().unwrap();
        turn_on(&socket, values).unwrap();
        assert!(sockopt::socket_keepalive(&socket).unwrap());
        let read = KeepaliveValues {
            idle: sockopt::tcp_keepidle(&socket).unwrap(),
            interval: sockopt::tcp_keepintvl(&socket).unwrap(),
            count: sockopt::tcp_keepcnt(&socket).unwrap(),
        };
        assert_eq!(read, values);
    }
}
