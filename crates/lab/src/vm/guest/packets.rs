//! The packet log of a node: every TCP segment that enters or leaves it, by a packet socket.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    num::NonZeroU32,
    time::Duration,
};

use rustix::{
    fd::OwnedFd,
    io::Errno,
    net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, recv, socket_with},
};

use super::{
    super::protocol::Packet,
    links::{Station, mac},
    millis,
};

/// `ETH_P_ALL`, in network byte order.
const ALL: u32 = 0x0003_u16.to_be() as u32;
/// `ETH_HLEN`
const ETHERNET: usize = 14;
/// Headers only.
const SNAP: usize = 256;
const TCP: u8 = 6;

/// The socket, in the namespace that this thread is in.
pub(super) fn open() -> Result<OwnedFd, Errno> {
    let all = NonZeroU32::new(ALL).map(Protocol::from_raw);
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::PACKET, SocketType::RAW, flags, all)
}

/// Takes what has come. Returns whether something of a connection was among it.
pub(super) fn drain(socket: &OwnedFd, lane: u8, at: Duration, mut each: impl FnMut(Packet)) {
    let mut buffer = [0; SNAP];
    while let Ok((got, length)) = recv(socket, &mut buffer, RecvFlags::TRUNC) {
        if let Some(packet) = read(&buffer[..got], length, lane, at) {
            each(packet);
        }
    }
}

fn read(frame: &[u8], length: usize, lane: u8, at: Duration) -> Option<Packet> {
    let source = frame.get(6..12)?;
    let by = [
        (Station::Client, 'c'),
        (Station::NodeToClient, 'C'),
        (Station::NodeToPods, 'P'),
        (Station::Pods, 'p'),
    ];
    let by = by.into_iter().find(|(station, _)| source == mac(lane, *station))?.1;
    let packet = frame.get(ETHERNET..)?;
    let (source, destination, kind, header, rest) = network(packet)?;
    let (quoted, header, [source, destination]) = match kind {
        TCP => (false, header, [source, destination]),
        // ICMP and ICMPv6 errors quote the packet that they are about.
        1 | 58 => {
            let (source, destination, kind, inner, _) = network(header.get(8..)?)?;
            (kind == TCP).then_some((true, inner, [source, destination]))?
        }
        _ => return None,
    };
    let word16 = |at: usize| header.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b));
    let word32 = |at: usize| header.get(at..)?.first_chunk().map(|b| u32::from_be_bytes(*b));
    let (from, to) = (word16(0)?, word16(2)?);
    let (seq, ack) = (word32(4)?, word32(8).unwrap_or(0));
    let (flags, payload) = if quoted {
        ("!".to_owned(), 0)
    } else {
        let data = usize::from(header.get(12)? >> 4) * 4;
        // What was cut off counts.
        let cut = length.saturating_sub(frame.len());
        (flags(*header.get(13)?), (rest + cut).min(length).saturating_sub(data))
    };
    let (from, to) = (SocketAddr::new(source, from), SocketAddr::new(destination, to));
    Some(Packet { lane, at_ms: millis(at), by, from, to, flags, seq, ack, payload })
}

/// Addresses, protocol, what is carried, and how long that says it is.
fn network(packet: &[u8]) -> Option<(IpAddr, IpAddr, u8, &[u8], usize)> {
    match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 15) * 4;
            let v4 = |at: usize| -> Option<IpAddr> {
                Some(Ipv4Addr::from(*packet.get(at..)?.first_chunk::<4>()?).into())
            };
            let carried = packet.get(header..)?;
            Some((v4(12)?, v4(16)?, *packet.get(9)?, carried, carried.len()))
        }
        6 => {
            let v6 = |at: usize| -> Option<IpAddr> {
                Some(Ipv6Addr::from(*packet.get(at..)?.first_chunk::<16>()?).into())
            };
            let carried = packet.get(40..)?;
            Some((v6(8)?, v6(24)?, *packet.get(6)?, carried, carried.len()))
        }
        _ => None,
    }
}

/// As tcpdump has them.
fn flags(bits: u8) -> String {
    let names = [(2, 'S'), (1, 'F'), (4, 'R'), (8, 'P'), (16, '.')];
    names.into_iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ethernet and IPv4 with TCP: a segment of the pod with 5 bytes.
    fn frame() -> Vec<u8> {
        let mut frame = [&[0; 6][..], &mac(2, Station::Pods), &[8, 0]].concat();
        frame.extend([0x45, 0, 0, 45, 0, 0, 0, 0, 64, TCP, 0, 0, 10, 2, 2, 2, 10, 2, 1, 2]);
        frame
            .extend([0x1f, 0x40, 0x4e, 0x20, 0, 0, 0, 9, 0, 0, 0, 8, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
        frame.extend(b"hello");
        frame
    }

    #[test]
    fn a_segment_of_a_pod() {
        let frame = frame();
        let packet = read(&frame, frame.len(), 2, Duration::from_secs(1)).unwrap();
        let text = String::from(packet);
        assert_eq!(text, "2 1000 p 10.2.2.2:8000 10.2.1.2:20000 P. 9 8 5");
        // What the buffer had no room for counts.
        let cut = read(&frame[..54], frame.len(), 2, Duration::ZERO).unwrap();
        assert_eq!(cut.payload, 5);
    }

    #[test]
    fn what_is_cut_short_or_anothers_is_nothing() {
        let frame = frame();
        for length in 0..48 {
            assert_eq!(read(&frame[..length], length, 2, Duration::ZERO), None, "{length}");
        }
        assert_eq!(read(&frame, frame.len(), 3, Duration::ZERO), None, "another lane's");
    }
}
