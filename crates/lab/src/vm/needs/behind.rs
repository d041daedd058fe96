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
    let name = program.file_name()?;
    let real = fs::canonicalize(program).ok()?;
    // asdf's and mise's shims lead out of the folder; a link elsewhere may lead into it.
    let folders = [program, &real].into_iter().filter_map(Path::parent);
    let folder = folders.into_iter().find(|folder| folder.ends_with("shims"))?;
    let is_short = fs::metadata(&real).is_ok_and(|of| of.len() <= LONGEST_SHIM);
    let text = if is_short { fs::read_to_string(&real).unwrap_or_default() } else { String::new() };
    let is_of = |manager: &&&str| text.contains(**manager) || real.ends_with(manager);
    let manager = MANAGERS.iter().find(is_of)?;
    let root = folder.parent()?;
    let own = [root.join("bin").join(manager), root.join("libexec").join(manager)];
    let own = own.into_iter().find(|path| path.is_file());
    // A shim says whose it is: without that its manager takes the root in HOME, which may be another or none, and
    // then chooses the shim itself.
    let variable = format!("{}_ROOT", manager.to_uppercase());
    let root = text.contains(&variable).then_some((variable, root));
    let mut said = Command::new(own.or_else(|| find_program(OsStr::new(manager)))?)
        .arg("which")
        .arg(name)
        .envs(root)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?
        .stdout;
    said.truncate(said.trim_ascii_end().len());
    let chosen = PathBuf::from(OsString::from_vec(said));
    (chosen.is_absolute() && chosen.is_file() && chosen != program && chosen != real)
        .then_some(chosen)
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
        let tool = file("shims/tool", shim.clone());
        assert_eq!(chosen(&tool), Some(real.clone()));
        fs::create_dir(folder.path().join("links")).unwrap();
        let link = folder.path().join("links/tool");
        std::os::unix::fs::symlink(&tool, &link).unwrap();
        assert_eq!(chosen(&link), Some(real));
        assert_eq!(chosen(&file("shims/other", shim.clone())), None, "its manager has none");
        assert_eq!(chosen(&file("bin/tool", shim)), None);
        assert_eq!(chosen(&file("shims/own", "#!/bin/sh\n".into())), None);
    }

    /// pyenv 2.6.30 looks for its versions in `$HOME/.pyenv` without `PYENV_ROOT`, and finds its own shim in `PATH`
    /// where there are none: that went into the guest, and said there `pyenv: no such command 'exec'`.
    #[test]
    fn a_shim_of_another_home_is_of_the_root_that_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["shims", "libexec", "versions"] {
            fs::create_dir(at(name)).unwrap();
        }
        let file = |name: &str, text: String| {
            fs::write(at(name), text).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).unwrap();
            at(name)
        };
        let real = file("versions/tool", String::new());
        let root = folder.path().display();
        let shim = format!(
            "#!/bin/sh\nexport GOENV_ROOT={root}\nexec {root}/libexec/goenv exec tool \"$@\"\n"
        );
        let shim = file("shims/tool", shim);
        let said = format!(
            "#!/bin/sh\n[ \"$GOENV_ROOT\" = {root} ] && echo {} || echo {}\n",
            real.display(),
            shim.display()
        );
        file("libexec/goenv", said);
        assert_eq!(chosen(&shim), Some(real));
    }
}
