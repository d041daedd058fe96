//! `stillopen lab exec --driver vm`: the incident's client in Python against real IPVS, and what is said where
//! something is missing.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

use crate::lab;

fn exec(args: &[&str]) -> Output {
    lab(&[&["exec", "--driver", "vm"], args].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Python with what `examples/requirements.txt` names.
fn python() -> PathBuf {
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("vm-python");
    let (python, ready) = (venv.join("bin/python"), venv.join("ready"));
    let requirements = examples().join("requirements.txt");
    let wanted = fs::read_to_string(&requirements).expect("read the requirements");
    if fs::read_to_string(&ready).is_ok_and(|made_for| made_for == wanted) {
        return python;
    }
    let run = |command: &mut Command| {
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    };
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
    let install = ["-m", "pip", "install", "--quiet", "--requirement"];
    run(Command::new(&python).args(install).arg(&requirements));
    fs::write(ready, wanted).expect("note that it is made");
    python
}

/// The interpreter itself, wherever a manager of versions has it.
fn real_python() -> String {
    let real = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    text(&real.expect("start Python").stdout).trim().to_owned()
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// Both arms of the incident in one boot: the answer after 1000 s is lost without keepalive and the client's
/// own 3600 s end the wait; with it the answer arrives.
#[test]
#[ignore = "boots a kernel under QEMU: cargo xtask test vm"]
fn the_job_in_python_loses_its_answer_behind_ipvs_and_gets_it_with_keepalive() {
    let folder = tempfile::tempdir().expect("make a folder");
    fs::write(folder.path().join("a.txt"), "A document.").expect("write a document");
    let summary = folder.path().join("summary.json");
    let [python, job, documents, summary_path] =
        [&python(), &examples().join("job_httpx.py"), folder.path(), &summary]
            .map(|path: &Path| path.to_str().expect("a path is text").to_owned());
    let ask = format!(
        "{python} {job} --server $STILLOPEN_SERVER --documents {documents} --max-attempts 1"
    );
    let script = format!("{ask} & {ask} --keepalive 60/30/3; wait");
    let including = ["--include", &documents, "--summary", &summary_path];
    let command = ["--answer-after", "1000s", "--", "sh", "-c", &script];
    let output = exec(&[&including[..], &command].concat());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let ended: Vec<Value> =
        said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let silent = |saw: &str| {
        let of = |line: &&Value| line["client_saw"] == saw;
        let line = ended.iter().find(of).unwrap_or_else(|| panic!("none saw {saw}: {said}"));
        line["silent_s"].as_f64().expect("it says how long")
    };
    assert!((3600.0..3605.0).contains(&silent("own_timer")), "{said}");
    assert!((1000.0..1005.0).contains(&silent("answer")), "{said}");
    let summary = fs::read(summary).expect("read the summary");
    let summary: Value = serde_json::from_slice(&summary).expect("it is JSON");
    let forgotten = summary["forgotten"].as_array().expect("a list");
    assert_eq!((forgotten.len(), &summary["connections"]), (1, &2.into()), "{summary}");
    assert_eq!((&summary["answers_lost"], &summary["driver"]), (&1.into(), &"vm".into()));
    let lived = forgotten[0]["at_s"].as_f64().zip(forgotten[0]["last_s"].as_f64());
    let lived = lived.map(|(at, last)| at - last).expect("both are numbers");
    assert!((900.0..919.0).contains(&lived), "{summary}");
}

/// A server of the user's own; a file that was not packed; the client's status.
#[test]
#[ignore = "boots a kernel under QEMU: cargo xtask test vm"]
fn a_server_of_ones_own_and_a_file_that_is_missing() {
    let folder = tempfile::tempdir().expect("make a folder");
    fs::write(folder.path().join("missing.txt"), "").expect("write a file");
    let serve = "import http.server as h, os; \
                 h.HTTPServer(('', int(os.environ['PORT'])), h.SimpleHTTPRequestHandler).serve_forever()";
    let server = format!("exec python3 -c \"{serve}\"");
    // Its name is put together there, so that nothing of the command names it.
    let folder = folder.path().display();
    let script = format!(
        "curl -sSf -o /dev/null http://$STILLOPEN_SERVER/ && echo served; cat {folder}/miss''ing.txt; exit 3"
    );
    let server = server.replace("python3", &real_python());
    let output = exec(&["--server", &server, "--", "sh", "-c", &script]);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).trim()), (Some(3), "served"), "{said}");
    assert!(said.contains(&format!("--include {folder}/missing.txt")), "{said}");
}

/// What a client writes just before its end is written just before the guest's.
#[test]
#[ignore = "boots a kernel under QEMU: cargo xtask test vm"]
fn all_that_a_client_writes_arrives_byte_for_byte() {
    for _ in 0..4 {
        let output = exec(&["--", "sh", "-c", "echo hello; printf bye >&2"]);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "hello\n".into()));
        assert!(said.starts_with("bye"), "{said}");
    }
    let file = tempfile::NamedTempFile::new().expect("make a file");
    let bytes: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    fs::write(file.path(), &bytes).expect("write a file");
    let output = exec(&["--", "cat", file.path().to_str().expect("a path is text")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stdout == bytes, "{} bytes of {}", output.stdout.len(), bytes.len());
}

#[test]
#[ignore = "boots a kernel under QEMU: cargo xtask test vm"]
fn a_client_that_has_not_ended_in_its_time_is_killed_at_once() {
    let summary = tempfile::NamedTempFile::new().expect("make a file");
    let path = summary.path().to_str().expect("a path is text");
    // One that waits, and one that never stops to write.
    for client in ["exec sleep 1d", "sleep 1d & yes; wait"] {
        let output = exec(&["--for", "5s", "--summary", path, "--", "sh", "-c", client]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(124), "{said}");
        for words in ["had not ended after 5s", "and was killed", "5s of the guest's clock in"] {
            assert!(said.contains(words), "{words}: {said}");
        }
        let summary = fs::read(path).expect("read the summary");
        let summary: Value = serde_json::from_slice(&summary).expect("it is JSON");
        let took = summary["took_s"].as_f64().expect("a number");
        assert!((5.0..6.0).contains(&took), "{summary}");
    }
}

/// What it has started and left is killed with it, though it goes on to write.
#[test]
#[ignore = "boots a kernel under QEMU: cargo xtask test vm"]
fn a_client_ends_the_run_whatever_it_leaves_behind() {
    let output = exec(&["--", "sh", "-c", "yes >&2 & sleep 1d & sleep 1; echo done; exit 7"]);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(7), "done\n".into()));
    assert!(said.contains("1s of the guest's clock in"), "{}", said.replace("y\n", ""));
}

/// The words and the status are those of the other driver.
#[test]
#[ignore = "boots a kernel under QEMU: cargo xtask test vm"]
fn a_server_that_fails_or_is_silent_is_named_with_its_last_words() {
    let listen = "import os, socket, time\n\
                  server = socket.create_server(('127.0.0.1', int(os.environ['PORT'])))\n\
                  time.sleep(1000)";
    let on_loopback = format!("echo I listen; exec {} -c \"{listen}\"", real_python());
    for (server, named) in [
        ("echo no luck today >&2; exit 3", &["exit status 3", "it said: no luck today"][..]),
        ("echo well; sleep 1d", &["within 60 s", "variable PORT", "it said: well"]),
        (&on_loopback, &["listens on 127.0.0.1:", "must listen on 0.0.0.0:", "it said: I listen"]),
    ] {
        let output = exec(&["--server", server, "--", "true"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        for words in named {
            assert!(said.contains(words), "{words}: {said}");
        }
        assert!(!said.contains("--include"), "{said}");
    }
}

/// Programs that start the client, a version manager's shim among them where `python3` is one, and a script that does
/// not say who runs it.
#[test]
#[ignore = "boots a kernel under QEMU: cargo xtask test vm"]
fn a_client_behind_others_is_packed_and_run() {
    let folder = tempfile::tempdir().expect("make a folder");
    let client = folder.path().join("client.py");
    fs::write(&client, "import json; print('hello')").expect("write a file");
    let script = folder.path().join("start");
    let (stillopen, client) = (env!("CARGO_BIN_EXE_stillopen"), client.display());
    fs::write(&script, format!("exec {stillopen} run -- timeout 60 python3 {client}\n"))
        .expect("write a file");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("make it executable");
    let output = exec(&["--", "env", "A=b", script.to_str().expect("a path is text")]);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).trim()), (Some(0), "hello"), "{said}");
}

#[test]
fn what_is_not_there_is_named_before_anything_boots() {
    let folder = tempfile::tempdir().expect("make a folder");
    let boot = folder.path().join("boot");
    fs::create_dir_all(folder.path().join("lib/modules/1.0/kernel")).expect("make a folder");
    fs::create_dir(&boot).expect("make a folder");
    fs::write(boot.join("vmlinuz-1.0"), "not a kernel").expect("write a file");
    let kernel = folder.path().to_str().expect("a path is text");
    for (args, status, named) in [
        (&["--", "no-such-client"][..], 127, "no-such-client"),
        (&["--include", "/no/such/file", "--", "true"], 2, "/no/such/file"),
        (&["--include", "/proc/self/maps", "--", "true"], 2, "the guest has a /proc of its own"),
        (&["--", "/etc"], 126, "it is a folder"),
        (&["--profile", "l7-proxy", "--", "true"], 2, "ipvs-sloppy"),
        (&["--profile", "nothing", "--", "true"], 2, "nothing"),
        (&["--server", "true", "--answer-after", "1s", "--", "true"], 2, "--answer-after"),
        (&["--", "true"], 125, "module veth not found"),
        (&["--summary", "/no/such/folder/file", "--", "true"], 125, "/no/such/folder/file"),
    ] {
        let output = exec(&[&["--kernel", kernel], args].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
        assert!(said.contains(named), "{args:?}: {said}");
    }
    let output = exec(&["--kernel", "/no/such/folder", "--", "true"]);
    assert!(text(&output.stderr).contains("/no/such/folder"), "{}", text(&output.stderr));
}

#[test]
#[ignore = "boots a kernel under QEMU: cargo xtask test vm"]
fn a_client_whose_output_nobody_reads_ends_and_is_not_given_the_rest_of_its_time() {
    let program = env!("CARGO_BIN_EXE_stillopen");
    let script = "\"$0\" lab exec --driver vm --for 100h -- yes | head -n 1; exit ${PIPESTATUS[0]}";
    let ran = Command::new("bash").args(["-c", script, program]).output().expect("start bash");
    let said = text(&ran.stderr);
    assert_eq!((ran.status.code(), &ran.stdout[..]), (Some(141), &b"y\n"[..]), "{said}");
}
