//! `--record` and `--summary`: what is in the files, and what becomes of a run whose files fail.

use std::{
    fs::{self, OpenOptions},
    io::Read as _,
    time::Duration,
};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::user::{PYTHON, User, now};

/// A packet of a pcapng file.
struct Crossed {
    interface: u32,
    /// Nanoseconds since 1970.
    at: u64,
    bytes: Vec<u8>,
}

fn packets(file: &[u8]) -> Vec<Crossed> {
    let word = |at: usize| u32::from_ne_bytes(*file[at..].first_chunk().unwrap());
    let (mut found, mut at) = (Vec::new(), 0);
    while at < file.len() {
        let length = word(at + 4) as usize;
        assert_eq!(word(at + length - 4), word(at + 4), "a block ends with its length");
        if word(at) == 6 {
            let captured = word(at + 20) as usize;
            found.push(Crossed {
                interface: word(at + 8),
                at: u64::from(word(at + 12)) << 32 | u64::from(word(at + 16)),
                bytes: file[at + 28..at + 28 + captured].to_vec(),
            });
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
    let of = |interface| {
        crossed.iter().filter(move |one| one.interface == interface).map(|one| &one.bytes)
    };
    assert_eq!(of(0).count(), of(1).count(), "nothing was dropped");
    // The SYN, to the virtual address and then to the backend.
    assert_eq!(of(0).next().unwrap()[16..20], [10, 96, 14, 3]);
    assert_eq!(of(1).next().unwrap()[16..20], [10, 0, 2, 2]);
    assert!(crossed.iter().any(|one| one.bytes.ends_with(b"}")), "the answer is in it");

    let mut running = user.start(
        "killed",
        &[&record[..], &["sh", "-c", &format!("{client}; echo; sleep 60")]].concat(),
    );
    let mut text = [0; 1];
    while text != *b"}" {
        running.child.stdout.as_mut().unwrap().read_exact(&mut text).unwrap();
    }
    let deadline = now() + Duration::from_secs(10);
    while packets(&fs::read(&file).unwrap()).len() < crossed.len() {
        assert!(now() < deadline, "it is written while the client runs");
        std::thread::yield_now();
    }
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    assert!(!packets(&fs::read(&file).unwrap()).is_empty());
    let ran = user.run(&["--record", "/nonexistent/path.pcapng", "--", "true"]);
    assert_eq!(ran.status, 125, "{ran:?}");
    assert!(ran.stderr.contains("/nonexistent/path.pcapng"), "{ran:?}");
}

#[test]
fn with_a_delay_a_record_is_in_the_order_of_time_and_shows_each_way_take_so_long() {
    let user = User::new();
    let file = user.path("path.pcapng");
    let client = "curl -s http://$STILLOPEN_SERVER/ & curl -s http://$STILLOPEN_SERVER/; wait";
    let record = ["--record", file.to_str().unwrap(), "--delay", "100ms", "--", "sh", "-c", client];
    let ran = user.run(&record);
    assert_eq!(ran.status, 0, "{ran:?}");
    let crossed = packets(&fs::read(&file).unwrap());
    assert!(crossed.is_sorted_by_key(|one| one.at), "{ran:?}");
    let first = |interface| crossed.iter().find(|one| one.interface == interface).unwrap().at;
    assert!(first(1) - first(0) >= 100_000_000, "{} {}", first(0), first(1));
}

#[test]
fn a_record_that_fails_late_leaves_status_and_summary_as_they_are() {
    let user = User::new();
    let client = "curl -s http://$STILLOPEN_SERVER/; exit 6";
    let ran = user.run(&["--record", "/dev/full", "--", "sh", "-c", client]);
    assert_eq!((ran.status, &ran.summary["connections"]), (6, &1.into()), "{ran:?}");
    let note = "/dev/full is not whole: No space left on device";
    assert!(ran.stderr.contains(note), "{ran:?}");
    assert!(ran.summary["notes"][0].as_str().unwrap().starts_with(note), "{ran:?}");
    // The summary's own: the sentence is said all the same.
    let ran = user.exec(&["--summary", "/dev/full", "--", "sh", "-c", client]).output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(6), "{said}");
    assert!(said.contains("forgot nothing of 1 connection\n"), "{said}");
    assert!(said.contains("write /dev/full: No space left on device"), "{said}");
}

#[test]
fn a_fifo_that_nobody_reads_holds_up_neither_the_path_nor_the_end() {
    let user = User::new();
    let fifo = user.path("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    rustix::fs::chmod(&fifo, Mode::from_raw_mode(0o666)).unwrap();
    // Somebody has it open, and does not read.
    let _stalled = OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    user.file("page", &"x".repeat(1 << 20));
    let server = "exec /usr/bin/python3 -m http.server $PORT";
    let client = "curl -s http://$STILLOPEN_SERVER/page | wc -c";
    let fifo = fifo.to_str().unwrap();
    let ran = user.run(&["--record", fifo, "--server", server, "--", "sh", "-c", client]);
    assert_eq!((ran.status, ran.stdout.trim()), (0, "1048576"), "{ran:?}");
    assert!(ran.stderr.contains("packets are left out"), "{ran:?}");
}

#[test]
fn where_nothing_ran_there_is_no_summary() {
    let user = User::new();
    for before in [None, Some("of an earlier run")] {
        if let Some(text) = before {
            user.file("summary.json", text);
        }
        let ran = user.run(&["--", "/nonexistent/client"]);
        assert_eq!(ran.status, 127, "{ran:?}");
        assert!(!user.path("summary.json").exists(), "{before:?}");
    }
}

/// The folded sum of 16-bit words (RFC 1071).
fn sum(bytes: &[u8]) -> u32 {
    let words = bytes
        .chunks(2)
        .map(|two| u32::from(two[0]) << 8 | u32::from(two.get(1).copied().unwrap_or_default()));
    let sum: u32 = words.sum();
    (sum & 0xffff) + (sum >> 16)
}

#[test]
fn the_checksums_of_tcp_and_of_udp_are_right_in_a_record() {
    let user = User::new();
    let file = user.path("path.pcapng");
    let client = "import os, socket\n\
                  host, port = os.environ['STILLOPEN_SERVER'].split(':')\n\
                  socket.socket(type=socket.SOCK_DGRAM).sendto(b'odd', (host, int(port)))\n\
                  socket.create_connection((host, port)).close()\n";
    let ran = user.run(&["--record", file.to_str().unwrap(), "--", PYTHON, "-c", client]);
    assert_eq!(ran.status, 0, "{ran:?}");
    let crossed = packets(&fs::read(&file).unwrap());
    for protocol in [6_u8, 17] {
        let of = crossed.iter().filter(|one| one.bytes[9] == protocol);
        let mut sums = of.map(|one| {
            let body = &one.bytes[20..];
            let length = u32::try_from(body.len()).unwrap();
            sum(&one.bytes[12..20]) + u32::from(protocol) + length + sum(body)
        });
        assert!(sums.clone().count() > 0, "{protocol}");
        assert!(sums.all(|sum| (sum & 0xffff) + (sum >> 16) == 0xffff), "{protocol}");
    }
}

#[test]
fn a_file_behind_a_descriptor_keeps_what_it_holds_and_the_summary_comes_after_it() {
    let user = User::new();
    let log = user.path("log");
    let script = "exec 3>&1 \"$0\" lab exec \"$@\"";
    let link = user.path("link");
    std::os::unix::fs::symlink("/dev/stdout", &link).unwrap();
    for name in
        ["/dev/stdout", "/dev/stderr", "/dev/fd/3", "/proc/self/fd/3", link.to_str().unwrap()]
    {
        fs::write(&log, "old\n").unwrap();
        // Root's own file: the user could not open it, but was given it.
        let open = || OpenOptions::new().append(true).open(&log).unwrap();
        let args = ["sh", "-c", script, &user.stillopen(), "--summary", name, "--", "echo", "hi"];
        let ran = user.command(&args).stdout(open()).stderr(open()).status().unwrap();
        let text = fs::read_to_string(&log).unwrap();
        assert_eq!(ran.code(), Some(0), "{name}: {text}");
        assert!(text.starts_with("old\nhi\n{\"schema\":"), "{name}: {text}");
        assert!(text.contains("\nstillopen: "), "{name}: {text}");
    }
    let args = ["--record", "/dev/stdout", "--", "true"];
    fs::write(&log, "old\n").unwrap();
    let append = OpenOptions::new().append(true).open(&log).unwrap();
    assert!(user.exec(&args).stdout(append).status().unwrap().success());
    assert!(fs::read(&log).unwrap().starts_with(b"old\n\x0a\x0d\x0d\x0a"), "a section's header");
    // For reading alone: said before anything runs.
    let ran = user.exec(&["--summary", "/dev/stdin", "--", "echo", "hi"]).output().unwrap();
    assert_eq!((ran.status.code(), &ran.stdout[..]), (Some(125), &b""[..]), "{ran:?}");
}
