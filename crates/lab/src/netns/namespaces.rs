//! Three network namespaces that live as long as one process, and the programs in two of them.
//!
//! Everything of them (sockets in each, handles of programs) is asked of that process over its control
//! socket. Read first: `init.rs`, which is that process.

use std::{
    ffi::{CString, OsStr, OsString},
    fs,
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt as _, OsStringExt as _},
    },
    ptr,
};

use rustix::{
    io::{Errno, write},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
        SocketFlags, SocketType, recvmsg, socketpair,
    },
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, getegid, geteuid, getpid, kill_process, pidfd_open,
        waitpid,
    },
};

use super::{
    error::NetnsError,
    init::{self, CLIENT, MADE, Plan, Program, SERVER, Step, Tag, ask},
    signals::Signals,
};
use crate::{
    exec::{self, PORT_VARIABLE, Request, SERVER_VARIABLE, Status},
    netlink::{Netlink, sockets::Sockets},
};

/// The namespaces. They and all that runs in them are gone when this is dropped.
#[derive(Debug)]
pub(super) struct Namespaces {
    control: OwnedFd,
    init: Init,
}

/// What belongs to the namespaces, each made inside of one.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) wires: Wires,
    pub(super) client_sockets: Sockets,
    pub(super) server_sockets: Sockets,
    /// A TCP socket of the server's, not bound yet.
    pub(super) listener: OwnedFd,
}

/// What the wires between them are made with.
#[derive(Debug)]
pub(super) struct Wires {
    /// Of the one between.
    pub(super) middle: Netlink,
    /// Packet sockets of the one between, not bound yet.
    pub(super) ports: [OwnedFd; 2],
    pub(super) client: (Netlink, OwnedFd),
    pub(super) server: (Netlink, OwnedFd),
}

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Server,
    Client,
}

/// What happened inside.
#[derive(Debug)]
pub(super) enum Event {
    Made(Box<Made>),
    /// With a handle of it.
    Started(Which, OwnedFd),
    NotExecuted(Which, Errno),
    Socket(OwnedFd),
    Ended(Which, Status),
}

/// Process 1 of the namespaces, as the caller's namespace knows it.
#[derive(Debug)]
struct Init(Pid);

impl Drop for Init {
    fn drop(&mut self) {
        // It is this process's child and has not been waited for: the number is still its own.
        let _ = kill_process(self.0, Signal::KILL);
        while matches!(waitpid(Some(self.0), WaitOptions::empty()), Err(Errno::INTR)) {}
    }
}

impl Namespaces {
    /// Makes them. The server's output goes to `output`; the client's is the caller's.
    pub(super) fn make(
        request: &Request,
        way_in: std::net::SocketAddr,
        port: u16,
        output: OwnedFd,
        mask: libc::sigset_t,
    ) -> Result<(Self, Made), NetnsError> {
        let server = match &request.server {
            exec::Server::Command(command) => Some(shell(command, port)?),
            exec::Server::AnswerAfter(_) => None,
        };
        let client = client(request, way_in)?;
        Self::with([Some(client), server], request.ipv6, output, mask)
    }

    /// Makes them without programs: sockets are asked for.
    pub(super) fn without_programs(ipv6: bool) -> Result<(Self, Made), NetnsError> {
        Self::with([None, None], ipv6, nothing()?, Signals::untouched().before())
    }

    fn with(
        [client, server]: [Option<Program>; 2],
        ipv6: bool,
        output: OwnedFd,
        mask: libc::sigset_t,
    ) -> Result<(Self, Made), NetnsError> {
        let flags = SocketFlags::CLOEXEC;
        let (control, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(NetnsError::system("make a socket pair"))?;
        let parent = pidfd_open(getpid(), PidfdFlags::empty())
            .map_err(NetnsError::system("open a handle of this process"))?;
        let mut plan = Plan {
            control: theirs,
            parents_control: control.as_raw_fd(),
            parent,
            family: if ipv6 { AddressFamily::INET6 } else { AddressFamily::INET },
            client,
            server,
            output,
            nothing: nothing()?,
            mask,
        };
        let pid = all_signals_blocked(|| init::clone(&mut plan))
            .map_err(|errno| NetnsError::Namespaces { cause: errno.into() })?;
        // Its end of the control socket is closed here, so that its death is seen.
        drop(plan);
        let namespaces = Self { control, init: Init(pid) };
        namespaces.map_ids().map_err(|cause| NetnsError::Inside { operation: "map ids", cause })?;
        namespaces.ask(ask::MAKE)?;
        match namespaces.next()? {
            Event::Made(made) => Ok((namespaces, *made)),
            _ => Err(NetnsError::Gone),
        }
    }

    /// Starts the client or the server's command.
    pub(super) fn start(&self, which: Which) -> Result<(), NetnsError> {
        self.ask(match which {
            Which::Server => ask::SERVER,
            Which::Client => ask::CLIENT,
        })
    }

    /// A new TCP socket in that end's namespace; it does not block.
    pub(super) fn socket(&self, of: Which) -> Result<OwnedFd, NetnsError> {
        self.ask(match of {
            Which::Server => ask::SERVER_SOCKET,
            Which::Client => ask::CLIENT_SOCKET,
        })?;
        match self.next()? {
            Event::Socket(socket) => Ok(socket),
            _ => Err(NetnsError::Gone),
        }
    }

    fn ask(&self, what: u8) -> Result<(), NetnsError> {
        write(&self.control, &[what]).map(drop).map_err(|_| NetnsError::Gone)
    }

    /// The next thing that happened; waits for it.
    pub(super) fn next(&self) -> Result<Event, NetnsError> {
        let mut bytes = [0; 12];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MADE))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let got = loop {
            let buffers = &mut [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.control, buffers, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                Ok(got) if got.flags.contains(ReturnFlags::CTRUNC) => {
                    return Err(NetnsError::system("take what was opened")(Errno::MFILE));
                }
                other => break other.map_err(NetnsError::system("read the control socket"))?.bytes,
            }
        };
        if got != bytes.len() {
            return Err(NetnsError::Gone);
        }
        let mut fds: Vec<OwnedFd> = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        let number = |at: usize| {
            i32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let (tag, first, second) = (number(0), number(4), number(8));
        let which = if first == CLIENT { Which::Client } else { Which::Server };
        debug_assert!(first == CLIENT || first == SERVER || tag == Tag::Failed as i32);
        let errno = || Errno::from_raw_os_error(second);
        Ok(match tag {
            tag if tag == Tag::Made as i32 => Event::Made(Box::new(made(fds)?)),
            tag if tag == Tag::Started as i32 => {
                Event::Started(which, fds.pop().ok_or(NetnsError::Gone)?)
            }
            tag if tag == Tag::NotExecuted as i32 => Event::NotExecuted(which, errno()),
            tag if tag == Tag::Socket as i32 => Event::Socket(fds.pop().ok_or(NetnsError::Gone)?),
            tag if tag == Tag::Ended as i32 => Event::Ended(which, status(second)),
            _ => {
                let step = Step::ALL.into_iter().find(|step| *step as i32 == first);
                return Err(NetnsError::step(step, errno()));
            }
        })
    }

    /// Gives the new user namespace the caller's own ids: an ordinary user's own alone, root's all.
    fn map_ids(&self) -> io::Result<()> {
        let pid = self.init.0.as_raw_pid();
        let file = |name: &str| format!("/proc/{pid}/{name}");
        if geteuid().is_root() {
            let all = ["uid_map", "gid_map"].map(|name| {
                let own = fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
                fs::write(file(name), identity(&own))
            });
            if all.iter().all(Result::is_ok) {
                return Ok(());
            }
        }
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        // An ordinary user's group map needs that first. Root's maps are written once, whole or not at all.
        let _ = fs::write(file("setgroups"), "deny");
        fs::write(file("uid_map"), format!("{uid} {uid} 1"))?;
        fs::write(file("gid_map"), format!("{gid} {gid} 1"))
    }
}

impl AsFd for Namespaces {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}

/// The map of a namespace's ids to themselves.
fn identity(map: &str) -> String {
    let lines = map.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (inside, count) = (words.next()?, words.nth(1)?);
        Some(format!("{inside} {inside} {count}\n"))
    });
    lines.collect()
}

fn made(fds: Vec<OwnedFd>) -> Result<Made, NetnsError> {
    let fds: Result<[OwnedFd; MADE], _> = fds.try_into();
    let [
        middle,
        to_client,
        to_server,
        client,
        client_fd,
        client_sockets,
        server,
        server_fd,
        server_sockets,
        listener,
    ] = fds.map_err(|_| NetnsError::Gone)?;
    let wires = Wires {
        middle: Netlink::of(middle),
        ports: [to_client, to_server],
        client: (Netlink::of(client), client_fd),
        server: (Netlink::of(server), server_fd),
    };
    Ok(Made {
        wires,
        client_sockets: Sockets(Netlink::of(client_sockets)),
        server_sockets: Sockets(Netlink::of(server_sockets)),
        listener,
    })
}

fn status(raw: i32) -> Status {
    let byte = |number: i32| u8::try_from(number & 0xff).unwrap_or(0);
    if libc::WIFSIGNALED(raw) {
        Status::Signal(byte(libc::WTERMSIG(raw)))
    } else {
        Status::Exit(byte(libc::WEXITSTATUS(raw)))
    }
}

fn nothing() -> Result<OwnedFd, NetnsError> {
    let file = fs::File::open("/dev/null");
    Ok(file.map_err(|cause| NetnsError::System { operation: "open /dev/null", cause })?.into())
}

fn client(request: &Request, way_in: std::net::SocketAddr) -> Result<Program, NetnsError> {
    let command = request.command.first().ok_or(NetnsError::Command)?;
    let environment = environment(SERVER_VARIABLE, &way_in.to_string())?;
    let arguments: Result<_, _> = request.command.iter().map(|word| text(word)).collect();
    Ok(Program::new(candidates(command)?, arguments?, environment))
}

fn shell(command: &OsStr, port: u16) -> Result<Program, NetnsError> {
    let arguments = [OsStr::new("sh"), OsStr::new("-c"), command].map(text);
    let arguments: Result<_, _> = arguments.into_iter().collect();
    let environment = environment(PORT_VARIABLE, &port.to_string())?;
    Ok(Program::new(vec![c"/bin/sh".to_owned()], arguments?, environment))
}

/// Where a command may be, as `execvp` looks for it.
fn candidates(command: &OsStr) -> Result<Vec<CString>, NetnsError> {
    if command.is_empty() || command.as_bytes().contains(&b'/') {
        return Ok(vec![text(command)?]);
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| exec::PATH.into());
    std::env::split_paths(&path).map(|folder| text(folder.join(command).as_os_str())).collect()
}

/// This process's environment with one variable more.
fn environment(name: &str, value: &str) -> Result<Vec<CString>, NetnsError> {
    let own = std::env::vars_os().filter(|(own, _)| own != name);
    let all = own.chain([(name.into(), value.into())]);
    all.map(|(name, value): (OsString, OsString)| {
        let line = [name.into_vec(), value.into_vec()].join(&b'=');
        CString::new(line).map_err(|_| NetnsError::Command)
    })
    .collect()
}

fn text(word: &OsStr) -> Result<CString, NetnsError> {
    CString::new(word.as_bytes()).map_err(|_| NetnsError::Command)
}

fn all_signals_blocked<T>(what: impl FnOnce() -> T) -> T {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: both sets are written before they are read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let done = what();
    // SAFETY: the call above has written it.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    done
}
