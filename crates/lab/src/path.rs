//! Which middlebox a run has: from the scenario, a cluster's own configuration, or the caller.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use stillopen_collect::kube_proxy::{self, KubeProxy, Mode};

use crate::{
    middlebox::{Config, Middlebox, Profile, Service, TcpState, Timeouts},
    run::{RunError, RunOptions},
    scenario::{self, Scenario},
};

/// The port of the Service, and of its backends.
const PORT: u16 = 8000;
/// The first ephemeral port.
const FIRST_PORT: u16 = 20_000;

/// A middlebox that is decided.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub(crate) profile: Profile,
    pub(crate) timeouts: Timeouts,
    pub(crate) kube_proxy: Option<KubeProxy>,
    pub(crate) hz: u32,
    pub(crate) backends: Vec<SocketAddr>,
    pub(crate) vip: SocketAddr,
    v6: bool,
}

impl Path {
    pub(crate) fn decide(scenario: &Scenario, options: &RunOptions) -> Result<Self, RunError> {
        let scenario::Path { profile, kube_proxy, idle_timeout, backends, hz } = &scenario.path;
        let text = match (&options.kube_proxy, &options.profile, kube_proxy) {
            (Some(text), ..) => Some(text.as_str()),
            (None, None, Some(file)) => {
                let own = options.own_kube_proxy.as_deref();
                let text = own.or_else(|| crate::embedded::kube_proxy(file));
                Some(text.ok_or_else(|| RunError::NoKubeProxy(file.clone()))?)
            }
            _ => None,
        };
        let kube_proxy = text.map(kube_proxy::parse).transpose()?.map(|found| found.settings);
        let (profile, mut timeouts) = if let Some(settings) = &kube_proxy {
            from_kube_proxy(settings)
        } else {
            let name = options.profile.as_ref().or(profile.as_ref());
            let name = name.map_or("ipvs", String::as_str);
            let profile = Profile::named(name).ok_or_else(|| RunError::Profile(name.into()))?;
            let timeouts = profile.timeouts;
            (profile, timeouts)
        };
        // The file's idle_timeout is of the file's own path, not of another that the caller gave.
        let own = (options.kube_proxy.is_none()).then_some(*idle_timeout).flatten();
        if let Some(idle) = options.idle_timeout.or(own.map(|span| span.0)) {
            timeouts = timeouts.with(TcpState::Established, idle);
        }
        let v6 = options.ipv6;
        let backends: Vec<_> = (0..*backends).map(|number| backend(v6, number)).collect();
        // Without translation, the address that clients connect to is the server's own.
        let (vip, backends) =
            if profile.translates { (vip(v6), backends) } else { (backends[0], vec![backends[0]]) };
        Ok(Self { profile, timeouts, kube_proxy, hz: options.hz.unwrap_or(*hz), backends, vip, v6 })
    }

    pub(crate) fn idle_timeout(&self) -> Duration {
        self.timeouts.of(TcpState::Established)
    }

    /// One that has room for `connections`.
    pub(crate) fn middlebox(&self, connections: u32) -> Middlebox {
        let service = Service { vip: self.vip, backends: self.backends.clone() };
        let mut config = Config::new(self.profile.clone(), vec![service]);
        (config.timeouts, config.hz) = (self.timeouts, self.hz);
        config.capacity = connections.max(16);
        Middlebox::new(config)
    }

    /// Connection number `number`'s own address at the client's end.
    pub(crate) fn client(&self, number: usize) -> SocketAddr {
        let port = FIRST_PORT.saturating_add(u16::try_from(number).unwrap_or(u16::MAX));
        if self.v6 {
            (Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 2), port).into()
        } else {
            (Ipv4Addr::new(10, 0, 1, 2), port).into()
        }
    }
}

fn from_kube_proxy(settings: &KubeProxy) -> (Profile, Timeouts) {
    let name = match settings.mode {
        Mode::Ipvs => "ipvs",
        Mode::Iptables | Mode::Nftables => "conntrack",
    };
    let profile = Profile::named(name).expect("both are in the table");
    let timeouts = match settings.mode {
        // `ipvsadm --set` changes these two only.
        Mode::Ipvs => profile.timeouts.with(TcpState::FinWait, settings.tcp_fin_timeout),
        Mode::Iptables | Mode::Nftables => {
            profile.timeouts.with(TcpState::CloseWait, settings.conntrack_close_wait)
        }
    };
    let timeouts = timeouts.with(TcpState::Established, settings.idle_timeout());
    (profile, timeouts)
}

fn vip(v6: bool) -> SocketAddr {
    if v6 {
        (Ipv6Addr::new(0xfd00, 0x96, 0, 0, 0, 0, 0, 0x1403), PORT).into()
    } else {
        (Ipv4Addr::new(10, 96, 14, 3), PORT).into()
    }
}

fn backend(v6: bool, number: u8) -> SocketAddr {
    if v6 {
        (Ipv6Addr::new(0xfd00, 0, 0, 2, 0, 0, 0, 2 + u16::from(number)), PORT).into()
    } else {
        (Ipv4Addr::new(10, 0, 2, 2 + number), PORT).into()
    }
}
