//! Why nothing could be read at all.

use std::{error::Error, io, path::PathBuf};

/// Reading gave no answer. What is merely missing is a gap of the snapshot instead.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// Not on Linux.
    #[error(
        "connections can be read on Linux only; here `stillopen check --from FILE` diagnoses a \
         snapshot that `stillopen check --save FILE` wrote on Linux"
    )]
    Unsupported,
    /// The namespace that was asked for is not there.
    #[error(
        "there is no network namespace {name:?} ({looked}): `ip netns list` lists the names, \
         `lsns -t net` the process ids"
    )]
    NoNamespace {
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        looked: String,
    },
    /// The namespace that was asked for may not be entered.
    #[error("network namespace {name:?} can't be entered ({cause}): {}", next_step(cause))]
    Enter {
        /// What was asked for.
        name: String,
        /// What the kernel said.
        cause: io::Error,
    },
    /// The connections could not be listed.
    #[error("the connections of network namespace {namespace:?} can't be listed: {cause}")]
    Sockets {
        /// Its name.
        namespace: String,
        /// What went wrong.
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The process that was asked for is not there.
    #[error("there is no process {pid}: `ps -e` lists them")]
    NoProcess {
        /// What was asked for.
        pid: u32,
    },
    /// The process that was asked for may not be read.
    #[error("the sockets of process {pid} can't be read ({cause}): {}", next_step(cause))]
    Process {
        /// What was asked for.
        pid: u32,
        /// What the kernel said.
        cause: io::Error,
    },
    /// A file or folder that everything depends on can't be read.
    #[error("{path:?} can't be read ({cause}): is /proc mounted?")]
    Proc {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
}

fn next_step(cause: &io::Error) -> &'static str {
    if cause.kind() == io::ErrorKind::PermissionDenied {
        "run as root"
    } else {
        "check that it still exists"
    }
}
