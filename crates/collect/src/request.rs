//! What to read: which namespaces, which connections, and whether owners are asked for.

use std::net::SocketAddr;

use ipnet::IpNet;

/// What [`collect`](crate::collect) reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Which network namespaces.
    pub namespaces: Namespaces,
    /// Whether to find each connection's process, and through it the keepalive values. It costs
    /// several times the list itself.
    pub owners: bool,
    /// From how many connections on BPF iterators find the owners, where this process may load them: a tenth of the
    /// cost for each, and as much as some thousand to begin with. `None`: never.
    pub iterators_from: Option<usize>,
    /// Which connections.
    pub filter: Filter,
}

/// Which network namespaces to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Namespaces {
    /// The one that this process is in.
    This,
    /// Every one that a process or a name refers to, once each.
    All,
    /// One: a name under `/run/netns`, a process id, or the path of a namespace file.
    Named(String),
}

/// Which connections to keep. Empty fields keep all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Those of this process. It needs [`Request::owners`], and implies it.
    pub pid: Option<u32>,
    /// Those with one of these ports at either end.
    pub ports: Vec<u16>,
    /// Those with a peer in one of these networks.
    pub peers: Vec<IpNet>,
}

impl Filter {
    /// Whether a connection between these two passes [`ports`](Self::ports) and [`peers`](Self::peers).
    #[must_use]
    pub fn passes(&self, local: SocketAddr, peer: SocketAddr) -> bool {
        let port = self.ports.is_empty()
            || self.ports.iter().any(|&port| port == local.port() || port == peer.port());
        port && (self.peers.is_empty() || self.peers.iter().any(|net| net.contains(&peer.ip())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_may_be_at_either_end_and_a_network_is_the_peers() {
        let (local, peer) = ("10.0.0.1:443".parse().unwrap(), "192.0.2.7:5000".parse().unwrap());
        for (ports, peers, passes) in [
            (vec![], vec![], true),
            (vec![443], vec![], true),
            (vec![5000], vec![], true),
            (vec![80], vec![], false),
            (vec![], vec!["192.0.2.0/24"], true),
            (vec![], vec!["10.0.0.0/8"], false),
            (vec![443], vec!["10.0.0.0/8"], false),
            (vec![443], vec!["2001:db8::/32", "192.0.2.7/32"], true),
        ] {
            let filter = Filter {
                pid: None,
                ports,
                peers: peers.iter().map(|net| net.parse().unwrap()).collect(),
            };
            assert_eq!(filter.passes(local, peer), passes, "{filter:?}");
        }
    }
}
