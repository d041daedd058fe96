//! What a command needs to run, and thus what of this host goes into the guest's memory.
//!
//! The program with its loader and libraries; of a script its interpreter; what its language keeps beside it
//! (Python's own answer to where it looks for modules, Node's `node_modules`, Java's home, the programs that a
//! shell script names); files and folders that its arguments name. What else there is, `--include` names.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::Read as _,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{
    VmError,
    cpio::About,
    pack::{Pack, find_program},
};

/// The kernel reads no more of a script to find its interpreter (`BINPRM_BUF_SIZE`).
const FIRST_LINE: u64 = 256;
/// A longer script is no shell's.
const LONGEST_SCRIPT: u64 = 1 << 20;
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];
/// Parts of Python's own library that no program imports.
const NOT_OF_PYTHON: [&str; 9] = [
    "site-packages",
    "dist-packages",
    "test",
    "tests",
    "idlelib",
    "turtledemo",
    "ensurepip",
    "lib2to3",
    "tkinter",
];
/// And of Java's home.
const NOT_OF_JAVA: [&str; 6] = ["jmods", "include", "man", "legal", "demo", "src.zip"];
/// Where a Python looks for modules, asked of itself: its prefix first. Separated by NUL.
const PYTHON_ASKED: &str = "import sys; print(sys.prefix, *sys.path, sep='\\0', end='\\0')";
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
        if !path.exists() {
            return Err(VmError::NoInclude(path));
        }
        program_or_data(pack, &path)?;
    }
    Ok(())
}

/// Puts in what `words` needs, and says where its program is.
pub(super) fn command(pack: &mut Pack, words: &[OsString]) -> Result<PathBuf, VmError> {
    let name = words.first().map(OsString::as_os_str).unwrap_or_default();
    let program = find_program(name).ok_or_else(|| VmError::NoCommand(name.to_owned()))?;
    let arguments = words.get(1..).unwrap_or_default();
    runs(pack, &program, arguments)?;
    for argument in arguments {
        for path in named_by(argument) {
            program_or_data(pack, &path)?;
        }
    }
    if let Ok(here) = env::current_dir() {
        pack.folder(&here);
    }
    if let Some(home) = env::var_os("HOME") {
        pack.folder(Path::new(&home));
    }
    Ok(program)
}

fn program_or_data(pack: &mut Pack, path: &Path) -> Result<(), VmError> {
    if path.is_file() && find_program(path.as_os_str()).is_some() {
        return runs(pack, path, &[]);
    }
    pack.add_but(path, &is_of_a_repository)
}

fn is_of_a_repository(path: &Path) -> bool {
    path.file_name().is_some_and(|name| [".git", ".hg", ".svn"].iter().any(|own| name == *own))
}

/// A program, and what its language needs for these arguments.
fn runs(pack: &mut Pack, program: &Path, arguments: &[OsString]) -> Result<(), VmError> {
    if pack.has(program) && arguments.is_empty() {
        return Ok(());
    }
    pack.add(program)?;
    let Some(interpreter) = interpreter_of(program) else {
        return language(pack, program, None, arguments);
    };
    let mut words = interpreter.iter();
    let mut path = words.next().cloned().unwrap_or_default();
    if Path::new(&path).file_name().is_some_and(|name| name == "env") {
        pack.add(Path::new(&path))?;
        let asked = words.find(|word| !word.as_bytes().starts_with(b"-")).cloned();
        path = asked.unwrap_or_default();
    }
    let found = find_program(&path).ok_or(VmError::NoCommand(path))?;
    pack.add(&found)?;
    language(pack, &found, Some(program), arguments)
}

/// What is needed beside the program of a language. `script`: what it runs; else one of the arguments is.
fn language(
    pack: &mut Pack,
    interpreter: &Path,
    script: Option<&Path>,
    arguments: &[OsString],
) -> Result<(), VmError> {
    let name = interpreter.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let first = arguments.iter().map(PathBuf::from).find(|path| path.is_file());
    let script = script.map(Path::to_owned).or(first);
    let script = script.and_then(|path| std::path::absolute(path).ok());
    if name.starts_with("python") || name.starts_with("pypy") {
        python(pack, interpreter, script.as_deref())
    } else if name == "node" || name == "nodejs" {
        node(pack, script.as_deref())
    } else if name == "java" {
        java(pack, interpreter)
    } else if SHELLS.contains(&name.as_str()) {
        shell(pack, script.as_deref(), arguments)
    } else {
        Ok(())
    }
}

/// The folders that it looks for modules in, and those beside the script.
fn python(pack: &mut Pack, interpreter: &Path, script: Option<&Path>) -> Result<(), VmError> {
    let asked = Command::new(interpreter)
        .args(["-c", PYTHON_ASKED])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(VmError::io("run", interpreter))?;
    let mut paths = asked.stdout.split(|&byte| byte == 0);
    let paths = paths.by_ref().map(|path| PathBuf::from(OsString::from_vec(path.to_vec())));
    for (number, path) in paths.filter(|path| path.is_absolute()).enumerate() {
        // The prefix itself has programs and more; a virtual environment says there which Python it is of.
        let path = if number == 0 { path.join("pyvenv.cfg") } else { path };
        if path.exists() {
            pack.add_but(&path, &|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let of_library = path.parent().is_some_and(|parent| parent.join("os.py").exists());
                let ending = path.extension().unwrap_or_default();
                (of_library && (NOT_OF_PYTHON.contains(&&*name) || name.starts_with("config-")))
                    || ["a", "pyi"].iter().any(|unused| ending == *unused)
            })?;
        }
    }
    let Some(script) = script else { return Ok(()) };
    pack.add(script)?;
    for path in beside(script) {
        let is_module = path.extension().is_some_and(|ending| ending == "py");
        if is_module || path.join("__init__.py").is_file() {
            pack.add(&path)?;
        }
    }
    Ok(())
}

/// The nearest `node_modules` of the script and of this folder, and what the script may require beside it.
fn node(pack: &mut Pack, script: Option<&Path>) -> Result<(), VmError> {
    let here = env::current_dir().ok();
    for start in script.and_then(Path::parent).into_iter().chain(here.as_deref()) {
        let modules = start.ancestors().map(|folder| folder.join("node_modules"));
        if let Some(modules) = modules.into_iter().find(|folder| folder.is_dir()) {
            pack.add(&modules)?;
        }
    }
    let Some(script) = script else { return Ok(()) };
    pack.add(script)?;
    for path in beside(script) {
        let endings = ["js", "mjs", "cjs", "json"];
        if endings.iter().any(|known| path.extension().is_some_and(|ending| ending == *known)) {
            pack.add(&path)?;
        }
    }
    Ok(())
}

/// The folder that has its `bin` and `lib`.
fn java(pack: &mut Pack, interpreter: &Path) -> Result<(), VmError> {
    let real = fs::canonicalize(interpreter).map_err(VmError::io("find", interpreter))?;
    let Some(home) = real.parent().and_then(Path::parent) else { return Ok(()) };
    pack.add_but(home, &|path| {
        let name = path.file_name().unwrap_or_default();
        NOT_OF_JAVA.iter().any(|unused| name == *unused)
            || path.extension().is_some_and(|ending| ending == "jsa" || ending == "debuginfo")
    })
}

/// Every word that is the name of a program is taken for one.
fn shell(pack: &mut Pack, script: Option<&Path>, arguments: &[OsString]) -> Result<(), VmError> {
    let mut texts: Vec<Vec<u8>> =
        arguments.iter().map(|argument| argument.as_bytes().to_vec()).collect();
    if let Some(script) = script {
        pack.add(script)?;
        if fs::metadata(script).is_ok_and(|of| of.len() <= LONGEST_SCRIPT) {
            texts.push(fs::read(script).map_err(VmError::io("read", script))?);
        }
    }
    for text in texts {
        let ends = |byte: &u8| !byte.is_ascii_alphanumeric() && !b"_-./+".contains(byte);
        for word in text.split(ends).filter(|word| word.len() > 1) {
            if let Some(program) = find_program(OsStr::from_bytes(word)) {
                runs(pack, &program, &[])?;
            }
        }
    }
    Ok(())
}

/// What is in the script's folder.
fn beside(script: &Path) -> Vec<PathBuf> {
    let folder = script.parent().unwrap_or(script);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// `#!/usr/bin/env python3` as its words.
fn interpreter_of(path: &Path) -> Option<Vec<OsString>> {
    let mut first = Vec::new();
    let file = File::open(path).ok().filter(|_| path.is_file())?;
    file.take(FIRST_LINE).read_to_end(&mut first).ok()?;
    let line = first.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let words: Vec<OsString> = words.map(|word| OsString::from_vec(word.to_vec())).collect();
    (!words.is_empty()).then_some(words)
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
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn image(fill: impl FnOnce(&mut Pack) -> Result<(), VmError>) -> Result<String, VmError> {
        let mut pack = Pack::new(1 << 30);
        fill(&mut pack)?;
        Ok(String::from_utf8_lossy(&pack.finish()).into_owned())
    }

    #[test]
    fn the_paths_that_an_argument_names() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a.pem", "b"].map(|name| folder.path().join(name));
        fs::write(&a, "").unwrap();
        fs::create_dir(&b).unwrap();
        for (argument, names) in [
            (format!("--ca={}", a.display()), vec![a.clone()]),
            (format!("{}:{}", a.display(), b.display()), vec![a.clone(), b.clone()]),
            (format!("@{}", a.display()), vec![a.clone()]),
            (format!("{}/none", b.display()), vec![]),
            ("/".into(), vec![]),
            ("--timeout=5".into(), vec![]),
        ] {
            assert_eq!(named_by(OsStr::new(&argument)), names, "{argument}");
        }
    }

    #[test]
    fn a_script_brings_its_interpreter_and_the_programs_that_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("ask");
        fs::write(&script, "#!/usr/bin/env sh\nset -e; cat \"$1\" | tr a b\n").unwrap();
        let words = [script.clone().into_os_string(), "--x".into()];
        let denied = image(|pack| command(pack, &words).map(drop)).unwrap_err();
        assert!(matches!(denied, VmError::NoCommand(_)), "it is not executable: {denied}");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let image = image(|pack| command(pack, &words).map(drop)).unwrap();
        let own = script.to_str().unwrap().trim_start_matches('/');
        for name in [own, "bin/env\0", "bin/cat\0", "bin/tr\0", "libc.so.6\0"] {
            assert!(image.contains(name), "{name}");
        }
    }

    #[test]
    fn what_is_not_there_and_what_is_too_much_is_named() {
        let error = image(|pack| command(pack, &["no-such-command".into()]).map(drop)).unwrap_err();
        assert!(error.to_string().contains("no-such-command"), "{error}");
        let error = image(|pack| include(pack, &["/no/such/file".into()])).unwrap_err();
        assert!(error.to_string().contains("/no/such/file"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let large = folder.path().join("data/large");
        fs::create_dir(folder.path().join("data")).unwrap();
        fs::write(&large, vec![0; 3 << 20]).unwrap();
        let mut pack = Pack::new(2 << 20);
        let error = include(&mut pack, &[folder.path().to_owned()]).unwrap_err().to_string();
        assert!(error.contains("/data 3 MiB"), "{error}");
    }

    #[test]
    fn links_stay_links_and_lead_to_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("real")).unwrap();
        fs::write(at("real/file"), "content of it").unwrap();
        std::os::unix::fs::symlink("real", at("way")).unwrap();
        std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        std::os::unix::fs::symlink("loop", at("loop")).unwrap();
        let image = image(|pack| include(pack, &[at("way/file")])).unwrap();
        assert_eq!(image.matches("content of it").count(), 1);
        assert!(image.contains("/way\0"));
        // A folder's links may lead nowhere.
        let mut pack = Pack::new(1 << 20);
        include(&mut pack, &[folder.path().to_owned()]).unwrap();
        let real = at("real/file").canonicalize().unwrap();
        assert!(pack.contents().contains(&real) && pack.contents().len() == 1);
    }
}
