//! The two programs: what they are given, how they end, and that nothing of them is left.

use std::{fs, io::Read as _, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process};

use crate::user::{PYTHON, User, now};

/// A server of the caller's own.
pub(crate) const SERVER: &str = "import http.server, os; http.server.HTTPServer(('', int(os.environ['PORT'])), \
                      http.server.SimpleHTTPRequestHandler).serve_forever()";

/// Processes of this machine whose command line has this word.
pub(crate) fn processes_with(word: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let text = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(text.split(|byte| *byte == 0).any(|part| part == word.as_bytes()))
    });
    processes.filter(|has| *has).count()
}

/// Waits until there is none.
#[track_caller]
pub(crate) fn until_none_with(word: &str) {
    let deadline = now() + Duration::from_secs(10);
    while processes_with(word) > 0 {
        assert!(now() < deadline, "{word} is still there");
        std::thread::yield_now();
    }
}

/// A `sleep` that nobody else has, longer than any test.
fn sleep_word() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}.{}", 100_000 + std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

#[test]
fn a_client_reaches_a_server_of_the_callers_own_and_its_loopback() {
    let user = User::new();
    user.file("page", "hello");
    let server = format!("exec {PYTHON} -c \"{SERVER}\"");
    let client = "curl -s http://$STILLOPEN_SERVER/page; getent hosts localhost >&2; id -u";
    // The host's own port is another namespace's.
    let _taken = std::net::TcpListener::bind("0.0.0.0:8000");
    let ran = user.run(&["--server", &server, "--", "sh", "-c", client]);
    let uid = rustix::process::geteuid();
    let uid = if uid.is_root() { 65_534 } else { uid.as_raw() };
    assert_eq!((ran.status, ran.stdout.as_str()), (0, &*format!("hello{uid}\n")), "{ran:?}");
    assert!(ran.stderr.contains("localhost"), "{ran:?}");
    assert_eq!(ran.summary["connections"], 1);
}

#[test]
fn status_and_streams_are_the_clients() {
    let user = User::new();
    for (client, status) in [
        (&["sh", "-c", "echo out; echo err >&2; exit 3"][..], 3),
        (&["sh", "-c", "kill -TERM $$"], 143),
        (&["/nonexistent/client"], 127),
        (&["/etc/passwd"], 126),
    ] {
        let ran = user.run(&[&["--"], client].concat());
        assert_eq!(ran.status, status, "{client:?} {ran:?}");
        if status == 3 {
            assert_eq!(ran.stdout, "out\n");
            assert!(ran.stderr.starts_with("err\n"), "{ran:?}");
        } else if status < 128 {
            assert!(ran.stderr.contains(client[0]), "{ran:?}");
        }
    }
}

#[test]
fn what_a_client_leaves_behind_ends_with_it() {
    let user = User::new();
    let word = sleep_word();
    let client = format!("sleep {word} & setsid sleep {word} & exit 5");
    let ran = user.run(&["--", "sh", "-c", &client]);
    assert_eq!(ran.status, 5, "{ran:?}");
    assert_eq!(processes_with(&word), 0);
}

#[test]
fn a_signal_to_the_program_is_the_clients() {
    let user = User::new();
    for (signal, status) in [(Signal::INT, 7), (Signal::TERM, 8), (Signal::HUP, 129)] {
        let word = sleep_word();
        let client =
            format!("trap 'exit 7' INT; trap 'exit 8' TERM; echo ready; sleep {word} & wait");
        let mut running = user.start("signal", &["--", "sh", "-c", &client]);
        let mut ready = [0; 6];
        running.child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        kill_process(Pid::from_child(&running.child), signal).unwrap();
        let ran = running.ran();
        assert_eq!(ran.status, status, "{signal:?} {ran:?}");
        assert_eq!(processes_with(&word), 0);
    }
}

/// Runs `lab exec` in a terminal, as the first process of its session (as under ssh -t or docker run -t), until it
/// has said "ready"; does `then` with the terminal, in Python. All that it said, and its status.
fn in_a_terminal(user: &User, then: &str, args: &[&str]) -> String {
    let terminal = user.file(
        "terminal.py",
        &format!(
            "import os, pty, signal, sys\n\
             pid, terminal = pty.fork()\n\
             if pid == 0: os.execv(sys.argv[1], sys.argv[1:])\n\
             signal.signal(signal.SIGALRM, lambda *_: os.kill(pid, signal.SIGKILL))\n\
             signal.alarm(30)\n\
             text = b''\n\
             while b'ready' not in text: text += os.read(terminal, 1000)\n\
             {then}\n\
             try:\n\
            \x20    while more := os.read(terminal, 1000): text += more\n\
             except OSError: pass\n\
             print(text.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
        ),
    );
    let stillopen = user.stillopen();
    let words = [&[PYTHON, &terminal, &stillopen, "lab", "exec"], args].concat();
    let output = user.command(&words).stderr(Stdio::inherit()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn ctrl_c_reaches_the_client_once_and_not_the_server() {
    let user = User::new();
    let client = user.file(
        "client.py",
        "import os, select, signal, urllib.request\n\
         seen = []\n\
         signal.signal(signal.SIGINT, lambda *_: seen.append(1))\n\
         print('ready', flush=True)\n\
         while not seen: select.select([], [], [], 0.05)\n\
         select.select([], [], [], 0.5)\n\
         urllib.request.urlopen('http://' + os.environ['STILLOPEN_SERVER'] + '/')\n\
         os.write(1, b'seen %d\\n' % len(seen))\n",
    );
    let server = format!("exec {PYTHON} -c \"{SERVER}\"");
    let then = "os.write(terminal, b'\\x03')";
    let text = in_a_terminal(&user, then, &["--server", &server, "--", PYTHON, &client]);
    assert!(text.contains("seen 1") && text.trim_end().ends_with(" 0"), "{text}");
}

#[test]
fn a_terminal_that_hangs_up_tells_the_client() {
    let user = User::new();
    let client = "trap 'echo hung up > told; exit 9' HUP; echo ready; while :; do sleep 0.1; done";
    let text = in_a_terminal(&user, "os.close(terminal)", &["--", "sh", "-c", client]);
    assert!(text.trim_end().ends_with(" 9"), "{text}");
    assert_eq!(fs::read_to_string(user.path("told")).unwrap(), "hung up\n");
}

#[test]
fn nothing_is_left_when_the_program_is_killed() {
    let user = User::new();
    let word = sleep_word();
    // The word is the shell's own too, from its start.
    let client = ["--", "sh", "-c", "sleep $0 & echo ready; wait", &word];
    let mut running = user.start("killed", &client);
    running.child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    assert!(processes_with(&word) > 0);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    until_none_with(&word);
}

#[test]
fn delay_and_loss_are_the_paths_and_repeat_for_a_seed() {
    let user = User::new();
    let client = "curl -s -w '%{time_connect}' -o /dev/null http://$STILLOPEN_SERVER/";
    let ran = user.run(&["--delay", "200ms", "--", "sh", "-c", client]);
    let connect_s: f64 = ran.stdout.parse().unwrap();
    assert!(connect_s >= 0.4, "there and back: {ran:?}");
    // Some are lost with this seed, and TCP sends them again.
    let ran = user.run(&["--loss", "30%", "--seed", "7", "--", "sh", "-c", client]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.summary["packets"]["lost"].as_u64().unwrap() > 0, "{ran:?}");
}

#[test]
fn a_source_port_that_is_used_again_is_another_connection() {
    let user = User::new();
    let client = user.file(
        "client.py",
        "import os, socket\n\
         host, port = os.environ['STILLOPEN_SERVER'].split(':')\n\
         for _ in range(3):\n\
        \x20    one = socket.socket()\n\
        \x20    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\\1\\0\\0\\0\\0\\0\\0\\0')\n\
        \x20    one.bind(('', 20000))\n\
        \x20    one.connect((host, int(port)))\n\
        \x20    one.close()\n",
    );
    let ran = user.run(&["--", PYTHON, &client]);
    assert_eq!((ran.status, &ran.summary["connections"]), (0, &3.into()), "{ran:?}");
}

#[test]
fn a_client_that_is_given_the_variables_name_is_told_of_the_shell() {
    let user = User::new();
    let ran = user.run(&["--", "curl", "-s", "http://$STILLOPEN_SERVER/"]);
    assert_ne!(ran.status, 0, "{ran:?}");
    assert!(ran.stderr.contains("sh -c '…' puts the address in its place"), "{ran:?}");
    let ran = user.run(&["--", "sh", "-c", "curl -s http://$STILLOPEN_SERVER/"]);
    assert_eq!((ran.status, ran.summary["notes"].as_array().unwrap().len()), (0, 0), "{ran:?}");
}
