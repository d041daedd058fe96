//! The text of `/proc/net/ip_vs_conn` and `/proc/net/ip_vs` → entries and services. Pure.
//!
//! Columns by `ip_vs_conn_seq_show` (`net/netfilter/ipvs/ip_vs_conn.c`) and `ip_vs_info_seq_show`
//! (`net/netfilter/ipvs/ip_vs_ctl.c`).

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use super::Services;
use crate::flow::Flow;

/// One entry of a TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// From the client to the virtual service.
    pub original: Flow,
    /// The server that it goes to.
    pub server: SocketAddr,
    /// What is left, in whole seconds rounded down; zero: overdue, and still working.
    pub remaining: Duration,
}

/// One line; `None`: the head, another protocol, or a template that only remembers a client's server.
pub(crate) fn row(line: &[u8]) -> Option<Row> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    if words.next()? != b"TCP" {
        return None;
    }
    let mut address = || Some(SocketAddr::new(ip(words.next()?)?, port(words.next()?)?));
    let (client, service, server) = (address()?, address()?, address()?);
    let _state = words.next()?;
    let seconds: u32 = text(words.next()?)?.parse().ok()?;
    let is_template = client.port() == 0;
    (!is_template).then_some(Row {
        original: Flow::new(client, service),
        server,
        remaining: Duration::from_secs(seconds.into()),
    })
}

/// Takes one line of `/proc/net/ip_vs`.
pub(crate) fn take_service(line: &[u8], into: &mut Services) {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    match words.next() {
        Some(b"TCP") => into.tcp.extend(words.next().and_then(service)),
        Some(b"FWM") => into.by_mark = into.by_mark.saturating_add(1),
        _ => {}
    }
}

/// `0A60000A:0050`, `[2001:0db8:0000:0000:0000:0000:0000:0001]:0050`
fn service(word: &[u8]) -> Option<SocketAddr> {
    let colon = word.iter().rposition(|&byte| byte == b':')?;
    let (address, port_of) = (&word[..colon], &word[colon + 1..]);
    let address = match address.strip_prefix(b"[") {
        Some(inner) => inner.strip_suffix(b"]")?,
        None => address,
    };
    Some(SocketAddr::new(ip(address)?, port(port_of)?))
}

/// Eight hexadecimal digits, or an IPv6 address with all its zeros (`%pI6`).
fn ip(word: &[u8]) -> Option<IpAddr> {
    let word = text(word)?;
    if word.len() == 8 && !word.contains(':') {
        return Some(Ipv4Addr::from(hexadecimal(word)?).into());
    }
    word.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

fn port(word: &[u8]) -> Option<u16> {
    u16::try_from(hexadecimal(text(word)?)?).ok()
}

fn hexadecimal(word: &str) -> Option<u32> {
    // from_str_radix takes a sign.
    word.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(word, 16).ok())?
}

fn text(word: &[u8]) -> Option<&str> {
    std::str::from_utf8(word).ok()
}

/// Parses a whole `/proc/net/ip_vs_conn`: client, virtual service and server of each TCP entry, and what is
/// left of its time.
#[must_use]
pub fn parse_ipvs_entries(file: &[u8]) -> Vec<(SocketAddr, SocketAddr, SocketAddr, Duration)> {
    let rows = file.split(|&byte| byte == b'\n').filter_map(row);
    rows.map(|Row { original: Flow { source, destination }, server, remaining }| {
        (source, destination, server, remaining)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_row_of_tcp_is_left_out() {
        let good = b"TCP 0A000102 B2D4 0A60000A 0050 0A000202 1F90 ESTABLISHED     899";
        let client: SocketAddr = "10.0.1.2:45780".parse().unwrap();
        let service: SocketAddr = "10.96.0.10:80".parse().unwrap();
        let expected = Row {
            original: Flow::new(client, service),
            server: "10.0.2.2:8080".parse().unwrap(),
            remaining: Duration::from_secs(899),
        };
        assert_eq!(row(good), Some(expected));
        assert_eq!(row(&[&good[..], b" sip-x data"].concat()), Some(expected), "persistence data");
        for (case, line) in [
            ("the head", &b"Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires"[..]),
            ("UDP", b"UDP 0A000102 B2D4 0A60000A 0050 0A000202 1F90 UDP             299"),
            ("template", b"TCP 0A000102 0000 0A60000A 0050 0A000202 1F90 NONE            359"),
            ("no time", b"TCP 0A000102 B2D4 0A60000A 0050 0A000202 1F90 ESTABLISHED"),
            ("a sign", b"TCP +A000102 B2D4 0A60000A 0050 0A000202 1F90 ESTABLISHED 899"),
            ("a wide port", b"TCP 0A000102 1B2D4 0A60000A 0050 0A000202 1F90 ESTABLISHED 899"),
            ("nothing", b""),
        ] {
            assert_eq!(row(line), None, "{case}");
        }
    }

    #[test]
    fn services_as_text() {
        let mut services = Services::default();
        for line in [
            &b"IP Virtual Server version 1.2.1 (size=4096)"[..],
            b"Prot LocalAddress:Port Scheduler Flags",
            b"  -> RemoteAddress:Port Forward Weight ActiveConn InActConn",
            b"TCP  0A60000A:0050 rr ",
            b"  -> 0A000202:1F90      Masq    1      1          0         ",
            b"UDP  0A60000A:0035 rr ",
            b"TCP  [2001:0db8:0000:0000:0000:0000:0000:000a]:0050 rr ",
            b"FWM  00000007 rr ",
            b"TCP  [2001:0db8:0000:0000:0000:0000:0000:000a:0050 rr ",
        ] {
            take_service(line, &mut services);
        }
        let tcp = ["10.96.0.10:80", "[2001:db8::a]:80"].map(|text| text.parse().unwrap()).to_vec();
        assert_eq!(services, Services { tcp, by_mark: 1 });
    }
}
