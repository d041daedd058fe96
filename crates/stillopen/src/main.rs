//! The `stillopen` command.
#![forbid(unsafe_code)]

fn main() {}
