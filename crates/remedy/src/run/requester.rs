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
    cgroups: Cgroups,
    recent: Vec<Option<Files>>,
}

/// How cgroups are compared.
struct Cgroups {
    /// By the pidfd of this process the kernel tells the number of its cgroup of version 2. `None`: it does not.
    number: Option<OwnCgroup<Option<u64>>>,
    /// `/proc/self/cgroup`; `None`: there is nothing in it that `number` has not.
    text: Option<OwnCgroup<Vec<u8>>>,
}

/// The supervisor's own. It is read only where a caller's differs from what it was, for whoever moves the supervisor
/// along with the program, and else each [`OWN_EACH`] looks, for whoever moves the supervisor alone.
struct OwnCgroup<T> {
    file: OwnedFd,
    known: T,
    looks: u32,
}

const OWN_EACH: u32 = 64;

/// Where the text only adds hierarchies of version 1 to the number, each so many sockets of a thread are looked at with
/// it, the first among them: it takes the kernel three times as long as all else. Nothing on the network depends on
/// it: a socket that is handed over gets the class and the priority of version 1 of who gets it (`__receive_sock` in
/// `net/core/sock.c`), and `memory` alone accounts for it otherwise.
const TEXT_EACH: u32 = 8;

/// Of a thread. They are that thread's for ever: once it has ended they can't be read, also where another one has
/// got its number.
struct Files {
    thread: u32,
    /// `ns/net`: the link, not what it points to.
    namespace: OwnedFd,
    user: UserFile,
    cgroup: Option<OwnedFd>,
    /// So many more looks need no text.
    same: u32,
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
        let text = match open(&proc, own, "cgroup") {
            Ok(text) if pidfd.is_some() && only_version_2(&text)? => None,
            Ok(text) => Some(OwnCgroup::new(text)),
            // A kernel without cgroups.
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno),
        };
        let cgroups = Cgroups { number: pidfd.map(OwnCgroup::new), text };
        let few = getrlimit(Resource::Nofile).current.is_some_and(|files| files < ENOUGH_FILES);
        let recent = std::iter::repeat_with(|| None).take(if few { 1 } else { RECENT }).collect();
        Ok(Self { proc, namespace, user, cgroups, recent })
    }

    /// Whether this is Linux 6.13 or later.
    pub(super) fn is_told_by_pidfd(&self) -> bool {
        self.cgroups.number.is_some()
    }

    /// Why `thread` must be left alone, if so. It holds as long as the thread waits for its answer.
    pub(super) fn differs_from(&mut self, thread: u32) -> Option<Why> {
        let slot = thread as usize % self.recent.len();
        let known = self.recent[slot].take().filter(|files| files.thread == thread);
        let seen = match known.map(|files| self.look(files)) {
            Some(Ok(seen)) => Ok(seen),
            // It has ended, and its number is another one's.
            Some(Err(_)) | None => self.files_of(thread).and_then(|files| self.look(files)),
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
        let user = if self.is_told_by_pidfd() {
            UserFile::Pidfd(pidfd(thread)?)
        } else {
            UserFile::Status(open(&self.proc, thread, "status")?)
        };
        let has_text = self.cgroups.text.is_some();
        let cgroup = has_text.then(|| open(&self.proc, thread, "cgroup")).transpose()?;
        Ok(Files { thread, namespace, user, cgroup, same: 0 })
    }

    fn look(&mut self, mut files: Files) -> io::Result<(Option<Why>, Files)> {
        let difference = self.difference(&mut files)?;
        Ok((difference, files))
    }

    fn difference(&mut self, files: &mut Files) -> io::Result<Option<Why>> {
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
        let same = self.cgroups.are_same(number, files)?;
        Ok((!same).then_some(Why::Cgroup))
    }
}

impl Cgroups {
    fn are_same(&mut self, number: Option<u64>, files: &mut Files) -> io::Result<bool> {
        if let Some(own) = &mut self.number
            && !own.is_same(&number, |pidfd, known| {
                *known = information(pidfd)?.cgroup;
                Ok(())
            })?
        {
            return Ok(false);
        }
        let (Some(own), Some(theirs)) = (&mut self.text, &files.cgroup) else { return Ok(true) };
        if self.number.is_some() && files.same > 0 {
            files.same -= 1;
            return Ok(true);
        }
        let mut room = [MaybeUninit::uninit(); TEXT];
        let (theirs, _) = pread(theirs, &mut room, 0)?;
        let same = own.is_same(theirs, |file, known| {
            let mut room = [MaybeUninit::uninit(); TEXT];
            let (text, _) = pread(file, &mut room, 0)?;
            known.clear();
            known.extend_from_slice(text);
            Ok(())
        })?;
        files.same = if same { TEXT_EACH - 1 } else { 0 };
        Ok(same)
    }
}

/// Whether the one hierarchy in `/proc/PID/cgroup` is that of version 2.
fn only_version_2(cgroup: &OwnedFd) -> io::Result<bool> {
    let mut room = [MaybeUninit::uninit(); TEXT];
    let (text, _) = pread(cgroup, &mut room, 0)?;
    let first_end = text.iter().position(|&byte| byte == b'\n');
    Ok(text.starts_with(b"0::") && first_end == Some(text.len() - 1))
}

impl<T: Default> OwnCgroup<T> {
    fn new(file: OwnedFd) -> Self {
        Self { file, known: T::default(), looks: 0 }
    }

    /// Whether it is `theirs`; `read` reads it anew.
    fn is_same<U: ?Sized>(
        &mut self,
        theirs: &U,
        read: impl FnOnce(&OwnedFd, &mut T) -> io::Result<()>,
    ) -> io::Result<bool>
    where
        T: PartialEq<U>,
    {
        self.looks = self.looks.wrapping_add(1);
        if self.known != *theirs || self.looks.is_multiple_of(OWN_EACH) {
            read(&self.file, &mut self.known)?;
        }
        Ok(self.known == *theirs)
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
    use rustix::{
        fs::{MemfdFlags, memfd_create},
        io::pwrite,
    };

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
        for number in [own.cgroups.number.take(), None] {
            own.cgroups.number = number;
            if !own.is_told_by_pidfd() {
                let text = open(&own.proc, std::process::id(), "cgroup").unwrap();
                own.cgroups.text = Some(OwnCgroup::new(text));
            }
            own.recent.fill_with(|| None);
            // Mostly with the files that are open.
            for _ in 0..2 * TEXT_EACH {
                assert_eq!(own.differs_from(std::process::id()), None);
            }
        }
        // A process, since /proc shows a thread for a moment after it was joined.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(own.differs_from(child.id()), Some(Why::NotReadable));
    }

    fn text(of: &str) -> OwnedFd {
        let file = memfd_create("cgroup", MemfdFlags::CLOEXEC).unwrap();
        pwrite(&file, of.as_bytes(), 0).unwrap();
        file
    }

    #[test]
    fn a_move_in_version_1_alone_is_noticed_some_sockets_later() {
        let mut own = Own::read().unwrap();
        own.cgroups.text = Some(OwnCgroup::new(text("4:memory:/a\n0::/a\n")));
        let mut files = own.files_of(std::process::id()).unwrap();
        files.cgroup = Some(text("4:memory:/a\n0::/a\n"));
        assert_eq!(own.difference(&mut files), Ok(None));
        pwrite(files.cgroup.as_ref().unwrap(), b"4:memory:/b\n0::/a\n", 0).unwrap();
        // An older kernel has nothing but the text.
        let late = if own.is_told_by_pidfd() { TEXT_EACH - 1 } else { 0 };
        for _ in 0..late {
            assert_eq!(own.difference(&mut files), Ok(None));
        }
        for _ in 0..2 {
            assert_eq!(own.difference(&mut files), Ok(Some(Why::Cgroup)));
        }
    }

    #[test]
    fn the_longest_path_fits() {
        assert_eq!(Path::new(u32::MAX, "cgroup").text(), b"4294967295/cgroup");
        assert_eq!(Path::new(1, "ns/net").text(), b"1/ns/net");
    }
}
