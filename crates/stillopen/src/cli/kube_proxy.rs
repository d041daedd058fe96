//! The arguments that say what is known of a cluster, of every command that diagnoses or lists limits.
#![allow(clippy::doc_markdown, reason = "the comments are the help's text, which has no markup")]

use std::path::PathBuf;

use clap::Args;
use ipnet::IpNet;

use crate::input;

/// What is known of a cluster's kube-proxy.
#[derive(Debug, Clone, Default, Args)]
pub struct KubeProxyArgs {
    /// kube-proxy's configuration decides for Services: the ConfigMap as `kubectl -n kube-system get cm
    /// kube-proxy -o yaml` prints it, a KubeProxyConfiguration, k3s's config.yaml, or the flags; - reads
    /// standard input.
    #[arg(long, value_name = "FILE|-")]
    pub kube_proxy_config: Option<PathBuf>,
    /// Addresses of this network are Services. Without it, those that the programs were told of are
    /// (*_SERVICE_HOST in their environment). Can be given more than once.
    #[arg(long = "service-cidr", value_name = "CIDR", value_parser = input::network)]
    pub service_cidrs: Vec<IpNet>,
}
