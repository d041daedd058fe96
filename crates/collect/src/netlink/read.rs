//! One request over a netlink socket of the calling thread's network namespace.

use std::{io, os::fd::OwnedFd};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send,
        socket_with,
    },
};

use super::parse::{Block, HEADER, NetlinkError, each_message};

/// A dump comes in blocks of 32 KiB at most (`netlink_recvmsg`), whatever the buffer.
const BUFFER: usize = 64 * 1024;
/// `NLM_F_REQUEST`
const REQUEST: u16 = 0x1;
/// `NLM_F_REQUEST | NLM_F_ACK`
const REQUEST_ACK: u16 = REQUEST | 0x4;
/// `NLM_F_REQUEST | NLM_F_DUMP`
const REQUEST_DUMP: u16 = REQUEST | 0x300;
/// A dump that the kernel could not give consistently is asked for again, this often.
const REPEATS: usize = 2;

/// Whether a dump gave everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whole {
    /// It did.
    Yes,
    /// The table changed under it, or the kernel dropped a part, each time that it was asked.
    No,
}

/// The receive buffer, used again from dump to dump.
pub(crate) struct Buffer(Vec<u8>);

impl Buffer {
    pub(crate) fn new() -> Self {
        Self(vec![0; BUFFER])
    }
}

/// Asks `request` of `protocol` and hands each block to `parse`. `restart` forgets what `parse` took
/// when the dump has to be asked for again.
pub(crate) fn dump<S>(
    protocol: Option<Protocol>,
    kind: u16,
    request: &[u8],
    buffer: &mut Buffer,
    state: &mut S,
    restart: impl Fn(&mut S),
    parse: impl Fn(&[u8], &mut S) -> Result<Block, NetlinkError>,
) -> Result<Whole, NetlinkError> {
    until_whole(state, restart, |state| {
        once(protocol, kind, request, buffer, |block| parse(block, state))
    })
}

fn until_whole<S>(
    state: &mut S,
    restart: impl Fn(&mut S),
    mut once: impl FnMut(&mut S) -> Result<Whole, NetlinkError>,
) -> Result<Whole, NetlinkError> {
    for _ in 0..REPEATS {
        if once(state)? == Whole::Yes {
            return Ok(Whole::Yes);
        }
        restart(state);
    }
    once(state)
}

fn once(
    protocol: Option<Protocol>,
    kind: u16,
    request: &[u8],
    buffer: &mut Buffer,
    mut parse: impl FnMut(&[u8]) -> Result<Block, NetlinkError>,
) -> Result<Whole, NetlinkError> {
    // A socket of its own for each dump: nothing of an earlier one can be left in it.
    let socket = Socket::open(protocol)?;
    socket.send(&framed(kind, REQUEST_DUMP, request))?;
    let mut whole = Whole::Yes;
    loop {
        // The kernel had no room for a part of it.
        let Some(block) = received(&socket.0, buffer)? else { return Ok(Whole::No) };
        let said = parse(block)?;
        if said.interrupted {
            whole = Whole::No;
        }
        if said.done {
            return Ok(whole);
        }
    }
}

/// Asks `request` of `protocol`, which has one answer, and hands that to `parse`.
pub(crate) fn ask<T>(
    protocol: Option<Protocol>,
    kind: u16,
    request: &[u8],
    buffer: &mut Buffer,
    parse: impl FnOnce(&[u8]) -> Result<T, NetlinkError>,
) -> Result<T, NetlinkError> {
    Socket::open(protocol)?.ask(kind, request, buffer, parse)
}

/// Has the kernel do what `request` of `protocol` says, in the calling thread's network namespace, and waits
/// until it has done it.
///
/// # Errors
/// The request could not be sent, or the kernel refused it.
pub fn request_done(
    protocol: Option<Protocol>,
    kind: u16,
    request: &[u8],
) -> Result<(), NetlinkError> {
    let socket = Socket::open(protocol)?;
    socket.send(&framed(kind, REQUEST_ACK, request))?;
    let mut buffer = Buffer::new();
    let answer = received(&socket.0, &mut buffer)?;
    // The answer is an error message, whose error is 0 where it was done.
    each_message(answer.ok_or_else(|| failed("recv")(Errno::NOBUFS))?, |_, _| Ok(())).map(|_| ())
}

/// A socket for questions with one answer each. It stays in the namespace that it was opened in, whichever
/// thread uses it.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// In the calling thread's network namespace.
    pub(crate) fn open(protocol: Option<Protocol>) -> Result<Self, NetlinkError> {
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)
            .map(Self)
            .map_err(failed("socket"))
    }

    /// Asks `request` and hands the answer to `parse`.
    pub(crate) fn ask<T>(
        &self,
        kind: u16,
        request: &[u8],
        buffer: &mut Buffer,
        parse: impl FnOnce(&[u8]) -> Result<T, NetlinkError>,
    ) -> Result<T, NetlinkError> {
        self.send(&framed(kind, REQUEST, request))?;
        let answer = received(&self.0, buffer)?;
        parse(answer.ok_or_else(|| failed("recv")(Errno::NOBUFS))?)
    }

    /// Without an address it goes to the kernel (`netlink_sendmsg`).
    fn send(&self, message: &[u8]) -> Result<(), NetlinkError> {
        send(&self.0, message, SendFlags::empty()).map(|_| ()).map_err(failed("send"))
    }
}

/// The next block; `None`: the kernel had no room for it.
fn received<'a>(
    socket: &OwnedFd,
    buffer: &'a mut Buffer,
) -> Result<Option<&'a [u8]>, NetlinkError> {
    let length = loop {
        match recv(socket, &mut buffer.0[..], RecvFlags::TRUNC) {
            Ok((_, length)) => break length,
            Err(Errno::INTR) => {}
            Err(Errno::NOBUFS) => return Ok(None),
            Err(error) => return Err(failed("recv")(error)),
        }
    };
    let block = buffer.0.get(..length).ok_or(NetlinkError::Malformed {
        what: "the receive buffer",
        got: BUFFER,
        need: length,
    })?;
    if block.is_empty() {
        return Err(NetlinkError::Malformed { what: "a block", got: 0, need: HEADER });
    }
    Ok(Some(block))
}

fn failed(call: &'static str) -> impl FnOnce(Errno) -> NetlinkError {
    move |errno| NetlinkError::Io { call, cause: io::Error::from(errno) }
}

/// `struct nlmsghdr` and the request.
fn framed(kind: u16, flags: u16, request: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER + request.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(HEADER + request.len());
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]); // Sequence and port: the socket carries one request only.
    bytes.extend(request);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_that_is_not_whole_is_asked_for_again_and_then_said_to_be_a_part() {
        for (whole_at, expected, asked) in
            [(1, Whole::Yes, 1), (2, Whole::Yes, 2), (3, Whole::Yes, 3), (4, Whole::No, 3)]
        {
            let mut times = 0;
            let mut rows = Vec::new();
            let said = until_whole(&mut rows, Vec::clear, |rows| {
                times += 1;
                rows.push(times);
                Ok(if times == whole_at { Whole::Yes } else { Whole::No })
            });
            assert_eq!(said.unwrap(), expected, "whole at {whole_at}");
            // Only what the last one gave.
            assert_eq!((times, rows), (asked, vec![asked]), "whole at {whole_at}");
        }
    }

    #[test]
    fn a_request_that_the_kernel_does_not_know_is_refused() {
        let unknown = 0x7fff;
        let dumped = dump(
            Some(rustix::net::netlink::SOCK_DIAG),
            unknown,
            &[],
            &mut Buffer::new(),
            &mut (),
            |()| {},
            |block, ()| super::super::parse::each_message(block, |_, _| Ok(())),
        );
        assert!(matches!(dumped, Err(NetlinkError::Refused { .. })), "{dumped:?}");
    }
}
