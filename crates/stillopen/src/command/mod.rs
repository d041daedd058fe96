//! One file for each command.

pub(crate) mod advise;
pub(crate) mod check;
pub(crate) mod findings;
pub(crate) mod lab;
pub(crate) mod limits;
pub(crate) mod logs;
