//! Keepalive for a connection of another process that is open right now.

use stillopen_collect::{Handle, SocketOptions, holders_of};
use stillopen_model::{Keepalive, KeepaliveValues};

use crate::{
    Answer, Held, Probed, Refusal, Stakes, ask,
    ask::is_being_asked,
    held::LastHolder,
    socket::{has_data_in_flight, tcp_info},
    turn_on,
};

/// Arms sockets of one process after another; the process that was asked last stays at hand.
#[derive(Debug, Default)]
pub struct Rescuer(LastHolder);

impl Rescuer {
    /// Turns keepalive on. A connection that has been quiet for longer than `values.idle` is probed at once.
    ///
    /// Where `TCP_USER_TIMEOUT` is set, one lost probe could end the connection: it is asked first, with that
    /// option lifted, and armed only if it answers.
    ///
    /// Returns what it has afterwards, and where a probe goes out at once what tells what comes of that.
    ///
    /// # Errors
    /// The socket could not be had or set, or it did not answer.
    pub fn arm(
        &mut self,
        handle: Handle,
        values: KeepaliveValues,
    ) -> Result<(SocketOptions, Option<Probed>), Refusal> {
        let mut socket = self.socket(handle)?;
        let failed = |errno: rustix::io::Errno| Refusal::Options(errno.into());
        let before = SocketOptions::read(&socket).map_err(failed)?;
        if is_being_asked(&before) {
            return Err(Refusal::BeingAsked);
        }
        let info = tcp_info(&socket).map_err(Refusal::Options)?;
        if u32::from(info.probes) >= values.count {
            return Err(Refusal::Outstanding(info.probes));
        }
        if !before.user_timeout.get().is_zero() {
            match ask(vec![socket], Stakes::Harmless).map_err(Refusal::Options)?.pop() {
                Some(Answer::NoAnswer { .. }) => return Err(Refusal::NoAnswer),
                Some(Answer::Reset) => return Err(Refusal::Reset),
                Some(Answer::Closed) => return Err(Refusal::Gone { pid: handle.pid }),
                Some(Answer::Refused(refusal)) => return Err(refusal),
                Some(Answer::OwnKeepalive) => return Err(Refusal::UserTimeout),
                // With data in flight the option is at work already, and keepalive is not.
                Some(Answer::Answers { .. } | Answer::InFlight | Answer::NotEstablished) | None => {
                }
            }
            socket = self.socket(handle)?;
        }
        let heard = info.counters.last_ack_recv.min(info.counters.last_data_recv).get();
        // What was asked has answered just now, and with data in flight keepalive does not run.
        let at_once = before.user_timeout.get().is_zero()
            && heard >= values.idle
            && !has_data_in_flight(&socket).map_err(Refusal::Options)?;
        turn_on(&socket, values).map_err(failed)?;
        let probed = at_once.then(|| Probed::new(socket, heard));
        // Each was accepted, so there is no need to ask for them again.
        let keepalive = Keepalive::On(values.times());
        Ok((SocketOptions { keepalive, ..before }, probed))
    }

    /// A descriptor of this process for a socket of another one, whoever holds it by now.
    ///
    /// # Errors
    /// It could not be had, or is another socket by now.
    pub fn socket(&mut self, handle: Handle) -> Result<Held, Refusal> {
        match self.of_holder(handle) {
            Err(Refusal::Gone { .. }) if handle.inode != 0 => {}
            had => return had,
        }
        let others = holders_of(&[handle.inode]).into_values().flatten();
        let mut others = others.map(|(pid, fd)| self.of_holder(Handle { pid, fd, ..handle }));
        let found = others.find(|had| !matches!(had, Err(Refusal::Gone { .. })));
        found.unwrap_or(Err(Refusal::Gone { pid: handle.pid }))
    }

    fn of_holder(&mut self, handle: Handle) -> Result<Held, Refusal> {
        let Handle { pid, fd, cookie, .. } = handle;
        let holder = self.0.of(pid);
        let socket = holder.duplicate(fd, cookie).map_err(|errno| Refusal::of(pid, errno))?;
        match socket {
            Some(socket) => Ok(Held::new(socket, handle)),
            None if holder.is_mptcp(fd) => Err(Refusal::Mptcp),
            None => Err(Refusal::Gone { pid }),
        }
    }
}
