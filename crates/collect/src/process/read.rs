//! One pass over `/proc/*/fd`. Nothing is allocated for a file descriptor.

use std::{fs, io, mem::MaybeUninit, os::fd::OwnedFd};

use rustix::{
    fs::{CWD, Mode, OFlags, RawDir, openat, readlinkat_raw},
    io::Errno,
};
use stillopen_model::Process;

use super::{
    options::Holder,
    parse::{command, effective_uid, number, socket_inode},
};
use crate::{
    CollectError,
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
    /// How many processes did not let their files be seen.
    pub hidden: u32,
    /// How many sockets with an owner did not let their options be read.
    pub refused: u32,
    /// The sockets asked for beside the connections, with their owners. Sorted.
    pub others: Vec<(u32, Option<u32>)>,
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
/// process id owns it. `others`: inodes to find the owners of, too. `only`: look at this process alone.
pub(crate) fn owners(
    sockets: &mut Sockets,
    others: impl Iterator<Item = u32>,
    only: Option<u32>,
) -> Result<Owners, CollectError> {
    let mut pass = Pass::new(sockets, others);
    if let Some(pid) = only {
        pass.process(pid).map_err(|error| match error {
            Errno::NOENT | Errno::SRCH => CollectError::NoProcess { pid },
            error => CollectError::Process { pid, cause: io::Error::from(error) },
        })?;
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

struct Pass<'a> {
    sockets: &'a mut Sockets,
    /// Inode and position of each connection, sorted.
    index: Vec<(u32, u32)>,
    found: Owners,
    room: Box<[MaybeUninit<u8>]>,
}

impl<'a> Pass<'a> {
    fn new(sockets: &'a mut Sockets, others: impl Iterator<Item = u32>) -> Self {
        let mut index: Vec<(u32, u32)> =
            sockets.connections.iter().map(|c| c.inode).zip(0..).collect();
        index.sort_unstable();
        sockets.fds = vec![NO_FD; sockets.connections.len()];
        let mut others: Vec<_> = others.map(|inode| (inode, None)).collect();
        others.sort_unstable();
        Self {
            sockets,
            index,
            found: Owners { others, ..Owners::default() },
            room: vec![MaybeUninit::uninit(); ENTRIES].into_boxed_slice(),
        }
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
            let connection = &mut self.sockets.connections[at];
            if connection.owner.is_none() {
                connection.owner = Some(self.found.row(holder.pid(), row));
                self.sockets.fds[at] = fd;
                if let Some(options) = holder.options(fd, self.sockets.cookies[at]) {
                    connection.keepalive = options.keepalive;
                    connection.user_timeout = Some(options.user_timeout);
                } else if holder.refused() {
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
}

impl Owners {
    fn row(&mut self, pid: u32, row: &mut Option<u32>) -> u32 {
        *row.get_or_insert_with(|| {
            let read = |name| fs::read(format!("{PROC}/{pid}/{name}")).unwrap_or_default();
            self.processes.push(Process {
                pid,
                command: command(&read("comm")),
                uid: effective_uid(&read("status")),
                pod: None,
            });
            u32::try_from(self.processes.len() - 1).unwrap_or(u32::MAX)
        })
    }
}

/// The processes that hold the socket with this inode, each with its descriptor: where the one that was seen
/// holds it no longer. It may have been a child that had only just been forked.
#[must_use]
pub fn holders_of(inode: u32) -> Vec<(u32, u32)> {
    let wanted = format!("socket:[{inode}]");
    let mut holders = Vec::new();
    for pid in pids().unwrap_or_default() {
        let Ok(files) = fs::read_dir(format!("{PROC}/{pid}/fd")) else { continue };
        for file in files.flatten() {
            if fs::read_link(file.path()).is_ok_and(|link| link.as_os_str() == wanted.as_str())
                && let Some(fd) = number(file.file_name().as_encoded_bytes())
            {
                holders.push((pid, fd));
            }
        }
    }
    holders
}

fn open(path: &str) -> Result<OwnedFd, Errno> {
    openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}
