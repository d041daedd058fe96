//! `cargo xtask bench lab`: the middlebox's table alone, and the incident on the simulator.

use anyhow::{Context, Result, bail};

use crate::sh;

/// What is measured, its unit, and the bound that it has to keep.
const BOUNDS: [(&str, &str, Bound); 4] = [
    ("packets_per_cpu_s", "packets/s of one core, 64 at a time", Bound::AtLeast(3e6)),
    ("one_by_one_per_cpu_s", "packets/s of one core, one at a time", Bound::None),
    ("bytes_per_entry", "bytes an entry", Bound::AtMost(192.0)),
    ("incident_wall_s", "s of wall time for the incident", Bound::AtMost(0.2)),
];

#[derive(Clone, Copy)]
enum Bound {
    None,
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    fn words(self, value: f64) -> (String, bool) {
        match self {
            Self::None => (String::new(), true),
            Self::AtLeast(least) => (format!("at least {least}"), value >= least),
            Self::AtMost(most) => (format!("at most {most}"), value <= most),
        }
    }
}

/// Measures with 1,000,000 entries; fails where a bound is missed.
pub(crate) fn run() -> Result<()> {
    let example =
        ["run", "--quiet", "--release", "--package=stillopen-lab", "--example=table_bench"];
    let json = sh::output(sh::cargo().args(example))?;
    let measured: serde_json::Value =
        serde_json::from_str(&json).context("the example table_bench prints JSON")?;
    let mut missed = Vec::new();
    for (key, unit, bound) in BOUNDS {
        let value = measured[key].as_f64().with_context(|| format!("{key} is not measured"))?;
        let (words, kept) = bound.words(value);
        println!("{value:>14.3}  {unit:<38} {words}{}", if kept { "" } else { "  MISSED" });
        if !kept {
            missed.push(key);
        }
    }
    if missed.is_empty() { Ok(()) } else { bail!("missed: {}", missed.join(", ")) }
}
