//! The structures of `include/uapi/linux/inet_diag.h` and `include/uapi/linux/tcp.h`, by offset.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use stillopen_model::{Counters, Micros, Millis, State, Timer};

use crate::netlink::{NetlinkError, u32_at, u64_at};

/// `TCPDIAG_GETSOCK`. Unlike `SOCK_DIAG_BY_FAMILY` it gives IPv4 and IPv6 in one walk of the table
/// (`inet_diag_dump_compat` sets `AF_UNSPEC`); the messages are the same.
pub(crate) const GET_TCP_SOCKETS: u16 = 18;
/// `INET_DIAG_INFO`
pub(crate) const INET_DIAG_INFO: u16 = 2;
/// `INET_DIAG_SKV6ONLY`
pub(crate) const INET_DIAG_SKV6ONLY: u16 = 11;
/// `AF_INET6`
pub(crate) const INET6: u8 = 10;
/// `TCP_LISTEN` (`include/net/tcp_states.h`)
pub(crate) const LISTEN: u8 = 10;

/// `sizeof(struct inet_diag_msg)`
const MESSAGE: usize = 72;
/// `struct tcp_info` up to and with `tcpi_data_segs_out`, which Linux 4.6 has.
const INFO_COUNTERS: usize = 160;
/// `struct tcp_info` up to and with `tcpi_bytes_retrans`, which Linux 4.19 has.
const INFO_BYTES: usize = 216;
/// `struct tcp_info` up to and with `tcpi_options`.
const INFO_HEAD: usize = 8;
/// `TCPI_OPT_SYN_DATA`: the SYN carried data that the peer acknowledged.
const OPTION_SYN_DATA: u8 = 32;

/// `struct inet_diag_msg`, in place.
#[derive(Clone, Copy)]
pub(crate) struct DiagMessage<'a>(&'a [u8; MESSAGE]);

impl<'a> DiagMessage<'a> {
    /// The structure and the attributes that follow it.
    #[inline]
    pub(crate) fn split(body: &'a [u8]) -> Result<(Self, &'a [u8]), NetlinkError> {
        let (message, attributes) = body.split_first_chunk().ok_or(NetlinkError::Malformed {
            what: "inet_diag_msg",
            got: body.len(),
            need: MESSAGE,
        })?;
        Ok((Self(message), attributes))
    }

    pub(crate) fn family(self) -> u8 {
        self.0[0]
    }

    pub(crate) fn raw_state(self) -> u8 {
        self.0[1]
    }

    /// The states in which a program can hang; `None`: another one.
    pub(crate) fn state(self) -> Option<State> {
        match self.raw_state() {
            1 => Some(State::Established),
            2 => Some(State::SynSent),
            4 => Some(State::FinWait1),
            5 => Some(State::FinWait2),
            8 => Some(State::CloseWait),
            _ => None,
        }
    }

    pub(crate) fn timer(self) -> Timer {
        match self.0[2] {
            0 => Timer::None,
            1 => Timer::Retransmit,
            2 => Timer::Keepalive,
            4 => Timer::ZeroWindow,
            _ => Timer::Other,
        }
    }

    /// `idiag_retrans`: retransmits or probes, as the timer is.
    pub(crate) fn retrans(self) -> u8 {
        self.0[3]
    }

    #[inline]
    pub(crate) fn local(self) -> SocketAddr {
        self.address(8, 4)
    }

    #[inline]
    pub(crate) fn peer(self) -> SocketAddr {
        self.address(24, 6)
    }

    /// An IPv4-mapped address is the IPv4 address that the packets carry.
    #[inline]
    fn address(self, at: usize, port_at: usize) -> SocketAddr {
        let bytes = self.0;
        let port = u16::from_be_bytes([bytes[port_at], bytes[port_at + 1]]);
        let mut octets = [0; 16];
        octets.copy_from_slice(&bytes[at..at + 16]);
        let ip = if self.family() == INET6 {
            let ip = Ipv6Addr::from(octets);
            ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4)
        } else {
            IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]))
        };
        SocketAddr::new(ip, port)
    }

    pub(crate) fn cookie(self) -> u64 {
        u64::from(u32_at(self.0, 48)) << 32 | u64::from(u32_at(self.0, 44))
    }

    /// `idiag_expires`, milliseconds.
    pub(crate) fn expires(self) -> Millis {
        Millis::new(u32_at(self.0, 52))
    }

    pub(crate) fn receive_queue(self) -> u32 {
        u32_at(self.0, 56)
    }

    pub(crate) fn send_queue(self) -> u32 {
        u32_at(self.0, 60)
    }

    pub(crate) fn inode(self) -> u32 {
        u32_at(self.0, 68)
    }
}

/// What a socket's own `TCP_INFO` tells while it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpInfo {
    /// `tcpi_state` (`include/net/tcp_states.h`): 1 ESTABLISHED, 7 CLOSE.
    pub state: u8,
    /// `tcpi_probes`: keepalive or window probes in a row without an answer.
    pub probes: u8,
    /// Its stamps and counters.
    pub counters: Counters,
}

/// Takes what getsockopt(2) gave for `TCP_INFO`; `None` before Linux 4.6.
#[must_use]
pub fn parse_tcp_info(bytes: &[u8]) -> Option<TcpInfo> {
    let info = Info::parse(bytes)?;
    Some(TcpInfo { state: bytes[0], probes: info.probes, counters: info.counters? })
}

/// What is taken of `struct tcp_info`, as far as this kernel has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Info {
    pub retransmits: u8,
    pub probes: u8,
    pub syn_data: bool,
    pub counters: Option<Counters>,
    /// How many more bytes are acknowledged than were sent, retransmissions apart: the SYN of the end that
    /// connected counts as one, and so does a FIN (`tcp_ack`, `net/ipv4/tcp_input.c`; measured).
    pub acked_beyond_data: Option<u64>,
}

impl Info {
    /// `None`: too short even for the first fields.
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let head: &[u8; INFO_HEAD] = bytes.first_chunk()?;
        Some(Self {
            retransmits: head[2],
            probes: head[3],
            syn_data: head[5] & OPTION_SYN_DATA != 0,
            counters: bytes.first_chunk().map(counters),
            acked_beyond_data: bytes.first_chunk().map(acked_beyond_data),
        })
    }
}

#[inline]
fn acked_beyond_data(info: &[u8; INFO_BYTES]) -> u64 {
    let sent = u64_at(info, 200).wrapping_sub(u64_at(info, 208));
    u64_at(info, 120).wrapping_sub(sent)
}

#[inline]
fn counters(info: &[u8; INFO_COUNTERS]) -> Counters {
    let ms = |at| Millis::new(u32_at(info, at));
    Counters {
        last_data_sent: ms(44),
        last_data_recv: ms(52),
        last_ack_recv: ms(56),
        rtt: Micros::new(u32_at(info, 68)),
        unacked: u32_at(info, 24),
        segs_in: u32_at(info, 140),
        segs_out: u32_at(info, 136),
        data_segs_in: u32_at(info, 152),
        data_segs_out: u32_at(info, 156),
        bytes_acked: u64_at(info, 120),
        bytes_received: u64_at(info, 128),
    }
}
