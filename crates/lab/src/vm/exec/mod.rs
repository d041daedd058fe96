//! `lab exec --driver vm`: the user's own client, and server, in the guest.

mod heard;
mod missed;

use std::{
    cell::Cell,
    env,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
    time::Duration,
};

use self::{heard::Heard, missed::missed};

use super::{
    Kernel, Phase, VmError, count, image, lane, millis, needs,
    protocol::{Bytes, Line, Place, Process, Serves, Stream},
    qemu,
};
use crate::{
    exec::{PORT_VARIABLE, Request, SCHEMA, SERVER_VARIABLE, Server, Summary},
    middlebox::{Profile, TcpState},
    path::{Addresses, Path},
    result::KernelResult,
    run::RunError,
};

/// More wall time than any run takes.
const LIMIT: Duration = Duration::from_secs(3600);
const SHELL: &str = "/bin/sh";
/// The guest has no way to any of these.
const PROXIES: [&str; 4] = ["http_proxy", "https_proxy", "all_proxy", "ftp_proxy"];

/// What only this driver needs to know.
#[derive(Debug, Clone)]
pub struct ExecOptions {
    /// Files and folders that are packed beside what the commands are seen to need.
    pub include: Vec<PathBuf>,
    /// The client is killed when it has run for so long on the guest's clock.
    pub longest: Duration,
}

/// Something that the client or the server wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrote<'a> {
    /// The client, to standard output.
    Out(&'a [u8]),
    /// The client to standard error, or the server to either.
    Err(&'a [u8]),
}

/// What came of it.
#[derive(Debug)]
pub struct Executed {
    /// What the path did, and how the client ended.
    pub summary: Summary,
    /// Whether the client was killed after [`ExecOptions::longest`].
    pub over_time: bool,
    /// Files of this host that it may have missed: it named them, and they were not packed.
    pub missed: Vec<PathBuf>,
    /// The kernel, and what each part took.
    pub kernel: KernelResult,
    /// The size of the guest's image in bytes.
    pub image: usize,
}

/// Runs the client of `request` in a guest with `kernel`. What is written is handed to `wrote` as it comes;
/// where that says that the client's output has no reader any more, the client ends as of SIGPIPE, and the guest
/// with it. `tell` is told what it is at, after what the client needs is packed.
///
/// # Errors
/// The path is no kernel's, a command or a file is not there, there is too much of it, the client cannot be
/// started, or the guest fails.
pub fn exec(
    request: &Request,
    options: &ExecOptions,
    kernel: &Kernel,
    mut wrote: impl FnMut(Wrote<'_>) -> bool,
    tell: impl Fn(Phase),
) -> Result<Executed, VmError> {
    let profile = Profile::named(&request.profile);
    let profile = profile.ok_or_else(|| RunError::Profile(request.profile.clone()))?;
    let mut timeouts = profile.timeouts;
    if let Some(idle) = request.idle_timeout {
        timeouts = timeouts.with(TcpState::Established, idle);
    }
    let at = Addresses::new(0, request.ipv6, 1);
    let path = Path::new(profile, timeouts, kernel.hz, at.clone());
    let mut lane = lane::bare(0, &path, 1)?;

    let backend = at.backends[0];
    let mut pack = image::begin()?;
    needs::usual(&mut pack)?;
    let mut job = super::job();
    lane.serves = match &request.server {
        Server::AnswerAfter(after) => Serves::BuiltIn(millis(*after)),
        Server::Command(script) => {
            let words = [SHELL.into(), "-c".into(), script.clone()];
            let port = backend.port().to_string();
            let words = needs::command(&mut pack, &words)?;
            job.processes.push(process(&words, (PORT_VARIABLE, &port), Place::Pods));
            Serves::Process
        }
    };
    let words = needs::command(&mut pack, &request.command)?;
    let vip = at.vip.to_string();
    let client = process(&words, (SERVER_VARIABLE, &vip), Place::Client);
    let number = job.processes.len();
    job.processes.push(Process {
        awaited_ms: Some(millis(options.longest)),
        when_served: true,
        ..client
    });
    needs::include(&mut pack, &options.include)?;
    let (there, image) = (pack.contents(), pack.size());
    job.lanes.push(lane);
    // Server and client are given their time each; nothing else ends the run.
    job.watch_ms = u64::MAX / 2;

    job.tells_time = true;
    tell(Phase::Boots);
    let mut heard = Heard::of(number);
    let has_reader = Cell::new(true);
    let each = |line: Line| {
        if has_reader.get() {
            heard.take(&line);
        }
        Phase::of(&line).into_iter().for_each(&tell);
        let Line::Said { process, to, text } = line else { return Some(line) };
        let own_output = process == number && to == Stream::Out;
        if !wrote(if own_output { Wrote::Out(&text.0) } else { Wrote::Err(&text.0) }) {
            has_reader.set(false);
            heard.lost_reader();
        }
        None
    };
    let boot = qemu::boot(kernel, &job, Some(pack), LIMIT, each, || !has_reader.get())?;

    let ended = heard.ended(backend, &there)?;
    let lane = &job.lanes[0];
    let tally = count::tally(lane, &path, &boot.lines);
    let mut path = path.result();
    path.vip = vip;
    Ok(Executed {
        missed: ended.missed,
        over_time: ended.over_time,
        kernel: super::kernel_result(kernel, lane.number, &boot),
        image,
        summary: Summary {
            schema: SCHEMA,
            driver: "vm",
            path,
            status: ended.status,
            took_s: ended.took.as_secs_f64(),
            counts: tally.counts,
            server_ended: ended.server,
            notes: Vec::new(),
        },
    })
}

fn process(words: &[OsString], add: (&str, &str), place: Place) -> Process {
    let bytes = |text: &OsStr| Bytes(text.as_bytes().to_vec());
    let is_proxy = |name: &OsStr| {
        PROXIES.iter().any(|proxy| name.as_bytes().eq_ignore_ascii_case(proxy.as_bytes()))
    };
    let environment = env::vars_os().filter(|(name, _)| !is_proxy(name) && name != add.0);
    let mut environment: Vec<_> =
        environment.map(|(name, value)| (bytes(&name), bytes(&value))).collect();
    environment.push((bytes(OsStr::new(add.0)), bytes(OsStr::new(add.1))));
    let folder = env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    Process {
        lane: 0,
        place,
        at_ms: 0,
        when_served: false,
        words: words.iter().map(|word| bytes(word)).collect(),
        environment,
        folder: bytes(folder.as_os_str()),
        awaited_ms: None,
    }
}
