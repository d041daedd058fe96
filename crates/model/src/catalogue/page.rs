//! The page `docs/limits.md`: the catalogue as a table for people.

use super::{Catalogue, Kind, Range, RefreshedBy, Row, is_url};
use crate::{Expiry, Miss, Seconds};

/// What `docs/limits.md` says before the table.
const PAGE_HEAD: &str = "\
# Known limits

<!-- Made from crates/model/data/catalogue.toml by `cargo xtask docs`. -->

What well-known components do with a quiet TCP connection by default. Each line was true on its
date: defaults change, and an operator may have set another value. A value that is measured or read
on your own network beats this table.

- **id**: the name by which `--limit` takes it. Only a line whose value is a plain number of seconds
  is an idle limit; the others are here so that they are not mistaken for one.
- **value**: the default, and in brackets what it can be set to, or how. *After a close*: it counts
  once an end has closed. *Cap*: it ends a request that takes that long, busy or not, and no
  keepalive extends it. *Program*: a timer inside a client or a server, not on the path.
  *Keepalive*: what a kernel or program sets itself, as idle/interval/count. *Other*: no timer of an
  open, quiet TCP connection.
- **refreshed by**: what starts the timer anew. *Any packet* includes keepalive probes. *Payload*
  does not: a proxy ends TCP itself, so keepalive can't help there.
- **at expiry**: *silent* means that neither end is told, and both believe that the connection is
  open. Then what the next packet meets, where that is known.
- **evidence**: *verified* was read in the source. *Reported* comes from users or third parties.
  *Unverified* is general knowledge, and the source is where to check it.
- **?** stands for what is not known, **–** for what does not apply.

| id | component | value | refreshed by | at expiry | evidence | source | note |
|---|---|---|---|---|---|---|---|
";

impl Catalogue {
    /// The page `docs/limits.md`.
    #[must_use]
    pub fn markdown(&self) -> String {
        let lines = self.rows.iter().map(Row::markdown_line);
        std::iter::once(PAGE_HEAD.to_owned()).chain(lines).collect()
    }
}

impl Row {
    fn markdown_line(&self) -> String {
        let cells = [
            format!("`{}`", self.id),
            self.component.clone(),
            self.value_cell(),
            self.refresh_cell().into(),
            self.expiry_cell(),
            format!("{} {}", self.evidence, self.date),
            self.source_cell(),
            self.note.clone().unwrap_or_default(),
        ];
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        format!("| {} |\n", cells.join(" | "))
    }

    fn value_cell(&self) -> String {
        let time = self.idle_timeout.or(self.after).map(|time| format!("{} s", time.as_secs()));
        let time = time.or_else(|| self.default.clone());
        let value = match (self.kind, time) {
            (Kind::Idle, time) => time.unwrap_or_else(|| "none".into()),
            (Kind::HalfClosed, Some(time)) => format!("after a close: {time}"),
            (Kind::DurationCap, Some(time)) => format!("cap: {time}"),
            (Kind::ProgramTimer, Some(time)) => format!("program: {time}"),
            (Kind::Setting, Some(time)) => format!("other: {time}"),
            (Kind::Keepalive, _) => format!("keepalive: {}", self.keepalive_cell()),
            (_, None) => "other".into(),
        };
        match &self.range {
            None => value,
            Some(Range::Seconds([least, most])) => format!("{value} ({least} to {most})"),
            Some(Range::Words(words)) => format!("{value} ({words})"),
        }
    }

    fn keepalive_cell(&self) -> String {
        let times = self.keepalive.unwrap_or_default();
        let seconds = |time: Option<Seconds>| time.map(|time| time.get().as_secs());
        [seconds(times.idle), seconds(times.interval), times.count.map(u64::from)]
            .map(|value| value.map_or_else(|| "?".into(), |value| value.to_string()))
            .join("/")
    }

    fn refresh_cell(&self) -> &'static str {
        match (self.kind, self.refreshed_by) {
            (_, Some(RefreshedBy::AnyPacket)) => "any packet",
            (_, Some(RefreshedBy::PayloadOnly)) => "payload",
            (_, Some(RefreshedBy::Disputed)) => "disputed",
            (Kind::Idle, None) => "?",
            (_, None) => "–",
        }
    }

    fn expiry_cell(&self) -> String {
        let first = match (self.kind, self.on_expiry) {
            (_, Some(Expiry::Silent)) => "silent",
            (_, Some(Expiry::Fin)) => "closed to both",
            (_, Some(Expiry::Reset)) => "reset to both",
            (Kind::Idle, None) | (_, Some(Expiry::Unknown)) => "?",
            (_, None) => "–",
        };
        let meets = [("client", self.client_meets), ("server", self.server_meets)];
        let then = meets.into_iter().filter_map(|(end, miss)| Some((end, miss_words(miss?))));
        then.fold(first.to_owned(), |cell, (end, words)| format!("{cell}; {end}'s next: {words}"))
    }

    fn source_cell(&self) -> String {
        let sources: Vec<_> = self
            .sources
            .iter()
            .map(|source| if is_url(source) { format!("<{source}>") } else { source.clone() })
            .collect();
        sources.join(", ")
    }
}

fn miss_words(miss: Miss) -> &'static str {
    match miss {
        Miss::Drop => "dropped",
        Miss::Reset => "reset",
        Miss::Recreate => "made anew",
        Miss::PassUntranslated => "passed untranslated",
        Miss::IcmpUnreachable => "ICMP unreachable",
    }
}
