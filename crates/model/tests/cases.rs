//! Public reports, each as a saved snapshot of what a host would have shown, with the right diagnosis.
//!
//! `tests/cases/ID.json`: the id is the report's number in the collection that the diagnosis is specified
//! by. The table below is what must be said, and what must not.

use std::fs;

use stillopen_model::{Diagnosis, Finding, Snapshot, diagnose};

struct Case {
    id: &'static str,
    /// What happened, in the report.
    story: &'static str,
    /// For each connection: verdict, limit, findings.
    expected: &'static [(&'static str, Option<&'static str>, &'static [&'static str])],
}

const CASES: [Case; 20] = [
    Case {
        id: "C03",
        story: "a memcached client never sets SO_KEEPALIVE; the node is tuned to 600, the pod reads 7200",
        expected: &[(
            "at_risk",
            Some("kubernetes-ipvs"),
            &["keepalive_off", "sysctl_not_inherited"],
        )],
    },
    Case {
        id: "C06",
        story: "Envoy keeps pooled connections for 3600 s, the node's table for 900 s",
        expected: &[("at_risk", Some("kubernetes-ipvs"), &["keepalive_off", "pool_outlives_path"])],
    },
    Case {
        id: "C09",
        story: "the backend's node died; the client keeps sending into a hole: not an idle cut",
        expected: &[("unknown", None, &["dead_peer"])],
    },
    Case {
        id: "C14",
        story: "the server's keepalive of 870 s refreshes a 900 s table with too little margin",
        expected: &[("safe", Some("kubernetes-ipvs"), &["keepalive_thin_margin"])],
    },
    Case {
        id: "C26",
        story: "fetch to 127.0.0.1 fails after 5 minutes: the path is innocent, undici's timer is not",
        expected: &[("safe", None, &["on_this_host", "program_timer"])],
    },
    Case {
        id: "C27",
        story: "pooled connections behind a carrier's NAT turn into zombies, each retransmits for minutes",
        expected: &[
            ("cut", Some("carrier-nat"), &["keepalive_off", "pool_outlives_path"]),
            ("unknown", None, &["dead_peer"]),
        ],
    },
    Case {
        id: "C29",
        story: "the server had closed; the program waits on without reading that",
        expected: &[("unknown", None, &["peer_closed"])],
    },
    Case {
        id: "C41",
        story: "SO_KEEPALIVE is on, the first probe comes at 7200 s, the NAT gateway forgets at 350 s",
        expected: &[("at_risk", Some("aws-nat-gateway"), &["keepalive_too_late"])],
    },
    Case {
        id: "C43",
        story: "no keepalive timer is armed although the documentation suggests so",
        expected: &[("at_risk", Some("aws-nat-gateway"), &["keepalive_off", "program_timer"])],
    },
    Case {
        id: "C46",
        story: "the application's keepalive reaches its sidecar only; the sidecar's own leg is at risk",
        expected: &[
            ("safe", None, &["proxy_on_this_host", "program_timer"]),
            ("at_risk", Some("aws-nat-gateway"), &["keepalive_off"]),
        ],
    },
    Case {
        id: "C49",
        story: "two hops: the smaller limit decides",
        expected: &[("at_risk", Some("aws-nlb"), &["keepalive_off"])],
    },
    Case {
        id: "C70",
        story: "the load balancer forgets at 240 s, the host is tuned, the container has 7200 s",
        expected: &[(
            "at_risk",
            Some("azure-load-balancer"),
            &["keepalive_too_late", "sysctl_not_inherited"],
        )],
    },
    Case {
        id: "C85",
        story: "an exporter stalls behind a firewall; ss shows no keepalive timer",
        expected: &[("at_risk", Some("firewall-300"), &["keepalive_off"])],
    },
    Case {
        id: "C86",
        story: "soKeepAlive alone changes nothing: 7200 s is later than the limit",
        expected: &[("at_risk", Some("cisco-asa"), &["keepalive_too_late"])],
    },
    Case {
        id: "C101",
        story: "Envoy's tcp_proxy closes although probes flow: it counts payload only",
        expected: &[("at_risk", Some("envoy-tcp-proxy"), &["useless"])],
    },
    Case {
        id: "C117",
        story: "the NAT table keeps 7200 s and probes come at 7200 s: equality is a race",
        expected: &[("at_risk", Some("gateway-nat"), &["keepalive_too_late", "equals_timer"])],
    },
    Case {
        id: "C126",
        story: "the accepted socket has a keepalive time of 30 s and SO_KEEPALIVE was never set",
        expected: &[("at_risk", Some("mobile-nat"), &["armed_but_off"])],
    },
    Case {
        id: "C129",
        story: "the host's tuning is silently absent in pods",
        expected: &[(
            "at_risk",
            Some("kubernetes-ipvs"),
            &["keepalive_too_late", "sysctl_not_inherited"],
        )],
    },
    Case {
        id: "C130",
        story: "the container's sysctls are set and no probe is seen: the program never sets SO_KEEPALIVE",
        expected: &[(
            "at_risk",
            Some("aws-nat-gateway"),
            &["keepalive_off", "sysctl_without_effect"],
        )],
    },
    Case {
        id: "C131",
        story: "the cable is out and the user types: data is in flight, so keepalive never runs",
        expected: &[("unknown", None, &["dead_peer"])],
    },
];

fn load(id: &str) -> Snapshot {
    let path = format!("{}/tests/cases/{id}.json", env!("CARGO_MANIFEST_DIR"));
    Snapshot::from_json(&fs::read(&path).unwrap()).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn each_public_report_gets_its_diagnosis() {
    for case in &CASES {
        let snapshot = load(case.id);
        let got: Vec<_> = diagnose(&snapshot)
            .into_iter()
            .map(|Diagnosis { verdict, limit, findings }| {
                let limit = limit.map(|limit| snapshot.limits[limit as usize].id.clone());
                let findings: Vec<_> = findings.iter().map(Finding::id).collect();
                (verdict.name(), limit, findings)
            })
            .collect();
        let expected: Vec<_> = case
            .expected
            .iter()
            .map(|(verdict, limit, findings)| {
                (*verdict, limit.map(str::to_owned), findings.to_vec())
            })
            .collect();
        assert_eq!(got, expected, "{}: {}", case.id, case.story);
    }
}
