//! Writes packets: segments of the simulated ends, and what a middlebox says on its own.

use super::{
    checksum::Sum,
    packet::{Carried, End, Segment, TCP, View, flag, put_address, put_u16},
};

/// Bytes of a quoted packet in an ICMP error: its IP header and 8 bytes more always fit (RFC 792).
const QUOTED: usize = 128;

/// Protocol number of UDP (IANA).
#[cfg(all(feature = "programs", target_os = "linux", not(stillopen_portable)))]
const UDP: u8 = 17;

/// A TCP segment to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draft {
    pub(crate) v6: bool,
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    pub(crate) payload: usize,
}

impl Draft {
    /// The bytes, checksums right, the payload zeroes.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut packet =
            ip_header(self.v6, TCP, self.from.address, self.to.address, 20 + self.payload);
        let offset = packet.len();
        packet.extend(self.from.port.to_be_bytes());
        packet.extend(self.to.port.to_be_bytes());
        packet.extend(self.seq.to_be_bytes());
        packet.extend(self.ack.to_be_bytes());
        // Data offset 5 words; window 64240, Linux's first; checksum and urgent pointer zero.
        packet.extend([5 << 4, self.flags, 0xfa, 0xf0, 0, 0, 0, 0]);
        packet.resize(offset + 20 + self.payload, 0);
        let sum = l4_checksum(self.v6, self.from.address, self.to.address, TCP, &packet[offset..]);
        put_u16(&mut packet, offset + 16, sum);
        packet
    }
}

/// The reset that a host without such a socket answers with (`tcp_v4_send_reset`); none for a reset.
pub(crate) fn reset_for(view: &View, segment: &Segment) -> Option<Vec<u8>> {
    if segment.has(flag::RST) {
        return None;
    }
    let (seq, ack, flags) = if segment.has(flag::ACK) {
        (segment.ack, 0, flag::RST)
    } else {
        (0, segment.next_seq(), flag::RST | flag::ACK)
    };
    let (from, to) = (view.to(segment), view.from(segment));
    Some(Draft { v6: view.v6, from, to, seq, ack, flags, payload: 0 }.write())
}

/// "Port unreachable" to the sender of `packet`, quoting it; none for a reset.
pub(crate) fn unreachable_for(packet: &[u8], view: &View, segment: &Segment) -> Option<Vec<u8>> {
    if segment.has(flag::RST) {
        return None;
    }
    // ICMP type 3 code 3 (RFC 792); ICMPv6 type 1 code 4 (RFC 4443).
    let (protocol, kind, code) = if view.v6 { (58, 1, 4) } else { (1, 3, 3) };
    let quoted = &packet[..view.end.min(QUOTED)];
    let (from, to) = (view.destination, view.source);
    let mut answer = ip_header(view.v6, protocol, from, to, 8 + quoted.len());
    let offset = answer.len();
    answer.extend([kind, code, 0, 0, 0, 0, 0, 0]);
    answer.extend_from_slice(quoted);
    let sum = if view.v6 {
        l4_checksum(true, from, to, protocol, &answer[offset..])
    } else {
        let mut sum = Sum::default();
        sum.bytes(&answer[offset..]);
        sum.finish()
    };
    put_u16(&mut answer, offset + 2, sum);
    Some(answer)
}

/// The connection that an ICMP "port unreachable" speaks of, as its receiver names it: (local, peer).
pub(crate) fn unreachable_quote(packet: &[u8]) -> Option<(End, End, u32)> {
    let view = View::parse(packet).ok()?;
    let wanted: [u8; 2] = match (view.v6, view.carried) {
        (false, Carried::Other(1)) => [3, 3],
        (true, Carried::Other(58)) => [1, 4],
        _ => return None,
    };
    let icmp = packet.get(view.offset..view.end)?;
    if icmp.get(..2)? != wanted {
        return None;
    }
    // The quote may be cut short of its own length, so only addresses, ports and the number are read.
    let quote = icmp.get(8..)?;
    let (ports, from, to) = if view.v6 {
        let address = |at: usize| quote.get(at..at + 16)?.try_into().ok().map(u128::from_be_bytes);
        (40, address(8)?, address(24)?)
    } else {
        let address = |at: usize| {
            let bits: [u8; 4] = quote.get(at..at + 4)?.try_into().ok()?;
            Some(0xffff_0000_0000 | u128::from(u32::from_be_bytes(bits)))
        };
        (usize::from(quote.first()? & 0x0f) * 4, address(12)?, address(16)?)
    };
    let port = |at: usize| quote.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes);
    let local = End { address: from, port: port(ports)? };
    let seq = quote.get(ports + 4..ports + 8)?.try_into().ok().map(u32::from_be_bytes)?;
    Some((local, End { address: to, port: port(ports + 2)? }, seq))
}

/// Makes the checksum of a TCP or UDP packet of which only the pseudo header is summed (`skb_checksum_help`).
#[cfg(all(feature = "programs", target_os = "linux", not(stillopen_portable)))]
pub(crate) fn complete_checksum(packet: &mut [u8]) {
    let Ok(view) = View::parse(packet) else { return };
    let at = match view.carried {
        Carried::Tcp(_) => 16,
        Carried::Other(UDP) => 6,
        _ => return,
    };
    let Some(body) = packet.get(view.offset..view.end) else { return };
    let mut sum = Sum::default();
    sum.bytes(body);
    let sum = match (sum.finish(), view.carried) {
        // 0 says that there is none (RFC 768): its other form (`CSUM_MANGLED_0`).
        (0, Carried::Other(_)) => 0xffff,
        (sum, _) => sum,
    };
    put_u16(packet, view.offset + at, sum);
}

fn l4_checksum(v6: bool, from: u128, to: u128, protocol: u8, bytes: &[u8]) -> u16 {
    let mut sum = Sum::default();
    sum.pseudo_header(v6, from, to, protocol, u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    sum.bytes(bytes);
    sum.finish()
}

fn ip_header(v6: bool, protocol: u8, from: u128, to: u128, length: usize) -> Vec<u8> {
    let length_of = |bytes: usize| u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes();
    let mut packet = Vec::with_capacity(60 + length);
    if v6 {
        packet.extend([0x60, 0, 0, 0]);
        packet.extend(length_of(length));
        packet.extend([protocol, 64]);
        packet.resize(40, 0);
        put_address(&mut packet, true, from, to);
    } else {
        packet.extend([0x45, 0]);
        packet.extend(length_of(20 + length));
        // Identification 0, "don't fragment": what Linux sends for TCP. Time to live 64.
        packet.extend([0, 0, 0x40, 0, 64, protocol]);
        packet.resize(20, 0);
        put_address(&mut packet, false, from, to);
        let mut sum = Sum::default();
        sum.bytes(&packet);
        put_u16(&mut packet, 10, sum.finish());
    }
    packet
}
