//! Programs that the host asked for, each started at its time in one of a lane's namespaces. What they write
//! goes to the host as it comes, but so little at once that one that never stops keeps nothing else waiting.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    ffi::OsStr,
    io,
    net::SocketAddr,
    os::{
        fd::BorrowedFd,
        unix::{ffi::OsStrExt as _, process::ExitStatusExt as _},
    },
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::{
    fd::{AsFd as _, OwnedFd},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open},
};

use super::{
    super::image::PROGRAM,
    super::protocol::{Bytes, Line, Process, Stream},
    Done, at_once, failed, millis,
};

/// What this program itself was started with; others have their own.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
/// As much is sent to the host at once.
const CHUNK: usize = 16 * 1024;

/// How soon a server that does not listen yet is looked at again.
const TRIED_AGAIN: Duration = Duration::from_millis(50);

/// What there is to see of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    Out,
    Err,
    End,
}

impl Seen {
    /// From its number.
    pub(super) fn of(number: usize) -> Self {
        [Self::Out, Self::Err]
            .into_iter()
            .find(|&seen| seen as usize == number)
            .unwrap_or(Self::End)
    }
}

/// The number of a process, and what of it.
pub(super) type Token = (usize, Seen);

/// Those that were asked for.
#[derive(Debug)]
pub(super) struct Processes<'a> {
    /// When, its number, and what; the latest first.
    to_come: Vec<(u64, usize, &'a Process)>,
    running: BTreeMap<usize, Running>,
    /// How many the run waits for; `None`: for none.
    awaited: Option<usize>,
    /// When the first of those has had its time, in milliseconds since the start.
    out_of_time: Option<u64>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    /// Readable once it has ended; `None`: that has been seen.
    handle: Option<OwnedFd>,
    is_awaited: bool,
    /// What it wrote, until the last one that can write has closed it.
    pipes: [Option<OwnedFd>; 2],
}

impl<'a> Processes<'a> {
    pub(super) fn new(asked: &'a [Process]) -> Self {
        let numbered = asked.iter().enumerate();
        let mut to_come: Vec<_> =
            numbered.map(|(n, process)| (process.at_ms, n, process)).collect();
        to_come.sort_by_key(|&(at, number, _)| Reverse((at, number)));
        let awaited = asked.iter().filter(|process| process.awaited_ms.is_some()).count();
        let awaited = (awaited > 0).then_some(awaited);
        Self { to_come, running: BTreeMap::new(), awaited, out_of_time: None }
    }

    /// When the next one starts, in milliseconds since the start.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.to_come.last().map(|(at, ..)| *at)
    }

    pub(super) fn next(&self) -> Option<&'a Process> {
        self.to_come.last().map(|(_, _, process)| *process)
    }

    /// Starts the next one in the namespace that this thread is in; what is to be watched of it.
    pub(super) fn start(&mut self, at: Duration) -> Done<Vec<(BorrowedFd<'_>, Token)>> {
        let Some((_, number, asked)) = self.to_come.pop() else { return Ok(Vec::new()) };
        let started = match spawn(asked) {
            Ok(started) => started,
            Err(error) => {
                self.count_end(asked.awaited_ms.is_some());
                at_once(Line::NotStarted { process: number, error: error.to_string() })?;
                return Ok(Vec::new());
            }
        };
        at_once(Line::Started { process: number, at_ms: millis(at) })?;
        let ends = asked.awaited_ms.map(|longest| millis(at).saturating_add(longest));
        self.out_of_time = self.out_of_time.into_iter().chain(ends).min();
        self.running.insert(number, started);
        Ok(self.running[&number].watched().map(|(fd, seen)| (fd, (number, seen))).collect())
    }

    /// The next one has to wait for a server: it is tried again soon, or given up where there is no server any more.
    /// `listens`: where something listens.
    pub(super) fn put_off(
        &mut self,
        at: Duration,
        given_up: bool,
        listens: Vec<SocketAddr>,
    ) -> Done<()> {
        let Some((_, number, asked)) = self.to_come.pop() else { return Ok(()) };
        if given_up || !self.any_runs() {
            self.count_end(asked.awaited_ms.is_some());
            let waited_ms = millis(at).saturating_sub(asked.at_ms);
            return at_once(Line::NotServed { process: number, waited_ms, listens });
        }
        self.to_come.push((millis(at + TRIED_AGAIN), number, asked));
        self.to_come.sort_by_key(|&(at, number, _)| Reverse((at, number)));
        Ok(())
    }

    fn count_end(&mut self, awaited: bool) {
        if let Some(left) = self.awaited.as_mut().filter(|_| awaited) {
            *left = left.saturating_sub(1);
        }
    }

    /// What there is to see of it now.
    pub(super) fn look(&mut self, number: usize, what: Seen, at: Duration) -> Done<()> {
        let Some(running) = self.running.get_mut(&number) else { return Ok(()) };
        match what {
            Seen::Out => running.read(number, Stream::Out, CHUNK),
            Seen::Err => running.read(number, Stream::Err, CHUNK),
            Seen::End => {
                // What it wrote last comes before its end.
                running.read_what_is_there(number)?;
                let ended = running.child.try_wait().map_err(failed("wait for", "a process"))?;
                let Some(status) = ended else { return Ok(()) };
                running.handle = None;
                let is_awaited = running.is_awaited;
                self.count_end(is_awaited);
                let small = |number: i32| u8::try_from(number).ok();
                at_once(Line::Exited {
                    process: number,
                    at_ms: millis(at),
                    status: status.code().and_then(small),
                    signal: status.signal().and_then(small),
                })
            }
        }
    }

    /// Whether there are some that the run waits for, and each has ended.
    pub(super) fn all_awaited_ended(&self) -> bool {
        self.awaited == Some(0)
    }

    /// When a process that the run waits for has had its time, in milliseconds since the start.
    pub(super) fn out_of_time(&self) -> Option<u64> {
        self.out_of_time
    }

    /// Whether there are some that the run waits for.
    pub(super) fn any_awaited(&self) -> bool {
        self.awaited.is_some()
    }

    /// The run is over: tells which of those that it waits for have not ended.
    pub(super) fn over_time(&self, at: Duration) -> Done<()> {
        let late = self.running.iter().filter(|(_, one)| one.is_awaited && one.handle.is_some());
        late.into_iter()
            .try_for_each(|(&process, _)| at_once(Line::OverTime { process, at_ms: millis(at) }))
    }

    /// Sends on what those have written that had ended before.
    pub(super) fn read_what_is_there(&mut self) -> Done<()> {
        self.running
            .iter_mut()
            .try_for_each(|(&number, running)| running.read_what_is_there(number))
    }

    pub(super) fn any_runs(&self) -> bool {
        self.running.values().any(|running| running.handle.is_some())
    }

    /// The run is over: what was to come later does not.
    pub(super) fn skip_the_rest(&mut self) {
        self.to_come.clear();
    }
}

/// Kills every process but this one, which is process 1.
pub(super) fn kill_all() -> Done<()> {
    match kill_process_group(Pid::INIT, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(failed("kill", "what still runs")(error)),
    }
}

impl Running {
    fn watched(&self) -> impl Iterator<Item = (BorrowedFd<'_>, Seen)> {
        let [out, err] = &self.pipes;
        [(out, Seen::Out), (err, Seen::Err), (&self.handle, Seen::End)]
            .into_iter()
            .filter_map(|(fd, seen)| Some((fd.as_ref()?.as_fd(), seen)))
    }

    /// Sends on what it has written, no more than `most` bytes of it.
    fn read(&mut self, process: usize, to: Stream, mut most: usize) -> Done<()> {
        let pipe = &mut self.pipes[usize::from(to == Stream::Err)];
        let mut buffer = [0; CHUNK];
        while let Some(fd) = pipe.as_ref().filter(|_| most > 0) {
            match rustix::io::read(fd, &mut buffer[..most.min(CHUNK)]) {
                // Closing it ends the watch.
                Ok(0) => *pipe = None,
                Ok(length) => {
                    most -= length;
                    let text = Bytes(buffer[..length].to_vec());
                    at_once(Line::Said { process, to, text })?;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(failed("read what", "a process wrote")(error)),
            }
        }
        Ok(())
    }

    /// Sends on what is in its pipes now: others that it has started may go on to write.
    fn read_what_is_there(&mut self, process: usize) -> Done<()> {
        for to in [Stream::Out, Stream::Err] {
            let pipe = &self.pipes[usize::from(to == Stream::Err)];
            let there = pipe.as_ref().map_or(Ok(0), rustix::io::ioctl_fionread);
            let there = there.map_err(failed("measure what", "a process wrote"))?;
            self.read(process, to, usize::try_from(there).unwrap_or(usize::MAX))?;
        }
        Ok(())
    }
}

fn spawn(asked: &Process) -> io::Result<Running> {
    let text = |bytes: &Bytes| OsStr::from_bytes(&bytes.0).to_owned();
    let mut words = asked.words.iter().map(text);
    let mut command = Command::new(words.next().unwrap_or_default());
    let environment = asked.environment.iter().map(|(name, value)| (text(name), text(value)));
    command
        .args(words)
        .env_clear()
        .envs(environment)
        .current_dir(text(&asked.folder))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if command.get_program() == PROGRAM {
        let path = std::env::var_os(LIBRARY_PATH);
        command.envs(path.map(|path| (LIBRARY_PATH, path)));
    }
    let mut child = command.spawn()?;
    let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    let pipes = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
    for pipe in pipes.iter().flatten() {
        rustix::io::ioctl_fionbio(pipe, true)?;
    }
    Ok(Running { child, handle: Some(handle), is_awaited: asked.awaited_ms.is_some(), pipes })
}
