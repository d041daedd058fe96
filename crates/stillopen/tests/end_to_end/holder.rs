//! Another process: `cat`, which can hold a socket as its standard output.
//!
//! It ends with the test that started it, by its standard input.

use std::{
    fs,
    net::TcpStream,
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::{deadline::wait_until, scene::Netns};

/// Changes to the user `nobody` (by number: not every machine has the name) before it starts what follows.
pub(crate) const AS_NOBODY: [&str; 4] =
    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// That process.
pub(crate) struct Holder {
    child: Child,
}

impl Holder {
    /// Hands `socket` over to a process of root.
    pub(crate) fn of_root(socket: TcpStream) -> Self {
        Self::start(Command::new("cat"), socket)
    }

    /// Hands `socket` over to a process with this variable in its environment.
    pub(crate) fn told(socket: TcpStream, name: &str, value: &str) -> Self {
        let mut command = Command::new("cat");
        command.env(name, value);
        Self::start(command, socket)
    }

    /// Hands `socket` over to a process of `nobody`.
    pub(crate) fn of_nobody(socket: TcpStream) -> Self {
        let mut command = Command::new(AS_NOBODY[0]);
        command.args(&AS_NOBODY[1..]).arg("cat");
        Self::start(command, socket)
    }

    fn start(mut command: Command, socket: TcpStream) -> Self {
        command.stdout(OwnedFd::from(socket));
        Self::spawn(command)
    }

    /// A process inside a network namespace.
    pub(crate) fn inside(netns: &Netns) -> Self {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &netns.name, "cat"]);
        Self::spawn(command)
    }

    /// Our own copy of what it holds goes with `command`.
    fn spawn(mut command: Command) -> Self {
        let holder = Self { child: command.stdin(Stdio::piped()).spawn().expect("start cat") };
        drop(command);
        wait_until("cat runs", Duration::from_secs(10), || {
            (holder.command() == "cat").then_some(())
        });
        holder
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has it end, without waiting for it.
    pub(crate) fn end(&mut self) {
        drop(self.child.stdin.take());
    }

    fn command(&self) -> String {
        let comm = fs::read_to_string(format!("/proc/{}/comm", self.pid()));
        comm.expect("a child that was not waited for is there").trim_end().to_owned()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.end();
        if let Err(error) = self.child.wait() {
            eprintln!("cat did not end: {error}");
        }
    }
}
