//! A socket's options, put back. It allocates nothing: it runs after fork(2), too.

use std::{os::fd::AsFd, time::Duration};

use rustix::{io::Errno, net::sockopt};
use stillopen_collect::SocketOptions;
use stillopen_model::{Keepalive, KeepaliveTimes, Millis};

use crate::ask::ASKING;

/// `MAX_TCP_KEEPIDLE` and `MAX_TCP_KEEPINTVL` (`include/net/tcp.h`): a sysctl may be larger, an option not.
const LONGEST: Duration = Duration::from_secs(32_767);
/// `MAX_TCP_KEEPCNT`, as for those.
const MOST: u32 = 127;

/// Sets a socket's options as they were.
pub(crate) fn put_back(socket: impl AsFd, before: SocketOptions) -> Result<(), Errno> {
    Wanted::of(before).set(socket)
}

/// The same after a question: what its program has set meanwhile stays.
pub(crate) fn put_back_unless_changed(
    socket: impl AsFd,
    before: SocketOptions,
) -> Result<(), Errno> {
    let now = Wanted::of(SocketOptions::read(&socket)?);
    let asked = Wanted::of(SocketOptions {
        keepalive: Keepalive::On(ASKING.times()),
        user_timeout: Millis::default(),
    });
    let mut wanted = Wanted::of(before);
    let changed = (now.idle != asked.idle && now.idle != wanted.idle)
        || (now.interval != asked.interval && now.interval != wanted.interval)
        || (now.count != asked.count && now.count != wanted.count);
    // Who sets one of the values says by it that keepalive is to be as it is.
    wanted.on = wanted.on.filter(|_| !changed);
    wanted.idle = wanted.idle.filter(|_| now.idle == asked.idle);
    wanted.interval = wanted.interval.filter(|_| now.interval == asked.interval);
    wanted.count = wanted.count.filter(|_| now.count == asked.count);
    wanted.user_timeout = wanted.user_timeout.filter(|_| now.user_timeout == asked.user_timeout);
    wanted.set(socket)
}

/// Options as a socket can have them; `None`: it is to stay as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wanted {
    on: Option<bool>,
    idle: Option<Duration>,
    interval: Option<Duration>,
    count: Option<u32>,
    /// Milliseconds.
    user_timeout: Option<u32>,
}

impl Wanted {
    fn of(options: SocketOptions) -> Self {
        let (on, KeepaliveTimes { idle, interval, count }) = match options.keepalive {
            Keepalive::On(times) => (true, times),
            Keepalive::Off(times) => (false, times),
            Keepalive::Unknown => (false, KeepaliveTimes::default()),
        };
        let millis = options.user_timeout.get().as_millis();
        Self {
            on: Some(on),
            idle: idle.map(|idle| idle.get().min(LONGEST)),
            interval: interval.map(|interval| interval.get().min(LONGEST)),
            count: count.map(|count| count.min(MOST)),
            user_timeout: Some(u32::try_from(millis).unwrap_or(u32::MAX)),
        }
    }

    /// Sets them. Keepalive is off meanwhile: a `TCP_KEEPIDLE` that has passed already would send a probe. Where one
    /// can't be set, the others are all the same.
    fn set(self, socket: impl AsFd) -> Result<(), Errno> {
        let Self { on, idle, interval, count, user_timeout } = self;
        let on_or_off = |on| sockopt::set_socket_keepalive(&socket, on);
        let off = set(on, |_| on_or_off(false));
        let values = set(idle, |idle| sockopt::set_tcp_keepidle(&socket, idle))
            .and(set(interval, |interval| sockopt::set_tcp_keepintvl(&socket, interval)))
            .and(set(count, |count| sockopt::set_tcp_keepcnt(&socket, count)))
            .and(set(user_timeout, |time| sockopt::set_tcp_user_timeout(&socket, time)));
        off.and(values).and(set(on.filter(|&on| on), on_or_off))
    }
}

fn set<T>(value: Option<T>, set: impl FnOnce(T) -> Result<(), Errno>) -> Result<(), Errno> {
    value.map_or(Ok(()), set)
}
