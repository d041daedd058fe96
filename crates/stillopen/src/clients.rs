//! How to set TCP keepalive in the clients that people use: each is a data file and a snippet of `clients/`.
//!
//! A snippet has `@idle@`, `@interval@` (seconds), `@count@`, `@idle_ms@` (milliseconds) and `@dead_peer@`
//! (seconds until a dead peer is noticed) where the values go. What is marked as tested is run by
//! `tests/clients`, which reads the socket's options back.

use std::{iter, sync::LazyLock, time::Duration};

use anyhow::{Result, anyhow, bail};
use serde::Deserialize;
use stillopen_model::KeepaliveValues;

/// A client, or another place where keepalive is set.
#[derive(Debug)]
pub struct Client {
    /// What `--client` takes: `httpx`.
    pub id: &'static str,
    /// The ending of the snippet's file: `py`.
    pub language: &'static str,
    snippet: &'static str,
    /// What is said of it.
    pub about: About,
}

/// The fields of `clients/ID.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// For people: `HTTPX, Python`.
    pub title: String,
    /// Other words by which `--client` finds it, besides those of the title.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// From which version on the snippet works.
    pub needs: String,
    /// The version that the tests run; `None`: untested.
    #[serde(default)]
    pub tested: Option<String>,
    /// What its sockets have without the snippet, where a test has read it: `off`, `60/30/3`, or `kernel`
    /// where it is on with the kernel's times.
    #[serde(default)]
    pub by_default: Option<String>,
    /// Where its options are documented.
    pub sources: Vec<String>,
    /// What surprises its users, a sentence each.
    pub beware: Vec<String>,
    /// What it sets itself.
    #[serde(default)]
    in_force: InForce,
}

/// The values that a client does not let its user choose; `None`: it does.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct InForce {
    interval: Option<Interval>,
    count: Option<u32>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Interval {
    Seconds(u64),
    As(Other),
}

/// Another of the three values.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Other {
    Idle,
}

macro_rules! clients {
    ($($id:literal $language:literal),* $(,)?) => {
        [$((
            $id,
            $language,
            include_str!(concat!("../clients/", $id, ".", $language)),
            include_str!(concat!("../clients/", $id, ".toml")),
        )),*]
    };
}

static CLIENTS: LazyLock<Vec<Client>> = LazyLock::new(|| {
    let files = clients![
        "pod" "yaml",
        "sysctl" "sh",
        "httpx" "py",
        "httpx2" "py",
        "requests" "py",
        "urllib3" "py",
        "aiohttp" "py",
        "openai" "py",
        "anthropic" "py",
        "google-genai" "py",
        "curl" "sh",
        "node-http" "js",
        "undici" "js",
        "java" "java",
        "go" "go",
        "reqwest" "rs",
        "socket2" "rs",
        "dotnet" "cs",
        "libpq" "conninfo",
        "jdbc" "properties",
        "redis-py" "py",
        "lettuce" "java",
        "go-redis" "go",
        "envoy" "yaml",
        "istio" "yaml",
        "nginx" "conf",
        "haproxy" "cfg",
    ];
    let parse = |(id, language, snippet, about)| {
        // The files are part of the program, and a test parses them.
        let about = toml::from_str(about).expect("a built-in client is valid");
        Client { id, language, snippet, about }
    };
    files.into_iter().map(parse).collect()
});

/// All of them, the kernel's defaults first, then by language.
#[must_use]
pub fn all() -> &'static [Client] {
    &CLIENTS
}

/// The client of this id, or the only one whose id starts with it, or else the only one that has it in its
/// title or among its aliases; capitals don't matter.
///
/// # Errors
/// None is meant, or more than one may be: they are named.
pub fn find(name: &str) -> Result<&'static Client> {
    let wanted = name.to_lowercase();
    if let Some(client) = all().iter().find(|client| client.id == wanted) {
        return Ok(client);
    }
    let starts = |client: &&Client| !wanted.is_empty() && client.id.starts_with(&wanted);
    let called = |client: &&Client| !wanted.is_empty() && client.is_called(&wanted);
    let mut hits: Vec<&Client> = all().iter().filter(starts).collect();
    if hits.is_empty() {
        hits = all().iter().filter(called).collect();
    }
    match hits.as_slice() {
        [client] => Ok(client),
        [] => bail!("{name:?} is not a client that is known; there are {}", ids()),
        more => Err(anyhow!("{name:?} may be one of\n{}", titles(more))),
    }
}

fn ids() -> String {
    all().iter().map(|client| client.id).collect::<Vec<_>>().join(", ")
}

/// A line for each: `  undici        Node.js, fetch and undici`.
fn titles(clients: &[&Client]) -> String {
    let line = |client: &&Client| format!("  {:12}  {}", client.id, client.about.title);
    clients.iter().map(line).collect::<Vec<_>>().join("\n")
}

impl Client {
    /// Whether its title or an alias has `wanted`, which has no capitals.
    fn is_called(&self, wanted: &str) -> bool {
        let About { title, aliases, .. } = &self.about;
        iter::once(title).chain(aliases).any(|name| name.to_lowercase().contains(wanted))
    }

    /// The snippet with `values` filled in.
    #[must_use]
    pub fn snippet(&self, values: KeepaliveValues) -> String {
        let KeepaliveValues { idle, interval, count } = values;
        self.snippet
            .replace("@idle@", &idle.as_secs().to_string())
            .replace("@idle_ms@", &idle.as_millis().to_string())
            .replace("@dead_peer@", &values.dead_peer_after().as_secs().to_string())
            .replace("@interval@", &interval.as_secs().to_string())
            .replace("@count@", &count.to_string())
    }

    /// What the socket has then.
    #[must_use]
    pub fn in_force(&self, values: KeepaliveValues) -> KeepaliveValues {
        let InForce { interval, count } = &self.about.in_force;
        KeepaliveValues {
            idle: values.idle,
            interval: match interval {
                Some(Interval::Seconds(seconds)) => Duration::from_secs(*seconds),
                Some(Interval::As(Other::Idle)) => values.idle,
                None => values.interval,
            },
            count: count.unwrap_or(values.count),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    #[test]
    fn every_file_of_the_folder_is_built_in() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients");
        let files: BTreeSet<String> = fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        let built_in: BTreeSet<String> = all()
            .iter()
            .flat_map(|Client { id, language, .. }| {
                [format!("{id}.toml"), format!("{id}.{language}")]
            })
            .collect();
        assert_eq!(files, built_in);
    }

    #[test]
    fn every_client_has_a_source_and_something_to_beware_of() {
        for Client { id, about, .. } in all() {
            assert!(about.sources.iter().all(|url| url.starts_with("https://")), "{id}");
            assert!(!about.sources.is_empty() && !about.beware.is_empty(), "{id}");
            assert!(about.beware.iter().all(|line| line.ends_with('.')), "{id}");
        }
    }

    #[test]
    fn a_snippet_has_the_values_and_no_line_of_it_is_too_wide() {
        let values: KeepaliveValues = "1201/31/12".parse().unwrap();
        for client in all() {
            let snippet = client.snippet(values);
            for place in ["@idle", "@interval", "@count", "@dead"] {
                assert!(!snippet.contains(place), "{}: {place}", client.id);
            }
            assert!(snippet.ends_with('\n'), "{}", client.id);
            for line in snippet.lines() {
                assert!(line.replace('\t', "    ").chars().count() <= 100, "{}: {line}", client.id);
            }
            if client.id != "jdbc" {
                assert!(snippet.contains("1201"), "{}", client.id);
            }
        }
    }

    #[test]
    fn what_a_client_sets_itself_is_in_force() {
        let values = "61/31/4".parse().unwrap();
        let in_force = |id| find(id).unwrap().in_force(values).to_string();
        assert_eq!(in_force("httpx"), "61/31/4");
        assert_eq!(in_force("curl"), "61/61/9");
        assert_eq!(in_force("undici"), "61/1/10");
    }

    #[test]
    fn a_short_name_is_enough_where_only_one_is_meant() {
        assert_eq!(
            find("http").unwrap_err().to_string(),
            "\"http\" may be one of\n  httpx         HTTPX, Python\n  httpx2        HTTPX2, Python"
        );
        assert_eq!(find("httpx").unwrap().id, "httpx");
        assert_eq!(find("lett").unwrap().id, "lettuce");
        assert_eq!(find("HTTPX").unwrap().id, "httpx");
        for wrong in ["", "cobol"] {
            assert!(find(wrong).unwrap_err().to_string().contains("there are pod, sysctl"));
        }
    }

    #[test]
    fn a_word_of_the_title_or_an_alias_is_enough_where_only_one_has_it() {
        for (word, id) in [
            ("fetch", "undici"),
            ("Fetch", "undici"),
            ("golang", "go"),
            ("K8s", "pod"),
            ("C#", "dotnet"),
            ("psycopg", "libpq"),
        ] {
            assert_eq!(find(word).unwrap().id, id, "{word}");
        }
        let listed = |word| {
            let error = find(word).unwrap_err().to_string();
            let ids = error.lines().skip(1).filter_map(|line| line.split_whitespace().next());
            ids.map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        let python =
            "httpx httpx2 requests urllib3 aiohttp openai anthropic google-genai libpq redis-py";
        assert_eq!(listed("python"), python);
        assert_eq!(listed("Postgres"), "libpq jdbc");
        assert_eq!(listed("rust"), "reqwest socket2");
        assert_eq!(listed("nodejs"), "node-http undici");
    }
}
