//! Programs behind programs: those that others start at once, and those that a version manager chooses.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::super::pack::find_program;

/// Programs whose arguments are a command.
const STARTERS: [&str; 24] = [
    "chrt",
    "env",
    "faketime",
    "flock",
    "ionice",
    "ltrace",
    "nice",
    "nohup",
    "numactl",
    "parallel",
    "perf",
    "prlimit",
    "setarch",
    "setpriv",
    "setsid",
    "stdbuf",
    "stillopen",
    "strace",
    "taskset",
    "time",
    "timeout",
    "valgrind",
    "watch",
    "xargs",
];
/// Version managers, which say themselves what `NAME which PROGRAM` runs.
const MANAGERS: [&str; 7] = ["pyenv", "rbenv", "nodenv", "goenv", "jenv", "asdf", "mise"];
/// A shim is a few lines.
const LONGEST_SHIM: u64 = 16 << 10;

/// Each command that `program` may start of its arguments, with what follows it. Every argument that is the name of
/// a program may be one: which are values of options, each starter has its own rules for.
pub(super) fn commands<'a>(
    program: &Path,
    arguments: &'a [OsString],
) -> Vec<(PathBuf, &'a [OsString])> {
    let name = program.file_name().unwrap_or_default();
    if !STARTERS.iter().any(|starter| name == *starter) {
        return Vec::new();
    }
    let found = arguments.iter().enumerate().filter_map(|(at, argument)| {
        Some((find_program(argument)?, arguments.get(at + 1..).unwrap_or_default()))
    });
    found.collect()
}

/// The program that a shim starts here and now; `None` where `program` is none.
pub(super) fn chosen(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    if folder.file_name()? != "shims" {
        return None;
    }
    let name = program.file_name()?;
    let real = fs::canonicalize(program).ok()?;
    let is_short = fs::metadata(&real).is_ok_and(|of| of.len() <= LONGEST_SHIM);
    let text = if is_short { fs::read_to_string(&real).unwrap_or_default() } else { String::new() };
    let is_of = |manager: &&&str| text.contains(**manager) || real.ends_with(manager);
    let manager = MANAGERS.iter().find(is_of)?;
    let root = folder.parent()?;
    let own = [root.join("bin").join(manager), root.join("libexec").join(manager)];
    let manager = find_program(OsStr::new(manager))
        .or_else(|| own.into_iter().find(|path| path.is_file()))?;
    let mut said = Command::new(manager)
        .arg("which")
        .arg(name)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?
        .stdout;
    said.truncate(said.trim_ascii_end().len());
    let chosen = PathBuf::from(OsString::from_vec(said));
    (chosen.is_absolute() && chosen.is_file() && chosen != program).then_some(chosen)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn commands_behind_starters() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (starter, arguments, behind) in [
            ("timeout", "-k 5 30 cat a b", "cat a b"),
            ("/usr/bin/env", "-i A=b cat a", "cat a"),
            ("stillopen", "run --keepalive 60/30/3 -- cat a", "cat a"),
        ] {
            let arguments = words(arguments);
            let found = commands(Path::new(starter), &arguments);
            let [(program, rest)] = found.as_slice() else { panic!("{starter}: {found:?}") };
            let found: Vec<_> = std::iter::once(program.file_name().unwrap())
                .chain(rest.iter().map(OsString::as_os_str))
                .collect();
            assert_eq!(found, words(behind), "{starter}");
        }
        assert!(commands(Path::new("curl"), &words("cat")).is_empty());
    }

    #[test]
    fn a_shim_is_what_its_manager_says() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: String| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let real = file("versions/1/bin/tool", String::new());
        let said = format!("#!/bin/sh\n[ \"$*\" = 'which tool' ] && echo {}\n", real.display());
        file("libexec/goenv", said);
        let shim = "#!/bin/sh\nexec \"$root/libexec/goenv\" exec tool \"$@\"\n".to_owned();
        assert_eq!(chosen(&file("shims/tool", shim.clone())), Some(real));
        assert_eq!(chosen(&file("shims/other", shim.clone())), None, "its manager has none");
        assert_eq!(chosen(&file("bin/tool", shim)), None);
        assert_eq!(chosen(&file("shims/own", "#!/bin/sh\n".into())), None);
    }
}
