//! Who runs a file: the kernel, an interpreter that its first line names, or a shell.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::Read as _,
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

/// The kernel reads no more of a script to find its interpreter (`BINPRM_BUF_SIZE`).
const FIRST_LINE: u64 = 256;
const ELF: &[u8] = b"\x7fELF";

/// Who runs a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RunBy {
    /// It is a program, or what only looks like one.
    Kernel,
    /// `#! INTERPRETER ARGUMENT`
    Interpreter { path: OsString, argument: Option<OsString> },
    /// Text that does not say: `execvp` hands it to `/bin/sh`.
    Shell,
}

impl RunBy {
    /// By its first bytes, as `fs/binfmt_script.c` reads them.
    pub(super) fn of(path: &Path) -> Self {
        let mut first = Vec::new();
        // A FIFO would have to be waited for; what can't be read is an error when it is packed.
        let file = path.is_file().then(|| File::open(path).ok()).flatten();
        let read = file.map(|file| file.take(FIRST_LINE).read_to_end(&mut first));
        match first.strip_prefix(b"#!") {
            Some(line) => Self::named_in(line),
            None if !matches!(read, Some(Ok(_))) => Self::Kernel,
            None if first.starts_with(ELF) || first.contains(&0) => Self::Kernel,
            None => Self::Shell,
        }
    }

    fn named_in(line: &[u8]) -> Self {
        let is_blank = |byte: &u8| [b' ', b'\t'].contains(byte);
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let start = line.iter().position(|byte| !is_blank(byte));
        let Some(start) = start else { return Self::Shell };
        let end = line.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
        let line = &line[start..end];
        let split = line.iter().position(is_blank).unwrap_or(line.len());
        let (path, rest) = line.split_at(split);
        let argument = rest.iter().position(|byte| !is_blank(byte)).map(|from| &rest[from..]);
        let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        Self::Interpreter { path: text(path), argument: argument.map(text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_as_the_kernel_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let interpreter = |path: &str, argument: Option<&str>| RunBy::Interpreter {
            path: path.into(),
            argument: argument.map(Into::into),
        };
        for (content, is) in [
            (&b"#!/bin/sh\necho"[..], interpreter("/bin/sh", None)),
            (b"#! /usr/bin/env  -S a b \n", interpreter("/usr/bin/env", Some("-S a b"))),
            (b"#!/bin/sh\r\n", interpreter("/bin/sh\r", None)),
            (b"#!\n", RunBy::Shell),
            (b"echo hello\n", RunBy::Shell),
            (b"", RunBy::Shell),
            (b"\x7fELF\x02\x01", RunBy::Kernel),
            (b"PK\x03\x04\0", RunBy::Kernel),
        ] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(RunBy::of(&path), is, "{}", content.escape_ascii());
        }
        assert_eq!(RunBy::of(folder.path()), RunBy::Kernel);
    }
}
