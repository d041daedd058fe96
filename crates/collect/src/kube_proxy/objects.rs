//! Finds what is written in YAML or JSON: documents, Lists, `ConfigMap`s, and the flags of Pods.

use serde_json::{Map, Value};

use super::{
    KubeProxyError, Written,
    flags::{Flags, command_words},
};

const CONFIGURATION: &str = "KubeProxyConfiguration";
/// Fields that people do not write. A program that wrote them wrote all in alphabetical order, `mode` too.
const FIELDS_OF_A_PROGRAM: [&str; 4] =
    ["bindAddressHardFail", "configSyncPeriod", "detectLocal", "enableProfiling"];
/// Fields that hold others.
const SECTIONS: [&str; 5] = ["clientConnection", "conntrack", "iptables", "ipvs", "nftables"];
/// A List in a List is the deepest that is looked into.
const DEEPEST_LIST: usize = 2;

/// Settings and where they stand.
type Placed = (Written, String);

/// A configuration with where it stands, and the others; where there is a file, flags do not count.
pub(super) fn written(text: &str) -> Result<(Placed, Vec<Placed>), KubeProxyError> {
    // A command line, a unit file or the output of ps.
    let words = command_words(text);
    let documents = match yaml("the text", text) {
        Err(_) if !words.is_empty() => Vec::new(),
        Ok(documents) if documents.iter().all(Value::is_string) && !words.is_empty() => Vec::new(),
        documents => documents?,
    };
    let mut seen = Seen::default();
    if documents.is_empty() {
        seen.flags(words, "the command line");
    }
    for document in &documents {
        seen.object(document, 0)?;
    }
    seen.finish()
}

/// What has been found.
#[derive(Default)]
struct Seen {
    configurations: Vec<Placed>,
    flags: Vec<Placed>,
    /// A program that reads a file, and which.
    elsewhere: Option<(String, String)>,
    others: Vec<String>,
}

impl Seen {
    fn object(&mut self, value: &Value, depth: usize) -> Result<(), KubeProxyError> {
        let Some(object) = value.as_object() else {
            self.others.push("a text that is no object".into());
            return Ok(());
        };
        let kind = text(object, "kind").unwrap_or_default();
        let name = name(object);
        match kind {
            CONFIGURATION => {
                self.configuration(object, name.unwrap_or_else(|| CONFIGURATION.into()))?;
            }
            "ConfigMap" => self.config_map(object, &name.unwrap_or_default())?,
            "Pod" | "DaemonSet" => {
                let spec = object.get("spec");
                let template = spec.and_then(|spec| spec.get("template")?.get("spec"));
                let place = format!("{kind} {}", name.unwrap_or_default());
                self.pod(template.or(spec), &place);
            }
            _ if object.get("kube-proxy-arg").is_some_and(|value| !value.is_null()) => {
                let arguments = strings(object.get("kube-proxy-arg"));
                self.flags(arguments, "kube-proxy-arg of the file");
            }
            _ if depth < DEEPEST_LIST && object.get("items").is_some_and(Value::is_array) => {
                for item in object["items"].as_array().into_iter().flatten() {
                    self.object(item, depth + 1)?;
                }
            }
            "" => self.others.push("an object without a kind (a file that was cut off?)".into()),
            kind => self.others.push(format!("{kind} {}", name.unwrap_or_default())),
        }
        Ok(())
    }

    fn config_map(
        &mut self,
        object: &Map<String, Value>,
        name: &str,
    ) -> Result<(), KubeProxyError> {
        let data = object.get("data").and_then(Value::as_object);
        let mut keys = Vec::new();
        for (key, value) in data.into_iter().flatten() {
            keys.push(key.as_str());
            let Some(text) = value.as_str() else { continue };
            // Other keys may hold anything, kubeconfig.conf and templates among them.
            if !text.contains(CONFIGURATION) && !["config.conf", "config"].contains(&key.as_str()) {
                continue;
            }
            let place = format!("ConfigMap {name}, {key}");
            for document in yaml(&place, text)? {
                match document.as_object() {
                    Some(inner) if self::text(inner, "kind") == Some(CONFIGURATION) => {
                        self.configuration(inner, place.clone())?;
                    }
                    Some(inner) => {
                        let kind = self::text(inner, "kind").unwrap_or("an object without a kind");
                        self.others.push(format!("{place}: {kind}"));
                    }
                    None => self.others.push(format!("{place}: a text that is no object")),
                }
            }
        }
        let keys =
            if keys.is_empty() { "no keys".into() } else { format!("keys {}", keys.join(", ")) };
        self.others.push(format!("ConfigMap {name} with {keys}"));
        Ok(())
    }

    fn configuration(
        &mut self,
        object: &Map<String, Value>,
        place: String,
    ) -> Result<(), KubeProxyError> {
        let by_a_program = FIELDS_OF_A_PROGRAM.iter().filter(|field| object.contains_key(**field));
        let has_mode = object.get("mode").is_some_and(|mode| !mode.is_null());
        let in_order = by_a_program.count() >= 2 && object.keys().all(|key| key.as_str() <= "mode");
        // Nobody sets the one without the other; and a section without a field ends in the middle.
        let ipvs_alone = object.get("ipvs").is_some_and(Value::is_object);
        let open_section =
            SECTIONS.iter().any(|name| object.get(*name).is_some_and(Value::is_null));
        let cut_off = !has_mode && (in_order || ipvs_alone || open_section);
        if cut_off {
            return Err(KubeProxyError::CutOff { place });
        }
        let part = |name: &'static str| match object.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(part)) => Ok(Some(part)),
            Some(other) => Err(shape(&place, name, "fields", other)),
        };
        let (ipvs, conntrack) = (part("ipvs")?, part("conntrack")?);
        let scalar = |part: Option<&Map<String, Value>>, key, field| {
            scalar(part.and_then(|part| part.get(key)), &place, field)
        };
        let written = Written {
            mode: scalar(Some(object), "mode", "mode")?,
            tcp_timeout: scalar(ipvs, "tcpTimeout", "ipvs.tcpTimeout")?,
            tcp_fin_timeout: scalar(ipvs, "tcpFinTimeout", "ipvs.tcpFinTimeout")?,
            exclude_cidrs: strings(ipvs.and_then(|ipvs| ipvs.get("excludeCIDRs")))
                .map(str::to_owned)
                .collect(),
            conntrack_established: scalar(
                conntrack,
                "tcpEstablishedTimeout",
                "conntrack.tcpEstablishedTimeout",
            )?,
            conntrack_close_wait: scalar(
                conntrack,
                "tcpCloseWaitTimeout",
                "conntrack.tcpCloseWaitTimeout",
            )?,
        };
        self.configurations.push((written, place));
        Ok(())
    }

    fn pod(&mut self, spec: Option<&Value>, place: &str) {
        let containers = spec.and_then(|spec| spec.get("containers")?.as_array());
        for container in containers.into_iter().flatten() {
            // A command may be one line for a shell.
            let words: Vec<&str> = ["command", "args"]
                .into_iter()
                .flat_map(|key| strings(container.get(key)))
                .flat_map(str::split_whitespace)
                .collect();
            // Others have a --config, too.
            let named = ["kube-proxy", "hyperkube", "proxy"];
            let is_it =
                |word: &&str| word.rsplit('/').next().is_some_and(|name| named.contains(&name));
            let called = container.get("name").and_then(Value::as_str) == Some("kube-proxy");
            if called || words.iter().any(is_it) {
                self.flags(words, place);
            }
        }
        self.others.push(place.to_owned());
    }

    fn flags<'a>(&mut self, words: impl IntoIterator<Item = &'a str>, place: &str) {
        let flags = Flags::read(words);
        if let Some(file) = flags.config {
            self.elsewhere = Some((place.to_owned(), file));
        } else if flags.any || place.starts_with("kube-proxy-arg") {
            self.flags.push((flags.written, place.to_owned()));
        }
    }

    fn finish(self) -> Result<(Placed, Vec<Placed>), KubeProxyError> {
        let mut configurations = self.configurations.into_iter();
        if let Some(first) = configurations.next() {
            return Ok((first, configurations.collect()));
        }
        if let Some((place, file)) = self.elsewhere {
            return Err(KubeProxyError::Elsewhere { place, file });
        }
        let mut flags = self.flags.into_iter();
        if let Some(first) = flags.next() {
            return Ok((first, flags.collect()));
        }
        let found = match self.others.len() {
            0 => "an empty text".into(),
            1..=5 => self.others.join("; "),
            n => format!("{n} objects, among them {}", self.others[..5].join("; ")),
        };
        Err(KubeProxyError::None { found })
    }
}

/// JSON is read as such where it is JSON: comments in it would pass for YAML of another meaning.
fn yaml(part: &str, text: &str) -> Result<Vec<Value>, KubeProxyError> {
    if text.trim_start().starts_with('{')
        && let Ok(value) = serde_json::from_str(text)
    {
        return Ok(vec![value]);
    }
    if text.trim_start().starts_with('{') && text.contains("/*") {
        return Err(KubeProxyError::Comments { part: part.to_owned() });
    }
    serde_saphyr::from_multiple(text)
        .map_err(|source| KubeProxyError::Yaml { part: part.to_owned(), source: Box::new(source) })
}

fn text<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    object.get(key)?.as_str()
}

/// `namespace/name`
fn name(object: &Map<String, Value>) -> Option<String> {
    let metadata = object.get("metadata")?.as_object()?;
    let name = text(metadata, "name")?;
    Some(match text(metadata, "namespace") {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    })
}

/// The strings of a list, or one alone.
fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let (list, one) = match value {
        Some(Value::Array(list)) => (list.as_slice(), None),
        Some(Value::String(one)) => (&[][..], Some(one.as_str())),
        _ => (&[][..], None),
    };
    list.iter().filter_map(Value::as_str).chain(one)
}

fn scalar(
    value: Option<&Value>,
    place: &str,
    field: &'static str,
) -> Result<Option<String>, KubeProxyError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(other) => Err(shape(place, field, "a text", other)),
    }
}

fn shape(
    place: &str,
    field: &'static str,
    expected: &'static str,
    found: &Value,
) -> KubeProxyError {
    let mut text = found.to_string();
    if let Some((end, _)) = text.char_indices().nth(40) {
        text.truncate(end);
        text.push('…');
    }
    KubeProxyError::Shape { place: place.to_owned(), field, expected, text }
}
