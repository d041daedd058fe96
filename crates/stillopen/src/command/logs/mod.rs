//! `stillopen logs`: read both sides' logs, analyse, print. One file for each kind of output.

mod csv;
mod histogram;
mod json;
mod next;
mod svg;
mod text;

use std::{
    fmt,
    fs::File,
    io::{self, BufWriter, IsTerminal as _, Write as _, stderr},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result};
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use stillopen_lab::descriptor;
use stillopen_logs::{Analysis, Named, Overrides, Source, analyse};

use crate::{cli::logs::LogsArgs, output, report::table::printable};

/// Status 1: answers were lost.
pub(crate) fn run(args: &LogsArgs) -> Result<ExitCode> {
    let (client, server) = (sources(&args.client), sources(&args.server));
    let bar = progress(&client, &server);
    let analysis = analyse(&client, &server, &overrides(args), &|bytes| advance(&bar, bytes));
    bar.finish_and_clear();
    let analysis = analysis?;

    if let Some(path) = &args.csv {
        write_file(path, |to| csv::write(&analysis, to))?;
    }
    if let Some(path) = &args.svg {
        write_file(path, |to| to.write_all(svg::draw(&analysis).as_bytes()))?;
    }
    let mut stdout = BufWriter::new(output::stdout());
    if args.json {
        json::write(&analysis, &mut stdout)?;
    } else {
        for line in text::report(&analysis).lines() {
            // Ids and file names are others' words.
            writeln!(stdout, "{}", printable(line))?;
        }
    }
    stdout.flush()?;
    Ok(status(&analysis))
}

fn status(analysis: &Analysis) -> ExitCode {
    ExitCode::from(u8::from(analysis.counts.lost > 0))
}

fn sources(paths: &[PathBuf]) -> Vec<Source> {
    let source = |path: &PathBuf| {
        if path.as_os_str() == "-" { Source::Stdin } else { Source::File(path.clone()) }
    };
    paths.iter().map(source).collect()
}

fn overrides(args: &LogsArgs) -> Overrides {
    let named = |list: &[String]| list.iter().map(|text| Named::parse(text)).collect();
    Overrides {
        id: named(&args.id),
        time: named(&args.time),
        sent: named(&args.sent),
        received: named(&args.received),
        started: named(&args.started),
        pattern: named(&args.pattern),
    }
}

/// What is done sooner needs no bar: it would only flicker.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
/// A time that is left is told by no less.
const ESTIMATED_AFTER: Duration = Duration::from_secs(3);

/// Counts what was read, and shows the bar where the work takes a moment and there is a terminal.
fn advance(bar: &ProgressBar, bytes: u64) {
    bar.inc(bytes);
    if bar.is_hidden() && bar.elapsed() >= SHOWN_AFTER && stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }
}

/// ` 12s left`, once there is something to tell it by.
fn write_left(state: &ProgressState, to: &mut dyn fmt::Write) {
    if state.elapsed() >= ESTIMATED_AFTER {
        let _ = write!(to, ", {} left", HumanDuration(state.eta()));
    }
}

/// A bar over the bytes of all files, which is not shown yet.
fn progress(client: &[Source], server: &[Source]) -> ProgressBar {
    let sizes: Option<Vec<u64>> = client.iter().chain(server).map(Source::size).collect();
    let (bar, template) = match sizes {
        Some(sizes) => (
            ProgressBar::new(sizes.iter().sum()),
            "reading [{wide_bar}] {bytes} of {total_bytes}{left}",
        ),
        None => (ProgressBar::no_length(), "reading {bytes}"),
    };
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    bar.set_draw_target(ProgressDrawTarget::hidden());
    bar.with_style(style.with_key("left", write_left).progress_chars("=> "))
}

fn write_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<()> {
    let file = descriptor::create(path).with_context(|| format!("write {}", path.display()))?;
    let mut to = BufWriter::new(file);
    write(&mut to).and_then(|()| to.flush()).with_context(|| format!("write {}", path.display()))
}
