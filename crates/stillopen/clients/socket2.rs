// socket2 = { version = "0.6", features = ["all"] }
use std::{io, net::TcpStream, time::Duration};

use socket2::{SockRef, TcpKeepalive};

fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    let keepalive = TcpKeepalive::new()
        .with_interval(Duration::from_secs(@interval@))
        .with_retries(@count@)
        .with_time(Duration::from_secs(@idle@));
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}
