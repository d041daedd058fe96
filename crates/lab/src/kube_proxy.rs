//! Reads what a kube-proxy `ConfigMap` says of idle timeouts: mode, IPVS and conntrack timeouts.
//!
//! Pure: text in, settings out. The text is what `kubectl -n kube-system get cm kube-proxy -o yaml` prints,
//! or the `KubeProxyConfiguration` inside it. Fields that do not matter here are passed over: the file is the
//! cluster's, not ours. Read first: the kube-proxy configuration reference (v1alpha1).

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;

/// The kernel's value, which an IPVS timeout of 0 keeps: `tcp_timeouts` in `ip_vs_proto_tcp.c`.
pub const IPVS_KERNEL_TCP_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// The same after a FIN.
pub const IPVS_KERNEL_TCP_FIN_TIMEOUT: Duration = Duration::from_secs(2 * 60);
/// What kube-proxy sets `nf_conntrack_tcp_timeout_established` to where the configuration says nothing.
pub const CONNTRACK_DEFAULT: Duration = Duration::from_secs(24 * 60 * 60);
/// What it sets `nf_conntrack_tcp_timeout_close_wait` to where the configuration says nothing.
pub const CONNTRACK_CLOSE_WAIT_DEFAULT: Duration = Duration::from_secs(60 * 60);
/// The kernel's own established timeout, which a 0 in the configuration keeps.
pub const CONNTRACK_KERNEL: Duration = Duration::from_secs(5 * 24 * 60 * 60);
/// The kernel's own close-wait timeout, which a 0 in the configuration keeps.
pub const CONNTRACK_KERNEL_CLOSE_WAIT: Duration = Duration::from_secs(60);
/// The key of the configuration in the `ConfigMap` that kubeadm writes.
const CONFIG_KEY: &str = "config.conf";

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
    /// `ipvs.tcpTimeout` as it is written, where it is: `0s` is worth showing.
    pub tcp_timeout_written: Option<String>,
    /// How long IPVS keeps an idle established connection.
    pub tcp_timeout: Duration,
    /// How long IPVS keeps one after the server's FIN.
    pub tcp_fin_timeout: Duration,
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

/// Why a text is not a kube-proxy configuration.
#[derive(Debug, thiserror::Error)]
pub enum KubeProxyError {
    /// Not YAML, or not of this shape.
    #[error("kube-proxy configuration: cannot read {part} as YAML: {source}")]
    Yaml {
        /// Which of the two documents.
        part: &'static str,
        /// What is wrong, and where.
        source: Box<serde_saphyr::Error>,
    },
    /// A `ConfigMap` of something else.
    #[error(
        "kube-proxy configuration: the ConfigMap has no key {CONFIG_KEY} (it has: {keys}); \
         print the right one with: kubectl -n kube-system get cm kube-proxy -o yaml"
    )]
    NoConfig {
        /// The keys that it has.
        keys: String,
    },
    /// The `ConfigMap` holds something else.
    #[error(
        "config.conf in the ConfigMap: expected a KubeProxyConfiguration, found kind {found:?}"
    )]
    Inner {
        /// What it is.
        found: String,
    },
    /// Another kind of object.
    #[error(
        "kube-proxy configuration: expected a ConfigMap or a KubeProxyConfiguration, found kind {found:?}"
    )]
    Kind {
        /// What the file says.
        found: String,
    },
    /// A mode that is not known, or not of Linux.
    #[error("kube-proxy configuration: mode {0:?} is not ipvs, iptables or nftables")]
    Mode(String),
    /// A duration that is none.
    #[error(
        "kube-proxy configuration: {field}: {text:?} is not a duration such as 0s, 350s, 15m0s"
    )]
    Duration {
        /// Where it stands.
        field: &'static str,
        /// What stands there.
        text: String,
    },
}

const CONFIGURATION: &str = "KubeProxyConfiguration";

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Document {
    kind: String,
    data: BTreeMap<String, Option<String>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Configuration {
    mode: Option<String>,
    ipvs: Option<Ipvs>,
    conntrack: Option<Conntrack>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Ipvs {
    tcp_timeout: Option<String>,
    tcp_fin_timeout: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Conntrack {
    tcp_established_timeout: Option<String>,
    tcp_close_wait_timeout: Option<String>,
}

/// Reads a `ConfigMap` as kubectl prints it, or the configuration itself.
///
/// # Errors
/// [`KubeProxyError`], which names the part and what is wrong with it.
pub fn parse(text: &str) -> Result<KubeProxy, KubeProxyError> {
    let document: Document = yaml("the file", text)?;
    match document.kind.as_str() {
        "ConfigMap" => {
            let Some(Some(config)) = document.data.get(CONFIG_KEY) else {
                let keys: Vec<&str> = document.data.keys().map(String::as_str).collect();
                let keys = if keys.is_empty() { "none".into() } else { keys.join(", ") };
                return Err(KubeProxyError::NoConfig { keys });
            };
            let part = "config.conf in the ConfigMap";
            let inner: Document = yaml(part, config)?;
            if config.trim().is_empty() || !["", CONFIGURATION].contains(&inner.kind.as_str()) {
                return Err(KubeProxyError::Inner { found: inner.kind });
            }
            settle(yaml(part, config)?)
        }
        CONFIGURATION => settle(yaml("the file", text)?),
        _ => Err(KubeProxyError::Kind { found: document.kind }),
    }
}

fn yaml<'a, T: Deserialize<'a>>(part: &'static str, text: &'a str) -> Result<T, KubeProxyError> {
    serde_saphyr::from_str(text)
        .map_err(|source| KubeProxyError::Yaml { part, source: Box::new(source) })
}

fn settle(config: Configuration) -> Result<KubeProxy, KubeProxyError> {
    let mode = match config.mode.as_deref().unwrap_or_default() {
        "ipvs" => Mode::Ipvs,
        "nftables" => Mode::Nftables,
        "" | "iptables" => Mode::Iptables,
        other => return Err(KubeProxyError::Mode(other.to_owned())),
    };
    let ipvs = config.ipvs.unwrap_or_default();
    let conntrack = config.conntrack.unwrap_or_default();
    // IPVS: unset and 0 both keep the kernel's value. conntrack: 0 does, unset is kube-proxy's default.
    let keeps = |field, text: &Option<String>, unset, kernel| match text {
        None => Ok(unset),
        Some(text) => duration(field, text).map(|set| if set.is_zero() { kernel } else { set }),
    };
    let (tcp, fin) = (IPVS_KERNEL_TCP_TIMEOUT, IPVS_KERNEL_TCP_FIN_TIMEOUT);
    Ok(KubeProxy {
        mode,
        tcp_timeout: keeps("ipvs.tcpTimeout", &ipvs.tcp_timeout, tcp, tcp)?,
        tcp_fin_timeout: keeps("ipvs.tcpFinTimeout", &ipvs.tcp_fin_timeout, fin, fin)?,
        conntrack_established: keeps(
            "conntrack.tcpEstablishedTimeout",
            &conntrack.tcp_established_timeout,
            CONNTRACK_DEFAULT,
            CONNTRACK_KERNEL,
        )?,
        conntrack_close_wait: keeps(
            "conntrack.tcpCloseWaitTimeout",
            &conntrack.tcp_close_wait_timeout,
            CONNTRACK_CLOSE_WAIT_DEFAULT,
            CONNTRACK_KERNEL_CLOSE_WAIT,
        )?,
        tcp_timeout_written: ipvs.tcp_timeout,
    })
}

/// A duration as Go writes and reads it: `0s`, `15m0s`, `1h30m`, `1.5s`; a bare `0` too.
fn duration(field: &'static str, text: &str) -> Result<Duration, KubeProxyError> {
    go_duration(text).ok_or_else(|| KubeProxyError::Duration { field, text: text.to_owned() })
}

pub(crate) fn go_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| c != '.' && !c.is_ascii_digit())?;
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(letters);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let part = number.parse::<f64>().ok()? * seconds;
        total = total.checked_add(Duration::try_from_secs_f64(part).ok()?)?;
        rest = next;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_map(config: &str) -> String {
        let indented = config.replace('\n', "\n    ");
        format!(
            "apiVersion: v1\ndata:\n  config.conf: |-\n    {indented}\n  kubeconfig.conf: |-\n    \
             apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kube-proxy\n"
        )
    }

    #[test]
    fn what_is_written_is_what_holds() {
        const DAY: u64 = 86_400;
        for (config, mode, idle_s) in [
            ("mode: ipvs\nipvs:\n  tcpTimeout: 0s", Mode::Ipvs, 900),
            ("mode: ipvs", Mode::Ipvs, 900),
            ("mode: ipvs\nipvs: null", Mode::Ipvs, 900),
            ("mode: ipvs\nipvs:\n  tcpTimeout: 350s", Mode::Ipvs, 350),
            ("mode: ipvs\nipvs:\n  tcpTimeout: 1h0m0s", Mode::Ipvs, 3600),
            ("mode: \"ipvs\"\nipvs: {tcpTimeout: 15m30s}", Mode::Ipvs, 930),
            ("mode: iptables\nipvs:\n  tcpTimeout: 350s", Mode::Iptables, DAY),
            ("mode: \"\"\nconntrack:\n  tcpEstablishedTimeout: null", Mode::Iptables, DAY),
            ("mode: nftables\nconntrack:\n  tcpEstablishedTimeout: 2h", Mode::Nftables, 7200),
            ("mode: iptables\nconntrack:\n  tcpEstablishedTimeout: 0s", Mode::Iptables, 5 * DAY),
        ] {
            let read = parse(&config_map(config)).unwrap();
            assert_eq!((read.mode, read.idle_timeout().as_secs()), (mode, idle_s), "{config}");
            let bare = format!("kind: KubeProxyConfiguration\n{config}");
            assert_eq!(parse(&bare).unwrap(), read);
        }
    }

    #[test]
    fn errors_name_the_part_and_the_cause() {
        for (text, says) in [
            ("a: [", "the file as YAML"),
            ("", "found kind \"\""),
            ("kind: Pod", "found kind \"Pod\""),
            ("kind: ConfigMap\ndata:\n  Corefile: x", "it has: Corefile"),
            ("kind: ConfigMap", "it has: none"),
            (&config_map("mode: userspace"), "\"userspace\""),
            (&config_map("mode: {a: 1}"), "config.conf in the ConfigMap as YAML"),
            (&config_map("mode: ipvs\nipvs:\n  tcpTimeout: 15 minutes"), "ipvs.tcpTimeout"),
            (&config_map("mode: ipvs\nipvs:\n  tcpTimeout: -5s"), "\"-5s\""),
            (&config_map("mode: ipvs\nipvs:\n  tcpTimeout: \"\""), "ipvs.tcpTimeout"),
            (&config_map("mode: ipvs\nipvs:\n  tcpTimeout: 900"), "\"900\""),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }
}
