//! `cargo xtask bench-drain`: the floor. Asks the kernel for the same connections as `stillopen check`
//! and looks at none of them.

use std::fs::File;

use anyhow::{Context, Result};
use rustix::{
    fd::AsFd as _,
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink::SOCK_DIAG, recv,
        send, socket_with,
    },
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

/// As stillopen-collect has it.
const BUFFER: usize = 64 * 1024;
/// `sizeof(struct nlmsghdr)` and `sizeof(struct inet_diag_req_v2)`
const REQUEST: u32 = 16 + 56;
/// `SOCK_DIAG_BY_FAMILY`
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`
const REQUEST_DUMP: u16 = 0x301;
/// `IPPROTO_TCP`
const TCP: u8 = 6;
/// `1 << (INET_DIAG_INFO - 1)`
const INFO: u8 = 1 << 1;
/// ESTABLISHED, `SYN_SENT`, `FIN_WAIT1`, `FIN_WAIT2`, `CLOSE_WAIT`
const STATES: u32 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 8;

/// Prints the number of bytes.
pub(crate) fn run(pid: u32) -> Result<()> {
    let path = format!("/proc/{pid}/ns/net");
    let namespace = File::open(&path).with_context(|| format!("open {path}"))?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .with_context(|| format!("enter {path}"))?;
    let mut bytes = 0;
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        bytes += drain(family)?;
    }
    println!("{bytes}");
    Ok(())
}

fn drain(family: AddressFamily) -> Result<usize> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(SOCK_DIAG))?;
    send(&socket, &request(family), SendFlags::empty())?;
    let (mut buffer, mut bytes) = (vec![0; BUFFER], 0);
    loop {
        // Each receive has the kernel write the next block, so an empty queue is the end.
        match recv(&socket, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok((_, length)) => bytes += length,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(bytes),
            Err(error) => return Err(error).context("receive a dump"),
        }
    }
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2`
fn request(family: AddressFamily) -> [u8; REQUEST as usize] {
    let mut bytes = [0; REQUEST as usize];
    bytes[..4].copy_from_slice(&REQUEST.to_ne_bytes());
    bytes[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    bytes[16] = u8::try_from(family.as_raw()).expect("AF_INET and AF_INET6 fit");
    bytes[17] = TCP;
    bytes[18] = INFO;
    bytes[20..24].copy_from_slice(&STATES.to_ne_bytes());
    bytes
}
