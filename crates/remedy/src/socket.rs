//! What a socket tells that this process has a descriptor of.
#![allow(unsafe_code, reason = "TCP_INFO and SIOCOUTQ, which no safe library has")]

use std::{
    io,
    os::fd::{AsFd, AsRawFd as _},
};

use stillopen_collect::{TcpInfo, parse_tcp_info};

/// More than any kernel's `struct tcp_info` so far; a longer one is cut off.
const ROOM: usize = 512;

/// `TCP_CLOSE` (`include/net/tcp_states.h`)
const CLOSE: u8 = 7;

/// Asks a socket for what its connection is doing.
///
/// # Errors
/// It is no TCP socket, or the kernel is older than 4.6.
pub(crate) fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut bytes = [0_u8; ROOM];
    let mut length = libc::socklen_t::try_from(ROOM).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: the kernel writes at most `length` bytes into `bytes`, and how many into `length`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let said = bytes.get(..length as usize).unwrap_or(&bytes);
    parse_tcp_info(said).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Whether the peer has not acknowledged all data, sent or not (`SIOCOUTQ`, tcp(7)): keepalive does not run
/// then.
///
/// # Errors
/// It is no TCP socket, or it listens.
pub(crate) fn has_data_in_flight(socket: impl AsFd) -> io::Result<bool> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one int.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { Ok(bytes > 0) } else { Err(io::Error::last_os_error()) }
}

/// The device that a socket is bound to, by its program or by a link-local address; 0: none
/// (`SO_BINDTOIFINDEX`, Linux 5.0).
///
/// # Errors
/// It is no socket.
pub(crate) fn bound_device(socket: impl AsFd) -> io::Result<u32> {
    let mut device: libc::c_int = 0;
    let mut length = libc::socklen_t::try_from(size_of_val(&device)).unwrap_or_default();
    // SAFETY: the kernel writes at most `length` bytes into `device`, and how many into `length`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTOIFINDEX,
            (&raw mut device).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(device.try_into().unwrap_or(0)) } else { Err(io::Error::last_os_error()) }
}

/// Whether the connection has ended: reset, timed out, or destroyed.
pub(crate) fn has_ended(info: &TcpInfo) -> bool {
    info.state == CLOSE
}
