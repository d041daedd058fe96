//! What a command needs to run, and thus what of this host goes into the guest's memory.
//!
//! The program with its loader and libraries; of a script its interpreter; what its language keeps beside it
//! (Python's own answer to where it looks for modules, Node's `node_modules`, Java's home, the programs that a
//! shell script names); the command that it starts in its turn; files and folders that its arguments name. What else
//! there is, `--include` names.
//! Read first: [`command`], then `script.rs` (who runs a file) and `behind.rs` (what is behind a program).

mod behind;
mod languages;
mod script;

use std::{
    collections::HashSet,
    env,
    ffi::{OsStr, OsString},
    fs,
    os::unix::{ffi::OsStrExt as _, fs::FileTypeExt as _},
    path::{Path, PathBuf},
};

use self::script::RunBy;
use super::{
    VmError,
    cpio::About,
    pack::{self, Pack, find_program},
};

/// A longer script is no shell's.
const LONGEST_SCRIPT: u64 = 1 << 20;
const SHELL: &str = "/bin/sh";
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];
/// An interpreter may be a script in its turn so often (`exec_binprm`).
const DEEPEST: u8 = 5;
/// What programs look for wherever they run; where the host has it.
const USUAL: [&str; 7] = [
    "/bin/sh",
    "/etc/ld.so.cache",
    "/etc/ssl/openssl.cnf",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/usr/lib/ssl/openssl.cnf",
    "/usr/lib/ssl/cert.pem",
];
/// Libraries that glibc loads when it needs them.
const LOADED_LATE: [&str; 3] = ["libgcc_s.so.1", "libnss_files.so.2", "libnss_dns.so.2"];
/// Files of the guest's own. Names are looked up in `/etc/hosts` alone.
const OWN: [(&str, &str); 5] = [
    ("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
    ("/etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ("/etc/resolv.conf", ""),
];

/// What every user's program finds in the guest.
pub(super) fn usual(pack: &mut Pack) -> Result<(), VmError> {
    for (path, text) in OWN {
        pack.own(path, text.as_bytes(), About { mode: 0o644, modified: 0 });
    }
    for path in USUAL.map(Path::new).into_iter().filter(|path| path.is_file()) {
        pack.add(path)?;
    }
    LOADED_LATE.iter().try_for_each(|name| pack.library(name))
}

/// Puts in what the user named.
pub(super) fn include(pack: &mut Pack, paths: &[PathBuf]) -> Result<(), VmError> {
    for path in paths {
        let path = std::path::absolute(path).map_err(VmError::io("find", path))?;
        if let Some(why) = not_for_a_guest(&path) {
            return Err(VmError::BadInclude { path, why });
        }
        Needs::of(pack).program_or_data(&path).map_err(|error| match error {
            VmError::TooLarge { most, largest, .. } => VmError::TooLarge {
                most,
                largest,
                advice: "Give --include only what is needed of it",
            },
            other => other,
        })?;
    }
    Ok(())
}

/// Why a guest can't have it.
fn not_for_a_guest(path: &Path) -> Option<String> {
    let Ok(real) = fs::canonicalize(path) else { return Some(pack::why_missing(path)) };
    if let Some(own) = pack::own_of_guest(&real) {
        return Some(format!("the guest has a {own} of its own"));
    }
    let kind = fs::metadata(&real).ok()?.file_type();
    let what = match () {
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () if kind.is_char_device() || kind.is_block_device() => "a device",
        () => return None,
    };
    Some(format!("it is {what}: only files and folders can be packed"))
}

/// Puts in what `words` needs, and says what to execute.
pub(super) fn command(pack: &mut Pack, words: &[OsString]) -> Result<Vec<OsString>, VmError> {
    let name = words.first().map(OsString::as_os_str).unwrap_or_default();
    let program = pack::locate(name)?;
    let arguments = words.get(1..).unwrap_or_default();
    let mut needs = Needs::of(pack);
    let executed = needs.runs(&program, arguments, 0)?;
    for argument in arguments {
        for path in named_by(argument) {
            needs.program_or_data(&path)?;
        }
    }
    if let Ok(here) = env::current_dir() {
        pack.folder(&here);
    }
    if let Some(home) = env::var_os("HOME") {
        pack.folder(Path::new(&home));
    }
    Ok(executed)
}

/// What is asked of a pack, and what has been.
struct Needs<'a> {
    pack: &'a mut Pack,
    /// Commands that were seen to, with their arguments: a script may name itself.
    seen: HashSet<(PathBuf, Vec<OsString>)>,
    /// Pythons that were asked where their modules are.
    asked: HashSet<PathBuf>,
}

impl<'a> Needs<'a> {
    fn of(pack: &'a mut Pack) -> Self {
        Self { pack, seen: HashSet::new(), asked: HashSet::new() }
    }

    fn program_or_data(&mut self, path: &Path) -> Result<(), VmError> {
        if path.is_file() && find_program(path.as_os_str()).is_some() {
            return self.may_run(path, &[]);
        }
        self.pack.add_but(path, &is_of_a_repository)
    }

    /// The same as [`Needs::runs`] for what is not sure to be run: it may be broken.
    fn may_run(&mut self, program: &Path, arguments: &[OsString]) -> Result<(), VmError> {
        match self.runs(program, arguments, 0) {
            Ok(_) | Err(VmError::NoInterpreter { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A program, and what it needs for these arguments. What to execute for it.
    fn runs(
        &mut self,
        program: &Path,
        arguments: &[OsString],
        depth: u8,
    ) -> Result<Vec<OsString>, VmError> {
        let asked = || [program.as_os_str().to_owned()].into_iter().chain(arguments.to_vec());
        if !self.seen.insert((program.to_owned(), arguments.to_vec())) {
            return Ok(asked().collect());
        }
        if let Some(chosen) = behind::chosen(program) {
            self.pack.instead(program, &chosen)?;
            self.runs(&chosen, arguments, depth)?;
            return Ok(asked().collect());
        }
        self.pack.add(program)?;
        match RunBy::of(program) {
            RunBy::Kernel => {
                self.started(program, arguments)?;
                Ok(asked().collect())
            }
            RunBy::Shell => {
                let words: Vec<OsString> = asked().collect();
                self.pack.add(Path::new(SHELL))?;
                self.shell(&words)?;
                Ok([SHELL.into()].into_iter().chain(words).collect())
            }
            RunBy::Interpreter { path, argument } => {
                let bad = |why| VmError::NoInterpreter {
                    script: program.to_owned(),
                    interpreter: path.clone(),
                    why,
                };
                if depth == DEEPEST {
                    return Err(bad("it is a script, whose interpreter is one, and so on".into()));
                }
                // The kernel does not look in PATH.
                let here = std::path::absolute(&path).map_err(|error| bad(error.to_string()))?;
                let Some(interpreter) = find_program(here.as_os_str()) else {
                    return Err(bad(pack::why_not_run(&here)));
                };
                let argument = argument.iter().flat_map(|text| split(text));
                let words: Vec<OsString> = argument.chain(asked()).collect();
                self.runs(&interpreter, &words, depth + 1)?;
                Ok(asked().collect())
            }
        }
    }

    /// What a program needs beside itself: its language's, and the command that it starts.
    fn started(&mut self, program: &Path, arguments: &[OsString]) -> Result<(), VmError> {
        for (command, rest) in behind::commands(program, arguments) {
            self.may_run(&command, rest)?;
        }
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let script = arguments.iter().map(PathBuf::from).find(|path| path.is_file());
        let script = script.and_then(|path| std::path::absolute(path).ok());
        if name.starts_with("python") || name.starts_with("pypy") {
            if self.asked.insert(program.to_owned()) {
                languages::python(self.pack, program)?;
            }
            script.map_or(Ok(()), |script| languages::beside_python(self.pack, &script))
        } else if name == "node" || name == "nodejs" {
            languages::node(self.pack, script.as_deref())
        } else if name == "java" {
            languages::java(self.pack, program)
        } else if SHELLS.contains(&name.as_str()) {
            self.shell(arguments)
        } else {
            Ok(())
        }
    }

    /// A shell's arguments: in commands and in scripts every word that is the name of a program is taken for one, with
    /// the words after it, and every word that is the path of a file for what it may read.
    fn shell(&mut self, arguments: &[OsString]) -> Result<(), VmError> {
        for argument in arguments {
            self.shell_text(argument.as_bytes())?;
        }
        let Some(script) = arguments.iter().map(Path::new).find(|path| path.is_file()) else {
            return Ok(());
        };
        self.pack.add(script)?;
        if fs::metadata(script).is_ok_and(|of| of.len() <= LONGEST_SCRIPT) {
            let text = fs::read(script).map_err(VmError::io("read", script))?;
            self.shell_text(&text)?;
        }
        Ok(())
    }

    fn shell_text(&mut self, text: &[u8]) -> Result<(), VmError> {
        for command in text.split(|byte| b"\n;|&(){}`".contains(byte)) {
            let ends = |byte: &u8| !byte.is_ascii_alphanumeric() && !b"_-./+".contains(byte);
            let words = command.split(ends).filter(|word| word.len() > 1);
            let words: Vec<OsString> =
                words.map(|word| OsStr::from_bytes(word).to_owned()).collect();
            for (at, word) in words.iter().enumerate() {
                if let Some(program) = find_program(word) {
                    self.may_run(&program, words.get(at + 1..).unwrap_or_default())?;
                } else if word.as_bytes().iter().any(|byte| b"/.".contains(byte)) {
                    let path = std::path::absolute(word).ok().filter(|path| path.is_file());
                    path.map_or(Ok(()), |path| self.pack.add(&path))?;
                }
            }
        }
        Ok(())
    }
}

/// `-S python3 -u` as words: only env takes more than one, and then of its own accord.
fn split(argument: &OsStr) -> Vec<OsString> {
    let words = argument.as_bytes().split(|byte| b" \t".contains(byte));
    words.filter(|word| !word.is_empty()).map(|word| OsStr::from_bytes(word).to_owned()).collect()
}

fn is_of_a_repository(path: &Path) -> bool {
    path.file_name().is_some_and(|name| [".git", ".hg", ".svn"].iter().any(|own| name == *own))
}

/// Files and folders that an argument names: itself, what follows its `=` or `@`, the parts of a list with `:`.
/// The root is none: it would be everything.
fn named_by(argument: &OsStr) -> Vec<PathBuf> {
    let bytes = argument.as_bytes();
    let after = |mark: u8| bytes.iter().position(|&byte| byte == mark).map(|at| &bytes[at + 1..]);
    let parts = [Some(bytes), after(b'='), after(b'@')];
    let parts = parts.into_iter().flatten().flat_map(|part| part.split(|&byte| byte == b':'));
    let paths = parts.filter(|part| !part.is_empty() && part.len() < 4096).filter_map(|part| {
        std::path::absolute(OsStr::from_bytes(part)).ok().filter(|path| path.exists())
    });
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.parent().is_some()).collect();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests;
