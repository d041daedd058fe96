//! Files of this host into the guest's memory, at the same paths: symbolic links as links, a program with its
//! loader and its libraries. Read first: [`Pack`].

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    env,
    ffi::OsStr,
    fs, io,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::{Component, Path, PathBuf},
};

use super::{
    VmError,
    cpio::{About, Archive},
    elf::Elf,
};
use crate::exec;

/// What the guest has of its own at these places.
const OWN: [&str; 6] = ["/dev", "/proc", "/sys", "/tmp", "/run", "/modules"];
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
/// `MAXSYMLINKS` of `include/linux/namei.h`
const MOST_LINKS: u8 = 40;
/// So many of the largest are named where there is too much.
const NAMED: usize = 4;

/// An archive that grows by this host's files.
#[derive(Debug)]
pub(super) struct Pack {
    archive: Archive,
    most: usize,
    /// Where the paths lead that have been followed: each is in the archive.
    real: HashMap<PathBuf, PathBuf>,
    /// Files and folders that are there whole.
    whole: BTreeSet<PathBuf>,
    library_folders: Vec<PathBuf>,
    /// Where this program's libraries were found: the loader knows no more than its own folders.
    found_in: BTreeSet<PathBuf>,
    /// What takes the space.
    sizes: BTreeMap<PathBuf, usize>,
}

impl Pack {
    /// Of `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        let mut archive = Archive::default();
        for folder in OWN {
            archive.folder(inside(Path::new(folder)));
        }
        archive.device("dev/console", [5, 1]);
        Self {
            archive,
            most,
            real: OWN.iter().map(|own| (own.into(), own.into())).collect(),
            whole: BTreeSet::new(),
            library_folders: library_folders(),
            found_in: BTreeSet::new(),
            sizes: BTreeMap::new(),
        }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.archive.finish()
    }

    /// Every file of the host that is in it.
    pub(super) fn contents(&self) -> BTreeSet<PathBuf> {
        self.whole.clone()
    }

    /// How large it is by now.
    pub(super) fn size(&self) -> usize {
        self.archive.size()
    }

    /// The folders that this program's libraries are in.
    pub(super) fn library_path(&self) -> String {
        let folders = self.found_in.iter().map(|folder| folder.to_string_lossy());
        folders.collect::<Vec<_>>().join(":")
    }

    /// A file of the guest's own.
    pub(super) fn own(&mut self, path: &str, content: &[u8], about: About) {
        let path = Path::new(path);
        self.real.insert(path.to_owned(), path.to_owned());
        self.whole.insert(path.to_owned());
        self.archive.file(inside(path), content, about);
    }

    /// A folder that is empty unless something else is in it; where the host has none, none.
    pub(super) fn folder(&mut self, path: &Path) {
        // It is for a program to find or to miss.
        let _ = self.follow(path);
    }

    /// A link at `path` to what is there instead of it in the guest.
    ///
    /// # Errors
    /// The folder of `path` cannot be read.
    pub(super) fn instead(&mut self, path: &Path, to: &Path) -> Result<(), VmError> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        let at = self.follow(folder).map_err(VmError::io("read", folder))?.join(name);
        if self.real.insert(at.clone(), to.to_owned()).is_none() {
            self.archive.link(inside(&at), to.as_os_str().as_bytes());
        }
        Ok(())
    }

    /// A file with what it needs to run, or a folder with all that is in it.
    ///
    /// # Errors
    /// It cannot be read, or there is too much.
    pub(super) fn add(&mut self, path: &Path) -> Result<(), VmError> {
        self.add_but(path, &|_| false)
    }

    /// The same without what `skip` says; that is not asked of `path` itself.
    pub(super) fn add_but(
        &mut self,
        path: &Path,
        skip: &dyn Fn(&Path) -> bool,
    ) -> Result<(), VmError> {
        let real = self.follow(path).map_err(VmError::io("read", path))?;
        if own_of_guest(&real).is_some() {
            return Ok(());
        }
        let metadata = fs::metadata(&real).map_err(VmError::io("read", &real))?;
        if metadata.is_dir() {
            return self.tree(&real, skip);
        }
        self.file(&real, &real.clone(), &metadata)
    }

    fn tree(&mut self, root: &Path, skip: &dyn Fn(&Path) -> bool) -> Result<(), VmError> {
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder).map_err(VmError::io("read folder", &folder))?;
            // In an order, so that an image repeats.
            let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
            let for_guest = |path: &PathBuf| !skip(path) && own_of_guest(path).is_none();
            for path in paths.into_iter().filter(for_guest) {
                // A link may lead nowhere, and a file may have gone.
                let Ok(real) = self.follow(&path) else { continue };
                let Ok(metadata) = fs::metadata(&real) else { continue };
                let below = real.strip_prefix(root).ok().and_then(|below| below.iter().next());
                let group = below.map_or_else(|| real.clone(), |name| root.join(name));
                if metadata.is_file() {
                    self.file(&real, &group, &metadata)?;
                } else if metadata.is_dir() && real == path {
                    folders.push(real);
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, real: &Path, group: &Path, of: &fs::Metadata) -> Result<(), VmError> {
        if !of.is_file() || !self.whole.insert(real.to_owned()) {
            return Ok(());
        }
        let size = usize::try_from(of.len()).unwrap_or(usize::MAX);
        *self.sizes.entry(group.to_owned()).or_default() += size;
        if self.archive.size().saturating_add(size) > self.most {
            return Err(self.too_large());
        }
        let bytes = fs::read(real).map_err(VmError::io("read", real))?;
        let about = About {
            mode: of.permissions().mode() & 0o7777,
            modified: u32::try_from(of.mtime()).unwrap_or(0),
        };
        self.archive.file(inside(real), &bytes, about);
        match Elf::parse(&bytes) {
            // Parts of a package may be for other systems than this one.
            Some(elf) => self.needs(real, elf, true).map(drop),
            None => Ok(()),
        }
    }

    /// This very program, at `to`, without what is not loaded of it and of its libraries.
    pub(super) fn this_program(&mut self, to: &str, about: About) -> Result<(), VmError> {
        let program =
            env::current_exe().map_err(VmError::io("find", Path::new("/proc/self/exe")))?;
        let bytes = fs::read(&program).map_err(VmError::io("read", &program))?;
        let elf = Elf::parse(&bytes).ok_or_else(|| VmError::NotElf(program.clone()))?;
        self.own(to, elf.loaded(), about);
        self.found_in = self.needs(&program, elf, false)?;
        Ok(())
    }

    /// The loader and the libraries that `of` asks for; in which folders they are.
    fn needs(
        &mut self,
        of: &Path,
        elf: Elf<'_>,
        lenient: bool,
    ) -> Result<BTreeSet<PathBuf>, VmError> {
        let mut folders = BTreeSet::new();
        if let Some(loader) = elf.interpreter().map(Path::new).filter(|path| path.is_file()) {
            self.add(loader)?;
        }
        let origin = of.parent().unwrap_or(of).to_string_lossy().into_owned();
        let first = elf.run_paths().into_iter().map(|path| {
            PathBuf::from(path.replace("$ORIGIN", &origin).replace("${ORIGIN}", &origin))
        });
        let first: Vec<PathBuf> = first.collect();
        for name in elf.needed() {
            let mut places = first.iter().chain(&self.library_folders);
            let found = places.find(|folder| folder.join(name).is_file()).cloned();
            match found {
                Some(folder) => {
                    self.add(&folder.join(name))?;
                    folders.insert(folder);
                }
                None if lenient => {}
                None => {
                    let (name, program) = (name.to_owned(), of.to_owned());
                    return Err(VmError::NoLibrary { name, program });
                }
            }
        }
        Ok(folders)
    }

    /// A library by its name, where the host has it: some are loaded without being asked for.
    pub(super) fn library(&mut self, name: &str) -> Result<(), VmError> {
        let found = self.library_folders.iter().map(|folder| folder.join(name));
        let found = found.into_iter().find(|path| path.is_file());
        found.map_or(Ok(()), |path| self.add(&path))
    }

    fn too_large(&self) -> VmError {
        let mut largest: Vec<_> = self.sizes.iter().collect();
        largest.sort_by_key(|(_, size)| std::cmp::Reverse(**size));
        largest.truncate(NAMED);
        let is_python = |path: &Path| path.to_string_lossy().contains("python");
        let advice = if largest.iter().any(|(path, _)| is_python(path)) {
            "Run it with less beside it, such as a virtual environment of its own"
        } else {
            "Run it with less beside it"
        };
        let named = largest.into_iter();
        let named = named.map(|(path, size)| format!("{} {}", path.display(), mebibytes(*size)));
        VmError::TooLarge {
            most: mebibytes(self.most),
            largest: named.collect::<Vec<_>>().join(", "),
            advice,
        }
    }

    /// Where a path leads; the links and folders on the way are in the archive then.
    fn follow(&mut self, path: &Path) -> io::Result<PathBuf> {
        self.walk(PathBuf::from("/"), path, 0)
    }

    fn walk(&mut self, mut at: PathBuf, path: &Path, links: u8) -> io::Result<PathBuf> {
        for part in path.components() {
            match part {
                Component::Normal(name) => at = self.step(&at.join(name), links)?,
                Component::ParentDir => drop(at.pop()),
                Component::RootDir => at = PathBuf::from("/"),
                Component::CurDir | Component::Prefix(_) => {}
            }
        }
        Ok(at)
    }

    /// `at` is in a folder that is really there.
    fn step(&mut self, at: &Path, links: u8) -> io::Result<PathBuf> {
        if let Some(real) = self.real.get(at) {
            return Ok(real.clone());
        }
        if links > MOST_LINKS {
            return Err(rustix::io::Errno::LOOP.into());
        }
        let metadata = fs::symlink_metadata(at)?;
        let real = if metadata.is_symlink() {
            let to = fs::read_link(at)?;
            self.archive.link(inside(at), to.as_os_str().as_bytes());
            self.walk(at.parent().unwrap_or(at).to_owned(), &to, links + 1)?
        } else {
            if metadata.is_dir() {
                self.archive.folder(inside(at));
            }
            at.to_owned()
        };
        self.real.insert(at.to_owned(), real.clone());
        Ok(real)
    }
}

/// A path as the archive has it: without the first slash.
fn inside(path: &Path) -> &[u8] {
    let bytes = path.as_os_str().as_bytes();
    bytes.strip_prefix(b"/").unwrap_or(bytes)
}

fn mebibytes(size: usize) -> String {
    format!("{} MiB", size >> 20)
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

/// What the guest has of its own that `path` is in: nothing of this host's can be there.
pub(super) fn own_of_guest(path: &Path) -> Option<&'static str> {
    let filled = |own: &&&str| **own == "/tmp" || **own == "/run";
    OWN.iter().find(|own| !filled(own) && path.starts_with(own)).copied()
}

/// Where a command of this name is, as a shell finds it.
pub(super) fn find_program(name: &OsStr) -> Option<PathBuf> {
    candidates(name).into_iter().find(|path| fs::metadata(path).is_ok_and(|of| can_run(&of)))
}

/// Where the client's command is, as `execvp` looks for it.
///
/// # Errors
/// It is not there, or what is there can't be executed.
pub(super) fn locate(name: &OsStr) -> Result<PathBuf, VmError> {
    if let Some(program) = find_program(name) {
        return Ok(program);
    }
    let candidates = candidates(name);
    let there = candidates.iter().find(|path| match fs::metadata(path) {
        Ok(_) => true,
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        }
    });
    let name = name.to_owned();
    match (there, candidates.as_slice()) {
        (Some(path), _) => Err(VmError::NotExecutable { name, why: why_not_run(path) }),
        (None, [path]) if name.as_bytes().contains(&b'/') => {
            Err(VmError::NoCommand { name, why: why_missing(path) })
        }
        (None, _) => Err(VmError::NoCommand { name, why: "it is not in PATH".into() }),
    }
}

/// Where a command may be.
fn candidates(name: &OsStr) -> Vec<PathBuf> {
    if name.is_empty() {
        return Vec::new();
    }
    if name.as_bytes().contains(&b'/') {
        return std::path::absolute(name).into_iter().collect();
    }
    let path = env::var_os("PATH").unwrap_or_else(|| exec::PATH.into());
    let here = env::current_dir().unwrap_or_default();
    env::split_paths(&path).map(|folder| here.join(folder).join(name)).collect()
}

fn can_run(of: &fs::Metadata) -> bool {
    of.is_file() && of.permissions().mode() & 0o111 != 0
}

/// Why a path that leads to something, or to nothing, can't be executed.
pub(super) fn why_not_run(path: &Path) -> String {
    match fs::metadata(path) {
        Ok(of) if of.is_dir() => "it is a folder".into(),
        Ok(of) if of.is_file() && !can_run(&of) => {
            format!("it is not executable (chmod +x {})", path.display())
        }
        Ok(of) if !of.is_file() => "it is not a file".into(),
        _ => why_missing(path),
    }
}

/// Why nothing is there.
pub(super) fn why_missing(path: &Path) -> String {
    match (fs::metadata(path), fs::read_link(path)) {
        (Err(error), Ok(to)) if error.kind() == io::ErrorKind::NotFound => {
            format!("it is a symbolic link to {}, which is not there", to.display())
        }
        (Err(error), _) if error.kind() != io::ErrorKind::NotFound => error.to_string(),
        _ => "there is no such file or folder".into(),
    }
}
