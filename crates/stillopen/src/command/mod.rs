//! One file for each command.

pub(crate) mod advise;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub(crate) mod ask;
pub(crate) mod check;
pub(crate) mod findings;
mod host;
pub(crate) mod lab;
pub(crate) mod limits;
pub(crate) mod logs;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub(crate) mod rescue;
#[cfg(all(target_os = "linux", not(stillopen_portable)))]
pub(crate) mod run;
