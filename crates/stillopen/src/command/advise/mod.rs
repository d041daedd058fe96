//! `stillopen advise`: which TCP keepalive values, why, what they cost, and how to set them in a client.
//!
//! Read first: `assess.rs` (what follows from the limits). `text.rs` and `json.rs` print it.

mod assess;
mod json;
mod notes;
mod text;

use std::{io::Write as _, process::ExitCode, time::Duration};

use anyhow::{Result, bail};
use stillopen_model::{Catalogue, Gap, IdleLimit, Judgement, KeepaliveValues, KernelHz, TableKind};

use self::assess::{Assessment, judged};
use crate::{
    cli::AdviseArgs,
    clients::{self, Client},
    output,
    paste::Options,
};

/// Limits that are all as long as that say nothing about a path: the catalogue says more.
const LONG: Duration = Duration::from_secs(86_400);

/// What `--client` takes to list them.
const LIST: &str = "list";

/// Status 0; 1 where the values that were given can't keep a connection open under one of the limits.
pub(crate) fn run(args: &AdviseArgs) -> Result<ExitCode> {
    let mut stdout = output::stdout();
    let client = match args.client.as_deref() {
        Some(LIST) if args.json => {
            json::write_clients(&mut stdout)?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(LIST) => {
            stdout.write_all(text::clients().as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(name) => Some(clients::find(name)?),
        None => None,
    };
    let gathered = gather(args)?;
    let assessment = Assessment::new(gathered, args.keepalive, args.connections);
    let setting = client.map(|client| Setting::new(client, &assessment)).transpose()?;
    if args.json {
        json::write(&assessment, setting.as_ref(), &mut stdout)?;
    } else {
        let text = match &setting {
            Some(setting) => text::client(setting, &assessment, &repeat(args)),
            None => text::advice(&assessment, &repeat(args)),
        };
        stdout.write_all(text.as_bytes())?;
    }
    stdout.flush()?;
    Ok(ExitCode::from(u8::from(args.keepalive.is_some() && assessment.cannot_work())))
}

/// Where the limits are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Source {
    /// `--limit`, `--kube-proxy-config`
    CommandLine,
    /// `stillopen.toml`, and the IPVS tables of this host's kernel.
    Host,
    /// Nothing is known of this path: all of the catalogue, to compare with.
    Catalogue,
}

/// The limits to advise for.
struct Gathered {
    limits: Vec<IdleLimit>,
    source: Source,
    gaps: Vec<Gap>,
}

/// Those of the command line, else those of this host, else all of the catalogue.
fn gather(args: &AdviseArgs) -> Result<Gathered> {
    let mut limits: Vec<IdleLimit> = args.limits.iter().map(|arg| arg.limit.clone()).collect();
    // A node's kernel may be another one than this host's.
    limits.extend(args.kube_proxy.limit(KernelHz::Foreign)?);
    if !limits.is_empty() {
        return Ok(Gathered { limits, source: Source::CommandLine, gaps: Vec::new() });
    }
    let here = super::limits::read_host(false)?;
    let limits: Vec<IdleLimit> = here.limits.into_iter().filter(advised_for).collect();
    if limits.iter().any(|limit| limit.idle_timeout < LONG) {
        return Ok(Gathered { limits, source: Source::Host, gaps: here.gaps });
    }
    let rows = Catalogue::builtin().rows().iter();
    let limits = rows.filter_map(|row| row.to_limit().ok()).collect();
    Ok(Gathered { limits, source: Source::Catalogue, gaps: Vec::new() })
}

/// Whether a limit of this host says something about the connections of its programs: a conntrack table may be
/// that of any router's network namespace.
fn advised_for(limit: &IdleLimit) -> bool {
    limit.table.is_none_or(|table| table.kind == TableKind::Ipvs)
}

/// A client with the values that it is to set.
struct Setting {
    client: &'static Client,
    snippet: String,
    /// What its sockets have then.
    in_force: KeepaliveValues,
    /// What that is worth under the limits; `None` where none is known.
    judgement: Option<Judgement>,
}

impl Setting {
    fn new(client: &'static Client, assessment: &Assessment) -> Result<Self> {
        let Some(values) = assessment.values else {
            bail!(
                "{} To see the snippet all the same, give --keepalive.",
                text::headline(assessment)
            );
        };
        let in_force = client.in_force(values);
        let judgement = assessment
            .is_of_a_path()
            .then(|| judged(assessment.limits(), in_force))
            .into_iter()
            .flatten()
            .map(|judged| judged.judgement)
            .max();
        Ok(Self { client, snippet: client.snippet(values), in_force, judgement })
    }
}

/// The options of this run that a repetition needs, as they were given, each with a blank before it.
fn repeat(args: &AdviseArgs) -> Repeat {
    let (mut limits, mut keepalive) = (Options::default(), Options::default());
    limits.limits(&args.limits);
    args.kube_proxy.repeat(&mut limits);
    if let Some(values) = args.keepalive {
        keepalive.add("--keepalive", &values.to_string());
    }
    Repeat { limits: limits.to_string(), keepalive: keepalive.to_string() }
}

/// What was given.
struct Repeat {
    limits: String,
    keepalive: String,
}

#[cfg(test)]
mod tests {
    use stillopen_model::{Evidence, EvidenceSource, TableId};

    use super::*;

    #[test]
    fn a_conntrack_table_of_some_namespace_is_not_advised_for() {
        let limit = |table| {
            let evidence = Evidence::new(EvidenceSource::Kernel, "test".into());
            let limit = IdleLimit::new("x".into(), String::new(), Duration::from_secs(6), evidence);
            IdleLimit { table, ..limit }
        };
        let of = |kind| limit(Some(TableId { netns: 0, kind }));
        assert!(advised_for(&limit(None)));
        assert!(advised_for(&of(TableKind::Ipvs)));
        assert!(!advised_for(&of(TableKind::Conntrack)));
    }
}
