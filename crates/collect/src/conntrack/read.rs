//! Reads the settings and the entries of the calling thread's network namespace.

use std::{fs, io, path::Path, time::Duration};

use rustix::net::netlink::NETFILTER;
use stillopen_model::ConntrackSettings;

use super::parse::{DESTINATION_NAT, SOURCE_NAT, STATUS, Tracked, each_entry};
use crate::{
    budget::Spending,
    netlink::{
        NetlinkError,
        read::{Buffer, Whole, dump},
        write::Body,
    },
    sysctl::read::value,
};

/// `NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET`
const GET_ENTRIES: u16 = 1 << 8 | 1;
/// `CTA_STATUS_MASK`: a kernel that knows it (Linux 6.1 does) leaves out what does not match.
const STATUS_MASK: u16 = 26;
const FOLDER: &str = "/proc/sys/net/netfilter";

/// Which entries to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Those that translate an address; an older kernel gives all.
    Translated,
    All,
}

/// `None`: this kernel tracks no connections.
pub(crate) fn settings() -> io::Result<Option<ConntrackSettings>> {
    let folder = Path::new(FOLDER);
    if !folder.join("nf_conntrack_tcp_timeout_established").exists() {
        return Ok(None);
    }
    let number = |name: &str| value(&folder.join(format!("nf_conntrack_{name}")));
    let seconds = |name: &str| number(name).map(|s| Duration::from_secs(s.into()));
    Ok(Some(ConntrackSettings {
        established: seconds("tcp_timeout_established")?,
        close_wait: seconds("tcp_timeout_close_wait")?,
        fin_wait: seconds("tcp_timeout_fin_wait")?,
        unacknowledged: seconds("tcp_timeout_unacknowledged")?,
        max_retrans: seconds("tcp_timeout_max_retrans")?,
        loose: number("tcp_loose")? != 0,
        be_liberal: number("tcp_be_liberal")? != 0,
        acct: number("acct")? != 0,
    }))
}

/// How many entries the namespace has. 0: also where this kernel tracks no connections. Asking for them
/// costs a walk over the table of all namespaces, and may load a module.
pub(crate) fn count() -> io::Result<u32> {
    match fs::exists(Path::new(FOLDER).join("nf_conntrack_count")) {
        Ok(true) => value(&Path::new(FOLDER).join("nf_conntrack_count")),
        _ => Ok(0),
    }
}

/// The namespace's entries of TCP connections, one that translates both addresses perhaps twice.
pub(crate) fn entries(
    wanted: Wanted,
    buffer: &mut Buffer,
    spending: &Spending,
) -> Result<Vec<Tracked>, NetlinkError> {
    // struct nfgenmsg: every family.
    let all = Body::new(&[0; 4]);
    match wanted {
        Wanted::All => some(&all, buffer, spending, |_| true),
        Wanted::Translated => {
            let of = |status: u32| {
                let bits = status.to_be_bytes();
                all.clone().with(STATUS, &bits).with(STATUS_MASK, &bits)
            };
            let mut found = some(&of(DESTINATION_NAT), buffer, spending, |entry| {
                entry.translates_destination()
            })?;
            found.extend(some(&of(SOURCE_NAT), buffer, spending, |entry| {
                entry.translates() && !entry.translates_destination()
            })?);
            Ok(found)
        }
    }
}

fn some(
    request: &Body,
    buffer: &mut Buffer,
    spending: &Spending,
    keep: impl Fn(&Tracked) -> bool,
) -> Result<Vec<Tracked>, NetlinkError> {
    let mut found = Vec::new();
    let take = |block: &[u8], found: &mut Vec<Tracked>| {
        spending.check()?;
        each_entry(block, |entry| {
            if keep(&entry) {
                found.push(entry);
            }
        })
    };
    let whole =
        dump(Some(NETFILTER), GET_ENTRIES, request.bytes(), buffer, &mut found, Vec::clear, take)?;
    match whole {
        Whole::Yes => Ok(found),
        Whole::No => Err(NetlinkError::Io {
            call: "recv",
            cause: io::Error::other("the table changed under the kernel's list each time"),
        }),
    }
}
