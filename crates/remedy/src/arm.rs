//! Keepalive for many sockets of one network namespace: a BPF iterator sets it in one walk over the kernel's table of
//! sockets. No descriptor is needed for it, and a socket is told by its cookie alone.
//!
//! The table of `bpf/arm.bpf.c` is memory that the kernel's program and this one share: which sockets, with which
//! values, and afterwards which of them are armed.
#![allow(unsafe_code, reason = "memory that is shared with the kernel, which no safe library has")]

use std::{
    ffi::c_void,
    ptr::{NonNull, null_mut},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use rustix::{
    fd::AsFd,
    io,
    mm::{MapFlags, ProtFlags, mmap, munmap},
};
use stillopen_collect::{BpfError, Object, ObjectFile};
use stillopen_model::KeepaliveValues;

/// From so many sockets on it costs less than one by one: to begin with, it takes some tens of milliseconds of CPU.
pub const MANY: usize = 5_000;

static OBJECT: &ObjectFile<[u8]> = &ObjectFile(*include_bytes!("../bpf/arm.bpf.o"));
/// `SCATTER` and `TRIES` there.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;
const TRIES: u64 = 16;
/// A page of memory, at 16 bytes each.
const FEWEST: usize = 256;
/// `ARMED` there.
const ARMED: u8 = 1;

/// Turns keepalive on for those of `chosen`, each a cookie (`SO_COOKIE`) with its values, that are in the calling
/// thread's network namespace. For each: whether it was. One that was not is for [`Rescuer`](crate::Rescuer): its
/// options need a closer look, or it is gone.
///
/// # Errors
/// The kernel does not take such a program from this process. Nothing was changed.
pub fn arm_here(chosen: &[(u64, KeepaliveValues)]) -> Result<Vec<bool>, BpfError> {
    let slots = (chosen.len() * 2).next_power_of_two().max(FEWEST);
    let size =
        u32::try_from(slots).map_err(|_| BpfError::Refused("too many sockets".to_owned()))?;
    let object = Object::load_with(OBJECT, ("chosen", size), ("mask", size - 1))?;
    let table = Table::of(object.map("chosen")?, slots).map_err(std::io::Error::from)?;
    let program = object.program("arm", "tcp")?;
    let places: Vec<Option<usize>> =
        chosen.iter().map(|(cookie, values)| table.put(*cookie, *values)).collect();
    // Where the walk breaks off, the others are armed one by one.
    let _ = program.run(|_| {});
    Ok(places.into_iter().map(|at| at.is_some_and(|at| table.is_armed(at))).collect())
}

/// `struct slot` there: the cookie, and [`policy`].
type Slot = [AtomicU64; 2];

struct Table {
    memory: NonNull<Slot>,
    slots: usize,
}

impl Table {
    fn of(map: impl AsFd, slots: usize) -> io::Result<Self> {
        let bytes = slots * size_of::<Slot>();
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a place where nothing is.
        let memory = unsafe { mmap(null_mut(), bytes, flags, MapFlags::SHARED, map, 0) }?;
        let memory = NonNull::new(memory.cast()).ok_or(io::Errno::NOMEM)?;
        Ok(Self { memory, slots })
    }

    fn slots(&self) -> &[Slot] {
        // SAFETY: so many slots were mapped, as pages of zeros, and stay until this is dropped. The kernel's program
        // may write to them meanwhile, as to atomics.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.slots) }
    }

    /// Its place; `None`: all that it may have are taken, or the values do not fit.
    fn put(&self, cookie: u64, values: KeepaliveValues) -> Option<usize> {
        let policy = policy(values)?;
        let mask = u64::try_from(self.slots).ok()? - 1;
        let first = cookie.wrapping_mul(SCATTER) >> 32;
        let places = (0..TRIES).map(|next| usize::try_from((first + next) & mask));
        let at = places.flatten().find(|&at| self.slots()[at][0].load(Relaxed) == 0)?;
        self.slots()[at][0].store(cookie, Relaxed);
        self.slots()[at][1].store(policy, Relaxed);
        Some(at)
    }

    fn is_armed(&self, at: usize) -> bool {
        self.slots()[at][1].load(Relaxed).to_ne_bytes()[5] == ARMED
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let memory: *mut c_void = self.memory.as_ptr().cast();
        // SAFETY: what was mapped, and nothing refers to it any more. It fails only for an address that is none.
        let _ = unsafe { munmap(memory, self.slots * size_of::<Slot>()) };
    }
}

/// Idle and interval in seconds, count, and nothing done yet.
fn policy(KeepaliveValues { idle, interval, count }: KeepaliveValues) -> Option<u64> {
    let seconds = |time: Duration| u16::try_from(time.as_secs()).ok().map(u16::to_ne_bytes);
    let ([a, b], [c, d]) = (seconds(idle)?, seconds(interval)?);
    Some(u64::from_ne_bytes([a, b, c, d, u8::try_from(count).ok()?, 0, 0, 0]))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a probe is waited for in real time")]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        os::fd::AsRawFd as _,
        time::Instant,
    };

    use rustix::net::sockopt;
    use stillopen_collect::{Handle, SocketOptions};

    use super::*;
    use crate::{Refusal, Rescuer, options::put_back, socket::tcp_info, turn_on};

    const PATIENCE: Duration = Duration::from_secs(20);
    const ROOT: &str = "this test loads a BPF program: it needs root";

    /// Both ends are on this host.
    struct Connection {
        client: TcpStream,
        _server: TcpStream,
    }

    impl Connection {
        fn new(at: &str) -> Self {
            let listener = TcpListener::bind(at).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            Self { client, _server: listener.accept().unwrap().0 }
        }

        fn cookie(&self) -> u64 {
            sockopt::socket_cookie(&self.client).unwrap()
        }

        fn options(&self) -> SocketOptions {
            SocketOptions::read(&self.client).unwrap()
        }

        fn arm_by_itself(&self, values: KeepaliveValues) -> Result<SocketOptions, Refusal> {
            let fd = u32::try_from(self.client.as_raw_fd()).unwrap();
            let handle = Handle { pid: std::process::id(), fd, cookie: self.cookie(), inode: 0 };
            Rescuer::default().arm(handle, values).map(|(options, _)| options)
        }
    }

    fn values(text: &str) -> KeepaliveValues {
        text.parse().unwrap()
    }

    /// What was there before, on each of two equal connections.
    type Prepare = fn(&TcpStream);

    /// Each that is armed at once has what it would have one by one; what is not is as it was, and is armed, or refused
    /// with the reason, one by one.
    #[test]
    fn at_once_or_one_by_one_a_socket_has_the_same_options_and_undo_the_same_effect() {
        let user_timeout: Prepare = |socket| sockopt::set_tcp_user_timeout(socket, 30_000).unwrap();
        let cases: [(&str, Prepare, bool); 6] = [
            ("nothing set", |_| {}, true),
            ("armed", |socket| turn_on(socket, values("600/30/5")).unwrap(), true),
            ("the same already", |socket| turn_on(socket, values("61/31/4")).unwrap(), true),
            (
                "armed but off",
                |socket| {
                    sockopt::set_tcp_keepidle(socket, Duration::from_secs(7)).unwrap();
                },
                true,
            ),
            ("TCP_USER_TIMEOUT", user_timeout, false),
            ("being asked", |socket| turn_on(socket, crate::ask::ASKING).unwrap(), false),
        ];
        for at in ["127.0.0.1:0", "[::1]:0"] {
            for (what, prepare, is_armed) in cases {
                let [mut it, twin] = [(); 2].map(|()| Connection::new(at));
                prepare(&it.client);
                prepare(&twin.client);
                let before = it.options();
                let bystander = Connection::new(at);
                let chosen = [(it.cookie(), values("61/31/4")), (u64::MAX, values("1/1/1"))];
                let armed = arm_here(&chosen).expect(ROOT);
                assert_eq!(armed, [is_armed, false], "{what}");
                let one_by_one = twin.arm_by_itself(values("61/31/4"));
                let then = if is_armed {
                    Ok(it.options())
                } else {
                    assert_eq!(it.options(), before, "{what} was left as it was");
                    it.arm_by_itself(values("61/31/4"))
                };
                assert_eq!(
                    then.map_err(|it| it.to_string()),
                    one_by_one.map_err(|it| it.to_string())
                );
                assert_eq!(it.options(), twin.options(), "{what}");
                assert!(matches!(
                    bystander.options().keepalive,
                    stillopen_model::Keepalive::Off(_)
                ));
                put_back(&mut it.client, before).unwrap();
                assert_eq!(it.options(), before, "{what}");
            }
        }
    }

    /// The kernel's program finds a socket behind as many others as may stand before it, and one that has found no place
    /// is told.
    #[test]
    fn cookies_that_want_one_slot_have_the_next_ones_and_then_none() {
        let connection = Connection::new("127.0.0.1:0");
        let cookie = connection.cookie();
        let first = |cookie: u64| (cookie.wrapping_mul(SCATTER) >> 32) % 256;
        let rivals = (1 << 40..).filter(|&rival| first(rival) == first(cookie));
        let mut chosen: Vec<_> = rivals.take(16).map(|rival| (rival, values("1/1/1"))).collect();
        chosen.push((cookie, values("61/31/4")));
        assert_eq!(arm_here(&chosen).expect(ROOT), [false; 17]);
        assert!(matches!(connection.options().keepalive, stillopen_model::Keepalive::Off(_)));
        assert!(arm_here(&chosen[1..]).expect(ROOT)[15]);
        assert_eq!(connection.options().keepalive.on_values(), Some(values("61/31/4")));
    }

    /// The kernel's timer really runs: from the last packet, and not from now.
    #[test]
    fn a_connection_that_has_been_quiet_for_longer_is_probed_at_once() {
        let connection = Connection::new("127.0.0.1:0");
        let last_ack = || tcp_info(&connection.client).unwrap().counters.last_ack_recv;
        let deadline = Instant::now() + PATIENCE;
        let wait = |until: &dyn Fn() -> bool, what| {
            while !until() {
                assert!(Instant::now() < deadline, "{what}");
                std::thread::yield_now();
            }
        };
        let quiet = Duration::from_millis(1_500);
        wait(&|| last_ack().get() > quiet, "it never is quiet");
        // The next probe by itself would come 100 s later.
        let armed = arm_here(&[(connection.cookie(), values("1/100/3"))]).expect(ROOT);
        assert_eq!(armed, [true]);
        wait(&|| last_ack().get() < quiet, "no probe was answered");
    }
}
