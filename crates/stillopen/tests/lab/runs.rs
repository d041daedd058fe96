//! `lab run`, `lab list`, `lab sweep`.

use serde_json::Value;
use tempfile::tempdir;

use crate::output;

fn json(args: &[&str]) -> Value {
    let (status, stdout, stderr) = output(&[&["lab", "run", "--json"], args].concat());
    assert_eq!((status, stderr.as_str()), (0, ""), "{args:?}");
    serde_json::from_str(&stdout).unwrap()
}

fn lost(args: &[&str]) -> u64 {
    json(args)["lost"].as_u64().unwrap()
}

fn config_map(settings: &str) -> String {
    let indented = settings.replace('\n', "\n    ");
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kube-proxy\ndata:\n  config.conf: |-\n    \
         apiVersion: kubeproxy.config.k8s.io/v1alpha1\n    kind: KubeProxyConfiguration\n    {indented}\n"
    )
}

#[test]
fn a_bare_run_shows_the_incident_and_its_cure() {
    let (status, stdout, stderr) = output(&["lab", "run"]);
    assert_eq!((status, stderr.as_str()), (0, ""));
    assert!(stdout.lines().next().unwrap().contains("LOST"), "{stdout}");
    assert!(stdout.contains("With 60/30/3"), "{stdout}");
    assert!(stdout.lines().last().unwrap().contains("stillopen lab run"), "{stdout}");
    for line in stdout.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn json_is_the_run_as_asked() {
    let run = json(&["llm-agent-behind-ipvs"]);
    assert_eq!(run["schema"], "stillopen.lab-run/1");
    for field in
        ["requests", "attempts", "answered", "lost", "told_at_cut", "told_later", "retried"]
    {
        assert!(run[field].is_u64(), "{field}");
    }
    assert!(run["virtual_s"].as_f64().unwrap() > 2.0 * 3600.0);
    assert!(run["wall_s"].is_f64());
    let attempts = run["per_attempt"].as_array().unwrap();
    assert_eq!(attempts.len() as u64, run["attempts"].as_u64().unwrap());
    for attempt in attempts {
        let died = attempt["entry_lived_s"].is_f64();
        assert_eq!(attempt["outcome"] == "lost", died, "{attempt}");
    }
    assert!(run["lost"].as_u64().unwrap() > 0);
    assert_eq!(lost(&["--keepalive", "60/30/3"]), 0);
    assert_eq!(lost(&["--ipv6", "--keepalive", "60/30/3"]), 0);
}

#[test]
fn the_clusters_own_configuration_decides_the_path() {
    let folder = tempdir().unwrap();
    let by_default = lost(&[]);
    for (settings, holds) in [
        ("mode: ipvs\nipvs:\n  tcpTimeout: 0s", (|lost, default| lost == default) as fn(_, _) -> _),
        ("mode: ipvs\nipvs:\n  tcpTimeout: 3600s", |lost, _| lost == 0),
        ("mode: ipvs\nipvs:\n  tcpTimeout: 350s", |lost, default| lost > default),
        ("mode: iptables", |lost, _| lost == 0),
    ] {
        let file = folder.path().join("kube-proxy.yaml");
        std::fs::write(&file, config_map(settings)).unwrap();
        let got = lost(&["--kube-proxy-config", file.to_str().unwrap()]);
        assert!(holds(got, by_default), "{settings}: {got} lost, {by_default} by default");
    }
}

#[test]
fn out_leaves_both_logs() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("logs");
    json(&["--out", out.to_str().unwrap()]);
    for name in ["job.log", "agent.log"] {
        let log = std::fs::read_to_string(out.join(name)).unwrap();
        for line in log.lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            assert!(record["ts"].is_string() && record["event"].is_string(), "{line}");
        }
        assert!(log.lines().count() > 40, "{name}");
    }
    let (status, _, stderr) = output(&["lab", "run", "--out", out.to_str().unwrap()]);
    let [job, agent] = ["job.log", "agent.log"].map(|name| out.join(name).display().to_string());
    let next = format!("stillopen logs --client {job} --server {agent}\n");
    assert_eq!(status, 0);
    assert!(stderr.contains("in place of older ones") && stderr.ends_with(&next), "{stderr}");
}

#[test]
fn every_scenario_holds_and_is_listed() {
    let (status, stdout, _) = output(&["lab", "list", "--json"]);
    assert_eq!(status, 0);
    let lists: Value = serde_json::from_str(&stdout).unwrap();
    let scenarios = lists["scenarios"].as_array().unwrap();
    assert!(scenarios.len() >= 8);
    for scenario in scenarios {
        let (status, stdout, _) = output(&["lab", "run", scenario["id"].as_str().unwrap()]);
        assert_eq!(status, 0, "{stdout}");
    }
    assert_eq!(output(&["lab", "sweep"]).1, include_str!("../../../../scenarios/sweep.txt"));
}

#[test]
fn bad_input_is_status_2_and_named() {
    let folder = tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let broken_yaml = file("broken.yaml", "data: [");
    let no_config = file("other.yaml", "kind: ConfigMap\ndata: {}\n");
    let unknown_key = file("unknown.toml", "name = 'a'\nsurprise = 1\n");
    let not_toml = file("not.toml", "\u{0}\u{1}");
    let missing = folder.path().join("missing.toml").to_str().unwrap().to_owned();
    for (args, named) in [
        (&["no-such-scenario"][..], "no-such-scenario"),
        (&[&missing], "missing.toml"),
        (&[&unknown_key], "surprise"),
        (&[&not_toml], "not"),
        (&["--keepalive", "60"], "60/30/3"),
        (&["--profile", "no-such-profile"], "no-such-profile"),
        (&["--idle-timeout", "soon"], "soon"),
        (&["--hz", "0"], "--hz"),
        (&["--kube-proxy-config", &missing], "missing.toml"),
        (&["--kube-proxy-config", &broken_yaml], "kube-proxy"),
        (&["--kube-proxy-config", &no_config], "kube-proxy"),
        (&["half-close", "--out", folder.path().to_str().unwrap()], "--out"),
        (&["--out", "/proc/no"], "/proc/no"),
    ] {
        let (status, _, stderr) = output(&[&["lab", "run"], args].concat());
        assert_eq!(status, 2, "{args:?}: {stderr}");
        assert!(stderr.contains(named), "{args:?}: {stderr}");
    }
}

#[test]
fn a_scenario_file_has_the_config_map_beside_it() {
    let folder = tempdir().unwrap();
    let shipped =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/llm-agent-behind-ipvs.toml");
    let file = folder.path().join("mine.toml");
    std::fs::copy(shipped, &file).unwrap();
    std::fs::create_dir(folder.path().join("llm-agent-behind-ipvs")).unwrap();
    let config = config_map("mode: ipvs\nipvs:\n  tcpTimeout: 350s");
    let beside = folder.path().join("llm-agent-behind-ipvs/kube-proxy.yaml");
    std::fs::write(&beside, config).unwrap();
    let (_, stdout, _) = output(&["lab", "run", "--json", file.to_str().unwrap()]);
    let run: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(run["path"]["idle_timeout_s"], 350.0);

    std::fs::remove_file(beside).unwrap();
    let (status, _, stderr) = output(&["lab", "run", file.to_str().unwrap()]);
    assert_eq!(status, 2);
    assert!(stderr.contains("kube-proxy.yaml"), "{stderr}");
}

#[test]
fn the_last_line_repeats_what_was_asked() {
    let args = ["half-close", "--seed", "3", "--ipv6"];
    let (_, stdout, _) = output(&[&["lab", "run"], &args[..]].concat());
    let command = format!("stillopen lab run {} --json", args.join(" "));
    assert!(stdout.trim_end().ends_with(&command), "{stdout}");
}

#[test]
fn a_device_without_an_end_is_no_input() {
    for args in [&["/dev/zero"][..], &["--kube-proxy-config", "/dev/zero"]] {
        let (status, _, stderr) = output(&[&["lab", "run"], args].concat());
        assert_eq!(status, 2);
        assert!(stderr.contains("/dev/zero"), "{stderr}");
    }
}

#[test]
fn the_logs_of_the_incident_say_what_was_lost_and_why() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let run = json(&["--out", folder.path().to_str().unwrap()]);
    let (job, agent, csv, svg) =
        (path("job.log"), path("agent.log"), path("lost.csv"), path("lost.svg"));
    let logs = ["logs", "--client", &job, "--server", &agent, "--csv", &csv, "--svg", &svg];

    let (status, stdout, stderr) = output(&[&logs[..], &["--json"]].concat());
    assert_eq!((status, stderr.as_str()), (1, ""));
    let said: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (&said["schema"], &said["class"]),
        (&"stillopen.logs/1".into(), &"idle_limit".into())
    );
    for (field, of_run) in
        [("matched", "attempts"), ("sent", "attempts"), ("received", "answered"), ("lost", "lost")]
    {
        assert_eq!(said[field], run[of_run], "{field}");
    }
    assert_eq!(
        (&said["limit"]["best_s"], &said["client_timer_s"]),
        (&900.0.into(), &3600.0.into())
    );
    assert_eq!((&said["limit"]["contradictions"], &said["unreadable"]), (&0.into(), &0.into()));
    assert!(said["skew_s"].as_f64().unwrap().abs() < 0.01);
    let lost = said["lost_requests"].as_array().unwrap();
    for request in lost {
        assert!(request["id"].is_string() && request["sent_at"].is_string(), "{request}");
        assert!(request["silent_s"].as_f64().unwrap() >= 900.0, "{request}");
        assert!(request["server_took_s"].is_f64(), "{request}");
    }
    assert!(said["candidates"].as_array().unwrap().contains(&"kubernetes-ipvs".into()));

    let csv = std::fs::read_to_string(&csv).unwrap();
    assert_eq!(csv.lines().count(), lost.len() + 1);
    let svg = std::fs::read_to_string(&svg).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("limit 900s"));

    let (status, stdout, _) = output(&logs);
    assert_eq!(status, 1);
    assert!(stdout.contains("the cut is at 900s"), "{stdout}");
    for line in stdout.lines() {
        // The folder of the test is the machine's.
        assert!(line.chars().count() <= 100 || line.contains(&job), "{line}");
    }
}

#[test]
fn out_is_refused_before_a_run_that_has_no_logs() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("out");
    // What cannot run is not found out: it is not tried.
    let args = ["half-close", "--driver", "vm", "--kernel", "/nonexistent", "--out"];
    let (status, stdout, stderr) =
        output(&[&["lab", "run"], &args[..], &[out.to_str().unwrap()]].concat());
    assert_eq!((status, stdout.as_str()), (2, ""), "{stderr}");
    assert!(stderr.contains("half-close has no job and no agent"), "{stderr}");
    assert!(!out.exists());
}
