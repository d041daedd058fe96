//! A scenario as a lane of the guest: which settings of a real kernel its path is.

use super::{
    VmError,
    protocol::{Does, Lane, Serves, Step, Table},
};
use crate::{
    ends::{End, keepalive, whole_seconds},
    middlebox::TcpState,
    path::Path,
    run::{RunOptions, client_keepalive},
    scenario::{self, Scenario, Span},
};

/// A kind of middlebox that is a Linux kernel, and its settings.
struct Kind {
    profile: &'static str,
    table: Table,
    /// Whether kube-proxy's rule drops what conntrack calls INVALID.
    drop_invalid: bool,
    sysctls: &'static [(&'static str, &'static str)],
}

const CONNTRACK_OF_IPVS: (&str, &str) = ("net/ipv4/vs/conntrack", "1");
const NOT_LOOSE: (&str, &str) = ("net/netfilter/nf_conntrack_tcp_loose", "0");

const KINDS: [Kind; 9] = [
    Kind { profile: "ipvs", table: Table::Ipvs, drop_invalid: false, sysctls: &[] },
    Kind {
        profile: "ipvs-sloppy",
        table: Table::Ipvs,
        drop_invalid: false,
        sysctls: &[("net/ipv4/vs/sloppy_tcp", "1")],
    },
    Kind {
        profile: "ipvs-icmp",
        table: Table::Ipvs,
        drop_invalid: false,
        sysctls: &[("net/ipv4/vs/nat_icmp_send", "1")],
    },
    Kind {
        profile: "ipvs-conntrack",
        table: Table::Ipvs,
        drop_invalid: true,
        sysctls: &[CONNTRACK_OF_IPVS],
    },
    Kind {
        profile: "ipvs-conntrack-strict",
        table: Table::Ipvs,
        drop_invalid: true,
        sysctls: &[CONNTRACK_OF_IPVS, NOT_LOOSE],
    },
    Kind { profile: "conntrack", table: Table::Conntrack, drop_invalid: false, sysctls: &[] },
    Kind {
        profile: "conntrack-drop-invalid",
        table: Table::Conntrack,
        drop_invalid: true,
        sysctls: &[],
    },
    Kind {
        profile: "conntrack-strict",
        table: Table::Conntrack,
        drop_invalid: true,
        sysctls: &[NOT_LOOSE],
    },
    Kind {
        profile: "conntrack-not-loose",
        table: Table::Conntrack,
        drop_invalid: false,
        sysctls: &[NOT_LOOSE],
    },
];

/// Whether the guest needs conntrack and `nf_tables` for it.
pub(super) fn needs_conntrack(lane: &Lane) -> bool {
    lane.table == Table::Conntrack
        || lane.drop_invalid
        || lane.sysctls.iter().any(|(path, _)| path.contains("conntrack"))
}

/// The lane of this scenario; its steps are none for an incident.
pub(super) fn lane(
    number: u8,
    scenario: &Scenario,
    path: &Path,
    options: &RunOptions,
) -> Result<Lane, VmError> {
    let client = client_keepalive(scenario, options);
    Ok(Lane {
        keepalive: [client, scenario.server.keepalive.0].map(|values| values.map(keepalive)),
        steps: scenario.timeline.iter().map(step).collect(),
        ..bare(number, path, scenario.path.backends)?
    })
}

/// A lane with this path, on which nothing happens.
pub(super) fn bare(number: u8, path: &Path, backends: u8) -> Result<Lane, VmError> {
    let name = path.profile.name;
    let kind = KINDS.iter().find(|kind| kind.profile == name);
    let kind = kind.ok_or_else(|| VmError::NoSuchKernel {
        profile: name,
        known: KINDS.map(|kind| kind.profile).join(", "),
    })?;
    let mut sysctls: Vec<_> = kind
        .sysctls
        .iter()
        .map(|(path, value)| ((*path).to_owned(), (*value).to_owned()))
        .collect();
    // What equals the kernel's own default is left to the kernel, as kube-proxy's 0s leaves it.
    let set = |state| {
        let timeout = path.timeouts.of(state);
        if timeout == path.profile.timeouts.of(state) { 0 } else { whole_seconds(timeout) }
    };
    let timeouts = [set(TcpState::Established), set(TcpState::FinWait)];
    if kind.table == Table::Conntrack {
        for (state, name) in
            [(TcpState::Established, "established"), (TcpState::CloseWait, "close_wait")]
        {
            let path = format!("net/netfilter/nf_conntrack_tcp_timeout_{name}");
            if set(state) > 0 {
                sysctls.push((path, set(state).to_string()));
            }
        }
    }
    Ok(Lane {
        number,
        v6: path.addresses().v6,
        backends,
        table: kind.table,
        sysctls,
        timeouts,
        drop_invalid: kind.drop_invalid,
        keepalive: [None, None],
        steps: Vec::new(),
        serves: Serves::Steps,
        programs: None,
    })
}

fn step(step: &scenario::Step) -> Step {
    Step {
        at_ms: u64::try_from(step.at.0.as_millis()).unwrap_or(u64::MAX),
        who: End::of(step.who),
        connection: step.connection,
        does: match &step.does {
            scenario::Does::Connect => Does::Connect,
            scenario::Does::Send { bytes } => Does::Send(*bytes),
            scenario::Does::Shutdown => Does::Shutdown,
            scenario::Does::Close => Does::Close,
            scenario::Does::SetKeepalive { keepalive: values } => {
                Does::SetKeepalive(values.0.map(keepalive))
            }
            scenario::Does::SetIdleTimeout { idle_timeout: Span(timeout) } => {
                Does::SetIdleTimeout(whole_seconds(*timeout))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::embedded;

    fn lane_of(id: &str, options: &RunOptions) -> Result<Lane, VmError> {
        let scenario = Scenario::parse(embedded::scenario(id).unwrap().text).unwrap();
        let path = Path::decide(&scenario, options)?;
        lane(0, &scenario, &path, options)
    }

    #[test]
    fn the_kernels_own_timeouts_are_left_to_the_kernel() {
        // Its ConfigMap says 0s.
        let lane = lane_of("llm-agent-behind-ipvs", &RunOptions::default()).unwrap();
        assert_eq!((lane.timeouts, lane.table, lane.backends), ([0, 0], Table::Ipvs, 2));
        let idle_timeout = Some(Duration::from_millis(350_500));
        let options = RunOptions { idle_timeout, ..RunOptions::default() };
        let lane = lane_of("half-close", &options).unwrap();
        assert_eq!(lane.timeouts, [351, 0], "whole seconds, not fewer");
        let lane = lane_of("client-speaks-first", &RunOptions::default()).unwrap();
        let established = lane.sysctls.iter().find(|(path, _)| path.ends_with("established"));
        assert_eq!(established.unwrap().1, "900");
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        let error = lane_of("llm-agent-behind-a-nat-gateway", &RunOptions::default()).unwrap_err();
        assert!(error.to_string().contains("ipvs-conntrack-strict"), "{error}");
    }
}
