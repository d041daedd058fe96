//! The owners and options of all sockets by a BPF iterator: one pass in the kernel over every process's files.

use stillopen_model::{Keepalive, KeepaliveTimes, Millis, Sysctls};

use super::options::SocketOptions;
use crate::bpf::{BpfError, Object, ObjectFile};

static OBJECT: &ObjectFile<[u8]> = &ObjectFile(*include_bytes!("../../bpf/owners.bpf.o"));
/// `sizeof(struct record)`
const RECORD: usize = 32;

/// A descriptor of a TCP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub cookie: u64,
    pub pid: u32,
    pub fd: u32,
    is_on: bool,
    /// Jiffies; 0: the sysctl, as for the next two.
    idle: u32,
    interval: u32,
    count: u8,
    user_timeout: Millis,
}

/// Hands every TCP socket's descriptors to `take`, by process and number: those of `processes` first, where there are
/// such and the kernel can, and of every process where `is_done` is not true then. Process ids are those of the host's
/// first PID namespace.
pub(super) fn each_descriptor<S>(
    processes: &[u32],
    state: &mut S,
    mut take: impl FnMut(&mut S, Descriptor),
    is_done: impl Fn(&S) -> bool,
) -> Result<(), BpfError> {
    let object = Object::load(OBJECT)?;
    let owners = object.program("owners", "task_file")?;
    let mut take = |state: &mut S, block: &[u8]| {
        for record in block.as_chunks().0 {
            take(state, Descriptor::parse(record));
        }
    };
    // One that has ended, or a kernel before Linux 6.1: then something is left to be done.
    let all =
        processes.iter().try_for_each(|&pid| owners.run_over(pid, |block| take(state, block)));
    if all.is_ok() && !processes.is_empty() && is_done(state) {
        return Ok(());
    }
    owners.run(|block| take(state, block))
}

impl Descriptor {
    fn parse(record: &[u8; RECORD]) -> Self {
        let u32_at = |at| crate::netlink::u32_at(record, at);
        Self {
            cookie: crate::netlink::u64_at(record, 0),
            pid: u32_at(8),
            fd: u32_at(12),
            idle: u32_at(16),
            interval: u32_at(20),
            user_timeout: Millis::new(u32_at(24)),
            count: record[28],
            is_on: record[29] != 0,
        }
    }

    /// What `getsockopt` would say on a kernel whose timers tick `hz` times a second, in a network namespace with
    /// these defaults.
    pub(super) fn options(&self, hz: u32, defaults: &Sysctls) -> SocketOptions {
        let seconds = |jiffies: u32, default_s| {
            let seconds = if jiffies == 0 { default_s } else { jiffies / hz };
            Some(std::time::Duration::from_secs(seconds.into()).into())
        };
        let count = match self.count {
            0 => defaults.keepalive_probes,
            count => count.into(),
        };
        let times = KeepaliveTimes {
            idle: seconds(self.idle, defaults.keepalive_time_s),
            interval: seconds(self.interval, defaults.keepalive_intvl_s),
            count: Some(count),
        };
        let keepalive = if self.is_on { Keepalive::On(times) } else { Keepalive::Off(times) };
        SocketOptions { keepalive, user_timeout: self.user_timeout }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        os::fd::AsRawFd as _,
        time::Duration,
    };

    use rustix::net::sockopt;

    use super::*;
    use crate::{host, sysctl};

    /// The kernel's fields are what getsockopt(2) says, whichever of them are set.
    #[test]
    fn a_descriptor_has_the_options_that_its_socket_has() {
        let listeners = ["127.0.0.1:0", "[::1]:0"].map(|at| TcpListener::bind(at).unwrap());
        let sockets: Vec<TcpStream> = (0u16..12)
            .map(|n| {
                let at = listeners[usize::from(n % 2)].local_addr().unwrap();
                let socket = TcpStream::connect(at).unwrap();
                sockopt::set_socket_keepalive(&socket, n % 3 == 0).unwrap();
                if n > 2 {
                    sockopt::set_tcp_keepidle(
                        &socket,
                        Duration::from_secs(60 + 2900 * u64::from(n)),
                    )
                    .unwrap();
                }
                if n > 4 {
                    sockopt::set_tcp_keepintvl(&socket, Duration::from_secs(n.into())).unwrap();
                    sockopt::set_tcp_keepcnt(&socket, n.into()).unwrap();
                }
                if n > 6 {
                    sockopt::set_tcp_user_timeout(&socket, 1_234_567 + u32::from(n)).unwrap();
                }
                socket
            })
            .collect();
        let cookies: Vec<u64> =
            sockets.iter().map(|socket| sockopt::socket_cookie(socket).unwrap()).collect();

        let mut descriptors = Vec::new();
        each_descriptor(&[], &mut descriptors, Vec::push, |_| true)
            .expect("this test loads a BPF program: it needs root");
        let mut of_it = Vec::new();
        each_descriptor(&[std::process::id()], &mut of_it, Vec::push, |_| true).unwrap();
        assert!(of_it.iter().all(|it| it.pid == std::process::id()));
        let stillopen_model::KernelHz::Known(hz) = host::read(false).hz else { panic!("no HZ") };
        let defaults = sysctl::read::sysctls().unwrap();
        for (socket, cookie) in sockets.iter().zip(cookies) {
            let of_it = |it: &&Descriptor| it.cookie == cookie && it.pid == std::process::id();
            let found = descriptors.iter().find(of_it).unwrap();
            assert_eq!(i64::from(found.fd), i64::from(socket.as_raw_fd()));
            assert_eq!(found.options(hz, &defaults), SocketOptions::read(socket).unwrap());
        }
        let keys: Vec<(u32, u32)> = descriptors.iter().map(|it| (it.pid, it.fd)).collect();
        assert!(keys.is_sorted(), "the lowest process, and its lowest number, comes first");
    }
}
