//! Process 1 of the namespaces, and what starts programs in them.
//!
//! It is a clone of a process that may have other threads, which may have held any lock: until `exec` nothing
//! here allocates, prints or takes a lock. All that it needs is in [`Plan`], made before.
//! Read first: `namespaces.rs`, which is at the other end of its control socket.

use std::{
    ffi::{CStr, CString, c_char},
    mem::MaybeUninit,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
    ptr,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags, RawDir, open},
    io::{Errno, FdFlags, IoSlice, fcntl_getfd, read},
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    net::{
        AddressFamily, Protocol, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType, netlink::SOCK_DIAG, send, sendmsg, socket_with,
    },
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, set_parent_process_death_signal, setpgid,
        wait,
    },
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
    thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe},
};

/// How many descriptors [`Tag::Made`] carries: see `namespaces.rs`, `Made`.
pub(super) const MADE: usize = 10;

/// What a message of three numbers says; it carries descriptors where that is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Tag {
    /// The namespaces are there; with [`MADE`] descriptors.
    Made,
    /// A step failed: which, errno.
    Failed,
    /// A program runs: which; with a handle of it.
    Started,
    /// A program could not be executed: which, errno.
    NotExecuted,
    /// A socket was made; with it.
    Socket,
    /// A program ended: which, its wait status.
    Ended,
}

/// What is asked of it, one byte each.
pub(super) mod ask {
    pub(in super::super) const MAKE: u8 = b'm';
    pub(in super::super) const SERVER: u8 = b's';
    pub(in super::super) const CLIENT: u8 = b'c';
    pub(in super::super) const SERVER_SOCKET: u8 = b'S';
    pub(in super::super) const CLIENT_SOCKET: u8 = b'C';
}

/// A step that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Step {
    Netlink,
    SockDiag,
    PacketSocket,
    Unshare,
    OpenNamespace,
    Socket,
    Mount,
    Fork,
}

impl Step {
    pub(super) const ALL: [Self; 8] = [
        Self::Netlink,
        Self::SockDiag,
        Self::PacketSocket,
        Self::Unshare,
        Self::OpenNamespace,
        Self::Socket,
        Self::Mount,
        Self::Fork,
    ];
}

/// The server's number in messages; the client's is the other.
pub(super) const SERVER: i32 = 0;
pub(super) const CLIENT: i32 = 1;

/// A program, ready to be executed.
pub(super) struct Program {
    /// Where it may be, in the order of `PATH`.
    candidates: Vec<CString>,
    /// What the pointers point to.
    _texts: [Vec<CString>; 2],
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    /// `/bin/sh FILE ARGUMENTS`, for a script that does not say who runs it; the file is filled in.
    script: Vec<*const c_char>,
}

impl Program {
    pub(super) fn new(
        candidates: Vec<CString>,
        arguments: Vec<CString>,
        environment: Vec<CString>,
    ) -> Self {
        let pointers = |texts: &[CString]| -> Vec<_> {
            texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
        };
        // A CString's bytes do not move when it does.
        let (argv, envp) = (pointers(&arguments), pointers(&environment));
        let rest = argv.get(1..).unwrap_or_default();
        let script = [&[c"/bin/sh".as_ptr(), ptr::null()], rest].concat();
        Self { candidates, _texts: [arguments, environment], argv, envp, script }
    }

    /// Replaces this process, or says why not, as `execvp` does.
    fn execute(&mut self) -> Errno {
        let mut why = Errno::NOENT;
        for file in &self.candidates {
            match exec(file, &self.argv, &self.envp) {
                Errno::NOEXEC => {
                    self.script[1] = file.as_ptr();
                    return exec(c"/bin/sh", &self.script, &self.envp);
                }
                Errno::NOENT | Errno::NOTDIR => {}
                // Another folder may have one that may be executed.
                other => why = other,
            }
        }
        why
    }
}

fn exec(file: &CStr, argv: &[*const c_char], envp: &[*const c_char]) -> Errno {
    // SAFETY: both arrays end with a null pointer, and the texts that they point to live in `Program`.
    unsafe { libc::execve(file.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    last_error()
}

/// All that process 1 needs.
pub(super) struct Plan {
    pub(super) control: OwnedFd,
    /// The parent's end of it, which the clone has too and closes: it would never see it closed otherwise.
    pub(super) parents_control: RawFd,
    /// A handle of the parent, whose number means nothing in the new process namespace.
    pub(super) parent: OwnedFd,
    pub(super) family: AddressFamily,
    pub(super) client: Option<Program>,
    pub(super) server: Option<Program>,
    /// Where the server's output goes.
    pub(super) output: OwnedFd,
    /// What the server reads: nothing.
    pub(super) nothing: OwnedFd,
    /// The signals that the programs start with blocked.
    pub(super) mask: libc::sigset_t,
}

/// Clones this process into new user, process, mount and network namespaces, where it does what `plan` says
/// until it is killed. Returns its number here. The caller has blocked all signals: a handler of this process
/// must not run in the other.
pub(super) fn clone(plan: &mut Plan) -> Result<Pid, Errno> {
    let flags = libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWNET;
    match fork(flags)? {
        Some(pid) => Ok(pid),
        None => run(plan),
    }
}

/// As `fork`, with flags of `clone`; `None` in the child.
fn fork(flags: i32) -> Result<Option<Pid>, Errno> {
    let flags = libc::c_long::from(flags | libc::SIGCHLD);
    // SAFETY: without a stack it behaves as fork; the child makes only calls that are safe after that.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
        -1 => Err(last_error()),
        child => Ok(i32::try_from(child).ok().and_then(Pid::from_raw)),
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

fn exit() -> ! {
    // SAFETY: ends this process without running anything of the one that it was cloned from.
    unsafe { libc::_exit(1) }
}

/// What process 1 does. The kernel ends everything in its namespace with it.
fn run(plan: &mut Plan) -> ! {
    // SAFETY: it is a copy that only this process has and nothing here uses.
    unsafe { libc::close(plan.parents_control) };
    let_go(plan);
    let asked_for = set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    // A parent that died before sends no signal.
    if !asked_for || has_ended(&plan.parent) || asked(plan) != Some(ask::MAKE) {
        exit();
    }
    let namespaces = match make(plan.family) {
        Ok((made, namespaces)) => {
            // The parent has no namespaces of its own to set them up from: these sockets do.
            let fds = made.each_ref().map(|fd| fd.as_fd());
            say(plan, Tag::Made, 0, 0, &fds);
            namespaces
        }
        Err((step, errno)) => fail(plan, step, errno),
    };
    let children = match children() {
        Ok(children) => children,
        Err(errno) => fail(plan, Step::Fork, errno),
    };
    loop {
        let mut ready =
            [PollFd::new(&plan.control, PollFlags::IN), PollFd::new(&children, PollFlags::IN)];
        if poll(&mut ready, None).is_err() {
            continue;
        }
        let (control, child) = (!ready[0].revents().is_empty(), !ready[1].revents().is_empty());
        if child {
            reap(plan, &children, &namespaces);
        }
        if control {
            match asked(plan) {
                Some(ask::SERVER) => start(plan, SERVER, &namespaces),
                Some(ask::CLIENT) => start(plan, CLIENT, &namespaces),
                Some(ask::SERVER_SOCKET) => hand_out(plan, SERVER, &namespaces),
                Some(ask::CLIENT_SOCKET) => hand_out(plan, CLIENT, &namespaces),
                _ => exit(),
            }
        }
    }
}

/// Closes what no program that is started here would find open, and nothing here uses: what other threads of the
/// process that this is a copy of have open must end when they close it. Without /proc it stays open.
fn let_go(plan: &Plan) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(folder) = open(c"/proc/self/fd", flags, Mode::empty()) else { return };
    let kept = [&plan.control, &plan.parent, &plan.output, &plan.nothing, &folder];
    let mut room = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(&folder, &mut room);
    while let Some(Ok(entry)) = entries.next() {
        let name = entry.file_name().to_str().ok();
        let Some(number) = name.and_then(|name| name.parse::<RawFd>().ok()) else { continue };
        if kept.iter().any(|fd| fd.as_raw_fd() == number) {
            continue;
        }
        // SAFETY: it was open just now, and this process has no other thread.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if fcntl_getfd(descriptor).is_ok_and(|flags| flags.contains(FdFlags::CLOEXEC)) {
            // SAFETY: it is a copy that only this process has and nothing here uses.
            unsafe { libc::close(number) };
        }
    }
}

/// Whether the process has, as its handle tells: it can be read from then on. What cannot be told counts as yes.
fn has_ended(process: &OwnedFd) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&at_once)) != Ok(0)
}

/// `None`: the parent's end is closed.
fn asked(plan: &Plan) -> Option<u8> {
    let mut byte = [0];
    (read(&plan.control, &mut byte) == Ok(1)).then_some(byte[0])
}

fn fail(plan: &Plan, step: Step, errno: Errno) -> ! {
    say(plan, Tag::Failed, step as i32, errno.raw_os_error(), &[]);
    exit()
}

fn say(plan: &Plan, tag: Tag, first: i32, second: i32, fds: &[BorrowedFd<'_>]) {
    let mut bytes = [0; 12];
    for (place, number) in bytes.chunks_exact_mut(4).zip([tag as i32, first, second]) {
        place.copy_from_slice(&number.to_ne_bytes());
    }
    // Where nobody listens any more, this process is about to be killed.
    if fds.is_empty() {
        let _ = send(&plan.control, &bytes, SendFlags::NOSIGNAL);
        return;
    }
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MADE))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(fds));
    let _ = sendmsg(&plan.control, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL);
}

/// The two ends' namespaces, and what each running program is.
struct Namespaces {
    client: OwnedFd,
    server: OwnedFd,
    programs: [std::cell::Cell<Option<Pid>>; 2],
}

type Failure = (Step, Errno);

/// Makes the three network namespaces and opens in each what belongs to it. The last one stays this process's
/// own: the server's.
fn make(family: AddressFamily) -> Result<([OwnedFd; MADE], Namespaces), Failure> {
    let flags = SocketFlags::CLOEXEC;
    let netlink_of = |protocol: Option<Protocol>, step| {
        socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)
            .map_err(|errno| (step, errno))
    };
    let netlink = || netlink_of(None, Step::Netlink);
    let sock_diag = || netlink_of(Some(SOCK_DIAG), Step::SockDiag);
    let packets = || {
        let flags = flags | SocketFlags::NONBLOCK;
        socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
            .map_err(|errno| (Step::PacketSocket, errno))
    };
    let unshare = || {
        // SAFETY: this process has one thread, whose namespace is all that changes.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(|errno| (Step::Unshare, errno))
    };
    let own = || {
        open(c"/proc/self/ns/net", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| (Step::OpenNamespace, errno))
    };
    let middle = netlink()?;
    let (to_client, to_server) = (packets()?, packets()?);
    unshare()?;
    let (client_netlink, client) = (netlink()?, own()?);
    let (client_again, client_sockets) = (own()?, sock_diag()?);
    unshare()?;
    let (server_netlink, server) = (netlink()?, own()?);
    let (server_again, server_sockets) = (own()?, sock_diag()?);
    let listener = socket_with(family, SocketType::STREAM, flags, None)
        .map_err(|errno| (Step::Socket, errno))?;
    // Nothing that is mounted here is seen elsewhere.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change(c"/", private).map_err(|errno| (Step::Mount, errno))?;
    // Where the kernel does not allow it (a container that hides parts of /proc), the old one serves: numbers
    // of processes are the host's there.
    let _ = mount(c"proc", c"/proc", c"proc", MountFlags::empty(), None);
    let made = [
        middle,
        to_client,
        to_server,
        client_netlink,
        client_again,
        client_sockets,
        server_netlink,
        server_again,
        server_sockets,
        listener,
    ];
    Ok((made, Namespaces { client, server, programs: Default::default() }))
}

/// Makes a TCP socket in one end's namespace and hands it out.
fn hand_out(plan: &Plan, which: i32, namespaces: &Namespaces) {
    let enter = |namespace: &OwnedFd| {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = enter(if which == CLIENT { &namespaces.client } else { &namespaces.server })
        .and_then(|()| socket_with(plan.family, SocketType::STREAM, flags, None));
    // This process stays in the server's.
    match enter(&namespaces.server).and(socket) {
        Ok(socket) => say(plan, Tag::Socket, which, 0, &[socket.as_fd()]),
        Err(errno) => fail(plan, Step::Socket, errno),
    }
}

/// Tells of children that end.
fn children() -> Result<OwnedFd, Errno> {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: the set is initialised before it is used; the descriptor is new and nobody else's.
    unsafe {
        // Where the caller ignores it, the kernel would throw their status away.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        let set = set.assume_init();
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 {
            return Err(last_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Takes every process that has ended, also those that others have left behind.
fn reap(plan: &Plan, children: &OwnedFd, namespaces: &Namespaces) {
    let mut information = [0; 128];
    let _ = read(children, &mut information);
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        for (number, program) in (0..).zip(&namespaces.programs) {
            if program.get() == Some(pid) {
                say(plan, Tag::Ended, number, status.as_raw(), &[]);
            }
        }
    }
}

fn start(plan: &mut Plan, which: i32, namespaces: &Namespaces) {
    let child = match fork(0) {
        Ok(Some(child)) => child,
        Ok(None) => become_program(plan, which, namespaces),
        Err(errno) => fail(plan, Step::Fork, errno),
    };
    namespaces.programs[usize::from(which == CLIENT)].set(Some(child));
    match pidfd_open(child, PidfdFlags::empty()) {
        Ok(handle) => say(plan, Tag::Started, which, 0, &[handle.as_fd()]),
        Err(errno) => fail(plan, Step::Fork, errno),
    }
}

fn become_program(plan: &mut Plan, which: i32, namespaces: &Namespaces) -> ! {
    let prepared = if which == CLIENT {
        let net = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(namespaces.client.as_fd(), net)
    } else {
        // Ctrl-C is for the client.
        setpgid(None, None)
            .and_then(|()| dup2_stdin(&plan.nothing))
            .and_then(|()| dup2_stdout(&plan.output))
            .and_then(|()| dup2_stderr(&plan.output))
    };
    // SAFETY: the mask was read from the kernel, and Rust's own start ignores this signal for itself alone.
    unsafe {
        libc::sigprocmask(libc::SIG_SETMASK, &raw const plan.mask, ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
    let program = if which == CLIENT { plan.client.as_mut() } else { plan.server.as_mut() };
    let errno = match (prepared, program) {
        (Ok(()), Some(program)) => program.execute(),
        (Err(errno), _) => errno,
        (Ok(()), None) => Errno::INVAL,
    };
    say(plan, Tag::NotExecuted, which, errno.raw_os_error(), &[]);
    exit()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::{
        net::socketpair,
        process::{getpid, kill_process, waitpid},
    };

    use super::{super::signals::Signals, *};

    /// A plan that nothing is asked of, and the parent's end of its control socket.
    fn idle(parent: Pid) -> (Plan, OwnedFd) {
        let (control, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        let null = || open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let plan = Plan {
            control: theirs,
            parents_control: control.as_raw_fd(),
            parent: pidfd_open(parent, PidfdFlags::empty()).unwrap(),
            family: AddressFamily::INET,
            client: None,
            server: None,
            output: null(),
            nothing: null(),
            mask: Signals::untouched().before(),
        };
        (plan, control)
    }

    fn ends(pid: Pid) -> bool {
        let handle = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        let deadline = Timespec { tv_sec: 60, tv_nsec: 0 };
        let ended = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&deadline)) == Ok(1);
        let _ = kill_process(pid, Signal::KILL);
        waitpid(Some(pid), WaitOptions::empty()).unwrap();
        ended
    }

    #[test]
    fn process_1_ends_where_the_parents_end_was_closed_before_anything_was_asked() {
        let (mut plan, control) = idle(getpid());
        let pid = clone(&mut plan).unwrap();
        drop((plan, control));
        assert!(ends(pid), "it holds the other end of its own socket");
    }

    #[test]
    fn process_1_holds_open_nothing_of_other_threads() {
        let (mut plan, control) = idle(getpid());
        let (theirs, other_end) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .unwrap();
        let pid = clone(&mut plan).unwrap();
        drop(theirs);
        let deadline = Timespec { tv_sec: 60, tv_nsec: 0 };
        let closed = poll(&mut [PollFd::new(&other_end, PollFlags::IN)], Some(&deadline)) == Ok(1);
        drop((plan, control));
        assert!(ends(pid) && closed);
    }

    #[test]
    fn process_1_ends_where_its_parent_died_before_it_asked_for_the_signal() {
        let mut dead = Command::new("true").spawn().unwrap();
        let parent = Pid::from_child(&dead);
        let (mut plan, control) = idle(parent);
        dead.wait().unwrap();
        // Open: as where yet another process has a copy of it.
        let pid = clone(&mut plan).unwrap();
        assert!(ends(pid));
        drop(control);
    }
}
