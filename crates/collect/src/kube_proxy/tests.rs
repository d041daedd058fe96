//! The shapes that clusters have it in, each with what it means.

use super::{Found, KubeProxyError, Mode, parse};

const KUBEADM: &str = include_str!("testdata/kubeadm.yaml");
const EKS: &str = include_str!("testdata/eks.yaml");
const K3S: &str = include_str!("testdata/k3s-config.yaml");
const DAY_S: u64 = 86_400;

fn config_map(config: &str) -> String {
    let indented = config.replace('\n', "\n    ");
    format!(
        "apiVersion: v1\ndata:\n  config.conf: |-\n    {indented}\n  kubeconfig.conf: |-\n    \
         apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kube-proxy\n"
    )
}

fn inner(config: &str) -> String {
    config_map(&format!("kind: KubeProxyConfiguration\n{config}"))
}

#[track_caller]
fn reads(text: &str, mode: Mode, idle_s: u64) -> Found {
    let found = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(
        (found.settings.mode, found.settings.idle_timeout().as_secs()),
        (mode, idle_s),
        "{text}"
    );
    found
}

#[test]
fn what_is_written_is_what_holds() {
    for (config, mode, idle_s) in [
        ("mode: ipvs\nipvs:\n  tcpTimeout: 0s", Mode::Ipvs, 900),
        ("mode: ipvs", Mode::Ipvs, 900),
        ("mode: ipvs\nipvs: null", Mode::Ipvs, 900),
        ("mode: ipvs\nipvs:\n  tcpTimeout: null\n  excludeCIDRs: null", Mode::Ipvs, 900),
        ("mode: ipvs\nipvs:\n  tcpTimeout: 350s", Mode::Ipvs, 350),
        ("mode: ipvs\nipvs:\n  tcpTimeout: 1h0m0s", Mode::Ipvs, 3600),
        ("mode: \"ipvs\"\nipvs: {tcpTimeout: 15m30s}", Mode::Ipvs, 930),
        ("mode: ipvs\nnewField: {a: [1]}\nipvs:\n  tcpTimeout: 350s\n  other: 1", Mode::Ipvs, 350),
        ("mode: iptables\nipvs:\n  tcpTimeout: 350s", Mode::Iptables, DAY_S),
        ("mode: null", Mode::Iptables, DAY_S),
        ("mode: \"\"\nconntrack:\n  tcpEstablishedTimeout: null", Mode::Iptables, DAY_S),
        ("mode: nftables\nconntrack:\n  tcpEstablishedTimeout: 2h", Mode::Nftables, 7200),
        ("mode: iptables\nconntrack:\n  tcpEstablishedTimeout: 0s", Mode::Iptables, 5 * DAY_S),
    ] {
        let of_map = reads(&inner(config), mode, idle_s).settings;
        let bare = format!("kind: KubeProxyConfiguration\n{config}");
        assert_eq!(parse(&bare).unwrap().settings, of_map);
    }
}

#[test]
fn the_config_map_of_kubeadm() {
    let found = reads(KUBEADM, Mode::Ipvs, 900);
    assert_eq!(found.place, "ConfigMap kube-system/kube-proxy, config.conf");
    assert_eq!(found.settings.tcp_timeout_written.as_deref(), Some("0s"));
    assert_eq!(found.settings.exclude_cidrs, ["192.0.2.0/24".parse().unwrap()]);
}

#[test]
fn the_config_map_of_a_managed_cluster_has_another_key() {
    let found = reads(EKS, Mode::Iptables, DAY_S);
    assert_eq!(found.place, "ConfigMap kube-system/kube-proxy-config, config");
    reads(&EKS.replace("mode: iptables", "mode: ipvs"), Mode::Ipvs, 900);
    // Gardener's.
    reads(&EKS.replace("  config: |-\n", "  config.yaml: |-\n"), Mode::Iptables, DAY_S);
}

#[test]
fn the_flags_of_k3s_and_of_pods() {
    reads(K3S, Mode::Ipvs, 350);
    reads("kube-proxy-arg: proxy-mode=ipvs\n", Mode::Ipvs, 900);
    reads("kube-proxy-arg: [--proxy-mode=ipvs]\nnode-name: a\n", Mode::Ipvs, 900);
    reads("/usr/bin/kube-proxy --proxy-mode=ipvs --ipvs-tcp-timeout=1h --v=2", Mode::Ipvs, 3600);
    reads("ExecStart=/usr/bin/kube-proxy --proxy-mode ipvs \\\n  --v 2\n", Mode::Ipvs, 900);
    reads(
        "k3s server --kube-proxy-arg=proxy-mode=ipvs --kube-proxy-arg ipvs-tcp-timeout=10m",
        Mode::Ipvs,
        600,
    );
    reads("# ours\nKUBE_PROXY_ARGS=\"--proxy-mode=ipvs --v=2\"\n", Mode::Ipvs, 900);
    reads("--proxy-mode=ipvs\n--ipvs-tcp-timeout=1h\n", Mode::Ipvs, 3600);
    reads("root 811 0.0 0.1 ? Ssl 10:00 /usr/bin/kube-proxy --proxy-mode=ipvs", Mode::Ipvs, 900);
    reads("sh -c 'kube-proxy --proxy-mode=ipvs --ipvs-tcp-timeout=350s' 2>&1 &", Mode::Ipvs, 350);
    reads("hyperkube kube-proxy --proxy-mode=ipvs | tee log", Mode::Ipvs, 900);
    let pod = "kind: Pod\nmetadata: {name: kube-proxy-x, namespace: kube-system}\nspec:\n  containers:\n  - \
               command: [/bin/sh, -c, kube-proxy --proxy-mode=ipvs --ipvs-tcp-timeout=350s 2>&1]\n";
    assert_eq!(reads(pod, Mode::Ipvs, 350).place, "Pod kube-system/kube-proxy-x");
    let daemon_set = "kind: DaemonSet\nspec:\n  template:\n    spec:\n      containers:\n      - command: \
                      [kube-proxy]\n        args: [--proxy-mode=nftables]\n";
    reads(daemon_set, Mode::Nftables, DAY_S);
}

#[test]
fn lists_json_and_several_documents() {
    let map = inner("mode: ipvs");
    let other = "kind: ConfigMap\nmetadata: {name: coredns}\ndata:\n  Corefile: x\n";
    reads(&format!("{other}---\n{map}"), Mode::Ipvs, 900);
    reads(&format!("{map}---\n{map}"), Mode::Ipvs, 900);
    reads(&format!("---\n{map}...\n"), Mode::Ipvs, 900);
    let item = |config: &str| {
        serde_json::json!({"kind": "ConfigMap", "metadata": {"name": "kube-proxy"},
                           "data": {"config.conf": format!("kind: KubeProxyConfiguration\n{config}")}})
    };
    let list = |items: &[serde_json::Value]| {
        serde_json::json!({"kind": "List", "apiVersion": "v1", "items": items}).to_string()
    };
    reads(&list(&[item("mode: ipvs")]), Mode::Ipvs, 900);
    let secret = serde_json::json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": null});
    reads(&list(&[secret, item("mode: ipvs\nipvs:\n  tcpTimeout: 2m")]), Mode::Ipvs, 120);
    let error = parse(&list(&[item("mode: ipvs"), item("mode: iptables")])).unwrap_err();
    assert!(matches!(error, KubeProxyError::Differ { .. }), "{error}");
}

#[test]
fn a_file_decides_over_flags() {
    let pod = "kind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - command: [kube-proxy, \
               --config=/var/lib/kube-proxy/config.conf, --proxy-mode=iptables]\n";
    let error = parse(pod).unwrap_err().to_string();
    assert!(error.contains("--config=/var/lib/kube-proxy/config.conf"), "{error}");
    reads(&format!("{pod}---\n{}", inner("mode: ipvs")), Mode::Ipvs, 900);
}

#[test]
fn wherever_it_is_cut_off_it_is_no_other_configuration() {
    for whole in [KUBEADM, EKS, K3S] {
        let right = parse(whole).unwrap().settings;
        for end in (0..whole.len()).filter(|&end| whole.is_char_boundary(end)) {
            // The last items of a list and the tail of a value can't be missed: 350s may end as 35.
            if whole == K3S && end > whole.find("kube-proxy-arg").unwrap() {
                continue;
            }
            if let Ok(found) = parse(&whole[..end]) {
                assert_eq!(found.settings, right, "cut off after {:?}", &whole[..end]);
            }
        }
    }
    // The configuration alone, as `-o jsonpath` prints it.
    let start = KUBEADM.find("apiVersion: kubeproxy").unwrap();
    let alone = KUBEADM[start..].split("\n  kubeconfig").next().unwrap().replace("\n    ", "\n");
    reads(&alone, Mode::Ipvs, 900);
    let before_mode = &alone[..alone.find("\nmode:").unwrap()];
    let by_hand = "kind: KubeProxyConfiguration\napiVersion: kubeproxy.config.k8s.io/v1alpha1\n";
    for cut in [
        before_mode.to_owned(),
        format!("{by_hand}ipvs:\n  tcpTimeout: 350s\n"),
        format!("{by_hand}clusterCIDR: 10.0.0.0/8\nconntrack:\n"),
    ] {
        let error = parse(&cut).unwrap_err();
        assert!(matches!(error, KubeProxyError::CutOff { .. }), "{error}");
    }
    assert!(!reads(by_hand, Mode::Iptables, DAY_S).settings.mode_is_set);
}

#[test]
fn prose_that_mentions_flags_is_no_command_line() {
    for text in [
        "We run kube-proxy with --proxy-mode=ipvs since 2021.",
        "Set --proxy-mode=ipvs to get IPVS.",
        "--proxy-mode=ipvs is what the cluster has\n",
        "# Notes\n\nkube-proxy --proxy-mode=ipvs forgets after 15 minutes: \n\n- see above\n",
        "the kube-proxy -- as everybody knows -- is fine",
        "kubectl -n kube-system get cm kube-proxy -o yaml | stillopen check --kube-proxy-config -",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
    let with_a_command =
        "We run on each node, with --proxy-mode=ipvs,\n\n    kube-proxy --proxy-mode=ipvs\n";
    reads(with_a_command, Mode::Ipvs, 900);
}

#[test]
fn errors_name_the_part_and_the_cause() {
    for (text, says) in [
        ("a: [", "the text as YAML"),
        ("", "an empty text"),
        ("kind: Service\nmetadata: {name: web}", "Service web"),
        (
            "kind: ConfigMap\nmetadata: {name: coredns}\ndata:\n  Corefile: x",
            "ConfigMap coredns with keys Corefile",
        ),
        ("kind: ConfigMap", "with no keys"),
        ("just words", "a text that is no object"),
        ("apiVersion: v1\ndata:\n  config.conf: x", "cut off?"),
        (&inner("mode: userspace"), "\"userspace\""),
        (&inner("mode: {a: 1}"), "mode: expected a text, found {\"a\":1}"),
        (&inner("mode: ipvs\nipvs: 7"), "ipvs: expected fields, found 7"),
        (&inner("mode: ipvs\nipvs:\n  tcpTimeout: 15 minutes"), "ipvs.tcpTimeout: \"15 minutes\""),
        (&inner("mode: ipvs\nipvs:\n  tcpTimeout: -5s"), "\"-5s\""),
        (&inner("mode: ipvs\nipvs:\n  tcpTimeout: \"\""), "ipvs.tcpTimeout"),
        (&inner("mode: ipvs\nipvs:\n  tcpTimeout: 900"), "\"900\""),
        (&inner("mode: ipvs\nipvs:\n  excludeCIDRs: [here]"), "ipvs.excludeCIDRs"),
        (&config_map("kind: Other"), "config.conf: Other"),
        (&config_map("a: ["), "config.conf as YAML"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(says), "{text:?}: {error}");
    }
}
