//! `lab run --driver vm` and `lab vm` where no guest can start: what is said, and with which status. Guests
//! themselves are run by `cargo xtask test vm`.

use tempfile::tempdir;

use crate::output;

#[test]
fn what_no_guest_can_run_is_status_2_and_named() {
    let folder = tempdir().unwrap();
    let empty = folder.path().to_str().unwrap();
    for (args, named) in [
        (&["run", "--driver", "vm", "--kernel", empty][..], "boot/vmlinuz-VERSION"),
        (&["run", "--driver", "vm", "--kernel", "/nonexistent"], "/nonexistent"),
        (&["run", "--driver", "vm", "--hz", "100"], "--hz"),
        (&["run", "--driver", "docker"], "netns"),
        (&["run", "--kernel", empty], "--driver vm"),
        (&["run", "--on-node", "14m check"], "--driver vm"),
        (&["run", "--driver", "vm", "--on-node", "14m"], "no command"),
        (&["run", "--driver", "vm", "--on-node", "check"], "duration"),
        (&["run", "--driver", "vm", "--on-node", "14m stillopen check"], "leave out stillopen"),
        (&["vm", "parity", "--kernel", empty], empty),
        (&["guest"], "process 1"),
    ] {
        let (status, _, stderr) = output(&[&["lab"], args].concat());
        assert_eq!(status, 2, "{args:?}: {stderr}");
        assert!(stderr.contains(named), "{args:?}: {stderr}");
    }
}

#[test]
fn a_middlebox_that_is_no_kernel_is_refused_with_those_that_are() {
    let folder = tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("boot")).unwrap();
    std::fs::create_dir_all(folder.path().join("lib/modules/1.0/kernel")).unwrap();
    std::fs::write(folder.path().join("boot/vmlinuz-1.0"), "not a kernel").unwrap();
    let kernel = folder.path().to_str().unwrap();
    let run = ["lab", "run", "--driver", "vm", "--kernel", kernel];
    let (status, _, stderr) = output(&[&run[..], &["--profile", "l7-proxy"]].concat());
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("l7-proxy") && stderr.contains("ipvs-sloppy"), "{stderr}");
    // So is a command that would never run.
    let late = ["half-close", "--on-node", "31m check"];
    let (status, _, stderr) = output(&[&run[..], &late].concat());
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("the scenario is over"), "{stderr}");
    // And a kernel without the modules says which is missing.
    let (status, _, stderr) = output(&run);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("module veth not found"), "{stderr}");
}
