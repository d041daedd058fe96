//! Runs `stillopen` and keeps what it said.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::report::Report;

/// The program of this build.
pub(crate) const STILLOPEN: &str = env!("CARGO_BIN_EXE_stillopen");

/// The program, about to be run.
pub(crate) struct Program {
    before: Vec<String>,
    path: PathBuf,
    args: Vec<String>,
    folder: PathBuf,
    input: Option<String>,
}

/// What it said, and its exit status.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Program {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            before: Vec::new(),
            path: STILLOPEN.into(),
            args: Vec::new(),
            folder: folder.into(),
            input: None,
        }
    }

    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// Another copy of the program.
    pub(crate) fn at(mut self, path: &Path) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    /// With this text on its standard input.
    pub(crate) fn fed(mut self, input: &str) -> Self {
        self.input = Some(input.to_owned());
        self
    }

    /// Started by another program, which these words call.
    pub(crate) fn started_by(mut self, before: &[&str]) -> Self {
        self.before.extend(before.iter().map(|word| (*word).to_owned()));
        self
    }

    /// The command, with nothing of this user's own configuration.
    pub(crate) fn command(&self) -> Command {
        let mut command = match self.before.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(&self.path);
                command
            }
            None => Command::new(&self.path),
        };
        command
            .args(&self.args)
            .current_dir(&self.folder)
            .env("HOME", &self.folder)
            .env_remove("XDG_CONFIG_HOME")
            .stdin(Stdio::null());
        command
    }

    #[track_caller]
    pub(crate) fn run(&self) -> Said {
        let mut command = self.command();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if self.input.is_some() {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn().expect("start stillopen");
        if let (Some(input), Some(mut stdin)) = (&self.input, child.stdin.take()) {
            stdin.write_all(input.as_bytes()).expect("write to its standard input");
        }
        let output = child.wait_with_output().expect("wait for stillopen");
        let text = |bytes| String::from_utf8(bytes).expect("it writes UTF-8");
        Said {
            status: output.status.code().expect("it ends by itself"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Runs it with `--json`, which must end with `status` and say nothing on standard error.
    #[track_caller]
    pub(crate) fn report(self, status: i32) -> Report {
        let (report, ended) = self.look();
        assert_eq!(ended, status, "{report:#?}");
        report
    }

    /// Runs it with `--json`, which must succeed: the report and the status, 0 or 1.
    #[track_caller]
    pub(crate) fn look(self) -> (Report, i32) {
        let said = self.args(&["--json"]).run();
        assert!([0, 1].contains(&said.status), "{said:#?}");
        assert_eq!(said.stderr, "");
        (said.report(), said.status)
    }
}

impl Said {
    #[track_caller]
    pub(crate) fn report(&self) -> Report {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not a report: {error}\n{self:?}"))
    }
}
