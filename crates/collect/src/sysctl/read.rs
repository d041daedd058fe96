//! Reads them. `/proc/sys/net` shows the namespace of the thread that reads (`net_ctl_header_lookup`).

use std::{fs, io, path::Path};

use stillopen_model::Sysctls;

use super::parse::number;

const FOLDER: &str = "/proc/sys/net/ipv4";

/// Those of the calling thread's network namespace.
pub(crate) fn sysctls() -> io::Result<Sysctls> {
    let of = |name: &str| value(&Path::new(FOLDER).join(name));
    Ok(Sysctls {
        keepalive_time_s: of("tcp_keepalive_time")?,
        keepalive_intvl_s: of("tcp_keepalive_intvl")?,
        keepalive_probes: of("tcp_keepalive_probes")?,
        retries2: of("tcp_retries2")?,
    })
}

/// The number in one file of `/proc/sys`.
pub(crate) fn value(path: &Path) -> io::Result<u32> {
    let text = fs::read_to_string(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    number(&text).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {text:?}", path.display()))
    })
}
