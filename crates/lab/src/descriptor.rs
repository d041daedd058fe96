//! Files for output whose names lead to open descriptors: `/dev/stdout`, `/dev/fd/3`, `/proc/self/fd/3`, and links
//! to those.
//!
//! Such a name stands for what its descriptor writes to, at the place where it writes. Linux opens the file behind
//! it anew (`proc_pid_fd(5)`): at its beginning, and truncated if that is asked for; so it is not opened by name here.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

/// More symbolic links than the kernel follows.
const MOST_LINKS: usize = 40;

/// A new file, or an older one emptied; of a name that leads to a descriptor, what that writes to, as it is.
///
/// # Errors
/// Those of the file, or the descriptor is not open.
pub fn create(path: &Path) -> io::Result<File> {
    named(path).map_or_else(|| File::create(path), |descriptor| open(&descriptor))
}

/// The descriptor's own name (`/proc/17/fd/3`), where `path` leads to one.
#[must_use]
pub fn named(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let name = path.file_name()?.to_owned();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?;
        path = folder.join(name);
        if is_of_descriptors(&folder) {
            return Some(path);
        }
        path = folder.join(fs::read_link(&path).ok()?);
    }
    None
}

/// `/proc/PID/fd`, `/proc/PID/task/TID/fd`, and where the kernel is another, `/dev/fd`.
fn is_of_descriptors(folder: &Path) -> bool {
    folder == Path::new("/dev/fd") || folder.starts_with("/proc") && folder.ends_with("fd")
}

/// Opens what a descriptor writes to: `descriptor` is of [`named`].
///
/// # Errors
/// It is not open, or another process's that may not be opened.
pub fn open(descriptor: &Path) -> io::Result<File> {
    // Where it cannot be shared, the end of the file is the place that destroys nothing.
    shared(descriptor).map_or_else(|| OpenOptions::new().append(true).open(descriptor), Ok)
}

/// A copy of this process's own descriptor, which has its place in the file and its flags.
#[cfg(unix)]
fn shared(descriptor: &Path) -> Option<File> {
    use std::os::fd::AsFd as _;
    let own = ["/proc/self", "/dev/fd"].iter().filter_map(|own| fs::canonicalize(own).ok());
    if !own.into_iter().any(|own| descriptor.starts_with(own)) {
        return None;
    }
    let number: i32 = descriptor.file_name()?.to_str()?.parse().ok()?;
    let copied = match number {
        1 => io::stdout().as_fd().try_clone_to_owned(),
        2 => io::stderr().as_fd().try_clone_to_owned(),
        _ => return other(number).map(File::from),
    };
    copied.ok().map(File::from)
}

#[cfg(not(unix))]
fn shared(_: &Path) -> Option<File> {
    None
}

/// By its number alone, which the standard library takes in unsafe code only.
#[cfg(all(feature = "programs", target_os = "linux", not(stillopen_portable)))]
fn other(number: i32) -> Option<std::os::fd::OwnedFd> {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    let own = pidfd_open(getpid(), PidfdFlags::empty()).ok()?;
    pidfd_getfd(own, number, PidfdGetfdFlags::empty()).ok()
}

#[cfg(all(unix, not(all(feature = "programs", target_os = "linux", not(stillopen_portable)))))]
fn other(_: i32) -> Option<std::os::fd::OwnedFd> {
    None
}

#[cfg(all(test, feature = "programs", target_os = "linux", not(stillopen_portable)))]
mod tests {
    use std::{
        io::Write as _,
        os::{fd::AsRawFd as _, unix::fs::symlink},
    };

    use super::*;

    #[test]
    fn a_file_behind_a_descriptor_is_written_to_at_its_place_and_keeps_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        symlink("/proc/self/fd", at("fds")).unwrap();
        for (count, prefix) in
            ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd", at("fds").to_str().unwrap()]
                .into_iter()
                .enumerate()
        {
            for append in [false, true] {
                let log = at(&format!("log-{count}-{append}"));
                fs::write(&log, "old\n").unwrap();
                let mut file = OpenOptions::new().write(true).append(append).open(&log).unwrap();
                if !append {
                    file.write_all(b"new\n").unwrap();
                }
                let name = PathBuf::from(format!("{prefix}/{}", file.as_raw_fd()));
                let link = at(&format!("link-{count}-{append}"));
                symlink(&name, &link).unwrap();
                for name in [name, link] {
                    create(&name).unwrap().write_all(b"said\n").unwrap();
                }
                // The descriptor has moved with it.
                file.write_all(b"end\n").unwrap();
                let before = if append { "old" } else { "new" };
                let text = fs::read_to_string(&log).unwrap();
                assert_eq!(text, format!("{before}\nsaid\nsaid\nend\n"), "{prefix}");
            }
        }
    }

    #[test]
    fn what_leads_to_no_descriptor_is_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "old").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("loop", at("loop")).unwrap();
        for name in ["file", "link", "loop", "absent", "absent/file", ".."] {
            assert_eq!(named(&at(name)), None, "{name}");
        }
        for name in ["", "/", "relative", "/dev/null", "/dev/shm/file"] {
            assert_eq!(named(Path::new(name)), None, "{name}");
        }
        create(&at("link")).unwrap();
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "");
        create(Path::new("/dev/fd/4000")).unwrap_err();
    }
}
