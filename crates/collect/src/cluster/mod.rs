//! What a node's files tell of Kubernetes without its API: which pod a process is in, what the pod is called,
//! and which Services it was told of.

mod cgroup;
mod environ;
mod names;
pub(crate) mod read;
