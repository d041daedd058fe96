//! The words for what could not be read: one gap for each source, with a count.

use std::{collections::BTreeMap, fmt::Display};

use stillopen_model::{Connection, Gap};

use crate::{CollectError, netlink::NetlinkError, process::read::Owners};

const AS_ROOT: &str = "run as root";
/// For a root that lacks it, in a container.
const WITH_PTRACE: &str = "needs CAP_SYS_PTRACE";

/// What could not be read so far.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    all: Vec<Gap>,
    /// Names of the namespaces that could not be read, by what the kernel said.
    namespaces: BTreeMap<String, Vec<String>>,
    /// Whether root could have entered them.
    permission: bool,
    /// Names of the namespaces whose tables could not be read, by which and what the kernel said.
    tables: BTreeMap<(TableGap, String), Vec<String>>,
    /// Whether root could have read them.
    permission_for_tables: bool,
}

/// What of a namespace's tables could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TableGap {
    Ipvs,
    IpvsTimeouts,
    IpvsEntries,
    Conntrack,
    Rules,
}

impl TableGap {
    fn source(self) -> &'static str {
        match self {
            Self::Ipvs | Self::IpvsTimeouts | Self::IpvsEntries => "ipvs",
            Self::Conntrack => "conntrack",
            Self::Rules => "nf_tables",
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::Ipvs => "the virtual services",
            Self::IpvsTimeouts => "the timeouts of IPVS",
            Self::IpvsEntries => "the entries of IPVS",
            Self::Conntrack => "the entries of connection tracking",
            Self::Rules => "the rules of nf_tables",
        }
    }
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

    /// A table that could not be read. Where the caller may not, one line says so of all that it may not.
    pub(crate) fn table(&mut self, gap: TableGap, namespace: &str, error: &NetlinkError) {
        if gap == TableGap::Rules && error.is_permission() {
            return;
        }
        let names = self.tables.entry((gap, error.to_string())).or_default();
        self.permission_for_tables |= error.is_permission();
        if !names.iter().any(|name| name == namespace) {
            names.push(namespace.to_owned());
        }
    }

    /// This host's kernel has no IP Virtual Server.
    pub(super) fn no_ipvs(&mut self) {
        self.push("ipvs", "this kernel has no ip_vs".to_owned(), "");
    }

    /// What the pass over the processes left open.
    pub(super) fn owners(&mut self, connections: &[Connection], found: &Owners, sees: Sees) {
        if let Some(error) = &found.not_iterated {
            let reason = format!(
                "no BPF iterator was used, and each process's descriptors were read instead, which takes longer: {error}"
            );
            self.push("bpf", reason, "");
        }
        let unowned = connections.iter().filter(|connection| connection.owner.is_none()).count();
        let others_hidden = found.hidden > 0 || !sees.root;
        let how = match (sees.root, sees.every_pid) {
            (false, _) => AS_ROOT,
            (true, false) => "run on the host, or in a pod with hostPID: true",
            (true, true) => WITH_PTRACE,
        };
        let unseen = unowned > 0 && (others_hidden || !sees.every_pid);
        if unseen {
            let reason = if others_hidden {
                let sockets = sockets(unowned);
                format!("owners of {sockets} are not visible: other users', or closed meanwhile")
            } else {
                format!("owners of {} are not in this PID namespace", sockets(unowned))
            };
            self.push("owners", reason, how);
        }
        let values = found.refused as usize + if unseen { unowned } else { 0 };
        if values > 0 {
            let reason = format!("keepalive values of {} may not be read", sockets(values));
            let how = if how == WITH_PTRACE {
                "needs CAP_SYS_PTRACE and Linux 5.6 or newer (pidfd_getfd)"
            } else {
                how
            };
            self.push("keepalive", reason, how);
        }
    }

    /// Processes whose namespace may not be seen: it may be one that nothing else names.
    pub(super) fn hidden_namespaces(&mut self, hidden: u32, root: bool) {
        if hidden > 0 {
            let plural = if hidden == 1 { "" } else { "es" };
            let reason =
                format!("the network namespace of {hidden} process{plural} is not visible");
            self.push("namespace", reason, if root { WITH_PTRACE } else { AS_ROOT });
        }
    }

    fn push(&mut self, source: &str, reason: String, how: &str) {
        self.all.push(Gap { source: source.to_owned(), reason, how: how.to_owned() });
    }

    pub(super) fn finish(mut self) -> Vec<Gap> {
        for (cause, names) in std::mem::take(&mut self.namespaces) {
            let plural = if names.len() == 1 { "" } else { "s" };
            let reason = format!(
                "{} network namespace{plural} can't be read ({cause}): {}",
                names.len(),
                names.join(", ")
            );
            let how = if self.permission { AS_ROOT } else { "" };
            self.push("namespace", reason, how);
        }
        for ((gap, cause), names) in std::mem::take(&mut self.tables) {
            let plural = if names.len() == 1 { "" } else { "s" };
            let reason = format!(
                "{} of {} network namespace{plural} can't be read ({cause}): {}",
                gap.what(),
                names.len(),
                names.join(", ")
            );
            let how = if self.permission_for_tables { AS_ROOT } else { "run it again" };
            self.push(gap.source(), reason, how);
        }
        self.all
    }
}

fn sockets(count: usize) -> String {
    format!("{count} socket{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(unowned: usize, found: &Owners, root: bool, every_pid: bool) -> Vec<String> {
        let dump = include_bytes!("../sock_diag/testdata/connections.bin");
        let connections = &crate::parse_connections(dump).unwrap().items[..unowned];
        let mut gaps = Gaps::default();
        gaps.owners(connections, found, Sees { root, every_pid });
        gaps.finish().into_iter().map(|gap| format!("{}; {}", gap.reason, gap.how)).collect()
    }

    #[test]
    fn one_gap_for_each_source_with_its_count() {
        let none = Owners::default();
        let hidden = Owners { hidden: 7, ..Owners::default() };
        let refused = Owners { refused: 3, ..Owners::default() };
        assert!(owners(0, &hidden, false, true).is_empty(), "nothing is missing");
        assert!(owners(2, &none, true, true).is_empty(), "the kernel's own, or gone in mid-read");
        assert_eq!(
            owners(2, &hidden, false, true),
            [
                "owners of 2 sockets are not visible: other users', or closed meanwhile; run as root",
                "keepalive values of 2 sockets may not be read; run as root",
            ]
        );
        assert_eq!(
            owners(1, &none, true, false)[0],
            "owners of 1 socket are not in this PID namespace; \
             run on the host, or in a pod with hostPID: true"
        );
        assert_eq!(
            owners(0, &refused, true, true),
            ["keepalive values of 3 sockets may not be read; \
              needs CAP_SYS_PTRACE and Linux 5.6 or newer (pidfd_getfd)"]
        );
    }

    #[test]
    fn namespaces_with_the_same_cause_are_one_gap() {
        let mut gaps = Gaps::default();
        for name in ["a", "b"] {
            let cause = std::io::Error::from(rustix::io::Errno::PERM);
            gaps.namespace(name, CollectError::Enter { name: name.to_owned(), cause });
        }
        let gaps = gaps.finish();
        assert_eq!(gaps.len(), 1);
        assert!(gaps[0].reason.starts_with("2 network namespaces can't be read ("));
        assert!(gaps[0].reason.ends_with("a, b"));
        assert_eq!(gaps[0].how, AS_ROOT);
    }
}
