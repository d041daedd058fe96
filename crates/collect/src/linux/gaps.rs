//! The words for what could not be read: one gap for each source, with a count.

use std::{collections::BTreeMap, fmt::Display};

use stillopen_model::{Connection, Gap};

use crate::{CollectError, process::read::Owners};

const AS_ROOT: &str = "run as root (sudo)";

/// What could not be read so far.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    pub all: Vec<Gap>,
    /// Names of the namespaces that could not be read, by what the kernel said.
    namespaces: BTreeMap<String, Vec<String>>,
    /// Whether root could have entered them.
    permission: bool,
}

/// What this process may see.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sees {
    pub root: bool,
    /// It is in the host's first PID namespace.
    pub every_pid: bool,
}

impl Gaps {
    /// The value, or a gap that says why not.
    pub(super) fn or_gap<T, E: Display>(
        &mut self,
        source: &str,
        namespace: &str,
        read: Result<T, E>,
    ) -> Option<T> {
        read.map_err(|error| {
            let reason = format!("those of network namespace {namespace:?} can't be read: {error}");
            self.push(source, reason, "");
        })
        .ok()
    }

    /// The connections of a namespace may not be all.
    pub(super) fn partial(&mut self, namespace: &str) {
        let reason = format!(
            "the connections of network namespace {namespace:?} changed under the kernel's list \
             each time that it was read: some may be missing"
        );
        self.push("sockets", reason, "run it again");
    }

    /// A namespace that has gone, or may not be read.
    pub(super) fn namespace(&mut self, name: &str, error: CollectError) {
        let cause = match error {
            CollectError::Enter { cause, .. } => {
                self.permission |= cause.kind() == std::io::ErrorKind::PermissionDenied;
                cause.to_string()
            }
            CollectError::Sockets { cause, .. } => cause.to_string(),
            other => other.to_string(),
        };
        self.namespaces.entry(cause).or_default().push(name.to_owned());
    }

    /// What the pass over the processes left open.
    pub(super) fn owners(&mut self, connections: &[Connection], found: &Owners, sees: Sees) {
        let unowned = connections.iter().filter(|connection| connection.owner.is_none()).count();
        let others_hidden = found.hidden > 0 || !sees.root;
        let how = match (sees.root, sees.every_pid) {
            (false, _) => AS_ROOT,
            (true, false) => "run on the host, or in a pod with hostPID: true",
            (true, true) => "",
        };
        let unseen = unowned > 0 && (others_hidden || !sees.every_pid);
        if unseen {
            let reason = if others_hidden {
                format!("owners of {unowned} sockets of other users are not visible")
            } else {
                format!("owners of {unowned} sockets are not in this PID namespace")
            };
            self.push("owners", reason, how);
        }
        let values = found.refused as usize + if unseen { unowned } else { 0 };
        if values > 0 {
            let reason = format!("keepalive values of {values} sockets may not be read");
            let how = match how {
                "" => "needs CAP_SYS_PTRACE and Linux 5.6 or newer (pidfd_getfd)",
                how => how,
            };
            self.push("keepalive", reason, how);
        }
    }

    pub(super) fn push(&mut self, source: &str, reason: String, how: &str) {
        self.all.push(Gap { source: source.to_owned(), reason, how: how.to_owned() });
    }

    pub(super) fn finish(mut self) -> Vec<Gap> {
        for (cause, names) in std::mem::take(&mut self.namespaces) {
            let reason = format!(
                "{} network namespaces can't be read ({cause}): {}",
                names.len(),
                names.join(", ")
            );
            let how = if self.permission { AS_ROOT } else { "" };
            self.push("namespace", reason, how);
        }
        self.all
    }
}
