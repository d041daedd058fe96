//! A packet socket on one device: frames in and out as the kernel has them, offloads included.
//!
//! With `PACKET_VNET_HDR` a frame begins with a `virtio_net_hdr` that says what is left to be done: a checksum
//! of which only the pseudo header is summed, segments of up to 64 KiB that are to be cut. Handing that on
//! unchanged is what makes it fast. See `packet(7)` and `include/uapi/linux/virtio_net.h`.

use std::{
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    ptr,
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{SendFlags, send},
};

/// `struct virtio_net_hdr`
pub(super) const OFFLOADS: usize = 10;
/// `ETH_HLEN`
const ETHERNET: usize = 14;
/// Where the packet begins in a frame.
pub(super) const HEAD: usize = OFFLOADS + ETHERNET;
/// The longest frame: an IPv6 packet's payload is 64 KiB and its header comes before.
pub(super) const MOST: usize = HEAD + 40 + 65_536;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`
const NEEDS_CHECKSUM: u8 = 1;
/// `PACKET_VNET_HDR`, `PACKET_QDISC_BYPASS`, `PACKET_IGNORE_OUTGOING` (`include/uapi/linux/if_packet.h`)
const VNET_HDR: i32 = 15;
const QDISC_BYPASS: i32 = 20;
const IGNORE_OUTGOING: i32 = 23;
/// Room for one control message with a time, whatever its alignment.
const CONTROL: usize = 64;
/// The address of every end. Devices that ask for no address of the link put their own as destination, so
/// that a frame of one end is for the other as it is.
pub(super) const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

#[derive(Debug)]
pub(super) struct Port {
    socket: OwnedFd,
    /// Room for one frame.
    frame: Vec<u8>,
    /// The length of the one in it that nobody has taken, and when it came, since 1970.
    next: Option<(usize, Duration)>,
}

impl Port {
    /// Begins to receive what comes from the device with this number.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "constants and sizes in the C library's own types"
    )]
    pub(super) fn bind(socket: OwnedFd, device: u32) -> Result<Self, Errno> {
        for (level, option) in [
            (libc::SOL_PACKET, VNET_HDR),
            (libc::SOL_PACKET, IGNORE_OUTGOING),
            (libc::SOL_PACKET, QDISC_BYPASS),
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS),
        ] {
            let value: i32 = 1;
            // SAFETY: the kernel reads an int of that length.
            check(unsafe {
                libc::setsockopt(
                    socket.as_raw_fd(),
                    level,
                    option,
                    (&raw const value).cast(),
                    size_of::<i32>() as libc::socklen_t,
                )
            })?;
        }
        // SAFETY: a structure of numbers, of which zero is valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as libc::sa_family_t;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = i32::try_from(device).unwrap_or(0);
        // SAFETY: it is a whole address of that family and length.
        check(unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        })?;
        Ok(Self { socket, frame: vec![0; MOST], next: None })
    }

    /// Looks for the next frame where there is none yet. Whether there is one now; none: none has come, or the device
    /// is gone with its namespace.
    pub(super) fn look(&mut self) -> bool {
        if self.next.is_none() {
            self.next = self.receive();
        }
        self.next.is_some()
    }

    /// When the next frame came, since 1970, where one was seen.
    pub(super) fn came(&self) -> Option<Duration> {
        self.next.map(|(_, came)| came)
    }

    /// The next frame: its buffer, to be given back, and its length.
    pub(super) fn take(&mut self) -> Option<(Vec<u8>, usize)> {
        let (length, _) = self.next.take()?;
        Some((std::mem::take(&mut self.frame), length))
    }

    pub(super) fn give_back(&mut self, buffer: Vec<u8>) {
        self.frame = buffer;
    }

    fn receive(&mut self) -> Option<(usize, Duration)> {
        let frame = &mut self.frame;
        let mut buffer = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
        let mut control = [0_u64; CONTROL / size_of::<u64>()];
        // SAFETY: a structure of numbers and pointers, of which zero is valid.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut buffer;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = CONTROL as _;
        // SAFETY: each pointer is to as many bytes as its length says, and outlives the call.
        let got =
            unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
        let length = usize::try_from(got).ok()?;
        Some((length.min(frame.len()), came(&message)))
    }

    /// Sends a frame. One that the device does not take is lost, as on any link.
    pub(super) fn send(&self, frame: &[u8]) {
        let _ = send(&self.socket, frame, SendFlags::DONTWAIT);
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// When a message came, as its control message says (`SO_TIMESTAMPNS`, `socket(7)`); 0 without one.
fn came(message: &libc::msghdr) -> Duration {
    // SAFETY: the kernel has set the length of what it has written into the buffer, which is still there.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    while let Some(header) = ptr::NonNull::new(next) {
        // SAFETY: the macros give null, or a header that lies in what the kernel has written.
        let (level, kind) =
            unsafe { ((*header.as_ptr()).cmsg_level, (*header.as_ptr()).cmsg_type) };
        if (level, kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
            // SAFETY: a message of this kind holds one; it may not be aligned.
            let time = unsafe {
                ptr::read_unaligned(libc::CMSG_DATA(header.as_ptr()).cast::<libc::timespec>())
            };
            let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
            return Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0));
        }
        // SAFETY: as for the first one.
        next = unsafe { libc::CMSG_NXTHDR(message, header.as_ptr()) };
    }
    Duration::ZERO
}

fn check(returned: i32) -> Result<(), Errno> {
    if returned == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
}

/// Whether its TCP checksum is yet to be made.
pub(super) fn needs_checksum(frame: &[u8]) -> bool {
    frame.first().is_some_and(|flags| flags & NEEDS_CHECKSUM != 0)
}

/// A frame with a whole packet, nothing left to be done.
pub(super) fn framed(packet: &[u8]) -> Vec<u8> {
    let v6 = packet.first().is_some_and(|first| first >> 4 == 6);
    let kind: [u8; 2] = if v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
    [&[0; OFFLOADS][..], &MAC, &MAC, &kind, packet].concat()
}

/// The packet of a frame; `None` where no router would hand it on: another protocol, or of this link alone.
pub(super) fn packet(frame: &mut [u8]) -> Option<&mut [u8]> {
    let kind = [*frame.get(HEAD - 2)?, *frame.get(HEAD - 1)?];
    let packet = frame.get_mut(HEAD..)?;
    let routed = match kind {
        [0x08, 0x00] => packet.get(16)? >> 4 != 0xe,
        [0x86, 0xdd] => *packet.get(24)? != 0xff && packet.get(8..10)? != [0xfe, 0x80],
        _ => false,
    };
    routed.then_some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_router_hands_on_is_no_packet() {
        let v4 = |to: [u8; 4]| [&[0x45, 0, 0, 20][..], &[0; 12], &to].concat();
        let v6 = |from: [u8; 2], to: u8| {
            let mut packet = [0; 40];
            (packet[0], packet[8], packet[9], packet[24]) = (0x60, from[0], from[1], to);
            packet.to_vec()
        };
        for (bytes, routed) in [
            (v4([10, 0, 2, 2]), true),
            (v4([224, 0, 0, 22]), false),
            (v6([0xfd, 0], 0xfd), true),
            (v6([0xfd, 0], 0xff), false),
            (v6([0xfe, 0x80], 0xfd), false),
        ] {
            let mut frame = framed(&bytes);
            assert_eq!(packet(&mut frame).is_some(), routed, "{bytes:?}");
            for length in 0..frame.len().min(HEAD + 16) {
                assert!(packet(&mut frame[..length]).is_none(), "{length}");
            }
        }
    }
}
