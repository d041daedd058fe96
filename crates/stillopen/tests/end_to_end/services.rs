//! Connections to Services: which they are, and what kube-proxy's configuration makes of them.

use crate::{
    holder::Holder,
    report::Row,
    scene::{FAMILIES, Family, Scene},
    socket::Connection,
};

const IPVS: &str = "kind: KubeProxyConfiguration\nmode: ipvs\nipvs: {tcpTimeout: 0s}\n";
const IPVS_350S: &str = "kind: KubeProxyConfiguration\nmode: ipvs\nipvs: {tcpTimeout: 350s}\n";
const IPTABLES: &str = "kind: KubeProxyConfiguration\nmode: iptables\n";

fn configured(scene: &Scene, text: &str) -> String {
    let path = scene.path("kube-proxy.yaml");
    std::fs::write(&path, text).expect("write kube-proxy.yaml");
    path.to_string_lossy().into_owned()
}

/// The row of a connection that has asked, whose process was told that the server's address is a Service.
fn told_row(family: Family, config: &str, status: i32) -> Row {
    let scene = Scene::new();
    let mut connection = scene.connect(family);
    connection.ask();
    let address = scene.server.address(family).to_string();
    let Connection { client, server: _server } = connection;
    let _told = Holder::told(client, "AGENT_SERVICE_HOST", &address);
    let file = configured(&scene, config);
    let report = scene.check_client(&["--kube-proxy-config", &file]).report(status);
    assert_eq!(report.connections.len(), 1, "{report:#?}");
    report.connections[0].clone()
}

#[test]
fn a_service_of_the_environment_is_at_risk_where_kube_proxy_runs_in_ipvs_mode() {
    for family in FAMILIES {
        for (config, limit_s) in [(IPVS, 900.0), (IPVS_350S, 350.0)] {
            let row = told_row(family, config, 1);
            row.is("at_risk", "kube-proxy-ipvs", &["keepalive_off"]);
            let known = row.limit.as_ref().map(|limit| limit.idle_timeout_s);
            assert!(known.is_some_and(|known| (known - limit_s).abs() < 0.5), "{row:#?}");
        }
    }
}

#[test]
fn without_ipvs_mode_there_is_no_limit() {
    let row = told_row(Family::V4, IPTABLES, 0);
    assert_eq!((row.verdict.as_str(), row.missing.as_deref()), ("unknown", Some("limit")));
}

#[test]
fn only_what_is_known_to_be_a_service_passes_the_table() {
    let scene = Scene::new();
    let mut connections = FAMILIES.map(|family| scene.connect(family));
    connections.iter_mut().for_each(Connection::ask);
    let file = configured(&scene, IPVS);
    let v4 = format!("{}/32", scene.server.address(Family::V4));
    let args = ["--kube-proxy-config", &file, "--service-cidr", &v4];
    let report = scene.check_client(&args).report(1);
    report.row(&connections[0]).is("at_risk", "kube-proxy-ipvs", &["keepalive_off"]);
    let other = report.row(&connections[1]);
    assert_eq!((other.verdict.as_str(), other.missing.as_deref()), ("unknown", Some("limit")));

    // Nothing says which addresses are Services: nothing is guessed, and the gap says so.
    let report = scene.check_client(&["--kube-proxy-config", &file]).report(0);
    assert!(report.connections.iter().all(|row| row.verdict == "unknown"), "{report:#?}");
    assert!(report.gaps.iter().any(|gap| gap.source == "services"), "{report:#?}");
}

#[test]
fn in_a_pod_without_the_configuration_the_answer_is_a_conditional() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    let address = scene.server.address(Family::V4).to_string();
    let Connection { client, server: _server } = connection;
    let _told = Holder::told(client, "AGENT_SERVICE_HOST", &address);
    let said = scene.check_client(&[]).run();
    assert_eq!(said.status, 0, "{said:#?}");
    assert!(said.stdout.contains("If kube-proxy runs in IPVS mode"), "{said:#?}");
    assert!(
        said.stdout.contains(&format!("Why a Service: AGENT_SERVICE_HOST={address}")),
        "{said:#?}"
    );
}

#[test]
fn a_configuration_comes_from_standard_input_too() {
    let scene = Scene::new();
    let mut connection = scene.connect(Family::V4);
    connection.ask();
    let net = format!("{}/32", scene.server.address(Family::V4));
    let args = ["--kube-proxy-config", "-", "--service-cidr", &net];
    let said = scene.check_client(&args).fed(IPVS).run();
    assert_eq!(said.status, 1, "{said:#?}");
    assert!(said.stdout.contains("KubeProxyConfiguration: mode ipvs"), "{said:#?}");
    let said = scene.check_client(&args).run();
    assert_eq!(said.status, 2, "{said:#?}");
    assert!(said.stderr.contains("standard input is empty"), "{said:#?}");
}

#[test]
fn what_is_no_configuration_is_an_error() {
    let scene = Scene::new();
    for (text, says) in [
        ("kind: Pod\n", "none in Pod"),
        ("mode: ipvs\n", "an object without a kind"),
        ("kind: KubeProxyConfiguration\nmode: ipvs\nipvs: {tcpTimeout: 15", "as YAML"),
    ] {
        let file = configured(&scene, text);
        let said = scene.check_client(&["--kube-proxy-config", &file]).run();
        assert_eq!(said.status, 2, "{said:#?}");
        assert!(said.stderr.contains(says) && said.stderr.contains(&file), "{said:#?}");
    }
}

#[test]
fn limits_prints_what_is_configured_for_this_host() {
    let scene = Scene::new();
    scene.configure("[[limit]]\nname = 'office-firewall'\nidle_timeout = '30m'\n");
    let said = scene.program(&["limits"]).run();
    assert_eq!(said.status, 0, "{said:#?}");
    assert!(
        said.stdout.contains("office-firewall, 1800s for every peer; stillopen.toml."),
        "{said:#?}"
    );
}
