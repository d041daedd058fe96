//! What a program does not notice: it is started as if nothing were between.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    os::unix::process::ExitStatusExt as _,
    process::Stdio,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::{
    deadline::wait_until,
    program::{AS_NOBODY, PYTHON, Ran, SUPERVISOR, command, python, python_after, without},
};

const SOON: Duration = Duration::from_secs(120);

/// Until the supervisor, which is nobody's child any more, has been waited for.
#[track_caller]
fn ends(pid: i32) {
    let pid = Pid::from_raw(pid).expect("a process has a number");
    wait_until("the supervisor ends", SOON, || test_kill_process(pid).is_err().then_some(()));
}

#[test]
fn the_exit_status_and_the_signal_are_its_own() {
    let run = |script: &str| {
        let mut run = command(&AS_NOBODY, &[], &["sh", "-c", script]);
        // Without the `timeout` before it, which has a status of its own.
        let words: Vec<_> = run.get_args().map(std::ffi::OsStr::to_owned).collect();
        let at = words.iter().position(|word| word.to_string_lossy().ends_with("/stillopen"));
        run = std::process::Command::new(&words[at.unwrap()]);
        run.args(&words[at.unwrap() + 1..]).current_dir("/");
        run.status().unwrap()
    };
    assert_eq!(run("exit 7").code(), Some(7));
    assert_eq!(run("kill -9 $$").signal(), Some(9));
    assert_eq!(run("kill $$").signal(), Some(15));
}

#[test]
fn its_process_number_children_limits_and_files_are_as_without() {
    let script = "
import resource
print(os.getppid(), os.getpgrp(), os.getsid(0), os.getcwd())
print(sorted(os.listdir('/proc/self/fd'))[:-1], resource.getrlimit(resource.RLIMIT_NOFILE))
status = open('/proc/self/status').read()
print([line for line in status.splitlines() if line.startswith(('SigBlk', 'SigCgt', 'Shd'))])
try: os.waitpid(-1, os.WNOHANG)
except ChildProcessError: print('no child')
";
    // Under one shell, so that both have the same parent.
    let bare = [PYTHON, "-c", &format!("import os{script}")].map(str::to_owned);
    let started = command(&[], &[], &[&bare[0], &bare[1], &bare[2]]);
    let words: Vec<_> = started.get_args().map(|word| word.to_str().unwrap().to_owned()).collect();
    let at = words.iter().position(|word| word.ends_with("/stillopen")).unwrap();
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -Sn 100; \"$@\"; shift 3; exec 3<&-; \"$@\"; exit 0", "sh"])
        .args(&words[at..])
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    let (under, without) = lines.split_at(lines.len() / 2);
    assert_eq!(under, without, "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("(100, ") && said.ends_with("no child\n"), "{said}");
}

#[test]
fn a_wait_for_any_child_sees_its_own_and_then_none() {
    let script = "
for n in range(3):
    if os.fork() == 0: socket.socket(); os._exit(n)
seen = set()
while True:
    try: seen.add(os.waitstatus_to_exitcode(os.wait()[1]))
    except ChildProcessError: break
print(seen)
";
    assert_eq!(python(&[], script).printed(), "{0, 1, 2}");
}

/// What is written to a pipe that nobody holds open any more ends it: also while a late descendant lives.
#[test]
fn the_supervisor_holds_neither_output_nor_terminal() {
    let script = "
print(supervisor(), flush=True)
if os.fork() == 0:
    null = os.open('/dev/null', os.O_RDWR)
    [os.dup2(null, n) for n in (1, 2)]
    sys.stdin.read()
    socket.socket()
";
    let script = format!("import socket, sys\n{SUPERVISOR}{script}");
    let mut run = command(&AS_NOBODY, &[], &[PYTHON, "-c", &script]);
    let mut child = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success());
    let supervisor: i32 = said.trim().parse().unwrap();
    // The descendant still waits for the end of its input.
    let files: Vec<String> = std::fs::read_dir(format!("/proc/{supervisor}/fd"))
        .unwrap()
        .map(|entry| std::fs::read_link(entry.unwrap().path()).unwrap())
        .map(|to| to.to_string_lossy().into_owned())
        .collect();
    // From Linux 6.13 it has a pidfd of its own, and the text of cgroups only with hierarchies of version 1.
    let left = |file: &&String| *file != "/dev/null" && !file.contains("pidfd");
    let files: Vec<_> = files.iter().filter(left).collect();
    assert!(files.iter().all(|file| !file.contains("pipe") && !file.contains("pts")), "{files:?}");
    assert!(matches!(files.len(), 3 | 4), "control, listener, /proc, cgroup: {files:?}");
    drop(stdin);
    ends(supervisor);
}

#[test]
fn it_keeps_no_descriptor_of_the_sockets_that_it_made() {
    let script = "
pid = supervisor()
socket.socket()
def count(): return len(os.listdir(f'/proc/{pid}/fd'))
before = count()
held = [socket.socket() for _ in range(200)]
print(count() - before, len(held))
";
    assert_eq!(python(&[], script).printed(), "0 200");
}

#[test]
fn a_signal_of_the_terminal_does_not_reach_it() {
    let script = "
for ignored in signal.SIGINT, signal.SIGTERM, signal.SIGHUP: signal.signal(ignored, signal.SIG_IGN)
pid = supervisor()
for sent in signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGTSTP:
    os.kill(pid, sent)
os.killpg(0, signal.SIGINT)
print(armed(socket.socket()), os.getsid(pid) == pid)
";
    let (printed, report) = python_after(&AS_NOBODY, &["--report"], script).reported();
    assert_eq!((printed.as_str(), report.as_str()), ("60/30/3 True", "1 socket"));
}

#[test]
fn killed_it_leaves_an_error_and_no_hang() {
    let script = "
s = socket.socket()
os.kill(supervisor(), signal.SIGKILL)
while True:
    try: socket.socket().close()
    except OSError as error: print(error.errno); break
print(armed(s), socket.socket(socket.AF_UNIX).fileno() > 0)
";
    // ENOSYS
    assert_eq!(python(&[], script).printed(), "38\n60/30/3 True");
}

/// Neither a signal nor a zombie: it is no child of the program's.
#[test]
fn killed_it_is_nothing_to_the_program() {
    let script = "
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
pid = supervisor()
os.kill(pid, signal.SIGKILL)
# Until it has been waited for.
while os.path.exists(f'/proc/{pid}'): pass
print(signal.sigtimedwait([signal.SIGCHLD], 0))
";
    assert_eq!(python(&[], script).printed(), "None");
}

/// What `strace` and `gdb` do at the end.
#[test]
fn a_wait_for_children_of_all_kinds_sees_none() {
    let script = "
try: os.waitpid(-1, 0x40000000)
except ChildProcessError: print('no child')
";
    assert_eq!(python(&[], script).printed(), "no child");
}

/// As process 1, or as a subreaper, the program gets whatever loses its parent.
#[test]
fn a_program_that_gets_the_orphans_has_a_child_that_its_wait_does_not_see() {
    let subreaper = "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1); os.execvp(sys.argv[1], sys.argv[1:])";
    let process_1 = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    for before in [&process_1[..], &[PYTHON, "-c", subreaper]] {
        let script = "
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
print(armed(socket.socket()))
if os.fork() == 0: os._exit(3)
print(os.waitstatus_to_exitcode(os.wait()[1]), signal.sigtimedwait([signal.SIGCHLD], 0) is not None)
try: os.wait()
except ChildProcessError: print('no child')
# One of all kinds is there, and has not ended.
print(os.waitpid(-1, os.WNOHANG | 0x40000000))
# Killed it is one SIGCHLD, and still no child.
pid = supervisor()
os.kill(pid, signal.SIGKILL)
print(signal.sigtimedwait([signal.SIGCHLD], 60).si_pid == pid)
try: os.wait()
except ChildProcessError: print('no child')
";
        let printed = python_after(before, &[], script).printed();
        assert_eq!(printed, "60/30/3\n3 True\nno child\n(0, 0)\nTrue\nno child", "{before:?}");
    }
}

#[test]
fn it_ends_with_a_program_that_is_killed() {
    let script = "
print(os.getpid(), supervisor(), flush=True)
while True: socket.socket().close()
";
    let script = format!("import socket\n{SUPERVISOR}{script}");
    let mut run = command(&AS_NOBODY, &[], &[PYTHON, "-c", &script]);
    let mut child = run.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let mut numbers = line.split_whitespace().map(|n| n.parse::<i32>().unwrap());
    let (program, supervisor) = (numbers.next().unwrap(), numbers.next().unwrap());
    kill_process(Pid::from_raw(program).unwrap(), Signal::KILL).unwrap();
    child.wait().unwrap();
    ends(supervisor);
}

#[test]
fn a_full_table_of_files_is_the_programs_own_error() {
    let script = "
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))
held = []
while True:
    try: held.append(socket.socket())
    except OSError as error: print(error.errno, {armed(s) for s in held}, len(held)); break
held.pop().close()
print(armed(socket.socket()))
";
    // EMFILE: three are open besides.
    assert_eq!(python(&[], script).printed(), "24 {'60/30/3'} 7\n60/30/3");
}

#[test]
fn a_small_limit_of_files_is_enough() {
    let before = [&AS_NOBODY[..], &["prlimit", "--nofile=12:12"]].concat();
    // Also for the files that tell of many threads.
    let script = "
def one(): seen.add(armed(socket.socket()))
seen = set()
for _ in range(20):
    thread = threading.Thread(target=one); thread.start(); thread.join()
print(seen)
";
    let (printed, report) = python_after(&before, &["--report"], script).reported();
    assert_eq!((printed.as_str(), report.as_str()), ("{'60/30/3'}", "20 sockets"));
}

#[test]
fn only_who_is_not_root_loses_the_privilege_of_setuid_programs() {
    let script = "print([line for line in open('/proc/self/status') if 'NoNewPrivs' in line])";
    assert_eq!(python(&[], script).printed(), r"['NoNewPrivs:\t1\n']");
    assert_eq!(python_after(&[], &[], script).printed(), r"['NoNewPrivs:\t0\n']");
    let without = [&AS_NOBODY[..], &["--inh-caps=-all", "--bounding-set=-all"]].concat();
    let script = "print(armed(socket.socket()))";
    assert_eq!(python_after(&without, &[], script).printed(), "60/30/3");
    let no_capabilities = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"];
    assert_eq!(python_after(&no_capabilities, &[], script).printed(), "60/30/3");
}

#[test]
fn what_can_not_be_executed_has_the_status_of_env() {
    let run = |program: &str| Ran::of(&mut command(&AS_NOBODY, &["--report"], &[program]));
    let missing = run("/no/such/program");
    assert_eq!(missing.status, Some(127));
    // The report would say nothing more.
    assert_eq!(
        missing.stderr,
        "stillopen: can't run /no/such/program: No such file or directory (os error 2)\n"
    );
    assert_eq!(run("/etc/passwd").status, Some(126));
}

/// Rust's runtime ignores `SIGPIPE` for `stillopen` itself.
#[test]
fn signals_are_ignored_and_blocked_as_stillopen_found_them() {
    let states = [
        &["env"][..],
        &["env", "--ignore-signal=PIPE"],
        &["env", "--ignore-signal=TERM,CHLD", "--block-signal=PIPE,USR1"],
    ];
    for state in states {
        let signals = ["grep", "-E", "^(Sig(Blk|Ign|Cgt|Pnd)|ShdPnd)", "/proc/self/status"];
        let under = Ran::of(&mut command(state, &[], &signals)).printed();
        assert_eq!(under, Ran::of(&mut without(state, &signals)).printed(), "{state:?}");
    }
}

/// Rust's runtime opens /dev/null in their place.
#[test]
fn standard_streams_that_are_closed_stay_closed() {
    let script = "
import os
def is_open(number):
    try: os.fstat(number); return True
    except OSError: return False
print([number for number in range(3) if is_open(number)])
";
    for (closed, open) in [("<&-", "[1, 2]"), ("<&- 2>&-", "[1]")] {
        let closed = ["sh", "-c", &format!("exec {closed}; exec \"$@\""), "sh"];
        let under = command(&closed, &[], &[PYTHON, "-c", script]).output().unwrap();
        assert_eq!(String::from_utf8(under.stdout).unwrap().trim(), open);
    }
}

#[test]
fn an_error_that_nobody_reads_keeps_its_status() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut run = command(&AS_NOBODY, &[], &["/no/such/program"]);
    assert_eq!(run.stderr(writer).status().unwrap().code(), Some(127));
}
