//! `stillopen.toml`: limits that are known of this network.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use ipnet::IpNet;
use serde::{Deserialize, Deserializer, de::Error as _};
use stillopen_model::{
    Direction, Evidence, EvidenceSource, Expiry, Gap, IdleLimit, Refresh, Selector,
};

use crate::input;

const FILE_NAME: &str = "stillopen.toml";
/// Larger than any list of limits that a person writes.
const LARGEST: u64 = 1 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    limit: Vec<Entry>,
}

/// One `[[limit]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    #[serde(deserialize_with = "duration")]
    idle_timeout: Duration,
    #[serde(default, deserialize_with = "cidrs")]
    applies_to: Vec<IpNet>,
    #[serde(default)]
    direction: Direction,
    #[serde(default)]
    refreshed_by: Refresh,
    #[serde(default)]
    on_expiry: Expiry,
}

/// What the configuration says, and what of it this user may not read.
#[derive(Debug, Default)]
pub(crate) struct Configured {
    pub(crate) limits: Vec<IdleLimit>,
    pub(crate) gaps: Vec<Gap>,
}

/// The limits of the first `stillopen.toml` of: the current folder, the user's configuration folder, the
/// system's. None of them is no error; one that this user may not read is a gap, as under `sudo -E`.
///
/// # Errors
/// The file is there and can't be read, or holds something that is not known: nothing is left out
/// silently.
pub(crate) fn read() -> Result<Configured> {
    let mut gaps = Vec::new();
    for path in places() {
        let context = || format!("read {}", path.display());
        match fs::metadata(&path) {
            Ok(metadata) if !metadata.is_file() => {
                return Err(anyhow!("it is not a file")).with_context(context);
            }
            Ok(metadata) if metadata.len() > LARGEST => {
                return Err(anyhow!("it is larger than {LARGEST} bytes")).with_context(context);
            }
            _ => {}
        }
        match fs::read_to_string(&path) {
            Ok(text) => {
                let limits = parse(&text, &path).with_context(context)?;
                return Ok(Configured { limits, gaps });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => gaps.push(Gap {
                source: "configuration".into(),
                reason: format!("{} may not be read by this user", path.display()),
                how: "set HOME or XDG_CONFIG_HOME to a folder of your own".into(),
            }),
            Err(error) => return Err(error).with_context(context),
        }
    }
    Ok(Configured { limits: Vec::new(), gaps })
}

/// Where `stillopen.toml` is looked for, in this order.
pub(crate) fn places() -> Vec<PathBuf> {
    let of_user = env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| env::home_dir().map(|home| home.join(".config")));
    let mut places = vec![PathBuf::from(FILE_NAME)];
    places.extend(of_user.map(|folder| folder.join("stillopen").join(FILE_NAME)));
    places.push(Path::new("/etc/stillopen").join(FILE_NAME));
    places
}

fn parse(text: &str, path: &Path) -> Result<Vec<IdleLimit>> {
    let file: File = toml::from_str(text)?;
    Ok(file.limit.into_iter().map(|entry| entry.into_limit(path)).collect())
}

impl Entry {
    fn into_limit(self, path: &Path) -> IdleLimit {
        let evidence = Evidence::new(EvidenceSource::ConfigFile, path.display().to_string());
        let limit = IdleLimit::new(self.name.clone(), self.name, self.idle_timeout, evidence);
        IdleLimit {
            selector: Selector {
                peers: self.applies_to,
                direction: self.direction,
                ..Selector::default()
            },
            refreshed_by: self.refreshed_by,
            on_expiry: self.on_expiry,
            ..limit
        }
    }
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    input::duration(&String::deserialize(from)?).map_err(D::Error::custom)
}

fn cidrs<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpNet>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts.iter().map(|text| input::cidr(text).map_err(D::Error::custom)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_the_file_has_its_fields() {
        let text = r#"
            [[limit]]
            name = "office-firewall"
            idle_timeout = "30m"
            applies_to = ["198.51.100.0/24", "2001:db8::1"]
            direction = "outbound"
            refreshed_by = "payload_only"
            on_expiry = "reset"
        "#;
        let limits = parse(text, Path::new("stillopen.toml")).unwrap();
        assert_eq!(limits[0].id, "office-firewall");
        assert_eq!(limits[0].idle_timeout, Duration::from_secs(1800));
        assert_eq!(limits[0].selector.direction, Direction::Outbound);
        assert_eq!(limits[0].selector.peers.len(), 2);
        assert_eq!(limits[0].refreshed_by, Refresh::PayloadOnly);
        assert_eq!(limits[0].on_expiry, Expiry::Reset);
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for bad in [
            "[[limit]]\nname = 'a'",
            "[[limit]]\nname = 'a'\nidle_timeout = '5 bananas'",
            "[[limit]]\nname = 'a'\nidle_timeout = '0s'",
            "[[limit]]\nname = 'a'\nidle_timeout = '5m'\ndirection = 'sideways'",
            "[[limit]]\nname = 'a'\nidle_timeout = '5m'\napplies_to = ['10.0.0.0/33']",
            "[[limits]]\nname = 'a'",
            "[[limit]",
        ] {
            assert!(parse(bad, Path::new("stillopen.toml")).is_err(), "{bad}");
        }
    }
}
