//! Reads a raw IPv4 or IPv6 packet and rewrites its addresses: the middlebox's only view of bytes.
//!
//! Never panics, whatever the bytes are. Owns no state. Read first: RFC 791, RFC 8200 §4, RFC 9293 §3.1.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::checksum::{Sum, adjusted};

/// Protocol number of TCP (IANA).
pub(crate) const TCP: u8 = 6;
/// More extension headers than this are an attack, not traffic.
const MOST_EXTENSIONS: usize = 8;

/// TCP flags, as they stand in the header.
pub(crate) mod flag {
    pub(crate) const FIN: u8 = 0x01;
    pub(crate) const SYN: u8 = 0x02;
    pub(crate) const RST: u8 = 0x04;
    pub(crate) const PSH: u8 = 0x08;
    pub(crate) const ACK: u8 = 0x10;
}

/// Why bytes are not a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Fewer bytes than the headers name.
    #[error("truncated")]
    Truncated,
    /// Neither IPv4 nor IPv6.
    #[error("IP version is neither 4 nor 6")]
    Version,
    /// A header length below its minimum.
    #[error("a header length is below its minimum")]
    HeaderLength,
    /// The IPv4 header's checksum is wrong: `ip_rcv` drops it.
    #[error("wrong IPv4 header checksum")]
    HeaderChecksum,
    /// Too many IPv6 extension headers.
    #[error("too many extension headers")]
    Extensions,
}

/// Address and port of one end. IPv4 is kept as `::ffff:a.b.c.d`, so that both families have one shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct End {
    pub(crate) address: u128,
    pub(crate) port: u16,
}

impl From<SocketAddr> for End {
    fn from(from: SocketAddr) -> Self {
        let address = match from.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        Self { address, port: from.port() }
    }
}

impl From<End> for SocketAddr {
    fn from(end: End) -> Self {
        Self::new(Ipv6Addr::from_bits(end.address).to_canonical(), end.port)
    }
}

/// What is known of a packet after one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    pub(crate) v6: bool,
    pub(crate) source: u128,
    pub(crate) destination: u128,
    /// Where the carried protocol begins.
    pub(crate) offset: usize,
    /// Where the packet ends: bytes after it are the link's padding.
    pub(crate) end: usize,
    pub(crate) carried: Carried,
    /// The TCP checksum is still the pseudo header's sum: the device, or nobody, does the rest
    /// (`CHECKSUM_PARTIAL`).
    pub(crate) partial: bool,
}

/// What a packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// A whole TCP segment.
    Tcp(Segment),
    /// A part of a larger packet: its ports can't be known.
    Fragment,
    /// Another protocol, by its number.
    Other(u8),
}

/// The TCP header's fields that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    pub(crate) source: u16,
    pub(crate) destination: u16,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    pub(crate) payload: usize,
}

impl Segment {
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The sequence number after this segment: SYN and FIN count one each.
    pub(crate) fn next_seq(&self) -> u32 {
        let control = u32::from(self.has(flag::SYN)) + u32::from(self.has(flag::FIN));
        let payload = u32::try_from(self.payload).unwrap_or(u32::MAX);
        self.seq.wrapping_add(payload).wrapping_add(control)
    }
}

impl View {
    /// Looks at `packet`, which begins with its IP header.
    ///
    /// # Errors
    /// [`Malformed`], where the bytes are not a whole packet.
    pub fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        match packet.first().map(|first| first >> 4) {
            None => Err(Malformed::Truncated),
            Some(4) => parse_v4(packet),
            Some(6) => parse_v6(packet),
            Some(_) => Err(Malformed::Version),
        }
    }

    /// The sender, where the packet is TCP.
    pub(crate) fn from(&self, segment: &Segment) -> End {
        End { address: self.source, port: segment.source }
    }

    /// The destination, where the packet is TCP.
    pub(crate) fn to(&self, segment: &Segment) -> End {
        End { address: self.destination, port: segment.destination }
    }

    /// Whether the TCP checksum is right; one that is yet to be made is.
    pub(crate) fn tcp_checksum_holds(&self, packet: &[u8]) -> bool {
        if self.partial {
            return true;
        }
        let Some(tcp) = packet.get(self.offset..self.end) else { return false };
        let length = u32::try_from(tcp.len()).unwrap_or(u32::MAX);
        let mut sum = Sum::default();
        sum.pseudo_header(self.v6, self.source, self.destination, TCP, length);
        sum.bytes(tcp);
        sum.finish() == 0
    }

    /// Gives a TCP packet another sender and destination, and updates both checksums incrementally
    /// (RFC 1624): a wrong checksum stays wrong, a partial one stays right.
    pub(crate) fn rewrite(&self, packet: &mut [u8], from: End, to: End) {
        let Carried::Tcp(segment) = self.carried else { return };
        let mut addresses = Sum::default();
        let mut ports = Sum::default();
        for (old, new) in [(self.source, from.address), (self.destination, to.address)] {
            addresses.replaced(self.v6, old, new);
        }
        for (old, new) in [(segment.source, from.port), (segment.destination, to.port)] {
            ports.word(!old);
            ports.word(new);
        }
        put_address(packet, self.v6, from.address, to.address);
        put_u16(packet, self.offset, from.port);
        put_u16(packet, self.offset + 2, to.port);
        if !self.v6 {
            let held = get_u16(packet, 10).unwrap_or_default();
            put_u16(packet, 10, adjusted(held, addresses));
        }
        let held = get_u16(packet, self.offset + 16).unwrap_or_default();
        let new = if self.partial {
            // Not complemented, and without the ports (`inet_proto_csum_replace4`).
            !adjusted(!held, addresses)
        } else {
            adjusted(held, addresses.plus(ports))
        };
        put_u16(packet, self.offset + 16, new);
    }
}

fn parse_v4(packet: &[u8]) -> Result<View, Malformed> {
    let header: &[u8; 20] = packet.first_chunk().ok_or(Malformed::Truncated)?;
    let offset = usize::from(header[0] & 0x0f) * 4;
    let end = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if offset < 20 || end < offset {
        return Err(Malformed::HeaderLength);
    }
    if packet.len() < end {
        return Err(Malformed::Truncated);
    }
    let mut sum = Sum::default();
    sum.bytes(&packet[..offset]);
    if sum.finish() != 0 {
        return Err(Malformed::HeaderChecksum);
    }
    // "More fragments" or an offset: a part (RFC 791). The reserved and DF bits say nothing of that.
    let part = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let carried = if part { Carried::Fragment } else { carried(packet, header[9], offset, end)? };
    let address = |at: usize| {
        let bits = u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        0xffff_0000_0000 | u128::from(bits)
    };
    let (source, destination) = (address(12), address(16));
    Ok(View { v6: false, source, destination, offset, end, carried, partial: false })
}

fn parse_v6(packet: &[u8]) -> Result<View, Malformed> {
    let header: &[u8; 40] = packet.first_chunk().ok_or(Malformed::Truncated)?;
    let end = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    if packet.len() < end {
        return Err(Malformed::Truncated);
    }
    let (offset, carried) = after_extensions(packet, header[6], end)?;
    let address = |at: usize| {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&header[at..at + 16]);
        u128::from_be_bytes(bytes)
    };
    let (source, destination) = (address(8), address(24));
    Ok(View { v6: true, source, destination, offset, end, carried, partial: false })
}

/// Walks the extension headers (RFC 8200 §4).
fn after_extensions(packet: &[u8], first: u8, end: usize) -> Result<(usize, Carried), Malformed> {
    let mut next = first;
    let mut offset = 40;
    for _ in 0..MOST_EXTENSIONS {
        let body = packet.get(offset..end).unwrap_or_default();
        let length = match next {
            // Hop-by-hop, routing, destination options: length in 8 bytes, less the first.
            0 | 43 | 60 => (usize::from(*body.get(1).ok_or(Malformed::Truncated)?) + 1) * 8,
            44 => 8,
            // Authentication header: length in 4 bytes, less two (RFC 4302).
            51 => (usize::from(*body.get(1).ok_or(Malformed::Truncated)?) + 2) * 4,
            other => return Ok((offset, carried(packet, other, offset, end)?)),
        };
        let extension = body.get(..length).ok_or(Malformed::Truncated)?;
        // A routing header with segments left: the destination here is not the last one.
        if next == 43 && extension[3] != 0 {
            return Ok((offset, Carried::Other(43)));
        }
        // An "atomic" fragment (no offset, no more) is whole (RFC 6946).
        if next == 44 && u16::from_be_bytes([extension[2], extension[3]]) & 0xfff9 != 0 {
            return Ok((offset, Carried::Fragment));
        }
        next = extension[0];
        offset += length;
    }
    Err(Malformed::Extensions)
}

fn carried(packet: &[u8], protocol: u8, offset: usize, end: usize) -> Result<Carried, Malformed> {
    if protocol != TCP {
        return Ok(Carried::Other(protocol));
    }
    let tcp = packet.get(offset..end).ok_or(Malformed::Truncated)?;
    let header: &[u8; 20] = tcp.first_chunk().ok_or(Malformed::Truncated)?;
    let header_length = usize::from(header[12] >> 4) * 4;
    if header_length < 20 {
        return Err(Malformed::HeaderLength);
    }
    let payload = tcp.len().checked_sub(header_length).ok_or(Malformed::Truncated)?;
    Ok(Carried::Tcp(Segment {
        source: u16::from_be_bytes([header[0], header[1]]),
        destination: u16::from_be_bytes([header[2], header[3]]),
        seq: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
        ack: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
        flags: header[13],
        payload,
    }))
}

fn get_u16(packet: &[u8], at: usize) -> Option<u16> {
    packet.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]))
}

pub(crate) fn put_u16(packet: &mut [u8], at: usize, value: u16) {
    if let Some(two) = packet.get_mut(at..at + 2) {
        two.copy_from_slice(&value.to_be_bytes());
    }
}

/// Writes both addresses into the IP header.
pub(crate) fn put_address(packet: &mut [u8], v6: bool, from: u128, to: u128) {
    let (at, length) = if v6 { (8, 16) } else { (12, 4) };
    for (place, address) in [(at, from), (at + length, to)] {
        if let Some(field) = packet.get_mut(place..place + length) {
            field.copy_from_slice(&address.to_be_bytes()[16 - length..]);
        }
    }
}
