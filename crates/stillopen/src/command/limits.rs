//! `stillopen limits`: what is in force on this host, configured for it, or known of components by default.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use stillopen_collect::{CollectError, Filter, Request, collect};
use stillopen_model::{
    Catalogue, Evidence, Gap, IdleLimit, Kind, KnownService, Namespace, Platform, RefreshedBy, Row,
    Snapshot, Sysctls, human,
};

use super::host;
use crate::{
    cli::LimitsArgs,
    clock, config, input, output,
    paste::Options,
    report::{
        json, last_line,
        table::{self, Column, Shrink},
        text, words,
    },
};

const SCHEMA: &str = "stillopen.limits/1";
const CATALOGUE_SCHEMA: &str = "stillopen.catalogue/1";

#[derive(Serialize)]
struct Document<T> {
    schema: &'static str,
    limits: T,
}

/// The document of what is in force.
#[derive(Serialize)]
struct InForce<'a> {
    schema: &'static str,
    taken_at: &'a str,
    limits: Vec<json::LimitInFull<'a>>,
    namespaces: &'a [Namespace],
    kube_proxy: Option<&'a Evidence>,
    services: &'a [KnownService],
    platforms: &'a [Platform],
    gaps: &'a [Gap],
}

/// Prints the limits; a search of the catalogue that finds nothing is an error.
pub(crate) fn run(args: &LimitsArgs) -> Result<ExitCode> {
    match &args.catalogue {
        Some(wanted) => print_catalogue(wanted, args.json)?,
        None => print_in_force(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print_in_force(args: &LimitsArgs) -> Result<()> {
    let mut snapshot = match &args.from {
        Some(path) => {
            let context = || format!("read snapshot {}", path.display());
            let file = input::read_snapshot_file(path).with_context(context)?;
            Snapshot::from_json(&file).with_context(context)?
        }
        None => read_host(true)?,
    };
    let for_services = args.kube_proxy.apply(&mut snapshot)?;
    let mut stdout = output::stdout();
    if args.json {
        let document = InForce {
            schema: SCHEMA,
            taken_at: &snapshot.taken_at,
            limits: json::limits(&snapshot),
            namespaces: &snapshot.namespaces,
            kube_proxy: snapshot.kube_proxy.as_ref(),
            services: &snapshot.services,
            platforms: &snapshot.host.platforms,
            gaps: &snapshot.gaps,
        };
        return print_json(&document);
    }
    stdout.write_all(in_force(&snapshot, for_services.as_ref(), args).as_bytes())?;
    Ok(())
}

/// The host's tables and settings, and what is configured for it; with `owners` also the Services that
/// programs were told of.
///
/// # Errors
/// Neither can be read.
pub(super) fn read_host(owners: bool) -> Result<Snapshot> {
    let configured = config::read()?;
    let namespaces = host::default_namespaces();
    let request = Request { namespaces, owners, iterators_from: None, filter: Filter::default() };
    let taken_at = clock::now();
    let mut snapshot = match collect(&request, taken_at.clone()) {
        Ok(collected) => collected.snapshot,
        // What is configured holds elsewhere, too.
        Err(CollectError::Unsupported) => host::nothing_read(taken_at),
        Err(error) => return Err(error.into()),
    };
    snapshot.limits.extend(configured.limits);
    snapshot.gaps.extend(configured.gaps);
    Ok(snapshot)
}

/// `for_services`: what kube-proxy's configuration sets, where it is not known which addresses are Services.
fn in_force(snapshot: &Snapshot, for_services: Option<&IdleLimit>, args: &LimitsArgs) -> String {
    let here = args.from.is_none();
    let mut out = String::new();
    let answer = match snapshot.limits.len() {
        0 if let Some(limit) = for_services => format!(
            "Services are forgotten after {}; which addresses are Services is not known here.",
            words::limit_time(limit.idle_timeout)
        ),
        0 => "No idle limit is known here.".into(),
        1 => "1 idle limit is known here.".into(),
        n => format!("{} idle limits are known here.", words::count(n)),
    };
    let _ = writeln!(out, "{answer}");
    if snapshot.limits.is_empty() && for_services.is_none() && here {
        out.push_str("Looked for: the tables of this kernel, and\n");
        for place in config::places() {
            let _ = writeln!(out, "  {}", place.display());
        }
    }
    for limit in &snapshot.limits {
        out.push_str(&table::wrap(&format!("{}{}.", text::describe(limit), phases(limit)), 2));
    }
    text::kube_proxy(snapshot, &mut out);
    keepalive_defaults(&snapshot.namespaces, &mut out);
    conntrack(&snapshot.namespaces, &mut out);
    let mut services = snapshot.services.iter().map(|service| service.seen.as_str());
    if let Some(first) = services.next() {
        let more = match services.count() {
            0 => String::new(),
            n => format!(", and {} more", words::count(n)),
        };
        out.push_str(&table::wrap(&format!("Services: {}{more}.", table::printable(first)), 2));
    }
    for platform in &snapshot.host.platforms {
        out.push_str(&table::wrap(&format!("Hint: {}.", words::hint(platform)), 2));
    }
    for gap in &snapshot.gaps {
        let how = if gap.how.is_empty() { String::new() } else { format!(" ({})", gap.how) };
        out.push_str(&table::wrap(&format!("Not seen: {}{how}.", gap.reason), 2));
    }
    let mut options = Options::default();
    args.kube_proxy.repeat(&mut options);
    if let Some(path) = &args.from {
        options.add("--from", &path.to_string_lossy());
    }
    let (label, command) = match (snapshot.limits.is_empty(), for_services) {
        (true, None) => ("Those of known components:", "stillopen limits --catalogue".into()),
        (true, Some(_)) => {
            ("Diagnose with it:", format!("stillopen check{options} --service-cidr 10.96.0.0/12"))
        }
        (false, _) => ("Diagnose with them:", format!("stillopen check{options}")),
    };
    out.push_str(&last_line(label, &command));
    out
}

/// What else is known of a limit's times.
fn phases(limit: &IdleLimit) -> String {
    let phase = |what: &str, time: Option<std::time::Duration>| {
        time.map(|time| format!("{} {what}", words::limit_time(time)))
    };
    let mut parts: Vec<String> = [
        phase("after the client's FIN", limit.client_closed),
        phase("after the server's", limit.server_closed),
    ]
    .into_iter()
    .flatten()
    .collect();
    let slack = limit.slack_of(limit.idle_timeout);
    if !slack.is_zero() {
        parts.push(format!("up to {} late", human(slack)));
    }
    if parts.is_empty() { String::new() } else { format!("; {}", parts.join(", ")) }
}

/// `tcp_keepalive_*` of each namespace, those with the same values together.
fn keepalive_defaults(namespaces: &[Namespace], out: &mut String) {
    let mut by_values: BTreeMap<(u32, u32, u32), Vec<&Namespace>> = BTreeMap::new();
    for namespace in namespaces {
        let Some(Sysctls { keepalive_time_s, keepalive_intvl_s, keepalive_probes, .. }) =
            namespace.sysctls
        else {
            continue;
        };
        let values = (keepalive_time_s, keepalive_intvl_s, keepalive_probes);
        by_values.entry(values).or_default().push(namespace);
    }
    if by_values.is_empty() {
        return;
    }
    let groups: Vec<String> = by_values
        .iter()
        .map(|((time, interval, probes), of)| {
            format!("{time}/{interval}/{probes} in {}", namespaces_named(of))
        })
        .collect();
    let line = format!(
        "Keepalive defaults, for programs that set SO_KEEPALIVE and no values: {}.",
        groups.join("; ")
    );
    out.push_str(&table::wrap(&line, 2));
    if by_values.len() > 1 {
        let trap = "  A network namespace does not inherit tcp_keepalive_time: a pod has its own.";
        let _ = writeln!(out, "{trap}");
    }
}

/// `host`, `58 namespaces`
fn namespaces_named(namespaces: &[&Namespace]) -> String {
    match namespaces {
        [one] if one.name == "this" => "this namespace".into(),
        [one] => table::printable(&one.name),
        many => match many.iter().find(|namespace| namespace.is_host) {
            Some(_) => format!("host and {} more", words::count(many.len() - 1)),
            None => words::plural(many.len(), "namespace"),
        },
    }
}

/// Connection tracking: a limit only for flows that it translates.
fn conntrack(namespaces: &[Namespace], out: &mut String) {
    for namespace in
        namespaces.iter().filter(|namespace| namespace.is_host || namespaces.len() == 1)
    {
        let Some(settings) = namespace.conntrack else { continue };
        let on = |on| if on { "on" } else { "off" };
        let line = format!(
            "conntrack of {}: established {}, close_wait {}, unacknowledged {}; tcp_loose {}, be_liberal \
             {}, acct {}. It is a limit for flows that it translates, or where rules drop what has no entry.",
            table::printable(&namespace.name),
            words::limit_time(settings.established),
            words::limit_time(settings.close_wait),
            words::limit_time(settings.unacknowledged),
            on(settings.loose),
            on(settings.be_liberal),
            on(settings.acct),
        );
        out.push_str(&table::wrap(&line, 2));
    }
}

fn print_catalogue(wanted: &str, json: bool) -> Result<()> {
    let rows: Vec<&Row> = Catalogue::builtin().search(wanted).collect();
    if rows.is_empty() {
        bail!(
            "nothing in the catalogue matches {wanted:?}; stillopen limits --catalogue lists all"
        );
    }
    if json {
        return print_json(&Document { schema: CATALOGUE_SCHEMA, limits: &rows });
    }
    let columns = [
        Column { head: "ID", shrink: Shrink::Never, right: false },
        Column { head: "FORGETS AFTER", shrink: Shrink::Never, right: true },
        Column { head: "REFRESHED BY", shrink: Shrink::Wrap, right: false },
        Column { head: "COMPONENT", shrink: Shrink::Wrap, right: false },
    ];
    let cells: Vec<Vec<String>> = rows.iter().map(|row| cells(row)).collect();
    let mut stdout = output::stdout();
    write!(stdout, "{}", table::lay_out(&columns, &cells))?;
    writeln!(
        stdout,
        "\nDefaults, as of their dates: a value that was measured or read on your network"
    )?;
    writeln!(stdout, "beats them. Sources and what happens at expiry: --json, or docs/limits.md.")?;
    let usable = || rows.iter().filter(|row| row.to_limit().is_ok());
    let named = || usable().find(|row| !wanted.is_empty() && row.id.contains(wanted));
    if let Some(row) = named().or_else(|| usable().next()) {
        writeln!(stdout, "Diagnose with one:  stillopen check --limit {}", row.id)?;
    }
    Ok(())
}

fn cells(row: &Row) -> Vec<String> {
    let value = match (row.kind, row.idle_timeout) {
        (Kind::Idle, Some(time)) => words::limit_time(time),
        _ => "-".into(),
    };
    let refreshed_by = match (row.kind, row.refreshed_by) {
        (Kind::Idle, Some(RefreshedBy::AnyPacket)) => "any packet",
        (Kind::Idle, Some(RefreshedBy::PayloadOnly)) => "payload only",
        (Kind::Idle, Some(RefreshedBy::Disputed)) => "disputed",
        (Kind::Idle, None) => "not known",
        (Kind::HalfClosed, _) => "(half-closed)",
        (Kind::DurationCap, _) => "(duration cap)",
        (Kind::ProgramTimer, _) => "(program)",
        (Kind::Keepalive, _) => "(keepalive)",
        (Kind::Setting, _) => "(no idle timer)",
    };
    vec![row.id.clone(), value, refreshed_by.into(), row.component.clone()]
}

fn print_json<T: Serialize>(document: &T) -> Result<()> {
    let mut stdout = output::stdout();
    serde_json::to_writer(&mut stdout, document).map_err(io::Error::from)?;
    writeln!(stdout)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configured_limit_is_described_in_a_line() {
        let limit = &Catalogue::builtin().find("aws-nat-gateway").unwrap().to_limit().unwrap();
        assert!(text::describe(limit).starts_with("aws-nat-gateway, 350s for every peer; "));
    }
}
