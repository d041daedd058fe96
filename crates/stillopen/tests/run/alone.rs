//! Whom the supervisor leaves alone: a socket of its own would be the wrong one.

use crate::program::{AS_NOBODY, PYTHON, Ran, command, python, python_after};

/// A child in namespaces of its own: what it has, and what is reported of 2 sockets of its and 1 of its parent's.
fn unshared(before: &[&str], what: &str) -> (String, String) {
    let script = format!(
        "
libc = ctypes.CDLL(None, use_errno=True)
print(armed(socket.socket()), flush=True)
if os.fork() == 0:
    if libc.unshare({what}) != 0: sys.exit(os.strerror(ctypes.get_errno()))
    print(armed(socket.socket()), armed(socket.socket(socket.AF_INET6)), flush=True)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"
    );
    python_after(before, &["--report"], &script).reported()
}

const NEW_USER: &str = "0x10000000";
const NEW_USER_AND_NET: &str = "0x10000000 | 0x40000000";
const NEW_USER_AND_PID: &str = "0x10000000 | 0x20000000";
const NEW_NET: &str = "0x40000000";

#[test]
fn who_is_in_another_network_namespace() {
    // The sockets are of that namespace: its loopback is down, and nothing of this host can be reached.
    let (printed, report) = unshared(&[], NEW_NET);
    assert_eq!(printed, "60/30/3\nNone None");
    assert_eq!(report, "1 socket; 2 sockets left alone: 2 in another network namespace");
}

/// A new user namespace alone changes nothing that a socket has; with it anybody can have a network.
#[test]
fn who_has_namespaces_of_users_and_processes() {
    for what in [NEW_USER, NEW_USER_AND_PID] {
        let (printed, report) = unshared(&AS_NOBODY, what);
        assert_eq!(printed, "60/30/3\n60/30/3 60/30/3", "{what}");
        assert_eq!(report, "3 sockets", "{what}");
    }
    let (printed, report) = unshared(&AS_NOBODY, NEW_USER_AND_NET);
    assert_eq!(printed, "60/30/3\nNone None");
    assert_eq!(report, "1 socket; 2 sockets left alone: 2 in another network namespace");
}

/// The same for a program that was executed in such namespaces.
#[test]
fn a_container_of_the_user_is_left_alone_where_its_network_is_its_own() {
    let script = "import socket; s = socket.socket(); print(s.getsockopt(1, 9), end=' ')";
    for (net, armed, report) in [
        ("--net", "0 ", "0 sockets; 1 socket left alone: 1 in another network namespace"),
        ("--ipc", "1 ", "1 socket"),
    ] {
        let unshare = ["unshare", "--user", "--pid", "--fork", net, PYTHON, "-c", script];
        let (printed, reported) =
            Ran::of(&mut command(&AS_NOBODY, &["--report"], &unshare)).reported();
        assert_eq!((printed.as_str(), reported.as_str()), (armed.trim_end(), report), "{net}");
    }
}

#[test]
fn who_acts_as_another_user() {
    let script = "
if os.fork() == 0:
    os.setgid(65534); os.setuid(65534)
    print(armed(socket.socket()), flush=True)
    # One that executes something can be looked at.
    os.execv(sys.executable, [sys.executable, '-c', 'import socket; socket.socket()'])
os.wait()
libc = ctypes.CDLL(None)
libc.setfsuid(65534); print(armed(socket.socket()))
libc.setfsuid(0); print(armed(socket.socket()))
";
    let (printed, report) = python_after(&[], &["--report"], script).reported();
    assert_eq!(printed, "None\nNone\n60/30/3");
    assert_eq!(report, "1 socket; 3 sockets left alone: 3 of another user or group");
}

#[test]
fn who_may_not_be_looked_at() {
    let script = "
ctypes.CDLL(None).prctl(4, 0)
print(armed(socket.socket()))
";
    let (printed, report) = python(&["--report"], script).reported();
    assert_eq!(printed, "None");
    assert_eq!(report, "0 sockets; 1 socket left alone: 1 of a process that may not be looked at");
}

#[test]
fn who_is_in_another_cgroup() {
    let script = "
folder = next((f for f in ('/sys/fs/cgroup', '/sys/fs/cgroup/unified', '/sys/fs/cgroup/pids')
               if os.access(f + '/cgroup.procs', os.W_OK)), None)
if folder is None: sys.exit('no cgroup hierarchy is mounted that root can write to')
back = folder + open('/proc/self/cgroup').read().splitlines()[-1].split(':')[2]
other = f'{folder}/stillopen-run-{os.getpid()}'
os.mkdir(other)
if os.fork() == 0:
    print(armed(socket.socket()), end=' ')
    open(other + '/cgroup.procs', 'w').write(str(os.getpid()))
    print(armed(socket.socket()), flush=True)
    os._exit(0)
os.wait()
# With its supervisor it moves as one.
for pid in supervisor(), os.getpid(): open(other + '/cgroup.procs', 'w').write(str(pid))
print(armed(socket.socket()))
for pid in supervisor(), os.getpid(): open(folder + '/cgroup.procs', 'w').write(str(pid))
# Its supervisor alone: that is noticed 64 sockets later at the latest.
open(other + '/cgroup.procs', 'w').write(str(supervisor()))
print([armed(socket.socket()) for _ in range(65)][-1])
open(folder + '/cgroup.procs', 'w').write(str(supervisor()))
print(armed(socket.socket()))
os.rmdir(other)
";
    let (printed, report) = python_after(&[], &["--report"], script).reported();
    assert_eq!(printed, "60/30/3 None\n60/30/3\nNone\n60/30/3");
    assert!(report.contains("left alone") && report.ends_with(" in another cgroup"), "{report}");
}
