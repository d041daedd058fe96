//! What languages keep beside their programs.

use std::{
    env,
    ffi::OsString,
    fs,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::super::{VmError, pack::Pack};

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
/// The folders that it looks for modules in.
pub(super) fn python(pack: &mut Pack, interpreter: &Path) -> Result<(), VmError> {
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
    Ok(())
}

/// A script, and the modules beside it.
pub(super) fn beside_python(pack: &mut Pack, script: &Path) -> Result<(), VmError> {
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
pub(super) fn node(pack: &mut Pack, script: Option<&Path>) -> Result<(), VmError> {
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
pub(super) fn java(pack: &mut Pack, interpreter: &Path) -> Result<(), VmError> {
    let real = fs::canonicalize(interpreter).map_err(VmError::io("find", interpreter))?;
    let Some(home) = real.parent().and_then(Path::parent) else { return Ok(()) };
    pack.add_but(home, &|path| {
        let name = path.file_name().unwrap_or_default();
        NOT_OF_JAVA.iter().any(|unused| name == *unused)
            || path.extension().is_some_and(|ending| ending == "jsa" || ending == "debuginfo")
    })
}

/// What is in the script's folder.
fn beside(script: &Path) -> Vec<PathBuf> {
    let folder = script.parent().unwrap_or(script);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
