//! The timeouts of the tables that matter, as limits.

use ipnet::IpNet;
use stillopen_model::{
    ConntrackSettings, Evidence, EvidenceSource, IdleLimit, KernelHz, Miss, Selector, TableId,
    TableKind, TimerSlack,
};

use super::{held::Held, look::Found};
use crate::{
    ipvs::{Ipvs, Timeouts},
    kube_proxy::IPVS_TCP_CLOSE_WAIT,
    netns::Place,
    nft::Rules,
};

/// Those of IPVS first: where conntrack has no entry either, IPVS is the one that should have.
pub(super) fn limits(
    held: &[Held],
    found: &[Found],
    places: &[Place],
    hz: KernelHz,
    table: impl Fn(usize, TableKind) -> Option<TableId>,
) -> Vec<IdleLimit> {
    let decides =
        |place, kind| found.iter().any(|f| f.place == place && f.kind == kind && !f.aside);
    let mut limits = Vec::new();
    for kind in [TableKind::Ipvs, TableKind::Conntrack] {
        let start = limits.len();
        let mut of = Vec::new();
        for (at, held) in held.iter().enumerate() {
            let Some(table) = table(at, kind) else { continue };
            let limit = match kind {
                TableKind::Ipvs => held.ipvs.as_ref().and_then(ipvs),
                TableKind::Conntrack => held
                    .settings
                    .filter(|_| decides(at, kind))
                    .map(|settings| conntrack(settings, held.rules.as_ref(), &places[at].name)),
            };
            if let Some(mut limit) = limit {
                limit.table = Some(table);
                limit.component = format!("{} of {}", kind.name(), places[at].name);
                if kind == TableKind::Ipvs {
                    limit.slack = TimerSlack::Wheel { hz };
                }
                limits.push(limit);
                of.push(at);
            }
        }
        if of.len() > 1 {
            for (limit, at) in limits[start..].iter_mut().zip(of) {
                limit.id = format!("{}-{}", limit.id, places[at].name.replace(' ', "-"));
            }
        }
    }
    limits
}

/// `None`: it serves no TCP, or its timeouts are not known.
fn ipvs(ipvs: &Ipvs) -> Option<IdleLimit> {
    let &Timeouts { tcp, tcp_fin, .. } = ipvs.timeouts.as_ref()?;
    let services = &ipvs.services.tcp;
    if services.is_empty() {
        return None;
    }
    let evidence = Evidence::new(EvidenceSource::Kernel, "netlink, this kernel".to_owned());
    let mut limit = IdleLimit::new("ipvs".to_owned(), String::new(), tcp, evidence);
    limit.client_closed = Some(IPVS_TCP_CLOSE_WAIT);
    limit.server_closed = Some(tcp_fin);
    limit.selector = Selector {
        services: services.iter().copied().filter(|service| service.port() != 0).collect(),
        peers: services.iter().filter(|at| at.port() == 0).map(|at| IpNet::from(at.ip())).collect(),
        ..Selector::default()
    };
    // Which server a new entry names is not known.
    limit.client_meets = (!ipvs.sloppy).then_some(Miss::Reset);
    let server = if ipvs.icmp { Miss::IcmpUnreachable } else { Miss::PassUntranslated };
    limit.server_meets = Some(server);
    Some(limit)
}

fn conntrack(settings: ConntrackSettings, rules: Option<&Rules>, name: &str) -> IdleLimit {
    let detail = format!("sysctl of namespace {name}");
    let evidence = Evidence::new(EvidenceSource::Kernel, detail);
    let established = settings.established;
    let mut limit = IdleLimit::new("conntrack".to_owned(), String::new(), established, evidence);
    // The ACK of a FIN brings FIN_WAIT to CLOSE_WAIT, whichever end sent it (tcp_conntracks,
    // net/netfilter/nf_conntrack_proto_tcp.c).
    limit.client_closed = Some(settings.close_wait);
    limit.server_closed = Some(settings.close_wait);
    let drops = rules.map(|rules| rules.drop_forwarded || rules.drop_incoming);
    (limit.client_meets, limit.server_meets) = match (settings.loose, drops) {
        // It is picked up as NEW: the client's packet is translated again, the server's is not.
        (true, _) => (Some(Miss::Recreate), Some(Miss::PassUntranslated)),
        (false, Some(true)) => (Some(Miss::Drop), Some(Miss::Drop)),
        (false, Some(false)) => (None, Some(Miss::PassUntranslated)),
        (false, None) => (None, None),
    };
    limit
}

#[cfg(test)]
mod tests;
