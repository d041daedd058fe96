//! What the guest has in its memory: this program as its init, with its libraries, the modules, the job.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use super::{VmError, cpio::Archive, elf::Elf, kernel::Kernel, modules::Modules, protocol::Job};

/// This program in the guest.
pub(super) const PROGRAM: &str = "/stillopen";
/// Where its libraries are there.
pub(super) const LIBRARIES: &str = "/lib";

/// Modules of every guest, each with what it needs.
const MODULES: [&str; 4] = ["veth", "dummy", "ip_vs", "ip_vs_rr"];
/// And of one where conntrack translates or a rule drops what it calls INVALID.
const CONNTRACK_MODULES: [&str; 5] =
    ["nf_conntrack", "nf_tables", "nft_ct", "nft_nat", "nft_chain_nat"];
/// And of one where programs run that may look at sockets: there is no modprobe to load it at need.
const DIAG_MODULES: [&str; 1] = ["tcp_diag"];
/// Where Debian, Fedora, Arch and Alpine keep libraries.
const LIBRARY_FOLDERS: [&str; 7] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
];

/// The initramfs for this job.
pub(super) fn build(kernel: &Kernel, job: &Job) -> Result<Vec<u8>, VmError> {
    let program = env::current_exe().map_err(VmError::io("find", Path::new("/proc/self/exe")))?;
    let mut archive = Archive::default();
    for folder in ["dev", "proc", "sys", "tmp", "modules"] {
        archive.folder(folder);
    }
    archive.device("dev/console", [5, 1]);
    add_program(&mut archive, PROGRAM.trim_start_matches('/'), &program)?;

    let modules = Modules::index(&kernel.modules)?;
    let conntrack = job.lanes.iter().any(super::lane::needs_conntrack);
    let programs = !job.processes.is_empty();
    let wanted = MODULES
        .iter()
        .chain(CONNTRACK_MODULES.iter().filter(|_| conntrack))
        .chain(DIAG_MODULES.iter().filter(|_| programs))
        .copied();
    let mut job = Job { hz: kernel.hz, ..job.clone() };
    for (name, bytes) in modules.closure(&wanted.collect::<Vec<_>>())? {
        archive.file(&format!("modules/{name}.ko"), &bytes);
        job.modules.push(name);
    }
    let text = serde_json::to_vec(&job).map_err(|error| VmError::Protocol(error.to_string()))?;
    archive.file("job.json", &text);
    Ok(archive.finish())
}

/// A program and the closure of its libraries, found as the dynamic loader finds them but without running
/// anything of it. They all go to `/lib`, which the guest's `LD_LIBRARY_PATH` names.
fn add_program(archive: &mut Archive, to: &str, program: &Path) -> Result<(), VmError> {
    let bytes = fs::read(program).map_err(VmError::io("read", program))?;
    let elf = Elf::parse(&bytes).ok_or_else(|| VmError::NotElf(program.to_owned()))?;
    archive.file(to, elf.loaded());
    let mut wanted: Vec<String> = elf.needed().into_iter().map(str::to_owned).collect();
    if let Some(loader) = elf.interpreter() {
        let path = Path::new(loader);
        let bytes = fs::read(path).map_err(VmError::io("read", path))?;
        archive.file(loader.trim_start_matches('/'), &bytes);
    }
    let folders = library_folders();
    let mut done: Vec<String> = Vec::new();
    while let Some(name) = wanted.pop() {
        if done.contains(&name) {
            continue;
        }
        let file = folders.iter().map(|folder| folder.join(&name)).find(|file| file.is_file());
        let file = file.ok_or_else(|| VmError::NoLibrary {
            name: name.clone(),
            program: program.to_owned(),
        })?;
        let bytes = fs::read(&file).map_err(VmError::io("read", &file))?;
        let elf = Elf::parse(&bytes).ok_or_else(|| VmError::NotElf(file.clone()))?;
        wanted.extend(elf.needed().into_iter().map(str::to_owned));
        archive.file(&format!("lib/{name}"), elf.loaded());
        done.push(name);
    }
    Ok(())
}

/// `LD_LIBRARY_PATH`, the usual folders, and those of `/etc/ld.so.conf.d`.
fn library_folders() -> Vec<PathBuf> {
    let set = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&set).filter(|p| p.is_absolute()).collect();
    folders.extend(LIBRARY_FOLDERS.map(PathBuf::from));
    for entry in fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        folders.extend(text.lines().filter(|line| line.starts_with('/')).map(PathBuf::from));
    }
    folders
}
