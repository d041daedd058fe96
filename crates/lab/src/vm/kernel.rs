//! A Linux kernel that the guest can boot: this host's own, a folder, or a package unpacked into the cache.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use super::VmError;

/// The package of Debian that has IPVS and is small.
const PACKAGE: &str = "linux-image-cloud-amd64";

/// A kernel and its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// `vmlinuz-…`
    pub image: PathBuf,
    /// `lib/modules/VERSION`
    pub modules: PathBuf,
    /// `6.1.0-57-cloud-amd64`
    pub version: String,
    /// Ticks a second.
    pub hz: u32,
}

impl Kernel {
    /// The kernel of `folder` (as a package unpacks: `boot/vmlinuz-…`, `lib/modules/…`); without one, this
    /// host's, or the one that [`prepare`] left in the cache.
    ///
    /// # Errors
    /// There is none, with what to do.
    pub fn find(folder: Option<&Path>) -> Result<Self, VmError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(VmError::Architecture);
        }
        if let Some(folder) = folder {
            let found = Self::below(folder)?;
            return found.ok_or_else(|| VmError::NoKernelIn(folder.to_owned()));
        }
        if let Some(own) = Self::of_host() {
            return Ok(own);
        }
        let cached = cache().map(|cache| Self::below(&cache)).transpose()?.flatten();
        cached.ok_or(VmError::NoKernel)
    }

    /// The kernel that runs, where `/boot` has it and its modules have IPVS.
    fn of_host() -> Option<Self> {
        let uname = rustix::system::uname();
        let version = uname.release().to_str().ok()?.to_owned();
        let image = Path::new("/boot").join(format!("vmlinuz-{version}"));
        let modules = Path::new("/lib/modules").join(&version);
        let readable = fs::File::open(&image).is_ok();
        let has_ipvs = super::modules::Modules::index(&modules).ok()?.has("ip_vs");
        (readable && has_ipvs).then(|| Self { hz: hz_of(&image), image, modules, version })
    }

    /// The newest kernel of a folder that packages were unpacked into.
    fn below(folder: &Path) -> Result<Option<Self>, VmError> {
        let mut found = Vec::new();
        for boot in [folder.join("boot"), folder.to_owned()] {
            for name in names(&boot)? {
                let Some(version) = name.strip_prefix("vmlinuz-") else { continue };
                for modules in ["lib/modules", "usr/lib/modules"] {
                    let modules = folder.join(modules).join(version);
                    if modules.is_dir() {
                        let (image, version) = (boot.join(&name), version.to_owned());
                        found.push(Self { hz: hz_of(&image), image, modules, version });
                        break;
                    }
                }
            }
        }
        Ok(found.into_iter().max_by_key(|kernel| numbers(&kernel.version)))
    }
}

/// Downloads the newest cloud kernel of Debian with apt-get and unpacks it into the cache, without installing
/// it; what is there already stays. Says on the way what it does.
///
/// # Errors
/// A program is missing or fails, or the cache cannot be written.
pub fn prepare(mut say: impl FnMut(&str)) -> Result<Kernel, VmError> {
    if !cfg!(target_arch = "x86_64") {
        return Err(VmError::Architecture);
    }
    let cache = cache().ok_or(VmError::NoCache)?;
    let depends = output(Command::new("apt-cache").args(["depends", PACKAGE]))?;
    let newest = |text: &str| {
        let versions = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
        versions.filter(|name| name.starts_with("linux-image-")).max().map(str::to_owned)
    };
    let package = match newest(&depends) {
        Some(package) => package,
        // Lists of packages may have been removed to save space; as root they can be had again.
        None if rustix::process::geteuid().is_root() => {
            say("apt-get update");
            output(Command::new("apt-get").args(["--quiet", "update"]))?;
            let depends = output(Command::new("apt-cache").args(["depends", PACKAGE]))?;
            newest(&depends).ok_or(VmError::NoPackage(PACKAGE))?
        }
        None => return Err(VmError::NoPackage(PACKAGE)),
    };
    let version = package.trim_start_matches("linux-image-");
    if let Some(kernel) = Kernel::below(&cache)?.filter(|kernel| kernel.version == version) {
        return Ok(kernel);
    }
    fs::create_dir_all(&cache).map_err(VmError::io("make folder", &cache))?;
    let work = tempfile::tempdir_in(&cache).map_err(VmError::io("make a folder in", &cache))?;
    say(&format!("apt-get download {package}"));
    output(Command::new("apt-get").args(["--quiet", "download", &package]).current_dir(&work))?;
    let deb = names(work.path())?
        .into_iter()
        .find(|name| Path::new(name).extension().is_some_and(|ending| ending == "deb"));
    let deb = work.path().join(deb.ok_or(VmError::NoPackage(PACKAGE))?);
    // Unpacked whole beside it and then moved, so that a kernel in the cache is a whole one.
    let unpacked = work.path().join("unpacked");
    say(&format!("unpack into {}", cache.display()));
    output(Command::new("dpkg-deb").arg("-x").args([&deb, &unpacked]))?;
    for part in ["lib/modules", "usr/lib/modules", "boot"] {
        let (from, to) = (unpacked.join(part), cache.join(part));
        for name in names(&from)? {
            fs::create_dir_all(&to).map_err(VmError::io("make folder", &to))?;
            let to = to.join(&name);
            match fs::rename(from.join(&name), &to) {
                // Another one that prepares has been faster.
                Err(_) if to.exists() => {}
                moved => moved.map_err(VmError::io("move the kernel to", &to))?,
            }
        }
    }
    Kernel::below(&cache)?.ok_or_else(|| VmError::NoKernelIn(cache.clone()))
}

/// `$XDG_CACHE_HOME/stillopen/vm`
fn cache() -> Option<PathBuf> {
    let set = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("stillopen/vm"))
}

/// `CONFIG_HZ` of the configuration beside the image; most distributions have 250.
fn hz_of(image: &Path) -> u32 {
    let name = image.file_name().unwrap_or_default().to_string_lossy().replace("vmlinuz", "config");
    let config = fs::read_to_string(image.with_file_name(name)).unwrap_or_default();
    let hz = config.lines().find_map(|line| line.strip_prefix("CONFIG_HZ=")?.parse().ok());
    hz.unwrap_or(250)
}

/// The names in a folder; none where it is not there.
fn names(folder: &Path) -> Result<Vec<String>, VmError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(VmError::io("read folder", folder))?,
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.collect())
}

/// A version as its numbers, so that 6.1.0-9 is older than 6.1.0-57.
fn numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

fn output(command: &mut Command) -> Result<String, VmError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |cause: String| VmError::Tool { name: name.clone(), cause };
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => VmError::NoTool(name.clone()),
        _ => failed(error.to_string()),
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        return Err(failed(format!("{}: {last}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_a_folder_by_its_numbers() {
        let folder = tempfile::tempdir().unwrap();
        for version in ["6.1.0-9-cloud-amd64", "6.1.0-57-cloud-amd64", "6.1.0-60-cloud-amd64"] {
            fs::create_dir_all(folder.path().join("boot")).unwrap();
            fs::write(folder.path().join(format!("boot/vmlinuz-{version}")), "").unwrap();
            // The last one has no modules.
            if !version.contains("-60-") {
                fs::create_dir_all(folder.path().join("lib/modules").join(version)).unwrap();
            }
        }
        fs::write(folder.path().join("boot/config-6.1.0-57-cloud-amd64"), "A=1\nCONFIG_HZ=1000\n")
            .unwrap();
        let kernel = Kernel::find(Some(folder.path())).unwrap();
        assert_eq!((kernel.version.as_str(), kernel.hz), ("6.1.0-57-cloud-amd64", 1000));
    }

    #[test]
    fn where_there_is_no_apt_the_next_step_is_named() {
        let error = output(&mut Command::new("/nonexistent/apt-cache")).unwrap_err().to_string();
        assert!(error.contains("apt-cache") && error.contains("--kernel DIR"), "{error}");
    }

    #[test]
    fn a_folder_without_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = Kernel::find(Some(folder.path())).unwrap_err().to_string();
        assert!(error.contains(&folder.path().display().to_string()), "{error}");
    }
}
