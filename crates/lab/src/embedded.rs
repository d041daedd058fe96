//! The scenarios that come with the program: the files of `scenarios/`, so that they run anywhere.

/// A scenario file: its id, as the command line names it, and its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Embedded {
    /// The file's name without its ending.
    pub id: &'static str,
    /// The file.
    pub text: &'static str,
}

/// What a run without a name runs.
pub const DEFAULT: &str = "llm-agent-behind-ipvs";

macro_rules! scenarios {
    ($($id:literal),* $(,)?) => {
        &[$(Embedded { id: $id, text: include_str!(concat!("../../../scenarios/", $id, ".toml")) }),*]
    };
}

/// All of them, the default first.
pub const SCENARIOS: &[Embedded] = scenarios![
    "llm-agent-behind-ipvs",
    "llm-agent-behind-a-load-balancer",
    "llm-agent-behind-a-nat-gateway",
    "pooled-connection-reused",
    "half-close",
    "server-speaks-first",
    "client-speaks-first",
    "keepalive-in-time",
    "keepalive-too-late",
    "keepalive-on-one-side",
    "timeout-changed-at-run-time",
    "two-backends",
];

/// The scenario of that id.
#[must_use]
pub fn scenario(id: &str) -> Option<Embedded> {
    SCENARIOS.iter().find(|scenario| scenario.id == id).copied()
}

/// A kube-proxy `ConfigMap` that a scenario names, by its path below `scenarios/`.
#[must_use]
pub fn kube_proxy(file: &str) -> Option<&'static str> {
    const INCIDENT: &str = include_str!("../../../scenarios/llm-agent-behind-ipvs/kube-proxy.yaml");
    (file == "llm-agent-behind-ipvs/kube-proxy.yaml").then_some(INCIDENT)
}
