//! Writes netlink messages and waits for the kernel's word on each. Framing as in
//! `include/uapi/linux/netlink.h`. What drivers share: `links.rs` makes devices, addresses and routes
//! with it, `sockets.rs` asks for sockets.

pub(crate) mod links;
pub(crate) mod sockets;

use std::io;

use rustix::{
    fd::OwnedFd,
    net::{
        AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send,
        socket_with,
    },
};

/// `NLM_F_REQUEST`, and with `NLM_F_ACK`
const REQUEST: u16 = 1;
const REQUEST_ACK: u16 = 1 | 4;
/// `NLM_F_EXCL | NLM_F_CREATE`
pub(crate) const CREATE: u16 = 0x200 | 0x400;
/// `NLMSG_ERROR`: also the acknowledgment, with 0.
const ERROR: u16 = 2;
/// `NLA_F_NESTED`
const NESTED: u16 = 0x8000;
const HEADER: usize = 16;

/// The body of a message or of a nested attribute.
#[derive(Debug, Default, Clone)]
pub(crate) struct Body(pub Vec<u8>);

impl Body {
    /// A family's own header.
    pub(crate) fn with(header: &[u8]) -> Self {
        Self(header.to_vec())
    }

    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn text(self, kind: u16, value: &str) -> Self {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat())
    }

    pub(crate) fn native(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    pub(crate) fn network(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_be_bytes())
    }

    pub(crate) fn nested(self, kind: u16, body: &Self) -> Self {
        self.attribute(kind | NESTED, &body.0)
    }
}

/// A netlink socket of the namespace that the thread was in when it was opened.
#[derive(Debug)]
pub(crate) struct Netlink(OwnedFd);

impl Netlink {
    /// One that was opened elsewhere.
    pub(crate) fn of(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// `None`: `NETLINK_ROUTE`.
    pub(crate) fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        Ok(Self(socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?))
    }

    /// Asks for one thing; what the kernel answers before it acknowledges.
    pub(crate) fn ask(&self, kind: u16, flags: u16, body: &Body) -> io::Result<Vec<Vec<u8>>> {
        send(&self.0, &message(kind, REQUEST_ACK | flags, body), SendFlags::empty())?;
        self.answers(1)
    }

    /// Asks for something; each block of the answer is handed to `take` as the kernel wrote it, until that says
    /// that it was the last.
    pub(crate) fn blocks(
        &self,
        kind: u16,
        flags: u16,
        body: &Body,
        mut take: impl FnMut(&[u8]) -> io::Result<bool>,
    ) -> io::Result<()> {
        send(&self.0, &message(kind, REQUEST | flags, body), SendFlags::empty())?;
        let mut buffer = vec![0; 32 * 1024];
        loop {
            let (_, length) = recv(&self.0, &mut buffer[..], RecvFlags::empty())?;
            if take(buffer.get(..length).unwrap_or_default())? {
                return Ok(());
            }
        }
    }

    /// Several messages as one, the first and the last of which are not acknowledged (`nfnetlink` batch).
    pub(crate) fn batch(&self, messages: &[(u16, u16, Body)]) -> io::Result<()> {
        let inner = messages.len().saturating_sub(2);
        let framed = messages.iter().enumerate().map(|(at, (kind, flags, body))| {
            let border = at == 0 || at + 1 == messages.len();
            message(*kind, if border { REQUEST } else { REQUEST_ACK } | flags, body)
        });
        send(&self.0, &framed.collect::<Vec<_>>().concat(), SendFlags::empty())?;
        self.answers(inner).map(drop)
    }

    fn answers(&self, mut acknowledged: usize) -> io::Result<Vec<Vec<u8>>> {
        let (mut answers, mut buffer) = (Vec::new(), vec![0; 32 * 1024]);
        while acknowledged > 0 {
            let (_, length) = recv(&self.0, &mut buffer[..], RecvFlags::empty())?;
            let mut rest = &buffer[..length];
            while let Some(header) = rest.first_chunk::<HEADER>() {
                let word = |at| {
                    u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
                };
                let size = usize::try_from(word(0)).unwrap_or(usize::MAX);
                let body = rest.get(HEADER..size).ok_or(io::ErrorKind::InvalidData)?;
                if u16::from_ne_bytes([header[4], header[5]]) == ERROR {
                    let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                    if code != 0 {
                        return Err(io::Error::from_raw_os_error(code.saturating_neg()));
                    }
                    acknowledged = acknowledged.saturating_sub(1);
                } else {
                    answers.push(body.to_vec());
                }
                rest = rest.get(size.next_multiple_of(4)..).unwrap_or_default();
            }
        }
        Ok(answers)
    }
}

/// The attributes of an answer.
pub(crate) fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    while let Some([a, b, c, d]) = bytes.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([*a, *b]));
        let Some(value) = bytes.get(4..length) else { break };
        found.push((u16::from_ne_bytes([*c, *d]) & !NESTED, value));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

fn message(kind: u16, flags: u16, body: &Body) -> Vec<u8> {
    let length = u32::try_from(HEADER + body.0.len()).unwrap_or(u32::MAX);
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(&body.0);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}
