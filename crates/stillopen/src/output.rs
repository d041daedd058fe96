//! What a command writes for the user: files, and what it says of work that is done.

use std::{
    fs,
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Result;
use stillopen_lab::descriptor;

/// Standard output, which says of an error that it is its own.
pub(crate) struct Stdout(io::StdoutLock<'static>);

/// Standard output for a report; it writes whole lines at once.
pub(crate) fn stdout() -> Stdout {
    Stdout(io::stdout().lock())
}

/// An error of standard output. The kind stays: a reader that has gone is no error.
pub(crate) fn of_the_report(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("can't write the report to standard output: {error}"))
}

impl io::Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|error| of_the_report(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(|error| of_the_report(&error))
    }
}

/// The status of work that is done, whether or not anybody reads what was said of it.
///
/// # Errors
/// It could not be said, but for a reader that has gone.
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub(crate) fn said(
    result: io::Result<()>,
    status: std::process::ExitCode,
) -> Result<std::process::ExitCode> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(status),
    }
}

/// An error with its causes, each once: some say in their own text what caused them.
pub(crate) fn reasons(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        let cause = cause.trim_end();
        if text.is_empty() {
            cause.clone_into(&mut text);
        } else if !text.ends_with(cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Writes a text to standard output.
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub(crate) fn say(text: &str) -> io::Result<()> {
    let mut stdout = stdout();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Writes a file beside its place, ends it with a line break and moves it there: it is whole or not there, and
/// nobody else can read it. What is not a file (a pipe) or leads to a descriptor (`/dev/stdout`), whatever is behind
/// it, is written to, never replaced, and of a symbolic link the file that it leads to.
///
/// # Errors
/// Those of the folder, and of `write`.
pub(crate) fn file(
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> Result<()>,
) -> Result<()> {
    if let Some(descriptor) = descriptor::named(path) {
        return whole(descriptor::open(&descriptor)?, write);
    }
    if is_written_to(path) {
        return whole(fs::OpenOptions::new().write(true).open(path)?, write);
    }
    let path = place(path);
    let file = beside(&path)?;
    whole(file.as_file(), write)?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

/// Makes ready for [`file`] at the end of long work: it can be written there as far as can be told before, and
/// an older one is gone, so that one that is there is of this work.
///
/// # Errors
/// Those of the folder, or it is one.
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub(crate) fn clear(path: &Path) -> io::Result<()> {
    if let Some(descriptor) = descriptor::named(path) {
        let flags = rustix::fs::fcntl_getfl(descriptor::open(&descriptor)?)?;
        let is_for_reading = flags & rustix::fs::OFlags::ACCMODE == rustix::fs::OFlags::RDONLY;
        return if is_for_reading { Err(rustix::io::Errno::BADF.into()) } else { Ok(()) };
    }
    if is_written_to(path) {
        return Ok(rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?);
    }
    let path = place(path);
    drop(beside(&path)?);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether it is there and no file: a pipe, a device.
fn is_written_to(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// The file itself, where the path is a symbolic link.
fn place(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| link_target(path))
}

fn beside(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    tempfile::NamedTempFile::new_in(folder).map_err(|error| {
        // Its own text has the name of the file beside, which nobody asked for.
        fs::metadata(folder).err().unwrap_or_else(|| error.kind().into())
    })
}

/// Whether two paths lead to one file, which each would write over; a device takes both.
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => {
            (one.dev(), one.ino()) == (other.dev(), other.ino())
                && !one.file_type().is_char_device()
        }
        _ => absent_place(one).is_some_and(|one| Some(one) == absent_place(other)),
    }
}

/// Where a file would be made.
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
fn absent_place(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(link_target(path)).ok()?;
    Some(fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?))
}

/// Where a symbolic link leads whose file is not there yet.
fn link_target(path: &Path) -> PathBuf {
    match (fs::read_link(path), path.parent()) {
        (Ok(target), Some(folder)) => folder.join(target),
        _ => path.to_owned(),
    }
}

fn whole(to: impl io::Write, write: impl FnOnce(&mut dyn io::Write) -> Result<()>) -> Result<()> {
    let mut buffered = BufWriter::new(to);
    write(&mut buffered)?;
    writeln!(buffered)?;
    buffered.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let cause = anyhow::Error::new(io::Error::other("it is gone"));
        let error = cause.context("can't read it: it is gone").context("run it");
        assert_eq!(reasons(&error), "run it: can't read it: it is gone");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_not_named_by_the_one_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let error = file(&folder.path().join("none/x"), |_| Ok(())).unwrap_err();
        assert!(!reasons(&error).contains(".tmp"), "{error:#}");
    }
}
