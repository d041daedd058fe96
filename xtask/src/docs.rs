//! `cargo xtask docs`: the pages of docs/ that are made from the program's own tables.

use std::fs;

use anyhow::{Context, Result, bail};
use stillopen::clients;
use stillopen_model::{Catalogue, Finding};

use crate::{sh, survey};

/// A page's path in the workspace, and what makes it.
type Page = (&'static str, fn() -> Result<String>);

const PAGES: [Page; 3] = [
    ("docs/limits.md", || Ok(limits())),
    ("docs/findings.md", || Ok(findings())),
    ("docs/clients.md", clients),
];

const FINDINGS_HEAD: &str = "\
# Findings

<!-- Made from crates/model/src/finding.rs by `cargo xtask docs`. -->

What `stillopen check` says of a connection besides its verdict: why it is in danger, or why it is no
case of an idle cut although it looks like one. A connection can have several. The id is the word that
stands in `findings` of the JSON output; `stillopen findings ID` explains one on the command line.

\"The path\" is everything between the two ends that keeps an entry for the connection; \"the limit\" is
the time after which the path forgets it ([known limits](limits.md)).

| id | what it means | cure |
|---|---|---|
";

const CLIENTS_HEAD: &str = "\
# Clients

<!-- Made from crates/stillopen/clients by `cargo xtask docs`. -->

What `stillopen advise --client NAME` has code or configuration for. \"By default\" is TCP keepalive of a
connection without it: `off`, idle/interval/count, or `kernel` where it is on with the kernel's times (7200/75/9
if nobody changed them); it was read from a socket of the tested version, as was the effect of the snippet.
What is untested follows the documentation of its options alone.

| name | what | works from | tested with | by default |
|---|---|---|---|---|
";

/// Writes the pages, or with `check` only compares them.
pub(crate) fn run(check: bool) -> Result<()> {
    let mut stale = Vec::new();
    for (name, make) in PAGES {
        let (path, page) = (sh::root().join(name), make()?);
        if fs::read_to_string(&path).is_ok_and(|old| old == page) {
            continue;
        }
        if check {
            stale.push(name);
        } else {
            fs::write(&path, page).with_context(|| format!("write {name}"))?;
            eprintln!("wrote {name}");
        }
    }
    if !stale.is_empty() {
        bail!("not up to date: {}; `cargo xtask docs` writes them", stale.join(", "));
    }
    Ok(())
}

fn limits() -> String {
    Catalogue::builtin().markdown()
}

fn findings() -> String {
    let lines = Finding::all().map(|finding| {
        let [title, cure] = [finding.title(), finding.cure()].map(|cell| cell.replace('|', "\\|"));
        format!("| `{}` | {title} | {cure} |\n", finding.id())
    });
    std::iter::once(FINDINGS_HEAD.to_owned()).chain(lines).collect()
}

/// What clients there are, and what a real path did to them.
fn clients() -> Result<String> {
    Ok(advised() + &survey::read()?.markdown())
}

fn advised() -> String {
    let lines = clients::all().iter().map(|client| {
        let about = &client.about;
        format!(
            "| `{}` | {} | {} | {} | {} |\n",
            client.id,
            about.title,
            about.needs,
            about.tested.as_deref().unwrap_or("untested"),
            about.by_default.as_deref().unwrap_or("–"),
        )
    });
    std::iter::once(CLIENTS_HEAD.to_owned()).chain(lines).collect()
}
