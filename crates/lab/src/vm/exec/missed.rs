//! Files of this host that a program complained of, and which the guest had not.

use std::{collections::BTreeSet, ffi::OsString, os::unix::ffi::OsStringExt as _, path::PathBuf};

use super::super::pack::find_program;

/// How programs say that something is not there: what a line with one of these names may be a command.
const NOT_THERE: [&str; 5] = [
    "No such file or directory",
    "executable file not found",
    "command not found",
    "not found",
    "ENOENT",
];

/// Paths, and commands that were not found, in what was `said`. `there`: the guest's files.
pub(super) fn missed(said: &[u8], there: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let text = String::from_utf8_lossy(said);
    let paths =
        said.split(|&byte| ends_word(byte)).filter(|word| word.len() > 2).filter_map(|word| {
            let is_path = word.iter().any(|byte| b"/.".contains(byte));
            is_path.then(|| std::path::absolute(OsString::from_vec(word.to_vec())).ok())?
        });
    let named = text.lines().flat_map(commands);
    let programs = named.filter_map(|name| find_program(name.as_ref()));
    let is_missing = |path: &PathBuf| {
        // Links are told by where they lead.
        let Ok(real) = path.canonicalize() else { return false };
        let is_there =
            there.range(real.clone()..).next().is_some_and(|next| next.starts_with(&real));
        !is_there && path.parent().is_some()
    };
    let found: BTreeSet<PathBuf> = paths.chain(programs).filter(is_missing).collect();
    found.into_iter().collect()
}

fn ends_word(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b"'\"`:;,()[]<>".contains(&byte)
}

/// The last word of each part of a line that says that something is not there: `sh: 1: curl: not found`,
/// `env: 'curl': No such file or directory`, `Error: spawn curl ENOENT`.
fn commands(line: &str) -> Vec<String> {
    let Some(phrase) = NOT_THERE.iter().find(|phrase| line.contains(**phrase)) else {
        return Vec::new();
    };
    let last = |part: &str| {
        let mut words = part.as_bytes().split(|&byte| ends_word(byte));
        words.rfind(|word| !word.is_empty()).map(|word| String::from_utf8_lossy(word).into_owned())
    };
    let rest = line.replace(phrase, ":").replace(['\u{2018}', '\u{2019}'], "'");
    rest.split(':').filter_map(last).filter(|word| !word.contains('/')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_a_program_missed_is_found_in_its_words() {
        let folder = tempfile::tempdir().unwrap();
        let [here, not_here] = ["here.pem", "not-here.pem"].map(|name| folder.path().join(name));
        for path in [&here, &not_here] {
            std::fs::write(path, "").unwrap();
        }
        let there = BTreeSet::from([here.canonicalize().unwrap()]);
        let said = format!(
            "Traceback\nFileNotFoundError: [Errno 2] No such file or directory: '{}'\n{}: denied\n",
            not_here.display(),
            here.display()
        );
        assert_eq!(missed(said.as_bytes(), &there), [not_here]);
    }

    #[test]
    fn a_command_is_what_was_not_found_and_no_word_of_the_error() {
        for line in [
            "sh: 1: cat: not found",
            "bash: line 1: cat: command not found",
            "zsh:1: command not found: cat",
            "env: 'cat': No such file or directory",
            "timeout: failed to run command \u{2018}cat\u{2019}: No such file or directory",
            "FileNotFoundError: [Errno 2] No such file or directory: 'cat'",
            "Error: spawn cat ENOENT",
            "exec: \"cat\": executable file not found in $PATH",
        ] {
            let found = missed(line.as_bytes(), &BTreeSet::new());
            let names: Vec<_> = found.iter().filter_map(|path| path.file_name()).collect();
            assert!(names.contains(&"cat".as_ref()), "{line}: {found:?}");
            for word in ["file", "find", "command", "run", "or"] {
                assert!(!names.contains(&word.as_ref()), "{line}: {found:?}");
            }
        }
        for line in ["the file is not a directory", "cat: it failed", "404 Not Found"] {
            assert!(missed(line.as_bytes(), &BTreeSet::new()).is_empty(), "{line}");
        }
    }
}
