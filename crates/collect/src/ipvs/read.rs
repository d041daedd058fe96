//! Reads IP Virtual Server of the calling thread's network namespace.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

use rustix::net::netlink::GENERIC;

use super::{
    Row, Services, Timeouts,
    parse::{family, take_services, timeouts},
    rows::{row, take_service},
};
use crate::{
    budget::Spending,
    netlink::{
        NetlinkError,
        read::{Buffer, ask, dump},
        write::Body,
    },
    sysctl::read::value,
};

/// `GENL_ID_CTRL`
const CONTROLLER: u16 = 16;
/// `struct genlmsghdr` of `CTRL_CMD_GETFAMILY`
const GET_FAMILY: [u8; 4] = [3, 1, 0, 0];
/// `CTRL_ATTR_FAMILY_NAME`
const FAMILY_NAME: u16 = 2;
/// `struct genlmsghdr` of `IPVS_CMD_GET_SERVICE`
const GET_SERVICE: [u8; 4] = [4, 1, 0, 0];
/// `struct genlmsghdr` of `IPVS_CMD_GET_CONFIG`
const GET_CONFIG: [u8; 4] = [13, 1, 0, 0];
/// `/proc/net` is that of the process's first thread.
const SERVICES: &str = "/proc/thread-self/net/ip_vs";
const ENTRIES: &str = "/proc/thread-self/net/ip_vs_conn";
const SYSCTLS: &str = "/proc/sys/net/ipv4/vs";
/// A read of a `/proc` file gives a page at most.
const PIECE: usize = 16 * 1024;

/// What there is beside the entries.
#[derive(Debug)]
pub(crate) struct Ipvs {
    pub services: Services,
    /// `None`: not known.
    pub timeouts: Option<Timeouts>,
    /// `vs/sloppy_tcp`: a packet in mid-stream makes an entry anew.
    pub sloppy: bool,
    /// `vs/nat_icmp_send`: a server's packet without an entry is answered with an ICMP error.
    pub icmp: bool,
}

/// It, and why its timeouts are not known. `None`: this kernel has no IP Virtual Server, or the namespace
/// has no services.
///
/// Asking for the family would load the module (`MODULE_ALIAS_GENL_FAMILY`): its file tells beforehand.
pub(crate) fn ipvs(
    buffer: &mut Buffer,
) -> Result<Option<(Ipvs, Option<NetlinkError>)>, NetlinkError> {
    if !exists() {
        return Ok(None);
    }
    let on = |name: &str| value(&Path::new(SYSCTLS).join(name)).is_ok_and(|on| on != 0);
    let (services, timeouts, refused) = match over_netlink(buffer) {
        Ok((services, timeouts)) => (services, Some(timeouts), None),
        Err(refused) => match services_of_file() {
            Ok(services) => (services, None, Some(refused)),
            Err(_) => return Err(refused),
        },
    };
    if services == Services::default() {
        return Ok(None);
    }
    let (sloppy, icmp) = (on("sloppy_tcp"), on("nat_icmp_send"));
    Ok(Some((Ipvs { services, timeouts, sloppy, icmp }, refused)))
}

/// Whether this kernel has IP Virtual Server.
pub(crate) fn exists() -> bool {
    Path::new(SERVICES).exists()
}

fn over_netlink(buffer: &mut Buffer) -> Result<(Services, Timeouts), NetlinkError> {
    let name = Body::new(&GET_FAMILY).with_text(FAMILY_NAME, b"IPVS");
    let family = ask(Some(GENERIC), CONTROLLER, name.bytes(), buffer, family)?;
    let timeouts = ask(Some(GENERIC), family, &GET_CONFIG, buffer, timeouts)?;
    let mut services = Services::default();
    let restart = |services: &mut Services| *services = Services::default();
    dump(Some(GENERIC), family, &GET_SERVICE, buffer, &mut services, restart, take_services)?;
    Ok((services, timeouts))
}

fn services_of_file() -> io::Result<Services> {
    let mut services = Services::default();
    for line in fs::read(SERVICES)?.split(|&byte| byte == b'\n') {
        take_service(line, &mut services);
    }
    Ok(services)
}

/// The namespace's entries of TCP connections.
///
/// The kernel finds its place again by counting: what comes or goes while it is read may hide an entry.
pub(crate) fn entries(spending: &Spending) -> Result<Vec<Row>, NetlinkError> {
    let failed = |call| move |cause| NetlinkError::Io { call, cause };
    let mut file = File::open(ENTRIES).map_err(failed("open ip_vs_conn"))?;
    let mut rows = Vec::new();
    let (mut piece, mut rest) = (vec![0; PIECE], Vec::new());
    loop {
        spending.check()?;
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => {
                rest.extend_from_slice(&piece[..length]);
                let whole = rest.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
                rows.extend(rest[..whole].split(|&byte| byte == b'\n').filter_map(row));
                rest.drain(..whole);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed("read ip_vs_conn")(error)),
        }
    }
    Ok(rows)
}
