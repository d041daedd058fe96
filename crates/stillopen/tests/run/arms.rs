//! What gets keepalive.

use std::{
    net::{TcpListener, TcpStream},
    os::fd::OwnedFd,
    process::Stdio,
};

use rustix::net::sockopt::{socket_keepalive, tcp_keepcnt, tcp_keepidle, tcp_keepintvl};

use crate::program::{AS_NOBODY, LATER, Ran, command, file, python};

#[test]
fn sockets_of_both_families_and_what_a_listener_accepts() {
    let script = "
for address in '127.0.0.1', '::1':
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind((address, 0)); listener.listen()
    client = socket.create_connection(listener.getsockname()[:2])
    print(armed(listener), armed(client), armed(listener.accept()[0]))
";
    let (printed, report) = python(&["--report"], script).reported();
    assert_eq!(printed, ["60/30/3 60/30/3 60/30/3"; 2].join("\n"));
    assert_eq!(report, "4 sockets");
}

#[test]
fn multipath_tcp() {
    let script = "
try:
    print(armed(socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)))
except OSError as error:
    print(error.errno)
";
    let (printed, report) = python(&["--report"], script).reported();
    if printed == "60/30/3" {
        assert_eq!(report, "1 socket");
    } else {
        // A kernel without it, or without keepalive on it.
        assert!(report.contains("1 socket left alone: 1 refused by the kernel"), "{report}");
    }
}

#[test]
fn what_the_program_sets_itself_wins() {
    let script = "
s = socket.socket()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77); print(armed(s))
s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0); print(armed(s))
";
    assert_eq!(python(&[], script).printed(), "77/30/3\nNone");
}

#[test]
fn flags_of_the_type_are_the_sockets() {
    let script = "
import fcntl
libc = ctypes.CDLL(None)
for flags in 0, socket.SOCK_CLOEXEC, socket.SOCK_NONBLOCK, socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK:
    fd = libc.socket(socket.AF_INET, socket.SOCK_STREAM | flags, 6)
    on_exec = fcntl.fcntl(fd, fcntl.F_GETFD) == fcntl.FD_CLOEXEC
    blocks = not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK
    print(fd, int(on_exec), int(blocks), end=' ')
    os.close(fd)
";
    // The lowest number that is free, as ever.
    assert_eq!(python(&[], script).printed(), "3 0 1 3 1 1 3 0 0 3 1 0");
}

#[test]
fn other_sockets_are_none_of_its_business() {
    let script = "
for kind in (socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_UNIX, socket.SOCK_STREAM), \\
        (socket.AF_NETLINK, socket.SOCK_RAW):
    socket.socket(*kind)
for wrong in (socket.AF_INET, socket.SOCK_STREAM, 17), (socket.AF_INET, 99, 0):
    try: socket.socket(*wrong)
    except OSError as error: print(error.errno, end=' ')
";
    let (printed, report) = python(&["--report"], script).reported();
    assert_eq!((printed.as_str(), report.as_str()), ("93 22", "0 sockets"));
}

#[test]
fn a_static_program() {
    let before = [&["unshare", "--net"], &AS_NOBODY[..]].concat();
    let (printed, report) =
        Ran::of(&mut command(&before, &["--report"], &[&file("rebind")])).reported();
    // Also: no address is in use after the program's own close.
    assert_eq!((printed.as_str(), report.as_str()), ("0 0", "20000 sockets"));
}

#[test]
fn connections_and_listeners_that_it_inherits() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (kept, kept_listener) = (client.try_clone().unwrap(), listener.try_clone().unwrap());
    let mut run = command(&AS_NOBODY, &["--keepalive", "61/31/4", "--report"], &["true"]);
    run.stdin(OwnedFd::from(client)).stdout(OwnedFd::from(listener)).stderr(Stdio::piped());
    let output = run.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected =
        "stillopen: gave keepalive 61/31/4 to 0 sockets when made, and to 2 that it inherited";
    assert_eq!(said, format!("{expected}{LATER}\n"));
    assert!(socket_keepalive(&kept_listener).unwrap());
    let seconds = [tcp_keepidle(&kept).unwrap(), tcp_keepintvl(&kept).unwrap()];
    assert_eq!(seconds.map(|time| time.as_secs()), [61, 31]);
    assert_eq!(tcp_keepcnt(&kept).unwrap(), 4);
}

#[test]
fn values_for_the_tightest_limit() {
    let script = "print(armed(socket.socket()))";
    let options = ["--limit", "900s", "--limit", "100s"];
    assert_eq!(python(&options, script).printed(), "40/20/3");
}
