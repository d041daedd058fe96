//! A program under `stillopen run`, as an ordinary user.

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use rustix::process::geteuid;

/// Changes to the user `nobody` (by number: not every machine has the name) before it starts what follows.
pub(crate) const AS_NOBODY: [&str; 4] =
    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// A program that does not end is killed after so long, and its test fails. On a machine that does much else 20,000
/// sockets take more than a minute.
const PATIENCE: [&str; 4] = ["timeout", "--foreground", "--signal=KILL", "600s"];

/// Debian's own, which every user may run.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// What every script starts with: `armed(socket)` has the values of keepalive, or `None`.
const PRELUDE: &str = "\
import ctypes, os, signal, socket, sys, threading, time
def armed(s):
    on = s.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    return '/'.join(str(s.getsockopt(socket.IPPROTO_TCP, name)) for name in names) if on else None
";

/// `supervisor()` is its number: it has the environment of this run, and is still `stillopen`.
pub(crate) const SUPERVISOR: &str = "
import os
def supervisor():
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            is_one = os.readlink(f'/proc/{pid}/exe').endswith('/stillopen')
            if is_one and os.environ['RUN'] in open(f'/proc/{pid}/environ').read(): return int(pid)
        except OSError: pass
";

/// Where `nobody` may run what is in it: the program's copy, and those of `programs/`.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    assert!(geteuid().is_root(), "these tests become other users: run them as root");
    let folder = std::env::temp_dir().join(format!("stillopen-run-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("make a folder");
    // It goes when this process has ended, however that was.
    let mut remover = Command::new("sh");
    remover.args(["-c", "cat; rm -rf \"$0\""]).arg(&folder).stdin(Stdio::piped());
    std::mem::forget(remover.spawn().expect("start a shell"));
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("let everybody in");
    // Another process writes it: one that is open for writing in a test's child can't be run.
    done(Command::new("install").args(["-m", "755", env!("CARGO_BIN_EXE_stillopen")]).arg(&folder));
    for (name, more) in [("storm", &["-pthread"][..]), ("rebind", &["-static"]), ("container", &[])]
    {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/programs").join(name);
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-Wall", "-Werror", "-o"]).arg(folder.join(name));
        done(cc.args(more).arg(source.with_extension("c")));
    }
    folder
});

fn done(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A file of [`FOLDER`].
pub(crate) fn file(name: &str) -> String {
    FOLDER.join(name).to_str().expect("a path of ours is text").to_owned()
}

/// `stillopen run OPTIONS -- COMMAND` after `before`, in a folder without stillopen.toml.
pub(crate) fn command(before: &[&str], options: &[&str], command: &[&str]) -> Command {
    let stillopen = file("stillopen");
    without(before, &[&[stillopen.as_str(), "run"], options, &["--"], command].concat())
}

/// A command after `before`, without `stillopen run`.
pub(crate) fn without(before: &[&str], command: &[&str]) -> Command {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let words = [&PATIENCE, before, command].concat();
    let mut run = Command::new(words[0]);
    let number = RUNS.fetch_add(1, Relaxed);
    // A group of its own: one of the programs sends its group a signal.
    run.args(&words[1..]).current_dir("/").env("HOME", "/").process_group(0);
    run.env("RUN", format!("run-{}-{number}-", std::process::id()));
    run
}

/// What the report says of what it does not know.
pub(crate) const LATER: &str = ". What the program set on them later is not known here: `stillopen check` shows it while they are open";

/// What a run gave.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let Output { status, stdout, stderr } = output;
        let text = |bytes| String::from_utf8(bytes).expect("it writes text");
        Self { status: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// What a program printed that ended well and was told nothing.
    #[track_caller]
    pub(crate) fn printed(self) -> String {
        assert_eq!((self.status, self.stderr.as_str()), (Some(0), ""), "{}", self.stdout);
        self.stdout.trim_end().to_owned()
    }

    /// The same, and the numbers of the report.
    #[track_caller]
    pub(crate) fn reported(self) -> (String, String) {
        let report = self.stderr.strip_prefix("stillopen: gave keepalive 60/30/3 to ");
        let report = report.unwrap_or_else(|| panic!("{self:?}")).trim_end();
        let numbers = report.split_once(LATER).map_or(report, |(numbers, _)| numbers);
        assert_eq!(self.status, Some(0), "{self:?}");
        (self.stdout.trim_end().to_owned(), numbers.replacen(" when made", "", 1))
    }
}

/// Runs a Python script as `nobody`.
pub(crate) fn python(options: &[&str], script: &str) -> Ran {
    python_after(&AS_NOBODY, options, script)
}

/// Runs a Python script after `before`.
pub(crate) fn python_after(before: &[&str], options: &[&str], script: &str) -> Ran {
    let script = format!("{PRELUDE}{SUPERVISOR}{script}");
    Ran::of(&mut command(before, options, &[PYTHON, "-c", &script]))
}
