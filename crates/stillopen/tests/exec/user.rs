//! An ordinary user with a copy of the program, and runs of `lab exec` by that user.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::Instant,
};

use serde_json::Value;

/// `nobody`, by number: not every machine has the name.
const AS_NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
/// A Python that every user may run: root's own may be in root's home.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// A folder that the user may write to, with the program in it.
pub(crate) struct User {
    folder: tempfile::TempDir,
}

/// A run that is under way.
pub(crate) struct Running {
    pub(crate) child: Child,
    summary: PathBuf,
    began: Instant,
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took_s: f64,
    /// Null where there was none.
    pub(crate) summary: Value,
}

impl User {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("lab-exec").tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let user = Self { folder };
        // Another process writes it: one that a test beside this one starts would inherit our descriptor for a
        // moment, and a file that is open for writing can't be run.
        let mut install = Command::new("install");
        install.args(["-m", "755", env!("CARGO_BIN_EXE_stillopen")]).arg(user.path("stillopen"));
        assert!(install.status().expect("start install").success(), "copy the program");
        user
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file that the user may read.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Any command as that user.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let root = rustix::process::geteuid().is_root();
        let before: &[&str] = if root { &AS_NOBODY } else { &[] };
        // However the tests were started: a background job ignores what a terminal sends.
        let words = [&["env", "--default-signal=HUP,INT,QUIT,TERM"], before, words].concat();
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// The program's own path.
    pub(crate) fn stillopen(&self) -> String {
        self.path("stillopen").to_str().unwrap().to_owned()
    }

    /// `stillopen lab exec` with these arguments.
    pub(crate) fn exec(&self, args: &[&str]) -> Command {
        self.command(&[&[self.stillopen().as_str(), "lab", "exec"], args].concat())
    }

    /// Starts it, with a summary in a file of this name.
    pub(crate) fn start(&self, name: &str, args: &[&str]) -> Running {
        let summary = self.path(&format!("{name}.json"));
        let with = ["--summary", summary.to_str().unwrap()];
        let mut command = self.exec(&[&with, args].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let began = now();
        Running { child: command.spawn().expect("start stillopen"), summary, began }
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.start("summary", args).ran()
    }
}

impl Running {
    /// Waits for its end.
    pub(crate) fn ran(self) -> Ran {
        let Output { status, stdout, stderr } = self.child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let summary = fs::read_to_string(&self.summary).unwrap_or_default();
        Ran {
            status: status.code().expect("it ends by itself"),
            stdout: text(stdout),
            stderr: text(stderr),
            took_s: (now() - self.began).as_secs_f64(),
            summary: serde_json::from_str(&summary).unwrap_or_default(),
        }
    }
}

// How long a client hangs is what these tests are about.
#[allow(clippy::disallowed_methods)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
