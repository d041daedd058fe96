//! Which timer runs on a socket of this host, from `/proc/net/tcp`.

use std::{fs, net::SocketAddr, time::Duration};

/// `sl local rem st tx:rx tr:tm->when …`: the timer and its remaining time in `USER_HZ`, 1/100 s;
/// `get_tcp4_sock` in `net/ipv4/tcp_ipv4.c`.
fn of(local: SocketAddr) -> (u8, Duration) {
    let port = format!(":{:04X}", local.port());
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let established = |row: &&str| {
        let columns: Vec<_> = row.split_whitespace().collect();
        columns[1].ends_with(&port) && columns[3] == "01"
    };
    let row = table.lines().skip(1).find(established).expect("the socket is in the table");
    let (timer, left) = row.split_whitespace().nth(5).unwrap().split_once(':').unwrap();
    let left = u64::from_str_radix(left, 16).unwrap();
    (timer.parse().unwrap(), Duration::from_millis(left * 10))
}

/// The same once the retransmission timer (1) is off: the peer's kernel has acknowledged.
pub async fn of_quiet_socket(local: SocketAddr) -> (u8, Duration) {
    let mut look = tokio::time::interval(Duration::from_millis(1));
    loop {
        let (timer, left) = of(local);
        if timer != 1 {
            return (timer, left);
        }
        look.tick().await;
    }
}
