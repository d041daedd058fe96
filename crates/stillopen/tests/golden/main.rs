//! What people read, word for word: each output is a text file here.
//!
//! `STILLOPEN_BLESS=1 cargo test --test golden` writes them anew; the difference is then read in the commit.
//! The snapshots (`*.json`) are made by hand.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// No line of any output is longer.
const WIDTH: usize = 100;

/// A command whose output is kept in a file.
struct Output {
    /// `NAME.txt` holds it.
    name: &'static str,
    /// The working folder, below this one: what `stillopen.toml` it finds.
    folder: &'static str,
    args: &'static [&'static str],
    status: i32,
}

const fn output(name: &'static str, args: &'static [&'static str], status: i32) -> Output {
    Output { name, folder: "", args, status }
}

/// Reports of `check`: their first line is the answer, their last one holds a command.
const REPORTS: [Output; 27] = [
    output("laptop", &["check", "--from", "laptop.json"], 0),
    output("laptop_all", &["check", "--from", "laptop.json", "--all"], 0),
    output("laptop_limit", &["check", "--from", "laptop.json", "--limit", "aws-nat-gateway"], 1),
    output("at_risk", &["check", "--from", "at_risk.json"], 1),
    output("at_risk_all", &["check", "--from", "at_risk.json", "--all"], 1),
    output("cut", &["check", "--from", "cut.json"], 1),
    output("own_values", &["check", "--from", "own_values.json"], 1),
    output("own_values_alone", &["check", "--from", "own_values.json", "--port", "41000"], 1),
    output("watched", &["check", "--from", "watched.json"], 1),
    output("watched_alone", &["check", "--from", "watched.json", "--port", "41000"], 1),
    output("unknown_alone", &["check", "--from", "watched.json", "--port", "41001"], 0),
    output(
        "unknown_some",
        &["check", "--from", "cut.json", "--peer", "198.51.100.7", "--peer", "10.96.0.1"],
        0,
    ),
    output("safe", &["check", "--from", "safe.json"], 0),
    output("safe_all", &["check", "--from", "safe.json", "--all"], 0),
    output("gaps", &["check", "--from", "gaps.json"], 1),
    output("nothing", &["check", "--from", "nothing.json"], 0),
    output("pod", &["check", "--from", "pod.json"], 0),
    output("pod_all", &["check", "--from", "pod.json", "--all"], 0),
    output("pod_ipvs", &["check", "--from", "pod.json", "--kube-proxy-config", "ipvs.yaml"], 1),
    output(
        "pod_iptables",
        &["check", "--from", "pod.json", "--kube-proxy-config", "iptables.yaml"],
        0,
    ),
    output("node", &["check", "--from", "node.json"], 1),
    output("node_all", &["check", "--from", "node.json", "--all"], 1),
    output("node_drift", &["check", "--from", "node.json", "--kube-proxy-config", "350s.yaml"], 1),
    // Read on a real kernel with IPVS: collect's testdata tells how.
    output("ipvs_840s", &["check", "--from", "ipvs_840s.json"], 1),
    output("ipvs_overdue", &["check", "--from", "ipvs_overdue.json"], 1),
    output("ipvs_expired", &["check", "--from", "ipvs_expired.json"], 1),
    output("nothing_left", &["check", "--from", "laptop.json", "--port", "9"], 0),
];

/// Reports of `logs`, on the stories that its library is tested with.
const LOGS: [Output; 5] = [
    logs(
        "logs_c21",
        &[
            "logs",
            "--client",
            "C21-aborted-after-five-minutes/client.log",
            "--server",
            "C21-aborted-after-five-minutes/server.log",
            "--pattern",
            r"server:^\w+ (?<time>\S+) \[\w+\] (?<event>\w+) request (?<id>\S+)$",
        ],
        0,
    ),
    logs(
        "logs_c37",
        &[
            "logs",
            "--client",
            "C37-read-timer-of-the-sdk/client.log",
            "--server",
            "C37-read-timer-of-the-sdk/server.log",
        ],
        1,
    ),
    logs(
        "logs_c39",
        &[
            "logs",
            "--client",
            "C39-function-behind-a-nat-gateway/client.log",
            "--server",
            "C39-function-behind-a-nat-gateway/server.log",
            "--pattern",
            r"server:^(?<time>\S+) (?<event>START|END) RequestId: (?<id>\S+)",
        ],
        1,
    ),
    logs("logs_server_alone", &["logs", "--server", "one-side-server-duplicates/server.log"], 0),
    logs("logs_client_alone", &["logs", "--client", "one-side-client-never-ended/client.log"], 0),
];

const fn logs(name: &'static str, args: &'static [&'static str], status: i32) -> Output {
    Output { name, folder: "../../../logs/tests/stories", args, status }
}

/// What `advise` says, held to the same.
const ADVICE: [Output; 13] = [
    output("advise_nat", &["advise", "--limit", "aws-nat-gateway", "--connections", "50000"], 0),
    output(
        "advise_mixed",
        &["advise", "--limit", "aws-alb", "--limit", "kubernetes-ipvs@10.96.0.0/12"],
        0,
    ),
    output("advise_payload_only", &["advise", "--limit", "aws-alb"], 0),
    output("advise_disputed", &["advise", "--limit", "docker-desktop-vpnkit"], 0),
    output("advise_impossible", &["advise", "--limit", "1s"], 0),
    output("advise_too_late", &["advise", "--limit", "350s", "--keepalive", "7200/75/9"], 1),
    output("advise_useless", &["advise", "--limit", "aws-alb", "--keepalive", "10/5/3"], 1),
    output("advise_thin", &["advise", "--limit", "350s", "--keepalive", "300/75/9"], 0),
    output("advise_httpx", &["advise", "--limit", "900s", "--client", "httpx"], 0),
    output("advise_httpx_useless", &["advise", "--limit", "aws-alb", "--client", "httpx"], 0),
    output(
        "advise_httpx_all_the_same",
        &["advise", "--limit", "aws-alb", "--client", "httpx", "--keepalive", "60/30/3"],
        1,
    ),
    output(
        "advise_httpx_thin",
        &["advise", "--limit", "350s", "--client", "httpx", "--keepalive", "300/75/9"],
        0,
    ),
    output("advise_undici", &["advise", "--limit", "aws-nat-gateway", "--client", "undici"], 0),
];

/// What `advise` says without a limit: this host's tables and what it may read of them are part of it, so it
/// is not kept.
const ADVICE_HERE: [Output; 2] = [
    output("advise", &["advise"], 0),
    Output { name: "advise_configured", folder: "configured", args: &["advise"], status: 0 },
];

/// The other outputs.
const REFERENCE: [Output; 18] = [
    output("limits", &["limits", "--from", "laptop.json"], 0),
    output("limits_node", &["limits", "--from", "node.json"], 0),
    output(
        "limits_node_drift",
        &["limits", "--from", "node.json", "--kube-proxy-config", "350s.yaml"],
        0,
    ),
    output("limits_pod", &["limits", "--from", "pod.json", "--kube-proxy-config", "ipvs.yaml"], 0),
    output("limits_catalogue_azure", &["limits", "--catalogue", "azure"], 0),
    output("limits_catalogue", &["limits", "--catalogue"], 0),
    output("findings", &["findings"], 0),
    output("finding", &["findings", "armed_but_off"], 0),
    output("help", &["--help"], 0),
    output("run_help", &["run", "--help"], 0),
    output("rescue_help", &["rescue", "--help"], 0),
    output("ask_help", &["ask", "--help"], 0),
    output("check_help", &["check", "--help"], 0),
    output("advise_clients", &["advise", "--client", "list"], 0),
    output("advise_help", &["advise", "--help"], 0),
    output("limits_help", &["limits", "--help"], 0),
    output("logs_help", &["logs", "--help"], 0),
    output("findings_help", &["findings", "--help"], 0),
];

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn run(output: &Output) -> String {
    run_within(WIDTH, output)
}

/// What it says where so many columns fit.
fn run_within(columns: usize, output: &Output) -> String {
    run_with(Some(columns), output)
}

/// `None`: nothing says how many fit.
fn run_with(columns: Option<usize>, output: &Output) -> String {
    let columns = columns.map(|columns| columns.to_string()).unwrap_or_default();
    let said = Command::new(env!("CARGO_BIN_EXE_stillopen"))
        .args(output.args)
        .current_dir(here().join(output.folder))
        // This user's configuration is not the subject.
        .env("COLUMNS", columns)
        .env("NO_COLOR", "1")
        .env("XDG_CONFIG_HOME", "/nowhere/config")
        .stdin(Stdio::null())
        .output()
        .expect("start stillopen");
    let text = |bytes| String::from_utf8(bytes).expect("it writes UTF-8");
    assert_eq!(text(said.stderr), "", "{}", output.name);
    assert_eq!(said.status.code(), Some(output.status), "{}", output.name);
    text(said.stdout)
}

/// Compares an output with its file, or writes the file; returns what differs.
fn compare(output: &Output, text: &str) -> Option<String> {
    let path = here().join(output.name).with_extension("txt");
    if env::var_os("STILLOPEN_BLESS").is_some() {
        fs::write(&path, text).expect("write the file");
        return None;
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    if kept == text {
        return None;
    }
    let first = kept.lines().zip(text.lines()).position(|(kept, now)| kept != now);
    let line = first.unwrap_or_else(|| kept.lines().count().min(text.lines().count()));
    let of = |text: &str| text.lines().nth(line).unwrap_or("(its end)").to_owned();
    Some(format!(
        "{}.txt, line {}:\n  kept: {}\n  now:  {}",
        output.name,
        line + 1,
        of(&kept),
        of(text)
    ))
}

fn hold_all(outputs: &[Output]) {
    let differences: Vec<String> =
        outputs.iter().filter_map(|output| compare(output, &run(output))).collect();
    assert!(differences.is_empty(), "STILLOPEN_BLESS=1 takes over:\n{}", differences.join("\n"));
}

#[test]
fn reports_are_as_kept() {
    hold_all(&REPORTS);
    hold_all(&LOGS);
}

#[test]
fn advice_is_as_kept() {
    hold_all(&ADVICE);
}

#[test]
fn references_are_as_kept() {
    hold_all(&REFERENCE);
}

#[test]
fn no_line_is_wider_than_100_columns() {
    for output in REPORTS.iter().chain(&ADVICE).chain(&ADVICE_HERE).chain(&LOGS).chain(&REFERENCE) {
        for line in run(output).lines() {
            assert!(line.chars().count() <= WIDTH, "{}: {line}", output.name);
        }
    }
}

/// A table keeps addresses whole, and a command is to be pasted.
#[test]
fn text_fits_into_80_columns() {
    for output in REPORTS.iter().chain(&LOGS).chain(&REFERENCE) {
        for line in run_within(80, output).lines() {
            let is_row = line.starts_with("  ") && line.trim_start().contains("  ");
            let fits = line.chars().count() <= 80 || is_row || line.contains("stillopen ");
            assert!(fits, "{}: {line}", output.name);
        }
    }
}

#[test]
fn in_a_wide_terminal_or_a_pipe_no_name_of_a_table_is_cut() {
    for output in REPORTS.iter().chain(&REFERENCE) {
        for columns in [Some(200), None] {
            let text = run_with(columns, output);
            let cut = |line: &&str| line.contains('…') && !line.starts_with("  … ");
            assert_eq!(text.lines().find(cut), None, "{}", output.name);
        }
    }
}

#[test]
fn no_component_of_the_catalogue_is_cut() {
    let catalogue = output("limits_catalogue", &["limits", "--catalogue"], 0);
    assert!(!run(&catalogue).contains('…'));
    let aws = output("", &["limits", "--catalogue", "aws"], 0);
    assert!(!run_within(80, &aws).contains('…'));
    let piped = run_with(None, &catalogue);
    assert!(piped.lines().any(|line| line.ends_with("kube-proxy in IPVS mode")), "{piped}");
    assert!(!piped.lines().any(|line| line.trim_start() == "in IPVS mode"), "{piped}");
}

#[test]
fn a_report_starts_with_the_answer_and_ends_with_a_command() {
    for output in REPORTS.iter().chain(&LOGS) {
        let text = run(output);
        let first = text.lines().next().expect("it says something");
        let answers = ["connection", "answer", "request"].iter().any(|word| first.contains(word));
        assert!(answers, "{}: {first}", output.name);
        let last = text.lines().last().expect("it says something");
        assert!(last.contains("stillopen "), "{}: {last}", output.name);
    }
}

#[test]
fn advice_starts_with_the_answer_and_ends_with_a_command() {
    for output in ADVICE.iter().chain(&ADVICE_HERE) {
        let text = run(output);
        let first = text.lines().next().expect("it says something");
        let judged = ["keepalive", "is too late", "in time", "is fine", "Measure first"];
        assert!(judged.iter().any(|words| first.contains(words)), "{}: {first}", output.name);
        let last = text.lines().last().expect("it says something");
        assert!(last.contains("stillopen "), "{}: {last}", output.name);
    }
}

/// The fields of an object, and whether `docs/json.md` has each.
fn documented_fields(object: &serde_json::Value) -> Vec<&str> {
    let page = include_str!("../../../../docs/json.md");
    let fields: Vec<&str> = object.as_object().expect("an object").keys().map(|k| &**k).collect();
    for field in &fields {
        assert!(page.contains(&format!("`{field}`")), "docs/json.md does not say what {field} is");
    }
    fields
}

#[test]
fn the_json_of_advice_is_as_documented() {
    let json = |args: &'static [&'static str], status| -> serde_json::Value {
        serde_json::from_str(&run(&output("advise_json", args, status))).expect("it writes JSON")
    };
    let advice = json(
        &["advise", "--limit", "aws-alb", "--limit", "350s", "--client", "undici", "--json"],
        0,
    );
    documented_fields(&advice);
    for part in [&advice["limits"][0], &advice["cost"], &advice["beware"][0], &advice["cures"][0]] {
        documented_fields(part);
    }
    documented_fields(&advice["client"]);
    assert_eq!(advice["schema"], "stillopen.advise/1");
    assert_eq!(advice["judgement"], "useless");
    assert_eq!(advice["keepalive"]["idle_s"], 60);
    assert_eq!(advice["client"]["in_force"]["interval_s"], 1);

    let late = json(&["advise", "--limit", "350s", "--keepalive", "7200/75/9", "--json"], 1);
    assert_eq!((&late["judgement"], &late["given"]), (&"too_late".into(), &true.into()));
    assert_eq!(late["better"]["idle_s"], 60);
    assert_eq!(late["dead_peer_after_s"], 7200 + 75 * 9);
    assert_eq!(late["better"]["dead_peer_after_s"], 60 + 30 * 3);
    assert!(late["better"]["cost"]["bytes_per_day"] != late["cost"]["bytes_per_day"]);
    documented_fields(&late["better"]);

    let impossible = json(&["advise", "--limit", "1s", "--json"], 0);
    assert!(impossible["keepalive"].is_null());
    assert_eq!(impossible["limits"][0]["judgement"], "too_late");

    let clients = json(&["advise", "--client", "list", "--json"], 0);
    assert_eq!(clients["schema"], "stillopen.advise-clients/1");
    documented_fields(&clients["clients"][0]);
}

#[cfg(target_os = "linux")]
#[test]
fn the_last_command_of_a_report_is_one_that_runs() {
    for output in REPORTS.iter().chain(&ADVICE).chain(&LOGS) {
        let text = run(output);
        let last = text.lines().last().expect("it says something");
        let (_, command) = last.split_once("stillopen ").expect("it holds a command");
        // What follows two blanks is said of the command. The wait is not the subject.
        let command = command.split("  ").next().unwrap_or_default();
        let command =
            command.replace("30s", "1ms").replace("NAME", &std::process::id().to_string());
        let said = Command::new(env!("CARGO_BIN_EXE_stillopen"))
            .args(command.split(' '))
            .current_dir(here())
            .output()
            .expect("start stillopen");
        let stderr = String::from_utf8_lossy(&said.stderr);
        assert_ne!(said.status.code(), Some(2), "{}: stillopen {command}: {stderr}", output.name);
    }
}
