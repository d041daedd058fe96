//! `cargo xtask bpf`: the BPF objects that are committed beside their sources, compiled anew or compared.
//!
//! Only who changes a source needs the compiler. The bytes depend on its version, so it is one: clang 14, which Debian 12
//! has. With the folder's name left out and the debug information stripped (its types stay) they depend on nothing else.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{
    sh,
    tools::{self, CLANG, LLVM_STRIP},
};

/// The folders that have `*.bpf.c`.
const FOLDERS: [&str; 2] = ["crates/collect/bpf", "crates/remedy/bpf"];

/// Writes the objects, or with `check` only compares them.
pub(crate) fn run(check: bool) -> Result<()> {
    tools::require(&[CLANG, LLVM_STRIP])?;
    let mut stale = Vec::new();
    for source in sources()? {
        let object = source.with_extension("o");
        let made = compiled(&source)?;
        if fs::read(&object).is_ok_and(|old| old == made) {
            continue;
        }
        let name = object.strip_prefix(sh::root()).unwrap_or(&object).display().to_string();
        if check {
            stale.push(name);
        } else {
            fs::write(&object, made).with_context(|| format!("write {name}"))?;
            eprintln!("wrote {name}");
        }
    }
    if !stale.is_empty() {
        bail!(
            "not what {} makes of the source: {}; `cargo xtask bpf` writes them",
            CLANG.program,
            stale.join(", ")
        );
    }
    Ok(())
}

fn sources() -> Result<Vec<PathBuf>> {
    let mut sources = Vec::new();
    for folder in FOLDERS {
        let path = sh::root().join(folder);
        for entry in fs::read_dir(&path).with_context(|| format!("read {folder}"))? {
            let path = entry?.path();
            if path.to_str().is_some_and(|path| path.ends_with(".bpf.c")) {
                sources.push(path);
            }
        }
    }
    sources.sort();
    Ok(sources)
}

fn compiled(source: &Path) -> Result<Vec<u8>> {
    let (Some(folder), Some(file)) = (source.parent(), source.file_name()) else {
        bail!("{} is no file", source.display())
    };
    let folder = folder.canonicalize().with_context(|| format!("find {}", folder.display()))?;
    let made = tempfile::NamedTempFile::new().context("make a file")?;
    let prefix = format!("-ffile-prefix-map={}=.", folder.display());
    let mut clang = Command::new(CLANG.program);
    clang
        .current_dir(&folder)
        .args(["-O2", "-g", "-target", "bpfel", "-Wall", "-Wextra", "-Werror"]);
    clang.args(["-fdebug-compilation-dir=.", &prefix, "-c", "-o"]).arg(made.path()).arg(file);
    sh::run(&mut clang)?;
    sh::run(Command::new(LLVM_STRIP.program).arg("-g").arg(made.path()))?;
    fs::read(made.path()).context("read the object")
}
