//! The programs that tests and benchmarks call, and the Debian package of each.

use std::{env, path::PathBuf, process::Command};

use anyhow::{Result, bail};

use crate::sh;

/// A program and the Debian package that has it.
pub(crate) struct Tool {
    /// Its name.
    pub program: &'static str,
    /// The package.
    pub package: &'static str,
    /// Arguments that it must end well with; empty: that it is there is enough.
    pub works_with: &'static [&'static str],
}

/// Network namespaces, veth pairs, routes; `ss`.
pub(crate) const IP: Tool = Tool { program: "ip", package: "iproute2", works_with: &[] };
/// What `ss` is in too.
pub(crate) const SS: Tool = Tool { program: "ss", package: "iproute2", works_with: &[] };
/// Rules that translate addresses.
pub(crate) const NFT: Tool = Tool { program: "nft", package: "nftables", works_with: &[] };
/// Load for a path of one connection.
pub(crate) const IPERF: Tool = Tool { program: "iperf3", package: "iperf3", works_with: &[] };
/// The entries of connection tracking.
pub(crate) const CONNTRACK: Tool =
    Tool { program: "conntrack", package: "conntrack", works_with: &[] };
/// Clients and servers of the end-to-end tests.
pub(crate) const PYTHON: Tool = Tool { program: "python3", package: "python3", works_with: &[] };
/// The same where every user may run it, for those of `stillopen run`.
pub(crate) const PYTHON_FOR_ALL: Tool =
    Tool { program: "test", package: "python3", works_with: &["-x", "/usr/bin/python3"] };
/// Where the tests of the job in Python install its library.
pub(crate) const VENV: Tool = Tool {
    program: "python3",
    package: "python3-venv",
    works_with: &["-c", "import venv, ensurepip"],
};
/// Runs a program as another user.
pub(crate) const SETPRIV: Tool =
    Tool { program: "setpriv", package: "util-linux", works_with: &[] };
/// Starts a program in a new namespace.
pub(crate) const UNSHARE: Tool =
    Tool { program: "unshare", package: "util-linux", works_with: &[] };
/// Programs of the tests and benchmarks of `stillopen run`.
pub(crate) const CC: Tool = Tool { program: "cc", package: "gcc", works_with: &[] };
/// Compiles BPF objects. One version: `bpf.rs` says why.
pub(crate) const CLANG: Tool =
    Tool { program: "clang-14", package: "clang-14", works_with: &["--version"] };
/// Of the same.
pub(crate) const LLVM_STRIP: Tool =
    Tool { program: "llvm-strip-14", package: "llvm-14", works_with: &["--version"] };
/// Boots the guests of `lab run --driver vm`.
pub(crate) const QEMU: Tool =
    Tool { program: "qemu-system-x86_64", package: "qemu-system-x86", works_with: &["--version"] };
/// Starts a program in another process's namespace.
pub(crate) const NSENTER: Tool =
    Tool { program: "nsenter", package: "util-linux", works_with: &[] };

/// One of the clients that `advise` has a snippet for; so are the next ones.
pub(crate) const CURL: Tool = Tool { program: "curl", package: "curl", works_with: &[] };
/// A client of `lab exec`, and its own tests' runner.
pub(crate) const NODE: Tool =
    Tool { program: "node", package: "nodejs", works_with: &["--version"] };
/// See [`CURL`].
pub(crate) const JAVAC: Tool =
    Tool { program: "javac", package: "default-jdk-headless", works_with: &[] };
/// `PostgreSQL`'s driver for Java, where `tests/clients` looks for it.
pub(crate) const PGJDBC: Tool = Tool {
    program: "test",
    package: "libpostgresql-jdbc-java",
    works_with: &["-e", "/usr/share/java/postgresql.jar"],
};
/// The snippet of the kernel's defaults.
pub(crate) const SYSCTL: Tool = Tool { program: "sysctl", package: "procps", works_with: &[] };

/// Makes sure that these are there: as root on Debian by installing their packages.
///
/// # Errors
/// One is missing and could not be installed.
pub(crate) fn require(tools: &[Tool]) -> Result<()> {
    let mut packages = missing(tools);
    if packages.is_empty() {
        return Ok(());
    }
    if sh::is_root() && is_there("apt-get") {
        let apt = || {
            let mut apt = Command::new("apt-get");
            apt.env("DEBIAN_FRONTEND", "noninteractive");
            apt
        };
        sh::run(apt().args(["--quiet", "update"]))?;
        sh::run(
            apt().args(["--quiet", "--yes", "--no-install-recommends", "install"]).args(&packages),
        )?;
        packages = missing(tools);
    }
    if packages.is_empty() {
        return Ok(());
    }
    let programs: Vec<_> =
        tools.iter().filter(|tool| !is_usable(tool)).map(|tool| tool.program).collect();
    bail!(
        "{} not found: install {} (Debian: apt-get install {})",
        programs.join(", "),
        packages.join(", "),
        packages.join(" ")
    )
}

/// The packages of those that are not there.
fn missing(tools: &[Tool]) -> Vec<&'static str> {
    let mut packages: Vec<_> =
        tools.iter().filter(|tool| !is_usable(tool)).map(|tool| tool.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn is_usable(tool: &Tool) -> bool {
    let works = || {
        let output = Command::new(tool.program).args(tool.works_with).output();
        output.is_ok_and(|output| output.status.success())
    };
    is_there(tool.program) && (tool.works_with.is_empty() || works())
}

/// Also where Debian keeps root's programs: an ordinary user's PATH may lack those folders.
fn is_there(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .any(|folder| folder.join(program).is_file())
}
