//! `lab exec --driver vm`: the user's own client, and server, in the guest.

use std::{
    collections::BTreeSet,
    env,
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path as FilePath, PathBuf},
    time::Duration,
};

use super::{
    Kernel, VmError, count, image, lane, millis, needs,
    protocol::{Bytes, Line, Place, Process, Serves, Stream},
    qemu,
};
use crate::{
    exec::{PORT_VARIABLE, Request, SCHEMA, SERVER_VARIABLE, Server, Status, Summary},
    middlebox::{Profile, TcpState},
    path::{Addresses, Path},
    result::KernelResult,
    run::RunError,
};

/// More wall time than any run takes.
const LIMIT: Duration = Duration::from_secs(3600);
/// `timeout` of coreutils ends so.
const OVER_TIME: u8 = 124;
/// And a shell where a command is not found.
const NOT_FOUND: u8 = 127;
const SHELL: &str = "/bin/sh";
/// The guest has no way to any of these.
const PROXIES: [&str; 4] = ["http_proxy", "https_proxy", "all_proxy", "ftp_proxy"];

/// What only this driver needs to know.
#[derive(Debug, Clone)]
pub struct ExecOptions {
    /// Files and folders that are packed beside what the commands are seen to need.
    pub include: Vec<PathBuf>,
    /// The client is ended after so long on the guest's clock.
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
    /// Whether the client had not ended after [`ExecOptions::longest`].
    pub over_time: bool,
    /// Files of this host that it may have missed: it named them, and they were not packed.
    pub missed: Vec<PathBuf>,
    /// The kernel, and what each part took.
    pub kernel: KernelResult,
    /// The size of the guest's image in bytes.
    pub image: usize,
}

/// Runs the client of `request` in a guest with `kernel`. What is written is handed to `wrote` as it comes.
///
/// # Errors
/// The path is no kernel's, a command or a file is not there, there is too much of it, the client cannot be
/// started, or the guest fails.
pub fn exec(
    request: &Request,
    options: &ExecOptions,
    kernel: &Kernel,
    mut wrote: impl FnMut(Wrote<'_>),
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

    let mut pack = image::begin()?;
    needs::usual(&mut pack)?;
    let mut job = super::job();
    lane.serves = match &request.server {
        Server::AnswerAfter(after) => Serves::BuiltIn(millis(*after)),
        Server::Command(script) => {
            let words = [SHELL.into(), "-c".into(), script.clone()];
            let port = at.backends.first().map_or(0, std::net::SocketAddr::port).to_string();
            let program = needs::command(&mut pack, &words)?;
            job.processes.push(process(&program, &words, (PORT_VARIABLE, &port), Place::Pods));
            Serves::Process
        }
    };
    let program = needs::command(&mut pack, &request.command)?;
    let vip = at.vip.to_string();
    let client = process(&program, &request.command, (SERVER_VARIABLE, &vip), Place::Client);
    let number = job.processes.len();
    job.processes.push(Process { awaited: true, when_served: true, ..client });
    needs::include(&mut pack, &options.include)?;
    let (there, image) = (pack.contents(), pack.size());
    job.lanes.push(lane);
    job.watch_ms = millis(options.longest);

    let boot = qemu::boot(kernel, &job, Some(pack), LIMIT, |line| {
        if let Line::Said { process, to, text } = &line {
            let own_output = *process == number && *to == Stream::Out;
            wrote(if own_output { Wrote::Out(&text.0) } else { Wrote::Err(&text.0) });
        }
        Some(line)
    })?;

    let ended = Ended::of(number, options.longest, &boot.lines)?;
    let lane = &job.lanes[0];
    let tally = count::tally(lane, &path, &boot.lines);
    let mut path = path.result();
    path.vip = vip;
    Ok(Executed {
        missed: missed(&ended, &there),
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
            server_ended: None,
            notes: Vec::new(),
        },
    })
}

fn process(program: &FilePath, words: &[OsString], add: (&str, &str), place: Place) -> Process {
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
        words: std::iter::once(program.as_os_str())
            .chain(words.iter().skip(1).map(OsString::as_os_str))
            .map(bytes)
            .collect(),
        environment,
        folder: bytes(folder.as_os_str()),
        awaited: false,
    }
}

/// How the client ended, and what it wrote to standard error.
struct Ended {
    status: Status,
    over_time: bool,
    took: Duration,
    said: Vec<u8>,
}

impl Ended {
    fn of(client: usize, longest: Duration, lines: &[Line]) -> Result<Self, VmError> {
        let (mut began, mut said, mut end) = (0, Vec::new(), None);
        for line in lines {
            match line {
                Line::NotStarted { process, error } if *process == client => {
                    return Err(VmError::NotStarted(error.clone()));
                }
                Line::Started { process, at_ms } if *process == client => began = *at_ms,
                // What the server complains of counts too.
                Line::Said { to: Stream::Err, text, .. } => said.extend(&text.0),
                Line::Exited { process, at_ms, status, signal } if *process == client => {
                    let by_signal = signal.map(Status::Signal);
                    let status = status.map(Status::Exit).or(by_signal);
                    end = status.map(|status| (status, *at_ms));
                }
                _ => {}
            }
        }
        let over_time = end.is_none();
        let (status, at_ms) = end.unwrap_or((Status::Exit(OVER_TIME), millis(longest)));
        let took = Duration::from_millis(at_ms.saturating_sub(began));
        Ok(Self { status, over_time, took, said })
    }
}

/// Paths and names of programs in what a program complained of, which this host has and the guest had not.
fn missed(ended: &Ended, there: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let mut found = BTreeSet::new();
    if ended.status == Status::Exit(0) || ended.over_time {
        return Vec::new();
    }
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"'\"`:;,()[]<>".contains(byte);
    for word in ended.said.split(ends).filter(|word| word.len() > 2) {
        let word = OsString::from_vec(word.to_vec());
        let named = [b'/', b'.'].iter().any(|mark| word.as_bytes().contains(mark));
        let path = match named {
            true => std::path::absolute(&word).ok(),
            false if ended.status == Status::Exit(NOT_FOUND) => super::pack::find_program(&word),
            false => None,
        };
        // Links are told by where they lead.
        let real = path.as_ref().and_then(|path| path.canonicalize().ok());
        let Some((path, real)) = path.zip(real) else { continue };
        let is_there =
            there.range(real.clone()..).next().is_some_and(|next| next.starts_with(&real));
        if !is_there && path.parent().is_some() {
            found.insert(path);
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_a_program_missed_is_found_in_its_words() {
        let folder = tempfile::tempdir().unwrap();
        let [here, not_here] = ["here.pem", "not-here.pem"].map(|name| folder.path().join(name));
        for path in [&here, &not_here] {
            std::fs::write(path, "").unwrap();
        }
        let there = BTreeSet::from([here.canonicalize().unwrap()]);
        let said = format!(
            "Traceback\nFileNotFoundError: [Errno 2] No such file or directory: '{}'\n{}: cat: not found\n",
            not_here.display(),
            here.display()
        );
        let ended = |status| Ended {
            status,
            over_time: false,
            took: Duration::ZERO,
            said: said.clone().into_bytes(),
        };
        let is_cat = |path: &PathBuf| path.ends_with("cat");
        for status in [1, 127] {
            let found = missed(&ended(Status::Exit(status)), &there);
            assert!(found.contains(&not_here) && !found.contains(&here), "{found:?}");
            assert_eq!(found.iter().any(is_cat), status == 127, "{found:?}");
        }
        assert!(missed(&ended(Status::Exit(0)), &there).is_empty());
    }
}
