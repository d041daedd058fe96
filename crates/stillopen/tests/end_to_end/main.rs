//! `stillopen check`, `rescue` and `ask` on real sockets: each test makes two network namespaces with a veth pair between
//! them, opens connections over IPv4 and IPv6, and reads what the program says of them.
//!
//! Read `scene.rs` first. They need root, `ip` (iproute2), `nft` and `conntrack`, and fail where one is not
//! there.
#![cfg(target_os = "linux")]

mod deadline;
mod holder;
mod pods;
mod program;
mod report;
mod router;
mod scene;
mod services;
mod socket;

mod ask;
mod bad_input;
mod changes_nothing;
mod closed_meanwhile;
mod far_keepalive;
mod filters;
mod json_shape;
mod limits_of_a_file;
mod local_peers;
mod many;
mod not_the_path;
mod rescue;
mod snapshot_files;
mod tables;
mod text;
mod under_900s;
mod vanishing;
mod without_root;
