//! The two programs: what they are given, how they end, and that nothing of them is left.

use std::{fs, io::Read as _, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process};

use crate::user::{PYTHON, User, now};

/// A server of the caller's own.
const SERVER: &str = "import http.server, os; http.server.HTTPServer(('', int(os.environ['PORT'])), \
                      http.server.SimpleHTTPRequestHandler).serve_forever()";

/// Processes of this machine whose command line has this word.
fn processes_with(word: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let text = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(text.split(|byte| *byte == 0).any(|part| part == word.as_bytes()))
    });
    processes.filter(|has| *has).count()
}

/// Waits until there is none.
#[track_caller]
fn until_none_with(word: &str) {
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
         print('seen', len(seen), flush=True)\n",
    );
    let terminal = user.file(
        "terminal.py",
        "import os, pty, sys\n\
         pid, terminal = pty.fork()\n\
         if pid == 0: os.execv(sys.argv[1], sys.argv[1:])\n\
         text = b''\n\
         while b'ready' not in text: text += os.read(terminal, 1000)\n\
         os.write(terminal, b'\\x03')\n\
         try:\n\
        \x20    while more := os.read(terminal, 1000): text += more\n\
         except OSError: pass\n\
         print(text.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n",
    );
    let server = format!("exec {PYTHON} -c \"{SERVER}\"");
    let stillopen = user.stillopen();
    let words =
        [PYTHON, &terminal, &stillopen, "lab", "exec", "--server", &server, "--", PYTHON, &client];
    let output = user.command(&words).stderr(Stdio::inherit()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("seen 1") && text.trim_end().ends_with(" 0"), "{text}");
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

/// Blocks of a pcapng file: their types, and interface and packet of those that hold one.
fn packets(file: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let word = |at: usize| u32::from_ne_bytes(*file[at..].first_chunk().unwrap());
    let (mut found, mut at) = (Vec::new(), 0);
    while at < file.len() {
        let length = word(at + 4) as usize;
        assert_eq!(word(at + length - 4), word(at + 4), "a block ends with its length");
        if word(at) == 6 {
            let captured = word(at + 20) as usize;
            found.push((word(at + 8), file[at + 28..at + 28 + captured].to_vec()));
        }
        at += length;
    }
    found
}

#[test]
fn what_crossed_is_recorded_on_both_sides_and_whole_after_a_kill() {
    let user = User::new();
    let file = user.path("path.pcapng");
    let record = ["--record", file.to_str().unwrap(), "--"];
    let client = "curl -s http://$STILLOPEN_SERVER/";
    let ran = user.run(&[&record[..], &["sh", "-c", client]].concat());
    assert_eq!(ran.status, 0, "{ran:?}");
    let crossed = packets(&fs::read(&file).unwrap());
    let of = |interface| crossed.iter().filter(move |(on, _)| *on == interface).map(|(_, p)| p);
    assert_eq!(of(0).count(), of(1).count(), "nothing was dropped");
    // The SYN, to the virtual address and then to the backend.
    assert_eq!(of(0).next().unwrap()[16..20], [10, 96, 14, 3]);
    assert_eq!(of(1).next().unwrap()[16..20], [10, 0, 2, 2]);
    assert!(crossed.iter().any(|(_, packet)| packet.ends_with(b"}")), "the answer is in it");

    let mut running = user.start(
        "killed",
        &[&record[..], &["sh", "-c", &format!("{client}; echo; sleep 60")]].concat(),
    );
    let mut text = [0; 1];
    while text != *b"}" {
        running.child.stdout.as_mut().unwrap().read_exact(&mut text).unwrap();
    }
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    assert!(!packets(&fs::read(&file).unwrap()).is_empty());
    let ran = user.run(&["--record", "/nonexistent/path.pcapng", "--", "true"]);
    assert_eq!(ran.status, 125, "{ran:?}");
    assert!(ran.stderr.contains("/nonexistent/path.pcapng"), "{ran:?}");
}
