//! A process in the cgroup of a pod is named by it. The cgroup is made and removed here; the kubelet's folder
//! is seen in a mount namespace of the program alone.

use std::{fs, path::PathBuf, process};

use crate::{
    holder::Holder,
    scene::{Family, Scene},
    socket::Connection,
};

const CONTAINER: &str = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970";

/// The cgroup of a container; dropping it moves what is in it back to the root, and removes it.
struct Cgroup {
    root: PathBuf,
    folders: Vec<PathBuf>,
}

impl Cgroup {
    /// In cgroup v2, as the cgroupfs driver has it.
    fn of_pod(uid: &str) -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("read the mounts");
        let root = mounts
            .lines()
            .filter(|line| line.contains(" - cgroup2 "))
            .find_map(|line| line.split(' ').nth(4))
            .expect("a cgroup v2 hierarchy is mounted");
        let root = PathBuf::from(root);
        let mut folders = Vec::new();
        let mut folder = root.clone();
        for name in [
            &format!("stillopen-test-{}", process::id()),
            "kubepods",
            &format!("pod{uid}"),
            CONTAINER,
        ] {
            folder.push(name);
            fs::create_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            folders.push(folder.clone());
        }
        Self { root, folders }
    }

    fn take(&self, pid: u32) {
        fs::write(self.folders[self.folders.len() - 1].join("cgroup.procs"), pid.to_string())
            .expect("move a process into a cgroup");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for folder in self.folders.iter().rev() {
            let held = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            for pid in held.lines() {
                let _ = fs::write(self.root.join("cgroup.procs"), pid);
            }
            if let Err(error) = fs::remove_dir(folder) {
                eprintln!("{} stays: {error}", folder.display());
            }
        }
    }
}

#[test]
fn a_process_is_named_by_the_pod_that_its_cgroup_and_the_kubelets_files_tell() {
    let uid = format!("0f5a3c1e-7d9b-4a42-9c55-{:012x}", process::id());
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    let Connection { client, server: _server } = connection;
    let holder = Holder::of_root(client);
    let cgroup = Cgroup::of_pod(&uid);
    cgroup.take(holder.pid());

    // Without the kubelet's files, the UID is all that is known.
    let said = scene.check_client(&["--limit", "900s"]).run();
    assert!(said.stdout.contains("pod 0f5a3c1e / cat"), "{said:#?}");

    let logs = format!(
        "mount -t tmpfs tmpfs /var/log && mkdir -p /var/log/pods/mining_extract-9fq_{uid} /var/log/containers && \
         : > /var/log/containers/extract-9fq_mining_main-{CONTAINER}.log && exec \"$0\" \"$@\""
    );
    let before = ["unshare", "--mount", "sh", "-c", &logs];
    let program = || scene.check_client(&["--limit", "900s"]).started_by(&before);
    let said = program().run();
    assert_eq!(said.status, 1, "{said:#?}");
    assert!(said.stdout.contains("mining/extract-9fq / cat"), "{said:#?}");
    let json: serde_json::Value =
        serde_json::from_str(&program().args(&["--json"]).run().stdout).expect("a report");
    let pod = &json["connections"][0]["owner"]["pod"];
    let expected = serde_json::json!({
        "uid": uid, "namespace": "mining", "name": "extract-9fq",
        "container_id": CONTAINER, "container_name": "main",
    });
    assert_eq!(*pod, expected);
}
