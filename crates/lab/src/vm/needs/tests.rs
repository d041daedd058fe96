//! What a command needs, by what is in the image.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn image(fill: impl FnOnce(&mut Pack) -> Result<(), VmError>) -> Result<String, VmError> {
    let mut pack = Pack::new(1 << 30);
    fill(&mut pack)?;
    Ok(String::from_utf8_lossy(&pack.finish()).into_owned())
}

#[test]
fn the_paths_that_an_argument_names() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a.pem", "b"].map(|name| folder.path().join(name));
    fs::write(&a, "").unwrap();
    fs::create_dir(&b).unwrap();
    for (argument, names) in [
        (format!("--ca={}", a.display()), vec![a.clone()]),
        (format!("{}:{}", a.display(), b.display()), vec![a.clone(), b.clone()]),
        (format!("@{}", a.display()), vec![a.clone()]),
        (format!("{}/none", b.display()), vec![]),
        ("/".into(), vec![]),
        ("--timeout=5".into(), vec![]),
    ] {
        assert_eq!(named_by(OsStr::new(&argument)), names, "{argument}");
    }
}

#[test]
fn a_script_brings_its_interpreter_and_the_programs_that_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("ask");
    fs::write(&script, "#!/usr/bin/env sh\nset -e; cat \"$1\" | tr a b\n").unwrap();
    let words = [script.clone().into_os_string(), "--x".into()];
    let denied = image(|pack| command(pack, &words).map(drop)).unwrap_err();
    assert_eq!(denied.status(), 126, "{denied}");
    assert!(denied.to_string().contains("chmod +x"), "{denied}");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let image = image(|pack| command(pack, &words).map(drop)).unwrap();
    let own = script.to_str().unwrap().trim_start_matches('/');
    for name in [own, "bin/env\0", "bin/cat\0", "bin/tr\0", "libc.so.6\0"] {
        assert!(image.contains(name), "{name}");
    }
}

/// A file with this text, executable, and its path.
fn script(folder: &Path, name: &str, text: &str) -> OsString {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.into()
}

fn has(words: &[OsString], names: &[&str]) -> Vec<OsString> {
    let mut executed = Vec::new();
    let image = image(|pack| command(pack, words).map(|words| executed = words)).unwrap();
    for name in names {
        assert!(image.contains(name), "{name} for {words:?}");
    }
    executed
}

#[test]
fn a_script_that_does_not_say_by_whom_is_run_by_the_shell() {
    let folder = tempfile::tempdir().unwrap();
    let path = script(folder.path(), "ask", "cat \"$1\"\n");
    let executed = has(&[path.clone(), "x".into()], &["bin/cat\0", "bin/sh\0"]);
    assert_eq!(executed, ["/bin/sh".into(), path, "x".into()]);
}

#[test]
fn what_is_behind_a_program_is_seen_through() {
    let folder = tempfile::tempdir().unwrap();
    let client = folder.path().join("client.sh");
    fs::write(&client, "cat x | tr a b\n").unwrap();
    let client = client.to_str().unwrap().to_owned();
    let names = ["bin/tr\0", client.trim_start_matches('/')];
    for words in [
        &["timeout", "-k", "5", "30", "sh", &client][..],
        &["env", "A=b", "nice", "-n", "5", "sh", &client],
        &["sh", "-c", &format!("cd /; exec timeout 5 sh {client} --x")],
    ] {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        has(&words, &names);
    }
}

#[test]
fn what_cannot_be_run_has_the_status_of_a_shell_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let own = |name: &str, text: &str| script(folder.path(), name, text);
    let dangling = folder.path().join("dangling");
    std::os::unix::fs::symlink("nowhere", &dangling).unwrap();
    for (name, status, says) in [
        (folder.path().into(), 126, "it is a folder"),
        ("no-such-command".into(), 127, "it is not in PATH"),
        ("./no/such".into(), 127, "there is no such file"),
        (dangling.into(), 127, "a symbolic link to nowhere, which is not there"),
        (
            own("bad", "#!/no/such/interpreter -x\n"),
            127,
            "bad: its first line asks for \"/no/such/i",
        ),
        (own("crlf", "#!/bin/sh\r\n"), 127, "\"/bin/sh\\r\""),
        (own("loop", &format!("#!{}/loop\n", folder.path().display())), 127, "and so on"),
    ] {
        let error = image(|pack| command(pack, &[name]).map(drop)).unwrap_err();
        assert_eq!(error.status(), status, "{error}");
        assert!(error.to_string().contains(says), "{says}: {error}");
    }
    // What a script only names may be broken.
    has(&["sh".into(), "-c".into(), own("bad", "#!/no/such/interpreter\n")], &["bin/sh\0"]);
}

#[test]
fn what_no_guest_can_have_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
    for (path, says) in [
        (at("fifo"), "it is a FIFO"),
        (at("socket"), "it is a socket"),
        (at("dangling"), "a symbolic link to nowhere"),
        (at("none"), "there is no such file"),
        ("/dev/null".into(), "a /dev of its own"),
        ("/proc/self/status".into(), "a /proc of its own"),
    ] {
        let error = image(|pack| include(pack, &[path])).unwrap_err();
        assert_eq!(error.status(), 2, "{error}");
        assert!(error.to_string().contains(says), "{says}: {error}");
    }
    // In a folder they are passed over.
    image(|pack| include(pack, &[folder.path().to_owned()])).unwrap();
}

#[test]
fn what_is_not_there_and_what_is_too_much_is_named() {
    let error = image(|pack| command(pack, &["no-such-command".into()]).map(drop)).unwrap_err();
    assert!(error.to_string().contains("no-such-command"), "{error}");
    let error = image(|pack| include(pack, &["/no/such/file".into()])).unwrap_err();
    assert!(error.to_string().contains("/no/such/file"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("data/large");
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(&large, vec![0; 3 << 20]).unwrap();
    let mut pack = Pack::new(2 << 20);
    let error = include(&mut pack, &[folder.path().to_owned()]).unwrap_err().to_string();
    assert!(error.contains("/data 3 MiB") && error.contains("--include only what"), "{error}");
    assert!(!error.contains("virtual environment"), "{error}");
}

#[test]
fn links_stay_links_and_lead_to_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("real")).unwrap();
    fs::write(at("real/file"), "content of it").unwrap();
    std::os::unix::fs::symlink("real", at("way")).unwrap();
    std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
    std::os::unix::fs::symlink("loop", at("loop")).unwrap();
    let image = image(|pack| include(pack, &[at("way/file")])).unwrap();
    assert_eq!(image.matches("content of it").count(), 1);
    assert!(image.contains("/way\0"));
    // A folder's links may lead nowhere.
    let mut pack = Pack::new(1 << 20);
    include(&mut pack, &[folder.path().to_owned()]).unwrap();
    let real = at("real/file").canonicalize().unwrap();
    assert!(pack.contents().contains(&real) && pack.contents().len() == 1);
}
