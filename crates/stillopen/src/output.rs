//! Files that a command writes for the user.

use std::{
    fs,
    io::{self, BufWriter, Write as _},
    path::Path,
};

use anyhow::Result;

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
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let file = tempfile::NamedTempFile::new_in(folder)?;
    whole(&file, write)?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

fn whole(to: impl io::Write, write: impl FnOnce(&mut dyn io::Write) -> Result<()>) -> Result<()> {
    let mut buffered = BufWriter::new(to);
    write(&mut buffered)?;
    writeln!(buffered)?;
    buffered.flush()?;
    Ok(())
}
