//! `/proc/PID/cgroup` → pod and container. Pure.
//!
//! The path of a container's cgroup is made by the kubelet and the runtime: the cgroupfs driver writes
//! `kubepods/burstable/podUID/ID`, the systemd driver `kubepods-burstable-podU_I_D.slice/RUNTIME-ID.scope`.
//! cgroup v1 has a line for each hierarchy, v2 one.

/// A container, and the pod that it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InContainer {
    /// The pod's UID as its object has it; of a static pod, the hash of its file.
    pub pod_uid: Option<String>,
    /// The container's id at its runtime: 64 hexadecimal digits.
    pub container_id: Option<String>,
}

/// The container of the process whose `/proc/PID/cgroup` is `text`; `None`: in none that is known here.
pub(super) fn container(text: &str) -> Option<InContainer> {
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let found = paths.filter_map(of_path);
    // The systemd and the unified hierarchy may name less than the others.
    found.max_by_key(|found| (found.pod_uid.is_some(), found.container_id.is_some()))
}

fn of_path(path: &str) -> Option<InContainer> {
    let mut found = InContainer { pod_uid: None, container_id: None };
    for segment in path.split(['/', ':']) {
        if let Some(uid) = pod_uid(segment) {
            // What came before is the node's own container, where the node is one (kind).
            found = InContainer { pod_uid: Some(uid), container_id: None };
        } else if let Some(id) = container_id(segment) {
            found.container_id = Some(id.to_owned());
        }
    }
    (found.pod_uid.is_some() || found.container_id.is_some()).then_some(found)
}

/// `pod12345678-…`, `kubepods-burstable-pod12345678_….slice`
fn pod_uid(segment: &str) -> Option<String> {
    let name = segment.strip_suffix(".slice").unwrap_or(segment);
    let at = if name.starts_with("pod") { 0 } else { name.rfind("-pod")? + 1 };
    let uid = name[at + "pod".len()..].replace('_', "-");
    let is_uuid = uid.len() == 36
        && uid.char_indices().all(|(position, c)| match position {
            8 | 13 | 18 | 23 => c == '-',
            _ => c.is_ascii_hexdigit(),
        });
    let is_hash = uid.len() == 32 && uid.chars().all(|c| c.is_ascii_hexdigit());
    (is_uuid || is_hash).then_some(uid)
}

/// `0123…`, `cri-containerd-0123….scope`, `crio-0123…`, `docker-0123….scope`, `libpod-0123….scope`
fn container_id(segment: &str) -> Option<&str> {
    let name = segment.strip_suffix(".scope").unwrap_or(segment);
    // The monitor beside a container of CRI-O or podman is not in it.
    if name.contains("conmon") {
        return None;
    }
    let id = name.rsplit('-').next()?;
    (id.len() == 64 && id.chars().all(|c| c.is_ascii_hexdigit())).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0f5a3c1e-7d9b-4a42-9c55-2f1f0a6b7c8d";
    const U_ID: &str = "0f5a3c1e_7d9b_4a42_9c55_2f1f0a6b7c8d";
    const HASH: &str = "a1b2c3d4e5f60718293a4b5c6d7e8f90";
    const CID: &str = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970";
    const NODE: &str = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d";

    #[test]
    fn paths_of_real_drivers_and_runtimes() {
        let pod = |uid: &str| Some((Some(uid.to_owned()), Some(CID.to_owned())));
        let no_container = |uid: &str| Some((Some(uid.to_owned()), None));
        let no_pod = Some((None, Some(CID.to_owned())));
        for (text, expected) in [
            // cgroup v2, systemd driver: containerd, CRI-O, Docker; each class of pods.
            (
                format!(
                    "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{U_ID}.slice/cri-containerd-{CID}.scope"
                ),
                pod(UID),
            ),
            (
                format!(
                    "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{U_ID}.slice/crio-{CID}.scope"
                ),
                pod(UID),
            ),
            (format!("0::/kubepods.slice/kubepods-pod{U_ID}.slice/docker-{CID}.scope"), pod(UID)),
            // A container that runs systemd, or makes cgroups of its own.
            (
                format!(
                    "0::/kubepods.slice/kubepods-pod{U_ID}.slice/cri-containerd-{CID}.scope/init.scope"
                ),
                pod(UID),
            ),
            (
                format!("0::/kubepods.slice/kubepods-pod{U_ID}.slice/crio-{CID}.scope/container"),
                pod(UID),
            ),
            // cgroup v2, cgroupfs driver: k3s, Talos.
            (format!("0::/kubepods/besteffort/pod{UID}/{CID}"), pod(UID)),
            (format!("0::/kubepods/pod{UID}/{CID}"), pod(UID)),
            (format!("0::/kubepods/burstable/pod{UID}/crio-{CID}"), pod(UID)),
            // cgroup v1: a line for each hierarchy, and one that names nothing.
            (
                format!(
                    "12:pids:/kubepods/burstable/pod{UID}/{CID}\n1:name=systemd:/kubepods/burstable/pod{UID}/{CID}\n0::/"
                ),
                pod(UID),
            ),
            (
                format!(
                    "11:memory:/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{U_ID}.slice/docker-{CID}.scope\n0::/system.slice/containerd.service"
                ),
                pod(UID),
            ),
            // containerd under systemd's driver without its plug-in's setting.
            (
                format!(
                    "8:cpu,cpuacct:/system.slice/containerd.service/kubepods-burstable-pod{U_ID}.slice:cri-containerd:{CID}"
                ),
                pod(UID),
            ),
            // A static pod's UID is the hash of its file.
            (
                format!(
                    "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{HASH}.slice/cri-containerd-{CID}.scope"
                ),
                pod(HASH),
            ),
            // The node is a container itself (kind), with the kubelet's own root.
            (format!("0::/docker/{NODE}/kubelet/kubepods/burstable/pod{UID}/{CID}"), pod(UID)),
            (
                format!(
                    "0::/system.slice/docker-{NODE}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{U_ID}.slice/cri-containerd-{CID}.scope"
                ),
                pod(UID),
            ),
            // Seen from a cgroup namespace beside it.
            (format!("0::/../../kubepods-pod{U_ID}.slice/cri-containerd-{CID}.scope"), pod(UID)),
            // Only the pod, or only the container.
            (format!("0::/kubepods.slice/kubepods-pod{U_ID}.slice"), no_container(UID)),
            (format!("0::/docker/{CID}"), no_pod.clone()),
            (format!("0::/system.slice/docker-{CID}.scope"), no_pod.clone()),
            (format!("0::/machine.slice/libpod-{CID}.scope/container"), no_pod.clone()),
            (format!("4:devices:/{CID}"), no_pod),
            // In none.
            ("0::/".into(), None),
            ("0::/user.slice/user-1000.slice/session-3.scope".into(), None),
            ("0::/system.slice/kubelet.service".into(), None),
            (format!("0::/machine.slice/libpod-conmon-{CID}.scope"), None),
            ("0::/kubepods/burstable/podnot-a-uid".into(), None),
            ("0::/system.slice/my-pod.service".into(), None),
            (String::new(), None),
            ("garbage".into(), None),
        ] {
            let found = container(&text).map(|found| (found.pod_uid, found.container_id));
            assert_eq!(found, expected, "{text}");
        }
    }
}
