//! Whether a socket of the supervisor's is what the caller would have got from the kernel.
//!
//! A socket has the network namespace, the user and the cgroup of who makes it, for ever: with those of the
//! supervisor a caller could reach a network that it was taken out of. What was read of a caller is never remembered,
//! as nothing tells of a change; only the files of the last threads stay open, as to open them is half of a look.
//!
//! From Linux 6.13 one call tells user and cgroup (`information.rs`); before, they are in the texts of /proc.

use std::{
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{Mode, OFlags, openat, readlinkat_raw},
    io::{self, Errno, pread},
    process::{Resource, getrlimit},
};

use super::{
    counts::Why,
    information::{User, information, pidfd},
};

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
    /// Of this process, where the kernel tells by it.
    pidfd: Option<OwnedFd>,
    cgroup: Cgroup,
    recent: Vec<Option<Files>>,
}

/// How cgroups are compared. Somebody may move the supervisor along with the program: its own is looked up, too.
enum Cgroup {
    /// A kernel without cgroups.
    None,
    /// The number that the kernel tells, of version 2. A hierarchy of version 1 that somebody mounts later is not
    /// looked at.
    Number,
    /// `/proc/self/cgroup`, where there are hierarchies of version 1: a socket is charged there, too.
    Text(OwnText),
}

/// The supervisor's own list of cgroups. It takes the kernel three times as long as all else that is looked at; so it
/// is read only where a caller's differs from what it was, and else each [`OWN_EACH`] looks, for whoever moves the
/// supervisor alone.
struct OwnText {
    file: OwnedFd,
    known: Vec<u8>,
    looks: u32,
}

const OWN_EACH: u32 = 64;

/// Of a thread. They are that thread's for ever: once it has ended they can't be read, also where another one has
/// got its number.
struct Files {
    thread: u32,
    /// `ns/net`: the link, not what it points to.
    namespace: OwnedFd,
    user: UserFile,
    cgroup: Option<OwnedFd>,
}

enum UserFile {
    Pidfd(OwnedFd),
    Status(OwnedFd),
}

/// Of so many threads the files are kept open, by the last digits of their number.
const RECENT: usize = 8;
/// With a lower limit of open files only those of one.
const ENOUGH_FILES: u64 = 64;

type Link = ([u8; NAMESPACE], usize);

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
        let namespace = namespace_of(&open_link(&proc, own, "ns/net")?)?;
        let user = user_in(&open(&proc, own, "status")?)?;
        let pidfd =
            pidfd(own).ok().filter(|pidfd| information(pidfd).is_ok_and(|i| i.user == user));
        let cgroup = match open(&proc, own, "cgroup") {
            Ok(text) if pidfd.is_some() && only_version_2(&text)? => Cgroup::Number,
            Ok(file) => Cgroup::Text(OwnText { file, known: Vec::new(), looks: 0 }),
            Err(Errno::NOENT) => Cgroup::None,
            Err(errno) => return Err(errno),
        };
        let few = getrlimit(Resource::Nofile).current.is_some_and(|files| files < ENOUGH_FILES);
        let recent = std::iter::repeat_with(|| None).take(if few { 1 } else { RECENT }).collect();
        Ok(Self { proc, namespace, user, pidfd, cgroup, recent })
    }

    /// Why `thread` must be left alone, if so. It holds as long as the thread waits for its answer.
    pub(super) fn differs_from(&mut self, thread: u32) -> Option<Why> {
        let slot = thread as usize % self.recent.len();
        let known = self.recent[slot].take().filter(|files| files.thread == thread);
        let seen = match known.map(|files| (self.difference(&files), files)) {
            Some((Ok(difference), files)) => Ok((difference, files)),
            // It has ended, and its number is another one's.
            Some((Err(_), _)) | None => self
                .files_of(thread)
                .and_then(|files| self.difference(&files).map(|difference| (difference, files))),
        };
        match seen {
            Ok((difference, files)) => {
                self.recent[slot] = Some(files);
                difference
            }
            Err(_) => Some(Why::NotReadable),
        }
    }

    fn files_of(&self, thread: u32) -> io::Result<Files> {
        let namespace = open_link(&self.proc, thread, "ns/net")?;
        let user = match self.pidfd {
            Some(_) => UserFile::Pidfd(pidfd(thread)?),
            None => UserFile::Status(open(&self.proc, thread, "status")?),
        };
        let cgroup = match self.cgroup {
            Cgroup::Text(_) => Some(open(&self.proc, thread, "cgroup")?),
            Cgroup::Number | Cgroup::None => None,
        };
        Ok(Files { thread, namespace, user, cgroup })
    }

    fn difference(&mut self, files: &Files) -> io::Result<Option<Why>> {
        if namespace_of(&files.namespace)? != self.namespace {
            return Ok(Some(Why::Namespace));
        }
        let (user, number) = match &files.user {
            UserFile::Pidfd(pidfd) => {
                let told = information(pidfd)?;
                (told.user, told.cgroup)
            }
            UserFile::Status(status) => (user_in(status)?, None),
        };
        if user != self.user {
            return Ok(Some(Why::User));
        }
        let same = match (&mut self.cgroup, &files.cgroup, &self.pidfd) {
            (Cgroup::Text(own), Some(theirs), _) => own.is_same(theirs)?,
            (Cgroup::Number, _, Some(own)) => number == information(own)?.cgroup,
            _ => true,
        };
        Ok((!same).then_some(Why::Cgroup))
    }
}

/// Whether the one hierarchy in `/proc/PID/cgroup` is that of version 2.
fn only_version_2(cgroup: &OwnedFd) -> io::Result<bool> {
    let mut room = [MaybeUninit::uninit(); TEXT];
    let (text, _) = pread(cgroup, &mut room, 0)?;
    let first_end = text.iter().position(|&byte| byte == b'\n');
    Ok(text.starts_with(b"0::") && first_end == Some(text.len() - 1))
}

impl OwnText {
    fn is_same(&mut self, theirs: &OwnedFd) -> io::Result<bool> {
        let mut room = [[MaybeUninit::uninit(); TEXT]; 2];
        let [ours, others] = &mut room;
        let (theirs, _) = pread(theirs, others, 0)?;
        self.looks = self.looks.wrapping_add(1);
        if *theirs != *self.known || self.looks.is_multiple_of(OWN_EACH) {
            let (own, _) = pread(&self.file, ours, 0)?;
            self.known.clear();
            self.known.extend_from_slice(own);
        }
        Ok(*theirs == *self.known)
    }
}

fn namespace_of(link: &OwnedFd) -> io::Result<Link> {
    let mut text = [0; NAMESPACE];
    let length = readlinkat_raw(link, "", &mut text)?;
    Ok((text, length))
}

fn user_in(status: &OwnedFd) -> io::Result<User> {
    let mut text = [MaybeUninit::uninit(); TEXT];
    let (text, _) = pread(status, &mut text, 0)?;
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

/// Of a link itself.
fn open_link(proc: impl AsFd, thread: u32, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(proc, Path::new(thread, name).text(), flags, Mode::empty())
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
        let mut own = Own::read().unwrap();
        // Also as an older kernel has it.
        for pidfd in [own.pidfd.take(), None] {
            own.pidfd = pidfd;
            own.recent[0] = None;
            // The second time with the files that are open.
            for _ in 0..2 {
                assert_eq!(own.differs_from(std::process::id()), None);
            }
        }
        // A process, since /proc shows a thread for a moment after it was joined.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(own.differs_from(child.id()), Some(Why::NotReadable));
    }

    #[test]
    fn the_longest_path_fits() {
        assert_eq!(Path::new(u32::MAX, "cgroup").text(), b"4294967295/cgroup");
        assert_eq!(Path::new(1, "ns/net").text(), b"1/ns/net");
    }
}
