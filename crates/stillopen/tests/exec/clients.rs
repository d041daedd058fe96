//! Clients whose answer takes 6 s behind a path that forgets after 3 s: each hangs until its own timeout of
//! 9 s; with keepalive each gets its answer. And clients that speak first on a forgotten connection.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
};

use crate::user::{PYTHON, Running, User};

pub(crate) const FAMILIES: [&[&str]; 2] = [&[], &["--ipv6"]];
const PATH: [&str; 6] = ["--idle-timeout", "3s", "--profile", "ipvs", "--answer-after", "6s"];
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

/// Runs a client on both families, without keepalive and with it, all at once.
#[track_caller]
fn hangs_without_keepalive(user: &User, without: &[&str], with: &[&str]) {
    let start = |name: &str, family: &[&str], client: &[&str]| -> Running {
        user.start(name, &[family, &PATH, &["--"], client].concat())
    };
    let runs = FAMILIES.map(|family| {
        let name = format!("v{}", family.len());
        [
            start(&format!("{name}-without"), family, without),
            start(&format!("{name}-with"), family, with),
        ]
    });
    for (family, [lost, kept]) in FAMILIES.iter().zip(runs) {
        let (lost, kept) = (lost.ran(), kept.ran());
        assert_ne!(lost.status, 0, "{family:?} {lost:?}");
        assert!(lost.took_s > 8.5, "{family:?} it was told: {lost:?}");
        assert_eq!(lost.summary["answers_lost"], 1, "{family:?} {lost:?}");
        assert_eq!(lost.summary["forgotten"].as_array().unwrap().len(), 1, "{family:?} {lost:?}");
        // 750 jiffies are on the wheel's third level: at most 256 ms late, after the last packet.
        let forgotten = &lost.summary["forgotten"][0];
        let lived = forgotten["at_s"].as_f64().unwrap() - forgotten["last_s"].as_f64().unwrap();
        assert!((3.0..3.3).contains(&lived), "{family:?} {lost:?}");
        assert!(lost.stderr.contains("1 answer left for a peer that never got it"), "{lost:?}");

        assert_eq!(kept.status, 0, "{family:?} {kept:?}");
        assert!(kept.took_s > 5.5, "{family:?} {kept:?}");
        assert_eq!(kept.summary["answers_lost"], 0, "{family:?} {kept:?}");
        assert_eq!(kept.summary["forgotten"].as_array().unwrap().len(), 0, "{family:?} {kept:?}");
        assert!(kept.stderr.ends_with("stillopen: forgot nothing of 1 connection\n"), "{kept:?}");
    }
}

#[test]
fn a_plain_socket_of_python() {
    let user = User::new();
    let client = user.file("plain.py", include_str!("drivers/plain.py"));
    hangs_without_keepalive(&user, &[PYTHON, &client], &[PYTHON, &client, "keepalive"]);
}

/// The same client, unchanged, under `stillopen run`.
#[test]
fn a_plain_socket_of_python_that_is_started_by_run() {
    let user = User::new();
    let client = user.file("plain.py", include_str!("drivers/plain.py"));
    let stillopen = user.stillopen();
    let run = [&stillopen, "run", "--keepalive", "1/1/3", "--", PYTHON, &client];
    hangs_without_keepalive(&user, &[PYTHON, &client], &run);
}

#[test]
fn curl() {
    let user = User::new();
    let client = |options: &str| format!("curl -s -m 9 {options} http://$STILLOPEN_SERVER/");
    let (without, with) = (client("--no-keepalive"), client("--keepalive-time 1"));
    hangs_without_keepalive(&user, &["sh", "-c", &without], &["sh", "-c", &with]);
}

#[test]
fn fetch_of_node() {
    let user = User::new();
    let client = user.file("fetch.mjs", include_str!("drivers/fetch.mjs"));
    hangs_without_keepalive(&user, &["node", &client], &["node", &client, "keepalive"]);
}

/// The example's requirements, in a folder that any Python finds them in. Made once for this target directory.
static REQUIREMENTS: LazyLock<PathBuf> = LazyLock::new(|| {
    let requirements = Path::new(EXAMPLES).join("requirements.txt");
    let name = fs::read_to_string(&requirements).unwrap().trim().replace("==", "-");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("exec-pytest-{name}"));
    let (venv, packages, ready) =
        (folder.join("venv"), folder.join("packages"), folder.join("ready"));
    if !ready.exists() {
        succeeds(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
        let mut pip = Command::new(venv.join("bin/python"));
        pip.args(["-m", "pip", "install", "-q", "--upgrade", "--target"]).arg(&packages);
        succeeds(pip.arg("-r").arg(&requirements).arg("pytest==8.4.2"));
        fs::write(ready, "").unwrap();
    }
    packages
});

fn succeeds(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Gives the user those packages: where this is run from may be closed to them.
fn with_packages(user: &User) -> String {
    let folder = user.path("packages");
    succeeds(Command::new("cp").arg("-r").arg(&*REQUIREMENTS).arg(&folder));
    succeeds(Command::new("chmod").args(["-R", "a+rX"]).arg(&folder));
    folder.to_str().unwrap().to_owned()
}

/// A file of `examples/`, where the user may read it.
fn example(user: &User, folder: &str, name: &str) -> String {
    user.file(name, &fs::read_to_string(Path::new(EXAMPLES).join(folder).join(name)).unwrap())
}

#[test]
fn the_examples_of_tests() {
    let user = User::new();
    let python = example(&user, "tests", "test_slow_answer.py");
    let node = example(&user, "tests", "slow-answer.test.mjs");
    let packages = with_packages(&user);
    let pytest = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", &python];
    let node = ["node", "--test", &node];
    let mut runs = [&pytest[..], &node].map(|words| {
        let mut command = user.command(words);
        command.env("STILLOPEN", user.stillopen()).env("PYTHONPATH", &packages);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    for run in &mut runs {
        let mut text = String::new();
        run.stdout.as_mut().unwrap().read_to_string(&mut text).unwrap();
        let ended = run.wait().unwrap();
        assert!(ended.success(), "{text}");
        assert!(text.contains("2 passed") || text.contains("# pass 2"), "{text}");
    }
}

#[test]
fn the_job_in_python() {
    let user = User::new();
    let packages = with_packages(&user);
    let job = example(&user, "", "job_httpx.py");
    let documents = user.path("documents");
    fs::create_dir(&documents).unwrap();
    user.file("documents/a.txt", "A report.");
    let client = |more: &str| {
        format!(
            "PYTHONPATH={packages} {PYTHON} {job} --server $STILLOPEN_SERVER --documents {} --timeout 9s \
             --max-attempts 1 {more}",
            documents.display()
        )
    };
    let (without, with) = (client(""), client("--keepalive 1/1/3"));
    hangs_without_keepalive(&user, &["sh", "-c", &without], &["sh", "-c", &with]);
}

#[test]
fn keepalive_that_probes_after_the_path_has_forgotten_is_no_proof_against_it() {
    let user = User::new();
    let client = user.file(
        "late.py",
        "import os, socket\n\
         host, port = os.environ['STILLOPEN_SERVER'].rsplit(':', 1)\n\
         client = socket.create_connection((host.strip('[]'), port))\n\
         client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)\n\
         client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)\n\
         client.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n')\n\
         client.settimeout(4)\n\
         client.recv(1)\n",
    );
    let runs = FAMILIES.map(|family| {
        let args = ["--idle-timeout", "1s", "--answer-after", "3s", "--", PYTHON, &client];
        user.start(&format!("late-{}", family.len()), &[family, &args].concat())
    });
    for run in runs {
        let ran = run.ran();
        let [forgotten] = ran.summary["forgotten"].as_array().unwrap().as_slice() else {
            panic!("{ran:?}")
        };
        let time = |name: &str| forgotten[name].as_f64().unwrap();
        // Late by the kernel's timer wheel at most.
        assert!((59.0..65.0).contains(&(time("probe_s") - time("last_s"))), "{ran:?}");
        assert!(ran.stderr.contains("keepalive was on for 1 of the forgotten"), "{ran:?}");
    }
}

#[test]
fn keepalive_behind_a_proxy_that_counts_data_only_is_said_to_be_useless() {
    let user = User::new();
    let client = user.file("plain.py", include_str!("drivers/plain.py"));
    let args =
        ["--profile", "l7-proxy", "--idle-timeout", "2s", "--answer-after", "9s", "--", PYTHON];
    let ran = user.start("l7", &[&args[..], &[&client, "keepalive"]].concat()).ran();
    assert_eq!(ran.summary["forgotten"].as_array().unwrap().len(), 1, "{ran:?}");
    let note = "keepalive does not help behind this profile: only data counts";
    assert!(ran.stderr.contains(note), "{ran:?}");
    assert!(!ran.stderr.contains("a longer one"), "{ran:?}");
}

#[test]
fn a_client_that_speaks_first_is_told_by_some_and_not_by_others() {
    let user = User::new();
    let client = user.file("pooled.py", include_str!("drivers/pooled.py"));
    let profiles = ["nat-reset", "firewall-drop", "ipvs-sloppy"];
    let runs = FAMILIES.map(|family| {
        profiles.map(|profile| {
            let args = ["--profile", profile, "--idle-timeout", "3s", "--", PYTHON, &client];
            user.start(&format!("{profile}-{}", family.len()), &[family, &args].concat())
        })
    });
    for (family, [reset, dropped, healed]) in FAMILIES.iter().zip(runs) {
        let (reset, dropped, healed) = (reset.ran(), dropped.ran(), healed.ran());
        let saw = |what: &str| format!("HTTP/1.1 200 OK\n{what}\n");
        assert_eq!(reset.stdout, saw("ConnectionResetError"), "{family:?} {reset:?}");
        assert_eq!(reset.summary["resets"], 1, "{family:?} {reset:?}");
        assert_eq!(reset.summary["requests_lost"], 1, "{family:?} {reset:?}");
        assert_eq!(dropped.stdout, saw("TimeoutError"), "{family:?} {dropped:?}");
        assert_eq!(dropped.summary["resets"], 0, "{family:?} {dropped:?}");
        assert_eq!(dropped.summary["requests_lost"], 1, "{family:?} {dropped:?}");
        assert_eq!(healed.stdout, saw("HTTP/1.1 200 OK"), "{family:?} {healed:?}");
        assert_eq!(healed.summary["requests_lost"], 0, "{family:?} {healed:?}");
    }
}

/// Devices and addresses that were up were not yet in use: what was sent first was lost, and sent again after 1 s.
#[test]
fn a_first_connection_needs_no_second_syn() {
    let user = User::new();
    let client = user.file(
        "first.py",
        "import os, socket, struct\n\
         host, port = os.environ['STILLOPEN_SERVER'].rsplit(':', 1)\n\
         connection = socket.create_connection((host.strip('[]'), int(port)))\n\
         info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)\n\
         print('retransmitted', *struct.unpack_from('I', info, 100))  # tcpi_total_retrans\n",
    );
    let runs = (0..8).flat_map(|number| {
        FAMILIES.map(|family| {
            let name = format!("first-{number}-{}", family.len());
            user.start(&name, &[family, &["--", PYTHON, &client]].concat())
        })
    });
    for run in runs.collect::<Vec<_>>() {
        let ran = run.ran();
        assert_eq!((ran.status, ran.stdout.as_str()), (0, "retransmitted 0\n"), "{ran:?}");
    }
}
