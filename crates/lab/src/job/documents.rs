//! The folder of documents: every `*.txt` and `*.md` in it, its id the file's name without ending.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// A document to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The file's name without ending.
    pub id: String,
    /// Its text.
    pub text: String,
}

/// Documents that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DocumentsError {
    /// The folder or a file can't be read, or is not UTF-8.
    #[error("can't read the documents: {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nothing to do.
    #[error("no documents: {} has no *.txt and no *.md", .0.display())]
    None(PathBuf),
    /// A file without text.
    #[error("the document {} is empty", .0.display())]
    Empty(PathBuf),
    /// Two files would be one request.
    #[error("two documents with the id {id:?}: {} and {}", one.display(), other.display())]
    SameId {
        /// Of both.
        id: String,
        /// A file.
        one: PathBuf,
        /// Another.
        other: PathBuf,
    },
    /// A file name that can't be an id.
    #[error("the name of {} can't be a request's id: it is not UTF-8, or not printable", .0.display())]
    Id(PathBuf),
}

/// Reads the folder's documents, sorted by id.
pub(super) fn read(folder: &Path) -> Result<Vec<Document>, DocumentsError> {
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |source| DocumentsError::Read { path, source }
    };
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(fail(folder))? {
        let path = entry.map_err(fail(folder))?.path();
        if !is_document(&path) {
            continue;
        }
        let id = id(&path).ok_or_else(|| DocumentsError::Id(path.clone()))?;
        if let Some(one) = files.insert(id.clone(), path.clone()) {
            return Err(DocumentsError::SameId { id, one, other: path });
        }
    }
    if files.is_empty() {
        return Err(DocumentsError::None(folder.to_owned()));
    }
    let document = |(id, path): (String, PathBuf)| {
        let text = fs::read_to_string(&path).map_err(fail(&path))?;
        if text.trim().is_empty() {
            Err(DocumentsError::Empty(path))
        } else {
            Ok(Document { id, text })
        }
    };
    files.into_iter().map(document).collect()
}

fn is_document(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "txt" || ending == "md") && path.is_file()
}

/// An id goes into a header: no control characters.
fn id(path: &Path) -> Option<String> {
    let id = path.file_stem()?.to_str()?;
    (!id.trim().is_empty() && !id.chars().any(char::is_control)).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these files, gone at the end of the test.
    struct Folder(PathBuf);

    impl Folder {
        fn with(name: &str, files: &[(&str, &[u8])]) -> Self {
            let path =
                std::env::temp_dir().join(format!("stillopen-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            for (file, bytes) in files {
                fs::write(path.join(file), bytes).unwrap();
            }
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn texts_are_read_sorted_and_others_left() {
        let folder = Folder::with(
            "texts",
            &[("b.txt", b"two"), ("a.report.md", b"one"), ("c.pdf", b"%PDF"), ("経営.txt", b"3")],
        );
        let read = read(&folder.0).unwrap();
        let ids: Vec<_> = read.iter().map(|document| document.id.as_str()).collect();
        assert_eq!(ids, ["a.report", "b", "経営"]);
    }

    #[test]
    fn bad_folders_are_named() {
        for (name, files, part) in [
            ("none", &[("a.pdf", &b"x"[..])][..], "no *.txt"),
            ("blank", &[("a.txt", b" \n")], "a.txt is empty"),
            ("same", &[("a.txt", b"x"), ("a.md", b"y")], "the id \"a\""),
            ("latin1", &[("a.txt", b"\xe9")], "a.txt"),
            ("control", &[("a\nb.txt", b"x")], "request's id"),
        ] {
            let folder = Folder::with(name, files);
            let error = read(&folder.0).unwrap_err().to_string();
            assert!(error.contains(part), "{name}: {error}");
        }
        let error = read(Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent"), "{error}");
    }
}
