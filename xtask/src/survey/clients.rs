//! The surveyed clients: how each is asked for one answer. A program ends with status 0 where the answer came, and
//! else says last on standard error what it saw.

use std::{path::Path, process::Command};

use anyhow::{Context, Result};

use super::{
    Mode,
    made::{Made, snippet},
};
use crate::sh;

/// One of them.
pub(crate) struct Client {
    pub(crate) name: &'static str,
    /// Of which `stillopen advise --client` the setting is.
    pub(crate) advise: Option<&'static str>,
    pub(crate) version: fn(&Made) -> Result<String>,
    language: Language,
    /// When it gives up as it comes, all its tries together, where that is after the answer: in seconds.
    pub(crate) gives_up_s: u32,
    /// As it comes.
    default: &'static str,
    /// With its own timer raised; empty: it has none, or the default is an hour or more.
    patient: &'static str,
    /// After the snippet; empty: there is no setting.
    setting: &'static str,
}

/// What the code is for.
enum Language {
    Python,
    Node,
    Shell,
    /// A program that is made before, with what follows it as its words.
    Made,
    Java,
}

/// Anthropic's call.
const ANTHROPIC_ASKS: &str = "client.messages.create(model='m', max_tokens=9, \
                        messages=[{'role': 'user', 'content': 'x'}])";
/// Three tries of 600 s, and pauses between.
const SDK_GIVES_UP_S: u32 = 1830;
/// Node.js tells of an error and ends.
const TOLD: &str = ".then(() => process.exit(0), (e) => { console.error(`${e.name}: ${e.message}` + \
                    (e.cause ? ` (${e.cause.code ?? e.cause.message})` : '')); process.exit(1); });";

/// In the order of the table.
pub(crate) const CLIENTS: [Client; 15] = [
    Client {
        name: "httpx",
        advise: Some("httpx"),
        version: |made| of_python(made, "httpx"),
        language: Language::Python,
        gives_up_s: 0,
        default: "import httpx\nhttpx.get('@url@')",
        patient: "import httpx\nhttpx.get('@url@', timeout=3600)",
        setting: "client.get('@url@')",
    },
    Client {
        name: "requests",
        advise: Some("requests"),
        version: |made| of_python(made, "requests"),
        language: Language::Python,
        gives_up_s: 0,
        default: "import requests\nrequests.get('@url@')",
        patient: "",
        setting: "session.get('@url@', timeout=3600)",
    },
    Client {
        name: "urllib3",
        advise: Some("urllib3"),
        version: |made| of_python(made, "urllib3"),
        language: Language::Python,
        gives_up_s: 0,
        default: "import urllib3\nurllib3.request('GET', '@url@')",
        patient: "import urllib3\nurllib3.request('GET', '@url@', timeout=3600, retries=False)",
        setting: "pool.request('GET', '@url@')",
    },
    Client {
        name: "aiohttp",
        advise: Some("aiohttp"),
        version: |made| of_python(made, "aiohttp"),
        language: Language::Python,
        gives_up_s: 0,
        default: "import asyncio\nimport aiohttp\n\nasync def ask():\n    \
                  async with aiohttp.ClientSession() as session:\n        \
                  await session.get('@url@')\n\nasyncio.run(ask())",
        patient: "import asyncio\nimport aiohttp\n\nasync def ask():\n    \
                  timeout = aiohttp.ClientTimeout(total=3600)\n    \
                  async with aiohttp.ClientSession(timeout=timeout) as session:\n        \
                  await session.get('@url@')\n\nasyncio.run(ask())",
        setting: "import asyncio\n\nasync def ask():\n    async with new_session() as session:\n        \
                  await session.get('@url@')\n\nasyncio.run(ask())",
    },
    Client {
        name: "OpenAI's SDK, Python",
        advise: Some("openai"),
        version: |made| of_python(made, "openai"),
        language: Language::Python,
        gives_up_s: SDK_GIVES_UP_S,
        default: "from openai import OpenAI\nclient = OpenAI(api_key='none', base_url='@url@')\n\
                  client.chat.completions.create(model='m', messages=[{'role': 'user', 'content': 'x'}])",
        patient: "from openai import OpenAI\n\
                  client = OpenAI(api_key='none', base_url='@url@', timeout=3600, max_retries=0)\n\
                  client.chat.completions.create(model='m', messages=[{'role': 'user', 'content': 'x'}])",
        setting: "client.chat.completions.create(model='m', messages=[{'role': 'user', 'content': 'x'}])",
    },
    Client {
        name: "Anthropic's SDK, Python",
        advise: Some("anthropic"),
        version: |made| of_python(made, "anthropic"),
        language: Language::Python,
        gives_up_s: SDK_GIVES_UP_S,
        default: "from anthropic import Anthropic\nclient = Anthropic(api_key='none', base_url='@url@')\n@ask@",
        patient: "from anthropic import Anthropic\n\
                  client = Anthropic(api_key='none', base_url='@url@', timeout=3600, max_retries=0)\n@ask@",
        setting: "@ask@",
    },
    Client {
        name: "Google's GenAI SDK, Python",
        advise: Some("google-genai"),
        version: |made| of_python(made, "google-genai"),
        language: Language::Python,
        gives_up_s: 0,
        default: "from google import genai\n\
                  client = genai.Client(api_key='none', http_options={'base_url': '@url@'})\n\
                  client.models.generate_content(model='m', contents='x')",
        patient: "",
        setting: "client.models.generate_content(model='m', contents='x')",
    },
    Client {
        name: "curl",
        advise: Some("curl"),
        version: |_| word_of(Command::new("curl").arg("--version"), 1),
        language: Language::Shell,
        gives_up_s: 0,
        default: "curl -sS @url@",
        patient: "",
        setting: "@snippet@",
    },
    Client {
        name: "Node.js, fetch",
        advise: Some("undici"),
        version: of_node,
        language: Language::Node,
        gives_up_s: 0,
        default: "fetch('@url@').then((answer) => answer.text())@told@",
        patient: "const { Agent, setGlobalDispatcher } = require('undici');\n\
                  setGlobalDispatcher(new Agent({ headersTimeout: 3600e3, bodyTimeout: 3600e3 }));\n\
                  fetch('@url@').then((answer) => answer.text())@told@",
        setting: "fetch('@url@').then((answer) => answer.text())@told@",
    },
    Client {
        name: "Node.js, http",
        advise: Some("node-http"),
        version: of_node,
        language: Language::Node,
        gives_up_s: 0,
        default: "new Promise((done, failed) => require('node:http').get('@url@', \
                  (answer) => answer.resume().on('end', done)).on('error', failed))@told@",
        patient: "",
        setting: "new Promise((done, failed) => http.get('@url@', { agent: httpAgent }, \
                  (answer) => answer.resume().on('end', done)).on('error', failed))@told@",
    },
    Client {
        name: "axios",
        advise: Some("node-http"),
        version: |made| Ok(format!("1.21.1 on {}", of_node(made)?)),
        language: Language::Node,
        gives_up_s: 0,
        default: "require('axios').get('@url@')@told@",
        patient: "",
        setting: "require('axios').get('@url@', { httpAgent })@told@",
    },
    Client {
        name: "Java, HttpClient",
        advise: None,
        version: of_java,
        language: Language::Java,
        gives_up_s: 0,
        default: "AskHttpClient @url@",
        patient: "",
        setting: "",
    },
    Client {
        name: "Java, Socket",
        advise: Some("java"),
        version: of_java,
        language: Language::Java,
        gives_up_s: 0,
        default: "AskSocket @host@ @port@ default",
        patient: "",
        setting: "AskSocket @host@ @port@ setting",
    },
    Client {
        name: "reqwest",
        advise: Some("reqwest"),
        version: |_| Ok("0.13.5".into()),
        language: Language::Made,
        gives_up_s: 0,
        default: "reqwest-default @url@",
        patient: "",
        setting: "reqwest-setting @url@",
    },
    Client {
        name: "Go, net/http",
        advise: Some("go"),
        version: |_| Ok("1.27.3".into()),
        language: Language::Made,
        gives_up_s: 0,
        default: "go-default @url@",
        patient: "",
        setting: "go-setting @url@",
    },
];

impl Client {
    /// The words of each of its runs.
    pub(crate) fn commands(&self, made: &Made) -> Result<Vec<(Mode, Vec<String>)>> {
        let runs = [
            (Mode::Default, self.default),
            (Mode::Patient, self.patient),
            (Mode::Setting, self.setting),
        ];
        let runs = runs.into_iter().filter(|(_, code)| !code.is_empty());
        runs.map(|(mode, code)| Ok((mode, self.words(made, mode, code)?))).collect()
    }

    fn words(&self, made: &Made, set: Mode, code: &str) -> Result<Vec<String>> {
        let code = code.replace("@told@", TOLD).replace("@ask@", ANTHROPIC_ASKS);
        let snippet = match self.advise.filter(|_| set == Mode::Setting) {
            Some(id) => snippet(id)?,
            None => String::new(),
        };
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Ok(match self.language {
            Language::Python => {
                vec![text(&made.python), "-c".into(), format!("{KEYS}\n{snippet}\n{code}")]
            }
            Language::Node => vec![text(&made.node), "-e".into(), format!("{snippet}\n{code}")],
            Language::Shell => {
                let snippet = snippet.replace("curl ", "curl -sS ");
                let code = code.replace("@snippet@", &snippet);
                vec!["/bin/sh".into(), "-c".into(), code.replace("https://example.com/", "@url@")]
            }
            Language::Made => {
                let mut words: Vec<String> = code.split(' ').map(str::to_owned).collect();
                words[0] = text(&made.programs.join(&words[0]));
                words
            }
            Language::Java => ["java", "-classpath", &text(&made.classes)]
                .into_iter()
                .chain(code.split(' '))
                .map(str::to_owned)
                .collect(),
        })
    }
}

/// Where the SDKs find the server and a key, for the snippets that leave them to the environment.
const KEYS: &str = "import os\nos.environ.update(OPENAI_API_KEY='none', OPENAI_BASE_URL='@url@', \
                    ANTHROPIC_API_KEY='none', ANTHROPIC_BASE_URL='@url@', GEMINI_API_KEY='none', \
                    GOOGLE_GEMINI_BASE_URL='@url@')";

fn of_python(made: &Made, package: &str) -> Result<String> {
    let ask = format!("import importlib.metadata as m; print(m.version('{package}'))");
    word_of(Command::new(&made.python).args(["-c", &ask]), 0)
}

fn of_node(made: &Made) -> Result<String> {
    let version = word_of(Command::new(&made.node).arg("--version"), 0)?;
    Ok(format!("Node.js {}", version.trim_start_matches('v')))
}

fn of_java(_: &Made) -> Result<String> {
    Ok(format!("OpenJDK {}", word_of(Command::new("java").arg("--version"), 1)?))
}

fn word_of(command: &mut Command, number: usize) -> Result<String> {
    let said = sh::output(command)?;
    let word = said.split_whitespace().nth(number);
    Ok(word.with_context(|| format!("{} says no version", sh::shown(command)))?.to_owned())
}
