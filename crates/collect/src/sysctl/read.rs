//! Reads them. `/proc/sys/net` shows the namespace of the thread that reads (`net_ctl_header_lookup`).

use std::{fs, io, path::Path};

use stillopen_model::Sysctls;

use super::parse::number;

const FOLDER: &str = "/proc/sys/net/ipv4";

/// Those of the calling thread's network namespace.
pub(crate) fn sysctls() -> io::Result<Sysctls> {
    Ok(Sysctls {
        keepalive_time_s: value("tcp_keepalive_time")?,
        keepalive_intvl_s: value("tcp_keepalive_intvl")?,
        keepalive_probes: value("tcp_keepalive_probes")?,
        retries2: value("tcp_retries2")?,
    })
}

fn value(name: &str) -> io::Result<u32> {
    let path = Path::new(FOLDER).join(name);
    let text = fs::read_to_string(&path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    number(&text).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {text:?}", path.display()))
    })
}
