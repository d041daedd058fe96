//! What cannot run says why and what would help, with env's status, and leaves nothing.

use crate::user::{PYTHON, User};

fn said(user: &User, words: &[&str]) -> (Option<i32>, String) {
    let output = user.command(words).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn where_user_namespaces_are_forbidden_the_sysctl_is_named() {
    let user = User::new();
    // A user namespace has limits of its own.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec ./stillopen lab exec -- true";
    let (status, stderr) =
        said(&user, &["unshare", "--user", "--map-root-user", "sh", "-c", script]);
    assert_eq!(status, Some(125), "{stderr}");
    assert!(stderr.contains("user.max_user_namespaces is 0"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    // The same for the networks in it.
    let script = script.replace("max_user", "max_net");
    let (status, stderr) =
        said(&user, &["unshare", "--user", "--map-root-user", "sh", "-c", &script]);
    assert_eq!(status, Some(125), "{stderr}");
    assert!(stderr.contains("user.max_net_namespaces is 0"), "{stderr}");
}

#[test]
fn without_packet_sockets_it_says_what_the_path_needs() {
    let user = User::new();
    // A seccomp filter as a container's: socket(AF_PACKET) is EAFNOSUPPORT.
    let without = user.file(
        "without.py",
        "import ctypes, os, platform, struct, sys\n\
         socket = {'x86_64': 41, 'aarch64': 198}[platform.machine()]\n\
         rules = [(0x20, 0, 0, 0), (0x15, 0, 3, socket), (0x20, 0, 0, 16), (0x15, 0, 1, 17),\n\
        \x20         (6, 0, 0, 0x50000 | 97), (6, 0, 0, 0x7fff0000)]\n\
         filter = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *rule) for rule in rules))\n\
         program = struct.pack('HxxxxxxP', len(rules), ctypes.addressof(filter))\n\
         call = ctypes.CDLL(None, use_errno=True).prctl\n\
         assert call(38, 1, 0, 0, 0) == 0 and call(22, 2, program, 0, 0) == 0\n\
         os.execv(sys.argv[1], sys.argv[1:])\n",
    );
    let (status, stderr) =
        said(&user, &[PYTHON, &without, &user.stillopen(), "lab", "exec", "--", "true"]);
    assert_eq!(status, Some(125), "{stderr}");
    assert!(stderr.contains("AF_PACKET") && stderr.contains("CONFIG_PACKET"), "{stderr}");
}

#[test]
fn a_server_that_ends_is_named_with_its_status_and_its_last_words() {
    let user = User::new();
    let twice = format!(
        "exec {PYTHON} -c \"import os, socket; at = ('', int(os.environ['PORT'])); \
         socket.socket().bind(at), [one := socket.socket(), one.bind(at), two := socket.socket(), two.bind(at)]\""
    );
    for (server, named) in [
        ("echo no luck today >&2; exit 3", &["exit status 3", "no luck today"][..]),
        ("kill -KILL $$", &["signal 9"]),
        (&twice, &["exit status 1", "Address already in use"]),
    ] {
        let ran = user.run(&["--server", server, "--", "true"]);
        assert_eq!(ran.status, 125, "{ran:?}");
        for word in named {
            assert!(ran.stderr.contains(word), "{word}: {ran:?}");
        }
    }
    // It ends while the client runs: the client's status is what counts.
    let once = format!(
        "exec {PYTHON} -c \"import os, socket, sys; server = socket.create_server(('', int(os.environ['PORT'])))\n\
         open('pid', 'w').write(str(os.getpid())); server.accept(); sys.exit('enough')\""
    );
    let client = "curl -s http://$STILLOPEN_SERVER/; while kill -0 $(cat pid) 2>/dev/null; do :; done; exit 4";
    let ran = user.run(&["--server", &once, "--", "sh", "-c", client]);
    assert_eq!(ran.status, 4, "{ran:?}");
    assert!(ran.stderr.contains("the server ended before the client: exit status 1"), "{ran:?}");
    assert_eq!(ran.summary["server_ended"]["said"][0], "enough", "{ran:?}");
}

#[test]
fn wrong_arguments_are_status_2() {
    let user = User::new();
    for (args, named) in [
        (&["--profile", "router", "--", "true"][..], "router"),
        (&["--loss", "2", "--", "true"], "1%"),
        (&["--include", "/etc", "--", "true"], "--driver vm"),
        (&["--driver", "vm", "--delay", "1s", "--", "true"], "--driver netns"),
        (&["--answer-after", "1s", "--server", "x", "--", "true"], "--server"),
        (&["--record", "./summary.json", "--", "true"], "--summary and --record are both"),
        (&[], "CMD"),
    ] {
        let ran = user.run(args);
        assert_eq!(ran.status, 2, "{args:?} {ran:?}");
        assert!(ran.stderr.contains(named), "{args:?} {ran:?}");
    }
    let ran = user.exec(&["--summary", "/nonexistent/x.json", "--", "true"]).output().unwrap();
    assert_eq!(ran.status.code(), Some(125));
}
