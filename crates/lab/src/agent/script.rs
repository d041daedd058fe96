//! The scripted model: think times and edits of the list from a TOML file, per document.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, de::Error as _};

use crate::http::Issue;

/// What the scripted model does for each document.
///
/// ```toml
/// [default]                        # every document without a section of its own
/// think = "61s"                    # before the first list
/// issues = ["Debt grows faster than sales", { title = "…", evidence = "…" }]
///
/// [[default.round]]                # a review: thinks, then edits the list
/// think = "2m"
/// remove = ["Debt grows faster than sales"]
/// replace = [{ title = "…", with = { title = "…", evidence = "…" } }]
/// add = ["No successor for the founder"]
///
/// [document.extract-017]           # the same for one id
/// think = "11m"
/// issues = ["Water use in dry regions"]
///
/// [attempt.2.extract-017]          # and for the second attempt at it alone
/// think = "2m"
/// issues = ["Water use in dry regions"]
/// ```
///
/// A review after the last `round` edits nothing and thinks for as long as the last one did.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    default: Part,
    #[serde(default)]
    document: BTreeMap<String, Part>,
    /// By the attempt's number, then as `document`.
    #[serde(default)]
    attempt: BTreeMap<String, BTreeMap<String, Part>>,
}

/// One document's part.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    #[serde(default, deserialize_with = "duration")]
    think: Duration,
    issues: Vec<Issue>,
    #[serde(default, rename = "round")]
    rounds: Vec<Round>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Round {
    #[serde(default, deserialize_with = "duration")]
    think: Duration,
    #[serde(default)]
    remove: Vec<String>,
    #[serde(default)]
    replace: Vec<Replace>,
    #[serde(default)]
    add: Vec<Issue>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Replace {
    title: String,
    with: Issue,
}

/// A script that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file can't be read.
    #[error("can't read the script {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not a script.
    #[error("{} is not a script: {source}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why, and where.
        source: Box<toml::de::Error>,
    },
    /// A round edits an issue that is not on the list by then.
    #[error("the script {}: {section}, round {round}: {source}", path.display())]
    Edit {
        /// The file.
        path: PathBuf,
        /// `default` or the document's id.
        section: String,
        /// From 1.
        round: usize,
        /// Which issue.
        source: NotOnTheList,
    },
}

/// An edit of something that is not there.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no issue {0:?} is on the list")]
pub struct NotOnTheList(String);

impl Script {
    /// Reads a script, and goes through its edits once.
    ///
    /// # Errors
    /// The file can't be read, is not a script, or edits what is not on the list.
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        let text = fs::read_to_string(path)
            .map_err(|source| ScriptError::Read { path: path.to_owned(), source })?;
        let script: Self = toml::from_str(&text).map_err(|source| ScriptError::Parse {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        let of_attempts = script.attempt.values().flatten();
        let sections = script.document.iter().chain(of_attempts);
        let sections = sections.map(|(id, part)| (id.as_str(), part));
        for (section, part) in sections.chain([("default", &script.default)]) {
            let mut list = part.issues.clone();
            for (index, round) in part.rounds.iter().enumerate() {
                list = round.edit(list).map_err(|source| ScriptError::Edit {
                    path: path.to_owned(),
                    section: section.to_owned(),
                    round: index + 1,
                    source,
                })?;
            }
        }
        Ok(script)
    }

    /// The first list, after its think time.
    pub(super) async fn extract(&self, id: &str, attempt: u32) -> Vec<Issue> {
        let part = self.part(id, attempt);
        tokio::time::sleep(part.think).await;
        part.issues.clone()
    }

    /// `list` as round `round` (from 1) leaves it, after its think time.
    pub(super) async fn review(
        &self,
        (id, attempt): (&str, u32),
        list: Vec<Issue>,
        round: u32,
    ) -> Result<Vec<Issue>, NotOnTheList> {
        let rounds = &self.part(id, attempt).rounds;
        let index = usize::try_from(round - 1).unwrap_or(usize::MAX);
        if let Some(round) = rounds.get(index).or(rounds.last()) {
            tokio::time::sleep(round.think).await;
        }
        match rounds.get(index) {
            Some(round) => round.edit(list),
            None => Ok(list),
        }
    }

    fn part(&self, id: &str, attempt: u32) -> &Part {
        let own = self.attempt.get(&attempt.to_string()).and_then(|documents| documents.get(id));
        own.or_else(|| self.document.get(id)).unwrap_or(&self.default)
    }
}

impl Round {
    /// Removes, replaces, adds, in this order.
    fn edit(&self, mut list: Vec<Issue>) -> Result<Vec<Issue>, NotOnTheList> {
        for title in &self.remove {
            let index = find(&list, title)?;
            list.remove(index);
        }
        for Replace { title, with } in &self.replace {
            let index = find(&list, title)?;
            list[index] = with.clone();
        }
        list.extend(self.add.iter().cloned());
        Ok(list)
    }
}

fn find(list: &[Issue], title: &str) -> Result<usize, NotOnTheList> {
    list.iter().position(|issue| issue.title == title).ok_or_else(|| NotOnTheList(title.to_owned()))
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    let signed: SignedDuration =
        text.parse().map_err(|error| D::Error::custom(format!("{text:?}: {error}")))?;
    Duration::try_from(signed).map_err(|_| D::Error::custom(format!("{text:?} is negative")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = r#"
        [default]
        think = "61s"
        issues = ["a", { title = "b", evidence = "quoted" }]
        [[default.round]]
        think = "2m"
        remove = ["a"]
        add = ["c"]
        [[default.round]]
        think = "1m"
        replace = [{ title = "c", with = "d" }]
        [document.x]
        issues = []
        [attempt.2.x]
        issues = ["second"]
    "#;

    fn file(name: &str, text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("stillopen-{}-{name}", std::process::id()));
        fs::write(&path, text).unwrap();
        path
    }

    fn read(name: &str, text: &str) -> Result<Script, ScriptError> {
        let path = file(name, text);
        let script = Script::read(&path);
        fs::remove_file(path).unwrap();
        script
    }

    fn titles(list: &[Issue]) -> Vec<&str> {
        list.iter().map(|issue| issue.title.as_str()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn thinks_and_edits_round_by_round() {
        let script = read("whole", SCRIPT).unwrap();
        let start = tokio::time::Instant::now();
        let mut list = script.extract("any", 1).await;
        let mut seen = vec![(start.elapsed().as_secs(), titles(&list).join(" "))];
        for round in 1..=3 {
            list = script.review(("any", 1), list, round).await.unwrap();
            seen.push((start.elapsed().as_secs(), titles(&list).join(" ")));
        }
        let expected = [(61, "a b"), (181, "b c"), (241, "b d"), (301, "b d")];
        assert_eq!(seen, expected.map(|(at, list)| (at, list.to_owned())));
        assert!(script.extract("x", 1).await.is_empty());
        assert_eq!(titles(&script.extract("x", 2).await), ["second"]);
    }

    #[test]
    fn a_bad_script_names_its_file_and_place() {
        for (name, text, part) in [
            ("empty", "", "default"),
            ("typo", "[default]\nissues = []\nthnik = \"1s\"", "thnik"),
            ("negative", "[default]\nissues = []\nthink = \"-1s\"", "negative"),
            ("number", "[default]\nissues = []\nthink = \"soon\"", "soon"),
            ("edit", "[default]\nissues = []\n[[default.round]]\nremove = [\"z\"]", "round 1"),
        ] {
            let error = read(name, text).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains(name), "{name}: {error}");
        }
        let error = Script::read(Path::new("/nonexistent.toml")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent.toml"), "{error}");
    }
}
