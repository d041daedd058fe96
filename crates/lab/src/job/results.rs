//! The answers: JSON lines on a writer, or one file each in a folder.

use std::{
    fmt, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crate::http::Answer;

/// Where answers go.
pub struct Results(To);

enum To {
    Lines(Mutex<Box<dyn Write + Send>>),
    Folder(PathBuf),
}

/// An answer that can't be kept.
#[derive(Debug, thiserror::Error)]
#[error("can't write the answers to {to}: {source}")]
pub struct ResultsError {
    to: String,
    pub(super) source: io::Error,
}

impl Results {
    /// One line an answer.
    #[must_use]
    pub fn lines(out: impl Write + Send + 'static) -> Self {
        Self(To::Lines(Mutex::new(Box::new(out))))
    }

    /// A file `ID.json` an answer, in this folder, made where it is missing.
    ///
    /// # Errors
    /// The folder can't be made.
    pub fn folder(path: &Path) -> Result<Self, ResultsError> {
        fs::create_dir_all(path).map_err(fail(path))?;
        Ok(Self(To::Folder(path.to_owned())))
    }

    pub(super) fn keep(&self, id: &str, answer: &Answer) -> Result<(), ResultsError> {
        // Texts and numbers: nothing in it can fail to be JSON.
        let line = serde_json::to_string(answer).unwrap_or_default() + "\n";
        match &self.0 {
            To::Lines(out) => {
                let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
                out.write_all(line.as_bytes())
                    .and_then(|()| out.flush())
                    .map_err(|source| ResultsError { to: "standard output".into(), source })
            }
            To::Folder(folder) => {
                let path = folder.join(format!("{id}.json"));
                fs::write(&path, line).map_err(fail(&path))
            }
        }
    }
}

impl fmt::Debug for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Results")
    }
}

fn fail(path: &Path) -> impl FnOnce(io::Error) -> ResultsError {
    let to = path.display().to_string();
    move |source| ResultsError { to, source }
}
