//! Whether a socket of the supervisor's is what the caller would have got from the kernel.
//!
//! A socket has the network namespace, the user and the cgroup of who makes it, for ever: with those of the
//! supervisor a caller could reach a network that it was taken out of. Nothing is remembered from one call to
//! the next, as nothing tells of a change; a look costs some microseconds.

use std::{
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{Mode, OFlags, openat, readlinkat_raw},
    io::{self, Errno, pread, read},
};

use super::counts::Why;

/// The longest text of `/proc/PID/ns/net`: `net:[` and a number of 64 bits.
const NAMESPACE: usize = 32;
/// More than a `status` has before its `Gid` line, and than any usual list of cgroups. What is longer is
/// compared as far as that.
const TEXT: usize = 4096;

/// What a socket takes over from the supervisor.
pub(super) struct Own {
    proc: OwnedFd,
    namespace: Link,
    user: User,
    /// `/proc/self/cgroup`: somebody may move the supervisor along with the program.
    cgroup: Option<OwnedFd>,
}

type Link = ([u8; NAMESPACE], usize);

/// What a new socket belongs to: `fsuid` and `fsgid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct User {
    user: u32,
    group: u32,
}

impl Own {
    /// Of this process. Its namespace and user must not change from here on.
    ///
    /// # Errors
    /// `/proc` is not there, or that of another pid namespace.
    pub(super) fn read() -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = rustix::fs::open("/proc", flags, Mode::empty())?;
        let mut link = [0; NAMESPACE];
        let length = readlinkat_raw(&proc, "self", &mut link)?;
        let own = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
        if number(&link[..length]) != Some(own) {
            return Err(Errno::SRCH);
        }
        let namespace = namespace_of(&proc, own)?;
        let user = user_of(&proc, own)?;
        let cgroup = match open(&proc, own, "cgroup") {
            Ok(cgroup) => Some(cgroup),
            // A kernel without cgroups.
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno),
        };
        Ok(Self { proc, namespace, user, cgroup })
    }

    /// Why `thread` must be left alone, if so. It holds as long as the thread waits for its answer.
    pub(super) fn differs_from(&self, thread: u32) -> Option<Why> {
        match self.difference(thread) {
            Ok(difference) => difference,
            Err(_) => Some(Why::NotReadable),
        }
    }

    fn difference(&self, thread: u32) -> io::Result<Option<Why>> {
        if namespace_of(&self.proc, thread)? != self.namespace {
            return Ok(Some(Why::Namespace));
        }
        if user_of(&self.proc, thread)? != self.user {
            return Ok(Some(Why::User));
        }
        let Some(own) = &self.cgroup else { return Ok(None) };
        let theirs = open(&self.proc, thread, "cgroup")?;
        let mut room = [[MaybeUninit::uninit(); TEXT]; 2];
        let [ours, others] = &mut room;
        let same = pread(own, ours, 0)?.0 == read(theirs, others)?.0;
        Ok((!same).then_some(Why::Cgroup))
    }
}

fn namespace_of(proc: impl AsFd, thread: u32) -> io::Result<Link> {
    let mut link = [0; NAMESPACE];
    let length = readlinkat_raw(proc, Path::new(thread, "ns/net").text(), &mut link)?;
    Ok((link, length))
}

fn user_of(proc: impl AsFd, thread: u32) -> io::Result<User> {
    let mut text = [MaybeUninit::uninit(); TEXT];
    let (text, _) = read(open(proc, thread, "status")?, &mut text)?;
    let field = |name| fourth_number(text, name).ok_or(Errno::INVAL);
    Ok(User { user: field(b"\nUid:")?, group: field(b"\nGid:")? })
}

/// The last of the four numbers after `name`: real, effective, saved and for files.
fn fourth_number(status: &[u8], name: &[u8]) -> Option<u32> {
    let at = status.windows(name.len()).position(|window| window == name)?;
    let line = status[at + name.len()..].split(|&byte| byte == b'\n').next()?;
    number(line.split(u8::is_ascii_whitespace).rfind(|word| !word.is_empty())?)
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn open(proc: impl AsFd, thread: u32, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    openat(proc, Path::new(thread, name).text(), flags, Mode::empty())
}

/// `THREAD/name`, without an allocation.
struct Path([u8; 24], usize);

impl Path {
    fn new(thread: u32, name: &str) -> Self {
        use std::io::Write as _;
        let mut bytes = [0; 24];
        let mut rest = &mut bytes[..];
        // Ten digits and the longest name fit.
        let _ = write!(rest, "{thread}/{name}");
        let left = rest.len();
        Self(bytes, 24 - left)
    }

    fn text(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_for_files_is_the_last_of_four() {
        let status =
            b"Name:\tUid:\nUmask:\t0022\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10\n";
        assert_eq!(fourth_number(status, b"\nUid:"), Some(4));
        assert_eq!(fourth_number(status, b"\nGid:"), Some(8));
        assert_eq!(fourth_number(b"Name:\tx\n", b"\nUid:"), None);
        // A name has no line break of its own: the kernel writes it as \n.
        assert_eq!(fourth_number(b"Name:\ta\\nUid:\t7\nUid:\t1\t1\t1\t1\n", b"\nUid:"), Some(1));
    }

    #[test]
    fn a_thread_of_this_process_differs_in_nothing() {
        let own = Own::read().unwrap();
        assert_eq!(own.differs_from(std::process::id()), None);
        let thread = std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get());
        let gone = thread.join().unwrap().unsigned_abs();
        assert_eq!(own.differs_from(gone), Some(Why::NotReadable));
    }

    #[test]
    fn the_longest_path_fits() {
        assert_eq!(Path::new(u32::MAX, "cgroup").text(), b"4294967295/cgroup");
        assert_eq!(Path::new(1, "ns/net").text(), b"1/ns/net");
    }
}
