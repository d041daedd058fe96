//! Too few files, a reader that does not read: the run goes on, and says what it left out.

use std::io::Read as _;

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    programs::SERVER,
    user::{PYTHON, Ran, User, now},
};

/// Runs a client that asks on so many connections at once, from three processes, where no process may open more
/// than 64 files; `kind` of limit is `-S`, the soft one, or none, both.
fn ask_at_once(user: &User, connections: usize, kind: &str) -> Ran {
    let client = user.file(
        "client.py",
        "import os, socket, sys\n\
         host, port = os.environ['STILLOPEN_SERVER'].split(':')\n\
         for _ in range(2):\n\
        \x20    if os.fork() == 0: break\n\
         asked = [socket.create_connection((host, port)) for _ in range(int(sys.argv[1]) // 3)]\n\
         for one in asked: one.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')\n\
         assert all(one.recv(12) == b'HTTP/1.1 200' for one in asked)\n\
         try:\n\
        \x20    while True: assert os.wait()[1] == 0\n\
         except ChildProcessError: pass\n",
    );
    let summary = user.path("few.json");
    let words = [&user.stillopen(), "lab", "exec", "--summary", summary.to_str().unwrap()]
        .map(str::to_owned)
        .join(" ");
    let script = format!(
        "ulimit {kind} -n 64; exec {words} --answer-after 500ms -- {PYTHON} {client} {connections}"
    );
    let began = now();
    let output = user.command(&["sh", "-c", &script]).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran {
        status: output.status.code().unwrap(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
        took_s: (now() - began).as_secs_f64(),
        summary: serde_json::from_str(&std::fs::read_to_string(summary).unwrap()).unwrap(),
    }
}

#[test]
fn the_builtin_server_takes_a_file_for_a_connection_and_as_many_as_it_may() {
    let user = User::new();
    for (connections, kind) in [(39, ""), (120, "-S")] {
        let ran = ask_at_once(&user, connections, kind);
        assert_eq!(ran.status, 0, "{ran:?}");
        assert_eq!(ran.summary["connections"], connections, "{ran:?}");
        assert_eq!(ran.summary["notes"].as_array().unwrap().len(), 0, "{ran:?}");
    }
}

#[test]
fn connections_for_which_there_are_no_files_wait_and_are_served() {
    let ran = ask_at_once(&User::new(), 120, "");
    assert_eq!((ran.status, &ran.summary["connections"]), (0, &120.into()), "{ran:?}");
    let said: Vec<_> = ran.stderr.lines().filter(|line| line.contains("had to wait")).collect();
    assert_eq!(said.len(), 1, "once: {ran:?}");
    assert!(said[0].contains("Too many open files") && said[0].contains("ulimit -Hn"), "{ran:?}");
}

#[test]
fn a_server_that_floods_what_nobody_reads_holds_up_nothing() {
    let user = User::new();
    let server = format!("yes no end >&2 & exec {PYTHON} -c \"{SERVER}\"");
    let client = "curl -s -o /dev/null http://$STILLOPEN_SERVER/; trap 'exit 8' TERM; echo ready; \
                  while :; do sleep 0.1; done";
    let mut running = user.start("flood", &["--server", &server, "--", "sh", "-c", client]);
    // Standard error is a pipe that nobody reads.
    running.child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    kill_process(Pid::from_child(&running.child), Signal::TERM).unwrap();
    let deadline = now() + std::time::Duration::from_secs(20);
    while !user.path("flood.json").exists() {
        assert!(now() < deadline, "it does not end");
        std::thread::yield_now();
    }
    let ran = running.ran();
    assert_eq!(ran.status, 8);
    let note = ran.summary["notes"][0].as_str().unwrap();
    assert!(note.contains("bytes of what the server said are left out"), "{note}");
}

/// What came in time keeps its connection, also where the forwarder comes to it after the entry's time.
#[test]
fn a_path_that_had_to_wait_for_the_processor_forgets_nothing_that_was_in_use() {
    let user = User::new();
    let client = user.file(
        "client.py",
        "import os, socket, time\n\
         host, port = os.environ['STILLOPEN_SERVER'].split(':')\n\
         s = socket.create_connection((host, port))\n\
         s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n\
         s.sendall(b'POST / HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 16\\r\\n\\r\\n')\n\
         os.write(1, b'ready\\n')\n\
         for _ in range(16):\n\
        \x20    time.sleep(0.3)\n\
        \x20    s.sendall(b'x')\n\
         os.write(1, b'sent.\\n')\n\
         assert s.recv(12) == b'HTTP/1.1 200'\n",
    );
    let args = ["--idle-timeout", "3s", "--answer-after", "1ms", "--", PYTHON, &client];
    let mut running = user.start("late", &args);
    let mut line = [0; 6];
    running.child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    let forwarder = Pid::from_child(&running.child);
    kill_process(forwarder, Signal::STOP).unwrap();
    running.child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    kill_process(forwarder, Signal::CONT).unwrap();
    let ran = running.ran();
    assert_eq!(ran.status, 0, "{ran:?}");
    assert_eq!(ran.summary["forgotten"].as_array().map(Vec::len), Some(0), "{ran:?}");
}
