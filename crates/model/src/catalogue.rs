//! The catalogue: what well-known components forget by default, dated and with its source.
//!
//! The rows are data, in `data/catalogue.toml`; this file owns their fields, the search and the step
//! from a row to an [`IdleLimit`]; `page.rs` writes `docs/limits.md`. A default says nothing about this very
//! network: whatever was measured or read there goes first.

mod page;

use std::{fmt, sync::LazyLock, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    Evidence, EvidenceSource, Expiry, IdleLimit, KeepaliveTimes, KernelHz, Miss, Refresh, Selector,
    TimerKind, TimerSlack, secs,
};

static BUILTIN: LazyLock<Catalogue> = LazyLock::new(|| {
    // The file is part of the program, and a test parses it.
    toml::from_str(include_str!("../data/catalogue.toml")).expect("the built-in catalogue is valid")
});

/// All rows, in the order of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    #[serde(rename = "row")]
    rows: Vec<Row>,
}

/// What is known of one component's timer or setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// A speaking id that stays: `aws-nat-gateway`.
    pub id: String,
    /// The entry of the collected list that it comes from: `L35`. An entry may fill several rows.
    #[serde(rename = "ref")]
    pub reference: String,
    /// What it is, for people: `AWS NAT gateway`.
    pub component: String,
    /// Where it belongs: `linux`, `kubernetes`, `aws`, `proxy`, `firewall`, `program` …
    pub family: String,
    /// What kind of timer it is, if it is one.
    pub kind: Kind,
    /// The default of an `idle` or `half_closed` timer; `None`: it has none.
    #[serde(rename = "idle_timeout_s", with = "secs::option", default)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Duration>,
    /// The default of any other timer.
    #[serde(rename = "after_s", with = "secs::option", default)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Duration>,
    /// The default values of a `keepalive` row, as far as they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive: Option<KeepaliveTimes>,
    /// The default of a `setting` that is no time, as its own tool writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Idle timeout once the client has closed its direction; `None`: not known.
    #[serde(rename = "client_closed_s", with = "secs::option", default)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_closed: Option<Duration>,
    /// Idle timeout once the server has closed its direction; `None`: not known.
    #[serde(rename = "server_closed_s", with = "secs::option", default)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_closed: Option<Duration>,
    /// What it can be set to, or how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<Range>,
    /// What starts the timer anew; `None`: not known, or no such timer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refreshed_by: Option<RefreshedBy>,
    /// What it does when the time is up; `None`: not known, or no such timer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_expiry: Option<Expiry>,
    /// What the client's next packet meets afterwards; `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_meets: Option<Miss>,
    /// What the server's next packet meets afterwards; `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_meets: Option<Miss>,
    /// Set where the timer is a kernel's on its timer wheel, and so may be late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer_slack: Option<Slack>,
    /// Names of the processes that run this timer, where they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// What a program's timer waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<TimerKind>,
    /// How well it is known.
    pub evidence: Verified,
    /// When the sources were read, `YYYY-MM-DD`.
    pub date: String,
    /// Pages, or documents by name; the best first.
    pub sources: Vec<String>,
    /// What one must know besides: disputes, older values, what a client sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What kind of timer a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// An idle timer of the path for established connections: what a limit can be made of.
    Idle,
    /// An idle timer of the path once an end has closed.
    HalfClosed,
    /// A cap on how long a request may take, idle or not.
    DurationCap,
    /// A timer inside a client or a server.
    ProgramTimer,
    /// TCP keepalive that a kernel or a program sets itself.
    Keepalive,
    /// No idle timer of a TCP connection: a switch, or a timer of something else.
    Setting,
}

/// How well a row is known; of a row that mixes them, the weakest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verified {
    /// Read in the source that is named.
    Verified,
    /// Reported by users or third parties; the vendor's own page was not read.
    Reported,
    /// General knowledge: the source is where to check it.
    Unverified,
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Verified => "verified",
            Self::Reported => "reported",
            Self::Unverified => "unverified",
        })
    }
}

/// What is said to start a timer anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefreshedBy {
    /// Every packet, keepalive probes too.
    AnyPacket,
    /// Payload only.
    PayloadOnly,
    /// Reports contradict each other on whether probes do.
    Disputed,
}

/// What a timer can be set to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Range {
    /// Seconds, the least and the most.
    Seconds([u64; 2]),
    /// In words, or how it is set.
    Words(String),
}

/// How late a row's timer may be; a row without one is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slack {
    /// A timer of the Linux kernel's wheel, of an unknown tick rate.
    Wheel,
}

impl Catalogue {
    /// The catalogue that is built in.
    #[must_use]
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// All rows, in the order of the file.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The row with this id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.id == id)
    }

    /// The rows that hold `text` in id, component, family or note, whatever its case.
    pub fn search<'a>(&'a self, text: &str) -> impl Iterator<Item = &'a Row> + use<'a> {
        let text = text.to_lowercase();
        self.rows.iter().filter(move |row| {
            [&row.id, &row.component, &row.family]
                .into_iter()
                .chain(&row.note)
                .any(|field| field.to_lowercase().contains(&text))
        })
    }

    /// Up to three ids that may have been meant by `wrong_id`, the likeliest first.
    #[must_use]
    pub fn closest(&self, wrong_id: &str) -> Vec<&str> {
        let wrong = wrong_id.to_lowercase();
        let mut near: Vec<_> = self
            .rows
            .iter()
            .filter_map(|row| Some((unlikeness(&row.id, &wrong)?, row.id.as_str())))
            .collect();
        near.sort_by_key(|&(unlikeness, _)| unlikeness);
        near.into_iter().take(3).map(|(_, id)| id).collect()
    }
}

/// How far `wrong` is from `id`, 0 where one holds the other; `None`: not meant at all.
fn unlikeness(id: &str, wrong: &str) -> Option<usize> {
    const SHORTEST_PART: usize = 3;
    if wrong.len() >= SHORTEST_PART && (id.contains(wrong) || wrong.contains(id)) {
        return Some(0);
    }
    let most = id.len() / 4;
    if id.len().abs_diff(wrong.len()) > most {
        return None;
    }
    Some(edits(id, wrong)).filter(|&edits| edits <= most)
}

/// Levenshtein's distance, by bytes.
fn edits(a: &str, b: &str) -> usize {
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        above[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = above[j + 1];
            above[j + 1] = replaced.min(diagonal + 1).min(above[j] + 1);
        }
    }
    above[b.len()]
}

/// Why a row can't be used as an idle limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{id} is not an idle limit: {component} {why}")]
pub struct NotALimit {
    /// The row's id.
    pub id: String,
    /// What it is.
    pub component: String,
    /// The reason.
    pub why: WhyNot,
}

/// The reasons, each continuing a sentence that begins with the component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WhyNot {
    /// See [`Kind::DurationCap`].
    #[error("caps how long a request may take, and keepalive does not extend that")]
    DurationCap,
    /// See [`Kind::ProgramTimer`].
    #[error("is a timer of a program at one end, not of the path between them")]
    ProgramTimer,
    /// See [`Kind::HalfClosed`].
    #[error("is a timer for connections that an end has closed")]
    HalfClosed,
    /// See [`Kind::Keepalive`].
    #[error("sends keepalive probes, and forgets nothing")]
    Keepalive,
    /// See [`Kind::Setting`].
    #[error("has no idle timer for TCP connections")]
    NoTimer,
    /// An idle timer that is off until it is configured.
    #[error("has no idle timeout by default: give the number of seconds that is configured")]
    NoDefault,
}

impl Row {
    /// The idle limit that this row describes, for every connection.
    ///
    /// Where it is disputed or not known what refreshes it, or what happens at expiry, the limit says so
    /// and its evidence too.
    ///
    /// # Errors
    /// Fails for a row that is no idle timer of the path or has no value.
    pub fn to_limit(&self) -> Result<IdleLimit, NotALimit> {
        let idle_timeout = self.limit_value().map_err(|why| NotALimit {
            id: self.id.clone(),
            component: self.component.clone(),
            why,
        })?;
        Ok(IdleLimit {
            table: None,
            id: self.id.clone(),
            component: self.component.clone(),
            idle_timeout,
            client_closed: self.client_closed,
            server_closed: self.server_closed,
            selector: Selector::default(),
            refreshed_by: match self.refreshed_by {
                Some(RefreshedBy::PayloadOnly) => Refresh::PayloadOnly,
                Some(RefreshedBy::AnyPacket) => Refresh::AnyPacket,
                Some(RefreshedBy::Disputed) | None => Refresh::Unknown,
            },
            slack: match self.timer_slack {
                Some(Slack::Wheel) => TimerSlack::Wheel { hz: KernelHz::Foreign },
                None => TimerSlack::Exact,
            },
            on_expiry: self.on_expiry.unwrap_or(Expiry::Unknown),
            client_meets: self.client_meets,
            server_meets: self.server_meets,
            configured: None,
            evidence: vec![self.evidence()],
        })
    }

    fn limit_value(&self) -> Result<Duration, WhyNot> {
        match self.kind {
            Kind::Idle => self.idle_timeout.ok_or(WhyNot::NoDefault),
            Kind::HalfClosed => Err(WhyNot::HalfClosed),
            Kind::DurationCap => Err(WhyNot::DurationCap),
            Kind::ProgramTimer => Err(WhyNot::ProgramTimer),
            Kind::Keepalive => Err(WhyNot::Keepalive),
            Kind::Setting => Err(WhyNot::NoTimer),
        }
    }

    fn evidence(&self) -> Evidence {
        let refresh = match self.refreshed_by {
            Some(RefreshedBy::Disputed) => "; disputed whether keepalive probes refresh it",
            None => "; not known whether keepalive probes refresh it",
            Some(RefreshedBy::AnyPacket | RefreshedBy::PayloadOnly) => "",
        };
        let expiry = if self.on_expiry.is_none() { "; not known what happens then" } else { "" };
        Evidence {
            source: EvidenceSource::Catalogue,
            detail: format!("{}, {}{refresh}{expiry}", self.component, self.evidence),
            date: Some(self.date.clone()),
            url: self.sources.iter().find(|source| is_url(source)).cloned(),
        }
    }
}

/// Whether a source is a page, not the name of a document.
fn is_url(source: &str) -> bool {
    source.starts_with("https://")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Seconds;

    /// The entries of the list that the catalogue was made from.
    const REFERENCES: [(u32, u32); 8] =
        [(1, 28), (30, 46), (50, 56), (60, 69), (70, 83), (90, 103), (110, 123), (130, 139)];

    fn rows() -> &'static [Row] {
        Catalogue::builtin().rows()
    }

    #[test]
    fn every_entry_of_the_list_is_there_and_no_other() {
        let expected: BTreeSet<_> = REFERENCES
            .iter()
            .flat_map(|&(first, last)| first..=last)
            .map(|number| format!("L{number:02}"))
            .collect();
        let found: BTreeSet<_> = rows().iter().map(|row| row.reference.clone()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn ids_are_unique_and_kebab_case() {
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        let mut seen = BTreeSet::new();
        for Row { id, .. } in rows() {
            assert!(seen.insert(id), "{id} is there twice");
            assert!(id.split('-').all(is_word), "{id}");
        }
    }

    #[test]
    fn every_row_has_a_date_and_a_source() {
        for row in rows() {
            assert_eq!(row.date.len(), "YYYY-MM-DD".len(), "{}", row.id);
            assert!(row.date.split('-').all(|part| part.parse::<u16>().is_ok()), "{}", row.id);
            assert!(!row.sources.is_empty(), "{}", row.id);
            for source in &row.sources {
                let named = source.len() > 3 && !source.contains("://");
                assert!(is_url(source) || named, "{}: {source}", row.id);
            }
            assert!(row.note.as_deref().is_none_or(|note| note.chars().count() <= 120));
        }
    }

    #[test]
    fn every_time_is_between_a_second_and_thirty_days() {
        let sane = Duration::from_secs(1)..=Duration::from_hours(30 * 24);
        for row in rows() {
            let keepalive = row.keepalive.unwrap_or_default();
            let times = [row.idle_timeout, row.after, row.client_closed, row.server_closed];
            let of_keepalive =
                [keepalive.idle, keepalive.interval].map(|time| time.map(Seconds::get));
            for time in times.into_iter().chain(of_keepalive).flatten() {
                assert!(sane.contains(&time), "{}: {time:?}", row.id);
            }
            if let Some(Range::Seconds([least, most])) = row.range {
                let value = row.idle_timeout.or(row.after).expect("a range is of a value");
                assert!((least..=most).contains(&value.as_secs()), "{}", row.id);
            }
        }
    }

    /// Each kind has its value in the one field that is meant for it.
    #[test]
    fn every_row_has_the_fields_of_its_kind() {
        for row in rows() {
            let path_side = row.idle_timeout.is_some();
            let other = row.after.is_some();
            let keepalive = row.keepalive.is_some();
            let fits = match row.kind {
                Kind::Idle => !other && !keepalive,
                Kind::HalfClosed => path_side && !other && !keepalive,
                Kind::DurationCap => other && !path_side && !keepalive,
                Kind::ProgramTimer => other && row.timer.is_some() && !path_side && !keepalive,
                Kind::Keepalive => keepalive && !path_side && !other,
                Kind::Setting => !path_side && !keepalive,
            };
            assert!(fits, "{}", row.id);
        }
    }

    #[test]
    fn the_limits_that_diagnoses_rest_on() {
        for (id, seconds) in [
            ("kubernetes-ipvs", 900),
            ("aws-nat-gateway", 350),
            ("aws-nlb", 350),
            ("azure-load-balancer", 240),
            ("gcp-vpc", 600),
            ("linux-conntrack", 432_000),
        ] {
            let limit = Catalogue::builtin().find(id).unwrap().to_limit().unwrap();
            assert_eq!(limit.idle_timeout, Duration::from_secs(seconds), "{id}");
            assert_eq!(limit.refreshed_by, Refresh::AnyPacket, "{id}");
            assert_eq!(limit.on_expiry, Expiry::Silent, "{id}");
        }
    }

    #[test]
    fn ipvs_is_late_by_the_timer_wheel_and_nothing_else_is() {
        for row in rows().iter().filter(|row| row.kind == Kind::Idle) {
            let Ok(limit) = row.to_limit() else { continue };
            let late = limit.slack == TimerSlack::Wheel { hz: KernelHz::Foreign };
            assert_eq!(late, ["L01", "L03", "L20"].contains(&&*row.reference), "{}", row.id);
        }
    }

    #[test]
    fn an_idle_row_with_a_value_is_a_limit_and_no_other_row_is() {
        for row in rows() {
            let limit = row.to_limit();
            let expected = row.kind == Kind::Idle && row.idle_timeout.is_some();
            assert_eq!(limit.is_ok(), expected, "{}", row.id);
            let Ok(limit) = limit else { continue };
            let [evidence] = &limit.evidence[..] else { panic!("{}: one evidence", row.id) };
            assert_eq!(evidence.source, EvidenceSource::Catalogue);
            assert_eq!(evidence.date.as_ref(), Some(&row.date));
            assert!(evidence.url.is_some(), "{}", row.id);
            assert!(evidence.detail.starts_with(&row.component), "{}", row.id);
        }
    }

    #[test]
    fn what_is_disputed_or_unknown_is_said() {
        for (id, words) in [
            ("docker-desktop-vpnkit", "reported; disputed whether keepalive probes refresh it"),
            ("fly-proxy", "not known whether keepalive probes refresh it"),
            ("alibaba-slb-tcp", "unverified; not known what happens then"),
        ] {
            let limit = Catalogue::builtin().find(id).unwrap().to_limit().unwrap();
            let open = [limit.refreshed_by == Refresh::Unknown, limit.on_expiry == Expiry::Unknown];
            assert!(open.contains(&true), "{id}");
            assert!(limit.evidence[0].detail.contains(words), "{}", limit.evidence[0].detail);
        }
    }

    #[test]
    fn what_is_no_limit_says_why() {
        for (id, words) in [
            ("aws-lambda-invoke", "keepalive does not extend that"),
            ("node-fetch", "a timer of a program"),
            ("ipvs-fin", "connections that an end has closed"),
            ("lettuce-keepalive", "forgets nothing"),
            ("wireguard", "no idle timer"),
            ("haproxy", "no idle timeout by default"),
        ] {
            let error = Catalogue::builtin().find(id).unwrap().to_limit().unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn search_ignores_case_and_looks_into_notes() {
        let ids = |text| -> Vec<_> {
            Catalogue::builtin().search(text).map(|row| row.id.as_str()).collect()
        };
        assert_eq!(ids("aws nat G"), ["aws-nat-gateway"]);
        assert_eq!(ids("VPNKIT#414"), ["docker-desktop-vpnkit"]);
        assert!(ids("gcp").contains(&"gcp-cloud-nat"));
        assert_eq!(ids("").len(), rows().len());
        assert_eq!(ids("no such thing"), [""; 0]);
    }

    #[test]
    fn a_mistyped_id_is_recognised() {
        let closest = |id| Catalogue::builtin().closest(id);
        assert_eq!(closest("aws-nat-gatway"), ["aws-nat-gateway"]);
        assert_eq!(closest("AWS-NAT"), ["aws-nat-gateway", "aws-nat-instance"]);
        assert_eq!(closest("awsnlb"), ["aws-nlb"]);
        assert_eq!(closest("azure").len(), 3);
        for nothing in ["", "x", "--", "völlig-anders", "350x"] {
            assert_eq!(closest(nothing), [""; 0], "{nothing}");
        }
    }

    #[test]
    fn an_unknown_field_is_an_error() {
        let row = "[[row]]\nid = 'x'\nidle_timout_s = 5\n";
        assert!(toml::from_str::<Catalogue>(row).unwrap_err().to_string().contains("idle_timout"));
    }

    #[test]
    fn a_row_is_written_with_the_fields_of_the_file() {
        for row in rows() {
            let json = serde_json::to_string(row).unwrap();
            assert_eq!(&serde_json::from_str::<Row>(&json).unwrap(), row);
        }
    }

    #[test]
    fn the_page_is_up_to_date() {
        let page = include_str!("../../../docs/limits.md");
        assert!(
            page == Catalogue::builtin().markdown(),
            "docs/limits.md differs from the catalogue: run `cargo xtask docs`"
        );
    }
}
