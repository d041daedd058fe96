//! What a kube-proxy configuration says of idle timeouts: mode, IPVS and conntrack timeouts.
//!
//! Pure: text in, settings out. The text is a `KubeProxyConfiguration`, the `ConfigMap` that holds one as
//! kubectl prints it (alone, in a List, among other documents), or the flags of the program: of a Pod, a
//! `DaemonSet`, k3s's configuration file, or a command line. Fields that do not matter here are passed
//! over: the file is the cluster's, not ours. Read first: the kube-proxy configuration reference (v1alpha1).

mod duration;
mod flags;
mod objects;
#[cfg(test)]
mod tests;

use std::time::Duration;

use ipnet::IpNet;

pub use duration::go_duration;

/// The kernel's value, which an IPVS timeout of 0 keeps: `tcp_timeouts` in `ip_vs_proto_tcp.c`.
pub const IPVS_KERNEL_TCP_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// The same after the server's FIN.
pub const IPVS_KERNEL_TCP_FIN_TIMEOUT: Duration = Duration::from_secs(2 * 60);
/// After the client's FIN (`IP_VS_TCP_S_CLOSE_WAIT`, same file), which no setting changes.
pub const IPVS_TCP_CLOSE_WAIT: Duration = Duration::from_secs(60);
/// What kube-proxy sets `nf_conntrack_tcp_timeout_established` to where the configuration says nothing.
pub const CONNTRACK_DEFAULT: Duration = Duration::from_secs(24 * 60 * 60);
/// What it sets `nf_conntrack_tcp_timeout_close_wait` to where the configuration says nothing.
pub const CONNTRACK_CLOSE_WAIT_DEFAULT: Duration = Duration::from_secs(60 * 60);
/// The kernel's own established timeout, which a 0 in the configuration keeps.
pub const CONNTRACK_KERNEL: Duration = Duration::from_secs(5 * 24 * 60 * 60);
/// The kernel's own close-wait timeout, which a 0 in the configuration keeps.
pub const CONNTRACK_KERNEL_CLOSE_WAIT: Duration = Duration::from_secs(60);

/// How kube-proxy makes Services work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// IPVS: connections are forgotten by its own table.
    Ipvs,
    /// iptables (also what an empty mode means on Linux): conntrack only.
    Iptables,
    /// nftables: conntrack only.
    Nftables,
}

impl Mode {
    /// As the configuration spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ipvs => "ipvs",
            Self::Iptables => "iptables",
            Self::Nftables => "nftables",
        }
    }
}

/// What the configuration says, defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeProxy {
    /// How Services work.
    pub mode: Mode,
    /// Whether the mode is written, and not empty.
    pub mode_is_set: bool,
    /// `ipvs.tcpTimeout` as it is written, where it is: `0s` is worth showing.
    pub tcp_timeout_written: Option<String>,
    /// How long IPVS keeps an idle established connection.
    pub tcp_timeout: Duration,
    /// How long IPVS keeps one after the server's FIN.
    pub tcp_fin_timeout: Duration,
    /// `ipvs.excludeCIDRs`: virtual services in there are left alone when kube-proxy cleans up. They are not
    /// kube-proxy's, and pass the same table.
    pub exclude_cidrs: Vec<IpNet>,
    /// `conntrack.tcpEstablishedTimeout` as it is written, where it is.
    pub conntrack_established_written: Option<String>,
    /// How long conntrack keeps an idle established connection.
    pub conntrack_established: Duration,
    /// How long conntrack keeps one after an acknowledged FIN.
    pub conntrack_close_wait: Duration,
}

impl KubeProxy {
    /// How long an idle established connection to a Service is remembered in this mode.
    #[must_use]
    pub fn idle_timeout(&self) -> Duration {
        match self.mode {
            Mode::Ipvs => self.tcp_timeout,
            Mode::Iptables | Mode::Nftables => self.conntrack_established,
        }
    }
}

/// Settings and where they stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What is set.
    pub settings: KubeProxy,
    /// `ConfigMap kube-system/kube-proxy, config.conf`
    pub place: String,
}

/// Why a text is not a kube-proxy configuration.
#[derive(Debug, thiserror::Error)]
pub enum KubeProxyError {
    /// Not YAML.
    #[error("kube-proxy configuration: cannot read {part} as YAML")]
    Yaml {
        /// Which text.
        part: String,
        /// What is wrong, and where.
        source: Box<serde_saphyr::Error>,
    },
    /// JSON has no comments.
    #[error("kube-proxy configuration: {part} has comments in JSON: take them out")]
    Comments {
        /// Which text.
        part: String,
    },
    /// Nothing in the text is one.
    #[error(
        "kube-proxy configuration: none in {found}; print it with: \
         kubectl -n kube-system get cm kube-proxy -o yaml (EKS: cm kube-proxy-config)"
    )]
    None {
        /// What there is.
        found: String,
    },
    /// The program reads a file that is not here.
    #[error(
        "kube-proxy configuration: {place} has --config={file}, and that file decides, not the flags; print it \
         with: kubectl -n kube-system get cm kube-proxy -o yaml"
    )]
    Elsewhere {
        /// Which object or command line.
        place: String,
        /// The file's path on the node.
        file: String,
    },
    /// Two that differ.
    #[error("kube-proxy configuration: {first} and {second} differ; give one of them")]
    Differ {
        /// Where the one stands.
        first: String,
        /// Where the other stands.
        second: String,
    },
    /// The end is missing.
    #[error(
        "kube-proxy configuration: {place} ends before \"mode\" and looks cut off; if it is whole, write \
         mode: \"\" (iptables) into it"
    )]
    CutOff {
        /// Where it stands.
        place: String,
    },
    /// A mode that is not known, or not of Linux.
    #[error("kube-proxy configuration: {place}: mode {mode} is not ipvs, iptables or nftables")]
    Mode {
        /// Where it stands.
        place: String,
        /// What stands there.
        mode: String,
    },
    /// A duration that is none.
    #[error(
        "kube-proxy configuration: {place}: {field}: {text} is not a duration such as 0s, 350s, 15m0s"
    )]
    Duration {
        /// Where it stands.
        place: String,
        /// The field.
        field: &'static str,
        /// What stands there.
        text: String,
    },
    /// A field of another shape.
    #[error("kube-proxy configuration: {place}: {field}: expected {expected}, found {text}")]
    Shape {
        /// Where it stands.
        place: String,
        /// The field.
        field: &'static str,
        /// What belongs there.
        expected: &'static str,
        /// What stands there.
        text: String,
    },
}

/// The fields that matter, as they are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Written {
    mode: Option<String>,
    tcp_timeout: Option<String>,
    tcp_fin_timeout: Option<String>,
    exclude_cidrs: Vec<String>,
    conntrack_established: Option<String>,
    conntrack_close_wait: Option<String>,
}

/// Reads a configuration in any of the shapes that the module's documentation lists.
///
/// # Errors
/// [`KubeProxyError`], which names the part and what is wrong with it.
pub fn parse(text: &str) -> Result<Found, KubeProxyError> {
    let (first, others) = objects::written(text)?;
    let settled = |(written, place): (Written, String)| {
        Ok(Found { settings: settle(written, &place)?, place })
    };
    let first = settled(first)?;
    for other in others {
        let other = settled(other)?;
        if other.settings != first.settings {
            return Err(KubeProxyError::Differ { first: first.place, second: other.place });
        }
    }
    Ok(first)
}

fn settle(written: Written, place: &str) -> Result<KubeProxy, KubeProxyError> {
    let place = || place.to_owned();
    let mode = match written.mode.as_deref().unwrap_or_default() {
        "ipvs" => Mode::Ipvs,
        "nftables" => Mode::Nftables,
        "" | "iptables" => Mode::Iptables,
        other => return Err(KubeProxyError::Mode { place: place(), mode: format!("{other:?}") }),
    };
    // IPVS: unset and 0 both keep the kernel's value. conntrack: 0 does, unset is kube-proxy's default.
    let keeps = |field, text: &Option<String>, unset, kernel| match text {
        None => Ok(unset),
        Some(text) => {
            go_duration(text).map(|set| if set.is_zero() { kernel } else { set }).ok_or_else(|| {
                KubeProxyError::Duration { place: place(), field, text: format!("{text:?}") }
            })
        }
    };
    let exclude_cidrs = written.exclude_cidrs.iter().map(|text| {
        text.parse().map_err(|_| KubeProxyError::Shape {
            place: place(),
            field: "ipvs.excludeCIDRs",
            expected: "a network such as 10.0.0.0/24",
            text: format!("{text:?}"),
        })
    });
    let (tcp, fin) = (IPVS_KERNEL_TCP_TIMEOUT, IPVS_KERNEL_TCP_FIN_TIMEOUT);
    Ok(KubeProxy {
        mode,
        mode_is_set: written.mode.is_some_and(|mode| !mode.is_empty()),
        tcp_timeout: keeps("ipvs.tcpTimeout", &written.tcp_timeout, tcp, tcp)?,
        tcp_fin_timeout: keeps("ipvs.tcpFinTimeout", &written.tcp_fin_timeout, fin, fin)?,
        conntrack_established: keeps(
            "conntrack.tcpEstablishedTimeout",
            &written.conntrack_established,
            CONNTRACK_DEFAULT,
            CONNTRACK_KERNEL,
        )?,
        conntrack_close_wait: keeps(
            "conntrack.tcpCloseWaitTimeout",
            &written.conntrack_close_wait,
            CONNTRACK_CLOSE_WAIT_DEFAULT,
            CONNTRACK_KERNEL_CLOSE_WAIT,
        )?,
        exclude_cidrs: exclude_cidrs.collect::<Result<_, _>>()?,
        tcp_timeout_written: written.tcp_timeout,
        conntrack_established_written: written.conntrack_established,
    })
}
