//! The kernel's defaults: set in a network namespace of their own, they hold for a socket that sets
//! `SO_KEEPALIVE` and nothing else.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use stillopen_model::Keepalive;

use crate::{
    Advised, driver,
    held::{Running, connections},
    runtimes,
};

#[test]
fn sysctl() {
    let advised = Advised::of("sysctl");
    let script = format!("ip link set lo up\n{}\nexec \"$@\"", advised.snippet);
    let python = runtimes::python(&driver("sysctl.py"));
    let child = Command::new("unshare")
        .args(["--net", "sh", "-ec", &script, "sh"])
        .arg(python.get_program())
        .args(python.get_args())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start unshare (util-linux)");
    let mut running = Running(child);
    let mut said = BufReader::new(running.0.stdout.take().expect("it is a pipe")).lines();
    // sysctl repeats what it set; the port comes last.
    let port: u16 = said
        .by_ref()
        .map(|line| line.expect("it writes text"))
        .find_map(|line| line.parse().ok())
        .expect("it connects");
    let seen = connections(&["--pid", &running.0.id().to_string()]);
    let client = seen.iter().find(|c| c.peer.port() == port).expect("the connection is there");
    assert_eq!(client.keepalive, Keepalive::On(advised.in_force.unwrap().times()));
}
