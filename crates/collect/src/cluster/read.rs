//! Reads the files.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::Read,
    net::IpAddr,
};

use stillopen_model::{KnownService, Pod, Process};

use super::{
    cgroup::{InContainer, container},
    environ::services,
    names::{of_container_log, of_pod_logs},
};

/// Where the kubelet keeps logs, here or, from a pod with `hostPID`, on the node.
const ROOTS: [&str; 2] = ["", "/proc/1/root"];
/// Longer than any environment (`MAX_ARG_STRLEN` is 128 KiB a variable): what comes after is not read.
const LARGEST_ENVIRON: u64 = 1 << 20;

/// Gives each process its pod; returns the Services that their environments name.
pub(crate) fn describe(processes: &mut [Process]) -> Vec<KnownService> {
    let mut found = BTreeMap::new();
    let mut containers = Vec::new();
    for process in &*processes {
        let file = |name: &str| File::open(format!("/proc/{}/{name}", process.pid));
        let mut text = Vec::new();
        // One that has ended, or may not be read, says nothing.
        let _ = file("cgroup").and_then(|mut file| file.read_to_end(&mut text));
        containers.push(container(&String::from_utf8_lossy(&text)));
        text.clear();
        let _ = file("environ").and_then(|file| file.take(LARGEST_ENVIRON).read_to_end(&mut text));
        let mut of_process = BTreeMap::new();
        services(&text, &mut of_process);
        for (address, name) in of_process {
            found.entry(address).or_insert((name, process.pid));
        }
    }
    if containers.iter().flatten().any(|container| container.pod_uid.is_some()) {
        let names = Names::read();
        for (process, container) in processes.iter_mut().zip(containers) {
            process.pod = container.and_then(|container| names.pod(container));
        }
    }
    let known = |(address, (name, pid)): (IpAddr, (String, u32))| KnownService {
        network: address.into(),
        seen: format!("{name}={address} in the environment of pid {pid}"),
    };
    found.into_iter().map(known).collect()
}

/// What the kubelet's files call pods and containers.
#[derive(Default)]
struct Names {
    /// By pod UID: namespace and name.
    pods: HashMap<String, (String, String)>,
    /// By container id: the container's name.
    containers: HashMap<String, String>,
}

impl Names {
    fn read() -> Self {
        let mut names = Self::default();
        for root in ROOTS {
            for file in list("/var/log/pods", root) {
                if let Some((namespace, name, uid)) = of_pod_logs(&file) {
                    names.pods.insert(uid.to_owned(), (namespace.to_owned(), name.to_owned()));
                }
            }
            for file in list("/var/log/containers", root) {
                if let Some((name, id)) = of_container_log(&file) {
                    names.containers.insert(id.to_owned(), name.to_owned());
                }
            }
            if !names.pods.is_empty() {
                break;
            }
        }
        names
    }

    /// `None`: a container, but not of a pod.
    fn pod(&self, container: InContainer) -> Option<Pod> {
        let uid = container.pod_uid?;
        let (namespace, name) = self.pods.get(&uid).cloned().unzip();
        let container_name =
            container.container_id.as_ref().and_then(|id| self.containers.get(id)).cloned();
        Some(Pod { uid, namespace, name, container_id: container.container_id, container_name })
    }
}

/// The names of what a folder holds; none where it can't be read.
fn list(folder: &str, root: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(format!("{root}{folder}")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
