//! The life of the supervisor: one thread that answers the calls of a program and all that descends from it,
//! until the last of them has ended.

use std::{
    io::Write as _,
    mem::MaybeUninit,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::{self, Errno},
    net::{
        AddressFamily, Protocol, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags,
        SocketType, recv, recvmsg, socket_with,
    },
};
use stillopen_model::KeepaliveValues;

use super::{
    Report,
    counts::{Counts, Why},
    handover::Inherited,
    requester::Own,
    seccomp::{Call, Listener},
};
use crate::turn_on;

/// Answers until nobody is left, and says then what it did.
///
/// # Errors
/// The listener never came: nothing is under the filter.
pub(super) fn live(
    control: &OwnedFd,
    own: &mut Own,
    values: KeepaliveValues,
    report: Option<Report>,
) -> io::Result<()> {
    let (listener, inherited) = receive(control)?;
    let mut counts = inherited.counts();
    let listener = Listener(listener.as_fd());
    listener.wake_at_once();
    // From Linux 6.11 to receive ends, too, when nobody is left (`recv_wait_event` in `kernel/seccomp.c`).
    let to_receive_ends = own.is_told_by_pidfd();
    let mut ask_first = true;
    while !ask_first || somebody_waits(listener.0)? {
        match listener.receive() {
            Ok(call) => {
                answer(&listener, call, own, values, &mut counts);
                ask_first = !to_receive_ends;
            }
            // Taken back by a signal or a death, or nobody is left.
            Err(Errno::NOENT | Errno::INTR) => ask_first = true,
            Err(errno) => return Err(errno),
        }
    }
    // The program could not be executed: that is what there is to say, and it is said.
    let started = recv(control, &mut [0_u8], RecvFlags::DONTWAIT).is_ok_and(|(n, _)| n == 0);
    if let Some(report) = report.filter(|_| started) {
        let _ = std::io::stderr().write_all(report(&counts).as_bytes());
    }
    Ok(())
}

/// The listener and what was armed before.
fn receive(control: &OwnedFd) -> io::Result<(OwnedFd, Inherited)> {
    let mut bytes = [0; Inherited::BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let buffer = std::io::IoSliceMut::new(&mut bytes);
    recvmsg(control, &mut [buffer], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let listener = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok((listener.ok_or(Errno::PIPE)?, Inherited::from_bytes(bytes)))
}

/// Waits; `false`: no process uses the filter any more.
fn somebody_waits(listener: BorrowedFd<'_>) -> io::Result<bool> {
    loop {
        let mut listener = [PollFd::from_borrowed_fd(listener, PollFlags::IN)];
        match poll(&mut listener, None) {
            Ok(_) if listener[0].revents().contains(PollFlags::IN) => return Ok(true),
            Ok(_) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

fn answer(
    listener: &Listener<'_>,
    call: Call,
    own: &mut Own,
    values: KeepaliveValues,
    counts: &mut Counts,
) {
    // Should its number be another's by now, then it has ended, and no socket can be put anywhere for it.
    if let Some(why) = own.differs_from(call.thread) {
        return leave_alone(listener, call, why, counts);
    }
    // What the kernel refuses here it refuses the caller, too, with the same error number; where it does
    // not, as an operation that is unknown for one kind of socket, the caller has a socket without keepalive.
    let socket = match armed(call, values) {
        Ok(socket) => socket,
        Err(why) => return leave_alone(listener, call, why, counts),
    };
    let close_on_exec = SocketFlags::CLOEXEC.bits() & call.args[1].cast_unsigned() != 0;
    let put = listener.put(call, socket.as_fd(), close_on_exec);
    // The caller runs on with the answer: a copy that is closed after its own close would keep an address.
    drop(socket);
    match put {
        Ok(number) => {
            counts.armed += 1;
            listener.answer(call, Ok(number));
        }
        Err(Errno::NOENT) => {}
        // The caller's table is full: no socket that is made differently would fit.
        Err(Errno::MFILE) => listener.answer(call, Err(Errno::MFILE)),
        // A security module's rule for descriptors that come from another process.
        Err(errno) => {
            leave_alone(listener, call, Why::Refused("hand over", errno.raw_os_error()), counts);
        }
    }
}

/// A caller that has ended needs no answer, and is not counted.
fn leave_alone(listener: &Listener<'_>, call: Call, why: Why, counts: &mut Counts) {
    if listener.still_waits(call) {
        counts.leave_alone(why);
        listener.leave_alone(call);
    }
}

/// The socket that the call is for. The filter lets only known flags of the type pass.
fn armed(call: Call, values: KeepaliveValues) -> Result<OwnedFd, Why> {
    let [domain, r#type, protocol] = call.args.map(i32::cast_unsigned);
    let refused = |what| move |errno: Errno| Why::Refused(what, errno.raw_os_error());
    let flags =
        SocketFlags::CLOEXEC | (SocketFlags::from_bits_retain(r#type) & SocketFlags::NONBLOCK);
    // The filter has looked: domains fit.
    let domain = AddressFamily::from_raw(u16::try_from(domain).unwrap_or_default());
    let protocol = std::num::NonZeroU32::new(protocol).map(Protocol::from_raw);
    let socket =
        socket_with(domain, SocketType::STREAM, flags, protocol).map_err(refused("socket"))?;
    turn_on(&socket, values).map_err(refused("setsockopt"))?;
    Ok(socket)
}
