//! IP Virtual Server of one network namespace: timeouts and services over generic netlink, connection
//! entries from `/proc/net/ip_vs_conn`, which alone has them.

pub(crate) mod parse;
pub(crate) mod read;
pub(crate) mod rows;

pub(crate) use parse::{Services, Timeouts};
pub(crate) use read::Ipvs;
pub(crate) use rows::Row;

#[cfg(test)]
mod tests;
