//! A socket's options, put back. It allocates nothing: it runs after fork(2), too.

use std::{os::fd::AsFd, time::Duration};

use rustix::{io::Errno, net::sockopt};
use stillopen_collect::SocketOptions;
use stillopen_model::{Keepalive, KeepaliveTimes};

use crate::ask::ASKING;

/// `MAX_TCP_KEEPIDLE` and `MAX_TCP_KEEPINTVL` (`include/net/tcp.h`): a sysctl may be larger, an option not.
const LONGEST: Duration = Duration::from_secs(32_767);
/// `MAX_TCP_KEEPCNT`, as for those.
const MOST: u32 = 127;

/// Sets a socket's options as they were. Keepalive is off meanwhile: a `TCP_KEEPIDLE` that has passed already
/// would send a probe. Where one can't be set, the others are all the same.
pub(crate) fn put_back(socket: impl AsFd, before: SocketOptions) -> Result<(), Errno> {
    let Before { on, idle, interval, count, user_timeout } = Before::of(before);
    let off = sockopt::set_socket_keepalive(&socket, false);
    let values = set(idle, |idle| sockopt::set_tcp_keepidle(&socket, idle))
        .and(set(interval, |interval| sockopt::set_tcp_keepintvl(&socket, interval)))
        .and(set(count, |count| sockopt::set_tcp_keepcnt(&socket, count)))
        .and(sockopt::set_tcp_user_timeout(&socket, user_timeout));
    let on = if on { sockopt::set_socket_keepalive(&socket, true) } else { Ok(()) };
    off.and(values).and(on)
}

/// The same after a question: what its program has set meanwhile stays.
pub(crate) fn put_back_unless_changed(
    socket: impl AsFd,
    before: SocketOptions,
) -> Result<(), Errno> {
    let now = SocketOptions::read(&socket)?;
    let Before { on, idle, interval, count, user_timeout } = Before::of(before);
    let theirs = Before::of(now);
    let asked = Before {
        on: true,
        idle: Some(ASKING.idle),
        interval: Some(ASKING.interval),
        count: Some(ASKING.count),
        user_timeout: 0,
    };
    let changed = (theirs.idle != asked.idle && theirs.idle != idle)
        || (theirs.interval != asked.interval && theirs.interval != interval)
        || (theirs.count != asked.count && theirs.count != count);
    // Who sets one of the values says by it that keepalive is to be as it is.
    let off = if changed { Ok(()) } else { sockopt::set_socket_keepalive(&socket, false) };
    let mut result = off;
    if theirs.idle == asked.idle {
        result = result.and(set(idle, |idle| sockopt::set_tcp_keepidle(&socket, idle)));
    }
    if theirs.interval == asked.interval {
        result = result.and(set(interval, |time| sockopt::set_tcp_keepintvl(&socket, time)));
    }
    if theirs.count == asked.count {
        result = result.and(set(count, |count| sockopt::set_tcp_keepcnt(&socket, count)));
    }
    if theirs.user_timeout == asked.user_timeout {
        result = result.and(sockopt::set_tcp_user_timeout(&socket, user_timeout));
    }
    if on && !changed {
        result = result.and(sockopt::set_socket_keepalive(&socket, true));
    }
    result
}

/// What a socket can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Before {
    on: bool,
    idle: Option<Duration>,
    interval: Option<Duration>,
    count: Option<u32>,
    /// Milliseconds.
    user_timeout: u32,
}

impl Before {
    fn of(options: SocketOptions) -> Self {
        let (on, KeepaliveTimes { idle, interval, count }) = match options.keepalive {
            Keepalive::On(times) => (true, times),
            Keepalive::Off(times) => (false, times),
            Keepalive::Unknown => (false, KeepaliveTimes::default()),
        };
        let millis = options.user_timeout.get().as_millis();
        Self {
            on,
            idle: idle.map(|idle| idle.get().min(LONGEST)),
            interval: interval.map(|interval| interval.get().min(LONGEST)),
            count: count.map(|count| count.min(MOST)),
            user_timeout: u32::try_from(millis).unwrap_or(u32::MAX),
        }
    }
}

fn set<T>(value: Option<T>, set: impl FnOnce(T) -> Result<(), Errno>) -> Result<(), Errno> {
    value.map_or(Ok(()), set)
}
