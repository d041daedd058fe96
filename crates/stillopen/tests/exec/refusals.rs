//! What cannot run says why and what would help, with env's status, and leaves nothing.

use std::io::{BufRead as _, BufReader};

use rustix::process::{Pid, Signal, kill_process};

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
fn a_server_that_the_path_does_not_reach_is_told_soon_and_how_to_be_reached() {
    let user = User::new();
    let server = |family: &str, host: &str| {
        format!(
            "exec {PYTHON} -c \"import os, socket; server = socket.socket(socket.{family})\n\
             if socket.{family} == socket.AF_INET6: server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)\n\
             server.bind(('{host}', int(os.environ['PORT']))); server.listen(); server.accept()\""
        )
    };
    let v6_only = server("AF_INET6", "::");
    for (args, server, named) in [
        (&[][..], server("AF_INET", "127.0.0.1"), "127.0.0.1:8000 only"),
        (&["--ipv6"], server("AF_INET6", "::1"), "must listen on [::]:8000"),
        (&[], v6_only.clone(), "must listen on 0.0.0.0:8000, or the run be on IPv6 (--ipv6)"),
        (&["--ipv6"], server("AF_INET", "0.0.0.0"), "on IPv4 (without --ipv6)"),
    ] {
        let ran = user.run(&[args, &["--server", &server, "--", "true"]].concat());
        assert_eq!(ran.status, 125, "{ran:?}");
        assert!(ran.stderr.contains(named), "{named}: {ran:?}");
        assert!(ran.took_s < 20.0, "{ran:?}");
    }
    let ran = user.run(&["--ipv6", "--server", &v6_only, "--", "true"]);
    assert_eq!(ran.status, 0, "{ran:?}");
}

#[test]
fn who_waits_for_a_server_that_listens_on_another_port_is_told() {
    let user = User::new();
    let server = format!("exec {PYTHON} -m http.server 3000");
    let mut running = user.start("another", &["--server", &server, "--", "true"]);
    let mut lines = BufReader::new(running.child.stderr.as_mut().unwrap()).lines();
    let told =
        lines.find(|line| line.as_ref().unwrap().starts_with("stillopen: ")).unwrap().unwrap();
    assert!(
        told.ends_with("port 8000, which it finds in PORT; it listens on 0.0.0.0:3000"),
        "{told}"
    );
    kill_process(Pid::from_child(&running.child), Signal::TERM).unwrap();
    assert_eq!(running.ran().status, 143);
}

#[test]
fn limits_that_are_reached_are_named() {
    let user = User::new();
    let run = |limit: &str| {
        said(&user, &["sh", "-c", &format!("ulimit {limit} && exec ./stillopen lab exec -- true")])
    };
    let mut refused = 0;
    for files in 4..32 {
        let (status, stderr) = run(&format!("-n {files}"));
        // With fewer the program itself does not start.
        if status == Some(125) {
            refused += 1;
            assert!(stderr.contains("`ulimit -n`"), "{files}: {stderr}");
            assert!(!stderr.contains("CONFIG_PACKET"), "{files}: {stderr}");
        }
    }
    assert!(refused > 10, "{refused}");
    // RLIMIT_NPROC; not every sh has it.
    let few = user.file(
        "few.py",
        "import os, resource, sys\n\
         resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))\n\
         os.execv(sys.argv[1], sys.argv[1:])\n",
    );
    let (status, stderr) =
        said(&user, &[PYTHON, &few, &user.stillopen(), "lab", "exec", "--", "true"]);
    assert_eq!(status, Some(125), "{stderr}");
    assert!(stderr.contains("`ulimit -u`"), "{stderr}");
}

#[test]
fn without_proc_it_says_that_it_is_missing() {
    let user = User::new();
    let script = "mount -t tmpfs none /proc && exec ./stillopen lab exec -- true";
    let words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script];
    let (status, stderr) = said(&user, &words);
    assert_eq!(status, Some(125), "{stderr}");
    assert!(stderr.contains("is /proc mounted"), "{stderr}");
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
