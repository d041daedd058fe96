//! `cargo xtask bench-arm`: what `rescue` is held against. For each descriptor of some processes: readlink, and of
//! a socket a duplicate and four options.

use std::{fs, os::unix::ffi::OsStrExt as _, time::Duration};

use anyhow::{Context, Result};
use rustix::{
    net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl},
    process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open},
};

/// Prints how many sockets have the options.
pub(crate) fn run(idle_s: u64, pids: &[i32]) -> Result<()> {
    let mut armed = 0;
    for &pid in pids {
        let folder = format!("/proc/{pid}/fd");
        let process =
            pidfd_open(Pid::from_raw(pid).context("0 is no process")?, PidfdFlags::empty())
                .with_context(|| format!("open process {pid}"))?;
        for entry in fs::read_dir(&folder).with_context(|| format!("read {folder}"))? {
            let entry = entry?;
            let link = fs::read_link(entry.path())?;
            if !link.as_os_str().as_bytes().starts_with(b"socket:") {
                continue;
            }
            let number = entry.file_name();
            let number =
                number.to_str().and_then(|number| number.parse().ok()).context("a number")?;
            let socket = pidfd_getfd(&process, number, PidfdGetfdFlags::empty())?;
            set_tcp_keepintvl(&socket, Duration::from_secs(75))?;
            set_tcp_keepcnt(&socket, 9)?;
            set_socket_keepalive(&socket, true)?;
            set_tcp_keepidle(&socket, Duration::from_secs(idle_s))?;
            armed += 1;
        }
    }
    println!("{armed}");
    Ok(())
}
