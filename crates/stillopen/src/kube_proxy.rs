//! What `--kube-proxy-config` means for a snapshot: a limit for Services, or what the kernel's own table is
//! compared with.

use std::{
    io::{self, Read as _},
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use stillopen_collect::kube_proxy::{Found, IPVS_TCP_CLOSE_WAIT, KubeProxy, Mode, parse};
use stillopen_model::{
    Evidence, EvidenceSource, Gap, IdleLimit, KernelHz, KnownService, Miss, Selector, Snapshot,
    TableKind, TimerSlack,
};

use crate::{cli::kube_proxy::KubeProxyArgs, input, paste::Options, report::words};

/// The id of the limit that a configuration gives.
const ID: &str = "kube-proxy-ipvs";

impl KubeProxyArgs {
    /// Adds what they say to `snapshot`; returns the limit that is set for Services, where it is not known which
    /// addresses are some.
    ///
    /// # Errors
    /// The file can't be read or is no such configuration.
    pub(crate) fn apply(&self, snapshot: &mut Snapshot) -> Result<Option<IdleLimit>> {
        let of_user = self
            .service_cidrs
            .iter()
            .map(|&network| KnownService { network, seen: format!("--service-cidr {network}") });
        snapshot.services.splice(0..0, of_user);
        let Some((found, path)) = self.found()? else { return Ok(None) };
        Ok(apply(&found, path, snapshot))
    }

    /// The limit that the configuration sets, for whatever is a Service; `None`: it is not given, or sets none.
    ///
    /// # Errors
    /// The file can't be read or is no such configuration.
    pub(crate) fn limit(&self, hz: KernelHz) -> Result<Option<IdleLimit>> {
        let Some((found, path)) = self.found()? else { return Ok(None) };
        let peers = self.service_cidrs.clone();
        let selector = Selector { peers, ..Selector::default() };
        let limit = limit(&found.settings, hz, evidence(&found, path));
        Ok(limit.map(|limit| IdleLimit { selector, ..limit }))
    }

    /// The configuration and its file, where one is given.
    fn found(&self) -> Result<Option<(Found, &Path)>> {
        let Some(path) = &self.kube_proxy_config else { return Ok(None) };
        Ok(Some((parse(&read(path)?).with_context(|| shown(path))?, path)))
    }

    /// Adds them as they were given.
    pub(crate) fn repeat(&self, options: &mut Options) {
        if let Some(path) = &self.kube_proxy_config {
            options.add("--kube-proxy-config", &path.to_string_lossy());
        }
        for cidr in &self.service_cidrs {
            options.add("--service-cidr", &cidr.to_string());
        }
    }
}

fn shown(path: &Path) -> String {
    if is_stdin(path) { "standard input".into() } else { path.display().to_string() }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn read(path: &Path) -> Result<String> {
    if !is_stdin(path) {
        return input::read_text(path)
            .with_context(|| format!("read kube-proxy configuration {}", path.display()));
    }
    let mut text = String::new();
    io::stdin()
        .take(input::LARGEST_TEXT)
        .read_to_string(&mut text)
        .context("read kube-proxy configuration from standard input")?;
    if text.trim().is_empty() {
        bail!(
            "standard input is empty; pipe into it: kubectl -n kube-system get cm kube-proxy -o yaml"
        );
    }
    Ok(text)
}

/// Where the kernel's table is readable, it is in force and the configuration is compared with it; else the
/// configuration is the limit of the addresses that are known to be Services.
fn apply(found: &Found, path: &Path, snapshot: &mut Snapshot) -> Option<IdleLimit> {
    let settings = &found.settings;
    let evidence = evidence(found, path);
    snapshot.kube_proxy = Some(evidence.clone());
    let (table, written) = match settings.mode {
        Mode::Ipvs => (TableKind::Ipvs, &settings.tcp_timeout_written),
        Mode::Iptables | Mode::Nftables => {
            (TableKind::Conntrack, &settings.conntrack_established_written)
        }
    };
    // 0 keeps whatever is in force.
    let sets = written.as_deref().is_some_and(|written| !is_zero(written));
    let mut in_force = false;
    for limit in &mut snapshot.limits {
        if limit.table.is_some_and(|of| of.kind == table) {
            in_force = true;
            limit.configured = sets.then(|| settings.idle_timeout());
            limit.evidence.push(evidence.clone());
        }
    }
    if in_force {
        return None;
    }
    let limit = limit(settings, snapshot.host.hz, evidence)?;
    if snapshot.services.is_empty() {
        snapshot.gaps.push(Gap {
            source: "services".into(),
            reason: format!(
                "which addresses are Services is not known, so the {} of {} decides nothing",
                words::limit_time(limit.idle_timeout),
                found.place
            ),
            how: "--service-cidr, or run it where the program runs: its environment has *_SERVICE_HOST".into(),
        });
        return Some(limit);
    }
    let peers = snapshot.services.iter().map(|service| service.network).collect();
    let selector = Selector { peers, ..Selector::default() };
    snapshot.limits.push(IdleLimit { selector, ..limit });
    None
}

/// In IPVS mode its timeout; else that of conntrack, where one is set.
fn limit(settings: &KubeProxy, hz: KernelHz, evidence: Evidence) -> Option<IdleLimit> {
    let written = settings.conntrack_established_written.as_deref();
    match settings.mode {
        Mode::Ipvs => Some(ipvs_limit(settings, hz, evidence)),
        Mode::Iptables | Mode::Nftables => written
            .is_some_and(|written| !is_zero(written))
            .then(|| conntrack_limit(settings, evidence)),
    }
}

fn is_zero(written: &str) -> bool {
    stillopen_collect::kube_proxy::go_duration(written).is_some_and(|time| time.is_zero())
}

/// `ConfigMap kube-system/kube-proxy, config.conf: mode ipvs, ipvs.tcpTimeout 0s keeps the kernel's value, 900s`
fn evidence(found: &Found, path: &Path) -> Evidence {
    let settings = &found.settings;
    let time = |time: Duration| words::limit_time(time);
    let what = match (settings.mode, &settings.tcp_timeout_written) {
        (Mode::Ipvs, Some(written)) if is_zero(written) => format!(
            "ipvs.tcpTimeout {written} keeps the kernel's value ({} by default)",
            time(settings.tcp_timeout)
        ),
        (Mode::Ipvs, Some(written)) => format!("ipvs.tcpTimeout {written}"),
        (Mode::Ipvs, None) => format!(
            "no ipvs.tcpTimeout, which keeps the kernel's value ({} by default)",
            time(settings.tcp_timeout)
        ),
        (Mode::Iptables | Mode::Nftables, _) => match &settings.conntrack_established_written {
            Some(written) => format!("no IPVS table; conntrack.tcpEstablishedTimeout {written}"),
            None => format!(
                "no IPVS table; conntrack forgets what it translates after {}, kube-proxy's default",
                time(settings.conntrack_established)
            ),
        },
    };
    let file = if is_stdin(path) { String::new() } else { format!(" ({})", path.display()) };
    let not_set = if settings.mode_is_set { "" } else { "not set, so " };
    let mode = format!("{not_set}{}", settings.mode.name());
    let detail = format!("{}{file}: mode {mode}, {what}", found.place);
    Evidence::new(EvidenceSource::ConfigFile, detail)
}

fn ipvs_limit(settings: &KubeProxy, hz: KernelHz, evidence: Evidence) -> IdleLimit {
    let component = "IPVS of kube-proxy".to_owned();
    IdleLimit {
        client_closed: Some(IPVS_TCP_CLOSE_WAIT),
        server_closed: Some(settings.tcp_fin_timeout),
        // A pod runs on the kernel that has the table.
        slack: TimerSlack::Wheel { hz },
        client_meets: Some(Miss::Reset),
        server_meets: Some(Miss::PassUntranslated),
        ..IdleLimit::new(ID.into(), component, settings.tcp_timeout, evidence)
    }
}

fn conntrack_limit(settings: &KubeProxy, evidence: Evidence) -> IdleLimit {
    let component = "conntrack of kube-proxy".to_owned();
    IdleLimit {
        client_closed: Some(settings.conntrack_close_wait),
        client_meets: Some(Miss::Recreate),
        server_meets: Some(Miss::PassUntranslated),
        ..IdleLimit::new(
            "kube-proxy-conntrack-set".into(),
            component,
            settings.conntrack_established,
            evidence,
        )
    }
}
