//! A kernel's modules: which others each needs, and their bytes, unpacked.
//!
//! What a module needs is read from the module itself (`.modinfo`): a package that is unpacked and not
//! installed has no `modules.dep`.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{VmError, elf::Elf};

/// The modules of one kernel.
#[derive(Debug, Default)]
pub(super) struct Modules {
    folder: PathBuf,
    files: BTreeMap<String, PathBuf>,
    /// Modules that are part of the kernel's image.
    builtin: Vec<String>,
}

impl Modules {
    /// Every module below `lib/modules/VERSION`.
    pub(super) fn index(folder: &Path) -> Result<Self, VmError> {
        let mut modules = Self { folder: folder.to_owned(), ..Self::default() };
        let mut folders = vec![folder.join("kernel")];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder).map_err(VmError::io("read folder", &folder))?;
            for entry in entries {
                let entry = entry.map_err(VmError::io("read folder", &folder))?;
                let path = entry.path();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(path);
                } else if let Some(name) = name_of(&path) {
                    modules.files.insert(name, path);
                }
            }
        }
        let builtin = fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
        modules.builtin = builtin.lines().filter_map(|line| name_of(Path::new(line))).collect();
        Ok(modules)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.files.contains_key(name) || self.builtin.iter().any(|builtin| builtin == name)
    }

    /// `names` and all that they need, each after what it needs, with their bytes.
    pub(super) fn closure(&self, names: &[&str]) -> Result<Vec<(String, Vec<u8>)>, VmError> {
        let mut done = Vec::new();
        for name in names {
            self.add(name, &mut done, 0)?;
        }
        Ok(done)
    }

    fn add(&self, name: &str, done: &mut Vec<(String, Vec<u8>)>, depth: u8) -> Result<(), VmError> {
        let there = done.iter().any(|(other, _)| other == name);
        if there || self.builtin.iter().any(|builtin| builtin == name) {
            return Ok(());
        }
        let Some(path) = self.files.get(name).filter(|_| depth < 32) else {
            return Err(VmError::NoModule { name: name.to_owned(), folder: self.folder.clone() });
        };
        let bytes = unpacked(path)?;
        for needed in needs(&bytes) {
            self.add(&needed, done, depth + 1)?;
        }
        // A checksum's provider is asked for by its algorithm's name, at run time.
        if name == "libcrc32c" && self.files.contains_key("crc32c_generic") {
            self.add("crc32c_generic", done, depth + 1)?;
        }
        done.push((name.to_owned(), bytes));
        Ok(())
    }
}

/// `depends=` of a module.
fn needs(module: &[u8]) -> Vec<String> {
    let info = Elf::parse(module).map(Elf::module_info).unwrap_or_default();
    let depends = info.into_iter().filter_map(|line| line.strip_prefix("depends="));
    let names = depends.flat_map(|names| names.split(','));
    names.filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

/// The module's name from its file's: `nf-nat.ko.xz` is `nf_nat`.
fn name_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let (name, ending) = name.split_once(".ko")?;
    matches!(ending, "" | ".xz" | ".zst" | ".gz").then(|| name.replace('-', "_"))
}

/// A module's bytes; compressed ones by the program that can.
fn unpacked(path: &Path) -> Result<Vec<u8>, VmError> {
    let program = match path.extension().and_then(|ending| ending.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return fs::read(path).map_err(VmError::io("read", path)),
    };
    let output = Command::new(program).arg("-dc").arg(path).stdin(Stdio::null()).output();
    let failed = |cause: String| VmError::Tool { name: program.to_owned(), cause };
    match output {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(failed(format!("not found; install it to unpack {}", path.display())))
        }
        Err(error) => Err(failed(error.to_string())),
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => Err(failed(format!("{} on {}", output.status, path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_modules() {
        for (file, name) in [
            ("a/nf-nat.ko", Some("nf_nat")),
            ("ip_vs.ko.xz", Some("ip_vs")),
            ("ip_vs.ko.zst", Some("ip_vs")),
            ("modules.dep", None),
            ("x.kotlin", None),
        ] {
            assert_eq!(name_of(Path::new(file)).as_deref(), name, "{file}");
        }
    }

    #[test]
    fn a_module_that_is_not_there_is_named() {
        let error = Modules::default().closure(&["ip_vs"]).unwrap_err().to_string();
        assert!(error.contains("ip_vs"), "{error}");
    }
}
