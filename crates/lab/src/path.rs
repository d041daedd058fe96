//! Which middlebox a run has: from the scenario, a cluster's own configuration, or the caller.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use stillopen_collect::kube_proxy::{self, KubeProxy, Mode};

use crate::{
    middlebox::{Config, Middlebox, Profile, Service, TcpState, Timeouts},
    result::PathResult,
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
    addresses: Addresses,
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
        let addresses = Addresses::new(0, options.ipv6, *backends);
        let hz = options.hz.unwrap_or(*hz);
        Ok(Self { kube_proxy, ..Self::new(profile, timeouts, hz, addresses) })
    }

    /// One of this kind; nothing is read of a cluster.
    pub(crate) fn new(profile: Profile, timeouts: Timeouts, hz: u32, addresses: Addresses) -> Self {
        let backends = addresses.backends.clone();
        // Without translation, the address that clients connect to is the server's own.
        let (vip, backends) = if profile.translates {
            (addresses.vip, backends)
        } else {
            (backends[0], vec![backends[0]])
        };
        Self { profile, timeouts, kube_proxy: None, hz, backends, vip, addresses }
    }

    /// What results say of it.
    pub(crate) fn result(&self) -> PathResult {
        PathResult {
            profile: self.profile.name,
            about: self.profile.about,
            kube_proxy_mode: self.kube_proxy.as_ref().map(|settings| settings.mode.name()),
            tcp_timeout: self.kube_proxy.as_ref().and_then(|s| s.tcp_timeout_written.clone()),
            idle_timeout_s: self.idle_timeout().as_secs_f64(),
            hz: self.hz,
            vip: self.vip.to_string(),
            backends: self.backends.len(),
        }
    }

    #[cfg(all(feature = "programs", target_os = "linux", not(stillopen_portable)))]
    pub(crate) fn addresses(&self) -> &Addresses {
        &self.addresses
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
        self.addresses.client(number)
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

/// Addresses of a path: of the client, of the node between, of the Service and who serves it. Lanes are paths
/// side by side on one machine; the simulator's only one is lane 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addresses {
    lane: u8,
    pub(crate) v6: bool,
    pub(crate) vip: SocketAddr,
    pub(crate) backends: Vec<SocketAddr>,
}

impl Addresses {
    pub(crate) fn new(lane: u8, v6: bool, backends: u8) -> Self {
        let wide = u16::from(lane);
        let vip = if v6 {
            (Ipv6Addr::new(0xfd00, 0x96, wide, 0, 0, 0, 0, 0x1403), PORT).into()
        } else {
            (Ipv4Addr::new(10, 96, 14_u8.wrapping_add(lane), 3), PORT).into()
        };
        let backend = |number: u8| (Self::side(lane, v6, 2, 2 + u16::from(number)), PORT).into();
        Self { lane, v6, vip, backends: (0..backends).map(backend).collect() }
    }

    /// Connection number `number`'s own address at the client's end.
    pub(crate) fn client(&self, number: usize) -> SocketAddr {
        let port = FIRST_PORT.saturating_add(u16::try_from(number).unwrap_or(u16::MAX));
        (Self::side(self.lane, self.v6, 1, 2), port).into()
    }

    fn side(lane: u8, v6: bool, side: u16, host: u16) -> IpAddr {
        if v6 {
            Ipv6Addr::new(0xfd00, u16::from(lane), 0, side, 0, 0, 0, host).into()
        } else {
            let [_, side] = side.to_be_bytes();
            let [_, host] = host.to_be_bytes();
            Ipv4Addr::new(10, lane, side, host).into()
        }
    }
}

/// What only real namespaces need.
#[cfg(all(feature = "programs", target_os = "linux", not(stillopen_portable)))]
impl Addresses {
    /// The number of the connection from this port.
    pub(crate) fn connection(port: u16) -> Option<usize> {
        port.checked_sub(FIRST_PORT).map(usize::from)
    }

    /// The node's address on the clients' side (1) or the backends' (2).
    pub(crate) fn node(&self, side: u16) -> IpAddr {
        Self::side(self.lane, self.v6, side, 1)
    }

    /// The length of the prefix of each side's network.
    pub(crate) fn prefix(&self) -> u8 {
        if self.v6 { 64 } else { 24 }
    }

    /// The length of a whole address.
    pub(crate) fn host_prefix(&self) -> u8 {
        if self.v6 { 128 } else { 32 }
    }
}
