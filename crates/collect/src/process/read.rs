//! Who holds which connection: by a BPF iterator where that is asked for, and for what it leaves open by one pass over
//! `/proc/*/fd`. Nothing is allocated for a file descriptor.

use std::{
    collections::HashMap,
    fs,
    hash::{BuildHasherDefault, Hasher},
    io,
    mem::MaybeUninit,
    os::fd::OwnedFd,
};

use rustix::{
    fs::{CWD, Mode, OFlags, RawDir, openat, readlinkat_raw},
    io::Errno,
};
use stillopen_model::{Connection, Namespace, Process};

use super::{
    iterate::{Descriptor, each_descriptor},
    options::{Holder, SocketOptions},
    parse::{command, effective_uid, number, socket_inode},
};
use crate::{
    CollectError,
    bpf::BpfError,
    sock_diag::{NO_FD, Sockets},
};

const PROC: &str = "/proc";
/// Room for a few hundred directory entries at a time.
const ENTRIES: usize = 32 * 1024;
/// `socket:[4294967295]` and some; a longer link is no socket.
const LINK: usize = 32;

/// What one pass found.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    /// Those that hold one of the connections.
    pub processes: Vec<Process>,
    /// Where each of them is, by its id: both ways of looking may meet it.
    pub rows: HashMap<u32, u32>,
    /// How many processes did not let their files be seen.
    pub hidden: u32,
    /// How many sockets with an owner did not let their options be read.
    pub refused: u32,
    /// The sockets asked for beside the connections, with their owners. Sorted.
    pub others: Vec<(u32, Option<u32>)>,
    /// Why no BPF iterator was used, where one was asked for.
    pub not_iterated: Option<BpfError>,
}

/// What the raw options of a BPF iterator are read against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernel<'a> {
    /// `CONFIG_HZ`
    pub hz: u32,
    /// The snapshot's, with their sysctls.
    pub namespaces: &'a [Namespace],
    /// Those that are asked first, since they are likely to hold what was read.
    pub processes: &'a [u32],
}

impl Owners {
    /// The owner of one of the other sockets.
    pub(crate) fn of_inode(&self, inode: u32) -> Option<u32> {
        let at = self.others.binary_search_by_key(&inode, |other| other.0).ok()?;
        self.others[at].1
    }
}

/// The processes that there are, in ascending order.
pub(crate) fn pids() -> Result<Vec<u32>, CollectError> {
    let failed =
        |error: Errno| CollectError::Proc { path: PROC.into(), cause: io::Error::from(error) };
    let folder = open(PROC).map_err(failed)?;
    let mut pids = Vec::new();
    let mut room = vec![MaybeUninit::uninit(); ENTRIES];
    let mut entries = RawDir::new(&folder, &mut room);
    while let Some(entry) = entries.next() {
        pids.extend(number(entry.map_err(failed)?.file_name().to_bytes()));
    }
    pids.sort_unstable();
    Ok(pids)
}

/// Finds the owner and the options of every connection. Where several processes hold one, the lowest
/// process id owns it. `others`: inodes to find the owners of, too. `only`: look at this process alone. `kernel`: by a
/// BPF iterator first; process ids are those of the host's first PID namespace then, and a process that is asked first
/// owns what another one holds, too.
pub(crate) fn owners(
    sockets: &mut Sockets,
    others: impl Iterator<Item = u32>,
    only: Option<u32>,
    kernel: Option<Kernel<'_>>,
) -> Result<Owners, CollectError> {
    let mut pass = Pass::new(sockets, others);
    if let Some(kernel) = kernel {
        pass.found.not_iterated = pass.iterate(kernel, only).err();
    }
    pass.look_up_inodes();
    if let Some(pid) = only {
        pass.process(pid).map_err(|error| match error {
            Errno::NOENT | Errno::SRCH => CollectError::NoProcess { pid },
            error => CollectError::Process { pid, cause: io::Error::from(error) },
        })?;
        return Ok(pass.found);
    }
    if pass.index.is_empty() && pass.found.others.is_empty() {
        return Ok(pass.found);
    }
    for pid in pids()? {
        match pass.process(pid) {
            // It ended in mid-read.
            Ok(()) | Err(Errno::NOENT | Errno::SRCH) => {}
            Err(_) => pass.found.hidden += 1,
        }
    }
    Ok(pass.found)
}

/// A hash of socket cookies that costs less than the standard one. The kernel counts them up, so that nobody can choose
/// some that collide, and 2^64 divided by the golden ratio scatters neighbours.
#[derive(Default)]
struct Scatter(u64);

impl Hasher for Scatter {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0.rotate_left(8) ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, cookie: u64) {
        self.0 = cookie.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

struct Pass<'a> {
    sockets: &'a mut Sockets,
    /// Inode and position of each connection without an owner so far, sorted.
    index: Vec<(u32, u32)>,
    found: Owners,
    room: Box<[MaybeUninit<u8>]>,
}

impl<'a> Pass<'a> {
    fn new(sockets: &'a mut Sockets, others: impl Iterator<Item = u32>) -> Self {
        sockets.fds = vec![NO_FD; sockets.connections.len()];
        let mut others: Vec<_> = others.map(|inode| (inode, None)).collect();
        others.sort_unstable();
        Self {
            sockets,
            index: Vec::new(),
            found: Owners { others, ..Owners::default() },
            room: vec![MaybeUninit::uninit(); ENTRIES].into_boxed_slice(),
        }
    }

    /// The connections that the kernel's own list of descriptors names. Not among them: what an MPTCP socket stands for,
    /// and what no process holds.
    fn iterate(&mut self, kernel: Kernel<'_>, only: Option<u32>) -> Result<(), BpfError> {
        let by_cookie: HashMap<u64, usize, BuildHasherDefault<Scatter>> =
            self.sockets.cookies.iter().copied().zip(0..).collect();
        let mut row = (0, None);
        let take = |pass: &mut Self, descriptor: Descriptor| {
            let Descriptor { cookie, pid, fd, .. } = descriptor;
            let Some(&at) = by_cookie.get(&cookie) else { return };
            let connection = &pass.sockets.connections[at];
            if connection.owner.is_some() || only.is_some_and(|only| only != pid) {
                return;
            }
            if row.0 != pid {
                row = (pid, None);
            }
            let namespace = kernel.namespaces.get(connection.netns as usize);
            let sysctls = namespace.and_then(|namespace| namespace.sysctls);
            let options = sysctls.map(|defaults| descriptor.options(kernel.hz, &defaults));
            pass.own(at, fd, options, pid, &mut row.1);
        };
        let only = only.as_slice();
        let first = if only.is_empty() { kernel.processes } else { only };
        let is_done = |pass: &Self| !only.is_empty() || pass.unowned().next().is_none();
        each_descriptor(first, self, take, is_done)
    }

    fn unowned(&self) -> impl Iterator<Item = (u32, &Connection)> {
        (0..).zip(&self.sockets.connections).filter(|(_, c)| c.owner.is_none())
    }

    fn look_up_inodes(&mut self) {
        self.index = self.unowned().map(|(at, c)| (c.inode, at)).collect();
        self.index.sort_unstable();
    }

    fn process(&mut self, pid: u32) -> Result<(), Errno> {
        let folder = open(&format!("{PROC}/{pid}/fd"))?;
        let mut holder = Holder::new(pid);
        let mut row = None;
        let mut room = std::mem::take(&mut self.room);
        let mut entries = RawDir::new(&folder, &mut room);
        let mut result = Ok(());
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let Some(fd) = number(entry.file_name().to_bytes()) else { continue };
            let mut link = [MaybeUninit::uninit(); LINK];
            let inode = match readlinkat_raw(&folder, entry.file_name(), &mut link[..]) {
                Ok((link, _)) => socket_inode(link),
                Err(Errno::ACCESS | Errno::PERM) => {
                    result = Err(Errno::ACCESS);
                    break;
                }
                Err(_) => None,
            };
            if let Some(inode) = inode {
                self.claim(inode, fd, &mut holder, &mut row);
            }
        }
        self.room = room;
        result
    }

    /// `row`: the process's place among the processes, once it has one.
    fn claim(&mut self, inode: u32, fd: u32, holder: &mut Holder, row: &mut Option<u32>) {
        if let Ok(at) = self.index.binary_search_by_key(&inode, |entry| entry.0) {
            let at = self.index[at].1 as usize;
            if self.sockets.connections[at].owner.is_none() {
                let options = holder.options(fd, self.sockets.cookies[at]);
                self.own(at, fd, options, holder.pid(), row);
                if options.is_none() && holder.refused() {
                    self.found.refused += 1;
                }
            }
        }
        if let Ok(at) = self.found.others.binary_search_by_key(&inode, |other| other.0)
            && self.found.others[at].1.is_none()
        {
            self.found.others[at].1 = Some(self.found.row(holder.pid(), row));
        }
    }

    fn own(
        &mut self,
        at: usize,
        fd: u32,
        options: Option<SocketOptions>,
        pid: u32,
        row: &mut Option<u32>,
    ) {
        let connection = &mut self.sockets.connections[at];
        connection.owner = Some(self.found.row(pid, row));
        self.sockets.fds[at] = fd;
        if let Some(options) = options {
            connection.keepalive = options.keepalive;
            connection.user_timeout = Some(options.user_timeout);
        }
    }
}

impl Owners {
    fn row(&mut self, pid: u32, row: &mut Option<u32>) -> u32 {
        let Self { processes, rows, .. } = self;
        let new = || {
            let read = |name| fs::read(format!("{PROC}/{pid}/{name}")).unwrap_or_default();
            processes.push(Process {
                pid,
                command: command(&read("comm")),
                uid: effective_uid(&read("status")),
                pod: None,
            });
            u32::try_from(processes.len() - 1).unwrap_or(u32::MAX)
        };
        *row.get_or_insert_with(|| *rows.entry(pid).or_insert_with(new))
    }
}

/// The processes that hold the sockets with these inodes, each with its descriptor: where the one that was seen
/// holds it no longer. It may have been a child that had only just been forked. One pass over `/proc/*/fd`.
#[must_use]
pub fn holders_of(inodes: &[u32]) -> HashMap<u32, Vec<(u32, u32)>> {
    let mut holders: HashMap<u32, Vec<_>> = inodes.iter().map(|&it| (it, Vec::new())).collect();
    for pid in pids().unwrap_or_default() {
        let Ok(files) = fs::read_dir(format!("{PROC}/{pid}/fd")) else { continue };
        for file in files.flatten() {
            let Ok(link) = fs::read_link(file.path()) else { continue };
            let inode = socket_inode(link.as_os_str().as_encoded_bytes());
            if let Some(of) = inode.and_then(|inode| holders.get_mut(&inode))
                && let Some(fd) = number(file.file_name().as_encoded_bytes())
            {
                of.push((pid, fd));
            }
        }
    }
    holders
}

fn open(path: &str) -> Result<OwnedFd, Errno> {
    openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}
