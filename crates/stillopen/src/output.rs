//! What a command writes for the user: files, and what it says of work that is done.

use std::{
    fs,
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Result;

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

/// Writes a text to standard output.
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub(crate) fn say(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Writes a file beside its place, ends it with a line break and moves it there: it is whole or not there, and
/// nobody else can read it. What is not a file (a pipe, `/dev/stdout`) is written to, never replaced, and of a
/// symbolic link the file that it leads to.
///
/// # Errors
/// Those of the folder, and of `write`.
pub(crate) fn file(
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> Result<()>,
) -> Result<()> {
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        return whole(fs::OpenOptions::new().write(true).open(path)?, write);
    }
    let path = fs::canonicalize(path).unwrap_or_else(|_| link_target(path));
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let file = tempfile::NamedTempFile::new_in(folder)?;
    whole(&file, write)?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(())
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
