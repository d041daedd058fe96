//! One boot: QEMU with warped time, and what the guest wrote.
//!
//! Everything that QEMU reads and writes, the kernel's image apart, is anonymous memory that it inherits: there
//! is no file to leave behind, and QEMU dies with the thread that started it.
#![allow(clippy::disallowed_methods, reason = "a boot's limit and its report are wall-clock time")]

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, Write as _},
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::{fs::FileExt as _, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create},
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, getpid, getppid, pidfd_open, set_parent_process_death_signal,
    },
};

use stillopen_model::human;

use super::{
    VmError,
    image::{self, PROGRAM},
    kernel::Kernel,
    pack::Pack,
    protocol::{Job, Line},
};

/// How often the progress of a boot is looked at.
const NOW_AND_THEN: Duration = Duration::from_millis(100);
const QEMU: &str = "qemu-system-x86_64";
/// MiB of the guest's memory beside its image, which is in it twice while it is unpacked.
const MEMORY: usize = 640;
/// A jump to the next timer costs no wall time (`sleep=off`), an instruction takes 2 ns of virtual time.
const WARP: &str = "shift=1,sleep=off";
/// `LD_LIBRARY_PATH` and `TERM` are for init, whose console draws no progress; what follows `--` are its
/// arguments.
/// A ramfs has no limit of its own; a tmpfs would take half of the memory.
fn command_line(library_path: &str) -> String {
    format!(
        "console=ttyS0 panic=-1 quiet tsc=reliable nowatchdog random.trust_cpu=on rootfstype=ramfs \
         rdinit={PROGRAM} LD_LIBRARY_PATH={library_path} TERM=dumb -- lab guest"
    )
}

/// What one boot gave.
#[derive(Debug)]
pub(crate) struct Boot {
    pub(crate) lines: Vec<Line>,
    pub(crate) walls: Walls,
}

/// Wall time since the start of the whole, image included, until …
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Walls {
    /// … the guest's first program ran,
    pub(crate) booted: Duration,
    /// … its set-up was done,
    pub(crate) ready: Duration,
    /// … it had ended.
    pub(crate) ended: Duration,
}

/// Has this process killed when `parent`, which started it, dies. One that has died already sends no signal.
fn ends_with(parent: Pid) -> Result<(), Errno> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() == Some(parent) { Ok(()) } else { Err(Errno::SRCH) }
}

/// Boots the kernel with this job and waits for its end. `pack`: what its programs need, if any; `each` is told
/// each line as it comes, up to the last, and gives back what is to be kept of it. Once `is_over` says so, the
/// guest's end is not waited for.
pub(crate) fn boot(
    kernel: &Kernel,
    job: &Job,
    pack: Option<Pack>,
    limit: Duration,
    mut each: impl FnMut(Line) -> Option<Line>,
    is_over: impl Fn() -> bool,
) -> Result<Boot, VmError> {
    let began = Instant::now();
    let mut image = memory("image")?;
    let pack = pack.map_or_else(image::begin, Ok)?;
    let packed = image::build(pack, kernel, job)?;
    let megabytes = MEMORY + 2 * (packed.bytes.len() >> 20);
    image.write_all(&packed.bytes).map_err(VmError::io("write", Path::new("the guest's image")))?;
    let command_line = command_line(&packed.library_path);
    drop(packed);
    let (console, results, mut complaints) =
        (memory("console")?, memory("results")?, memory("stderr")?);
    let inherited = |file: &File| format!("/proc/self/fd/{}", file.as_raw_fd());

    let mut command = Command::new(QEMU);
    command
        .args(["-accel", "tcg", "-cpu", "max", "-m", &megabytes.to_string(), "-icount", WARP])
        // The guest's time of day begins with the scenario's and keeps to virtual time.
        .args(["-rtc", &format!("base={},clock=vm", job.date)])
        .args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"])
        .args(["-serial", &format!("file:{}", inherited(&console))])
        .args(["-serial", &format!("file:{}", inherited(&results))])
        .arg("-kernel")
        .arg(&kernel.image)
        .args(["-initrd", &inherited(&image), "-append", &command_line])
        // Ctrl-C is for this program; QEMU goes with it.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(complaints.try_clone().map_err(VmError::io("share", Path::new("a log")))?);
    let parent = getpid();
    // SAFETY: it makes two system calls, which are safe between fork and exec.
    unsafe {
        command.pre_exec(move || Ok(ends_with(parent)?));
    }
    let mut child = Killed(command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => VmError::NoQemu,
        _ => VmError::Tool { name: QEMU.into(), cause: error.to_string() },
    })?);
    let mut walls = Walls::default();
    let mut reader = Reader { file: results, read: 0, rest: Vec::new() };
    let (mut lines, mut failed) = (Vec::new(), None);
    let mut is_done = false;
    // What is there now, whenever that is: QEMU may end between two looks.
    let mut hear = || {
        reader.read(|line| {
            match &line {
                Line::Booted { .. } => walls.booted = began.elapsed(),
                Line::Ready { .. } => walls.ready = began.elapsed(),
                Line::Failed { what } => failed = Some(what.clone()),
                _ => {}
            }
            is_done = matches!(line, Line::Done { .. });
            lines.extend(each(line));
        })
    };
    // What can't be read now is read at the end.
    let heard = || {
        drop(hear());
        !is_over()
    };
    let ended = child.wait(limit, heard)?;
    drop(child);
    hear().map_err(VmError::io("read", Path::new("what the guest wrote")))?;

    walls.ended = began.elapsed();
    if ended && is_done || is_over() {
        return Ok(Boot { lines, walls });
    }
    let what = match failed {
        _ if !ended => format!("it was not done after {}", human(limit)),
        Some(what) => what,
        None => {
            let said = text(&mut complaints)?;
            let said = said.lines().rfind(|line| !line.trim().is_empty());
            format!("it ended before it was done ({})", said.map_or("a panic?", str::trim))
        }
    };
    Err(VmError::Guest { what, log: kept(console, complaints)? })
}

/// A process that does not outlive this.
struct Killed(Child);

impl Killed {
    /// Whether it ended in time; asks `goes_on` now and then.
    fn wait(
        &mut self,
        limit: Duration,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<bool, VmError> {
        let failed =
            |error: io::Error| VmError::Tool { name: QEMU.into(), cause: error.to_string() };
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
        let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| failed(error.into()))?;
        let deadline = Instant::now() + limit;
        loop {
            if !goes_on() {
                return Ok(false);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let now_and_then = left.min(NOW_AND_THEN);
            let wait = Timespec::try_from(now_and_then)
                .map_err(|_| failed(io::ErrorKind::InvalidInput.into()))?;
            match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&wait)) {
                Ok(0) if left.is_zero() => return Ok(false),
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return self.0.wait().map(|_| true).map_err(failed),
                Err(error) => return Err(failed(error.into())),
            }
        }
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file of memory that a child inherits.
fn memory(name: &str) -> Result<File, VmError> {
    let made = memfd_create(name, MemfdFlags::empty()).map(OwnedFd::into);
    made.map_err(|error| VmError::io("make", Path::new("a file in memory"))(error.into()))
}

fn text(file: &mut File) -> Result<String, VmError> {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    read.map_err(VmError::io("read", Path::new("what the guest wrote")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads the guest's lines while they come.
struct Reader {
    file: File,
    read: u64,
    /// The beginning of a line whose end is still to come.
    rest: Vec<u8>,
}

impl Reader {
    /// Hands on the lines that are new, and frees their memory; what is no line is left out. The serial port ends
    /// lines as terminals do.
    fn read(&mut self, mut each: impl FnMut(Line)) -> io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let length = self.file.read_at(&mut buffer, self.read)?;
            if length == 0 {
                return Ok(());
            }
            let free = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&self.file, free, self.read, length as u64)?;
            self.read += length as u64;
            self.rest.extend(&buffer[..length]);
            let Some(end) = self.rest.iter().rposition(|&byte| byte == b'\n') else { continue };
            let rest = self.rest.split_off(end + 1);
            let whole = std::mem::replace(&mut self.rest, rest);
            whole
                .split(|&byte| byte == b'\n')
                .filter_map(|line| serde_json::from_slice(line.trim_ascii_end()).ok())
                .for_each(&mut each);
        }
    }
}

/// Leaves the console's log as a file.
fn kept(mut console: File, mut complaints: File) -> Result<PathBuf, VmError> {
    let text = text(&mut complaints)? + &text(&mut console)?;
    let failed = |error| VmError::io("write", &std::env::temp_dir())(error);
    let mut file = tempfile::Builder::new()
        .prefix("stillopen-vm-console-")
        .suffix(".log")
        .tempfile()
        .map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    let (_, path) = file.keep().map_err(|error| failed(error.error))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_with_its_parent_does_not_begin_where_that_is_dead() {
        let run = |parent| {
            let mut command = Command::new("true");
            // SAFETY: as where QEMU is started.
            unsafe { command.pre_exec(move || Ok(ends_with(parent)?)) };
            command.status().map(|status| status.success())
        };
        assert!(run(getpid()).unwrap());
        // The child is another's by then.
        let error = run(Pid::INIT).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::SRCH.raw_os_error()));
    }

    #[test]
    fn every_line_is_handed_on_once_however_the_looks_at_the_file_cut_them() {
        let mut guest = memory("results").unwrap();
        let mut reader = Reader { file: guest.try_clone().unwrap(), read: 0, rest: Vec::new() };
        let all: Vec<Line> = (0..4000).map(|at_ms| Line::Done { at_ms }).collect();
        let text = all.iter().map(|line| serde_json::to_string(line).unwrap() + "\r\n");
        let text = format!("SeaBIOS\r\n{}", text.collect::<String>());
        let mut heard = Vec::new();
        let mut hear = || {
            let at = |line| match line {
                Line::Done { at_ms } => at_ms,
                other => panic!("{other:?}"),
            };
            reader.read(|line| heard.push(at(line))).unwrap();
        };
        // The last part, larger than what is read at once, comes when the guest has ended.
        let (first, last) = text.as_bytes().split_at(7);
        guest.write_all(first).unwrap();
        hear();
        guest.write_all(last).unwrap();
        hear();
        hear();
        assert_eq!(heard, (0..4000).collect::<Vec<u64>>());
    }
}
