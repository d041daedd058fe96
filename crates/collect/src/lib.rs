//! Reads this host's TCP connections, their owners and their network namespaces into the model.
//!
//! One folder per source: `read.rs` has its system calls, `parse.rs` turns bytes into the model. What
//! can't be read becomes a [`Gap`](stillopen_model::Gap); only what leaves no answer at all is a
//! [`CollectError`]. Nothing is ever changed on the host.
//!
//! Read first: `request.rs`, then `linux.rs`.
#![cfg_attr(not(test), deny(unsafe_code))]

mod error;
pub mod kube_proxy;
mod request;

#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod address;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod bpf;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod budget;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod cluster;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod conntrack;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod flow;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod host;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod ipvs;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod linux;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod netlink;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod netns;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod nft;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod platform;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod process;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod route;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod sock_diag;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod sysctl;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod tables;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
mod watch;

#[cfg(not(all(target_os = "linux", not(stillopen_portable))))]
mod portable;

pub use error::CollectError;
pub use request::{Filter, Namespaces, Request};

#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub use {
    address::parse::parse_addresses,
    bpf::{BpfError, Iteration, Object, ObjectFile},
    conntrack::parse::parse_conntrack,
    ipvs::parse::{parse_ipvs_services, parse_ipvs_timeouts},
    ipvs::rows::parse_ipvs_entries,
    linux::{Collected, Handle, collect},
    netlink::{NetlinkError, read::request_done},
    nft::parse::parse_nft,
    process::options::{Holder, SocketOptions},
    process::read::holders_of,
    route::parse::parse_route,
    sock_diag::parse::{ParsedBlock, parse_connections, parse_listeners},
    sock_diag::wire::{TcpInfo, parse_tcp_info},
};

#[cfg(not(all(target_os = "linux", not(stillopen_portable))))]
pub use portable::{Collected, collect};
