//! `stillopen lab exec`: runs anyone's own client behind a path that forgets, and ends as the client did.

use std::{
    fs::File,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result};
use stillopen_lab::{
    exec::{Request, Server, Summary},
    vm::VmError,
};

use super::exec_vm;
use crate::{
    cli::lab::{ExecArgs, ExecDriver},
    report::table::printable,
};

/// `env`'s own status for what is not its command's.
const OWN: u8 = 125;
/// The default of `--for`.
const LONGEST: Duration = Duration::from_secs(2 * 3600);

/// The client's status, or `env`'s where there was none.
pub(crate) fn run(args: ExecArgs) -> ExitCode {
    let status = ended(args).unwrap_or_else(|error| {
        say(&format!("{error:#}"));
        error.downcast_ref::<VmError>().map_or(OWN, VmError::status)
    });
    ExitCode::from(status)
}

fn ended(args: ExecArgs) -> Result<u8> {
    // Before anything runs: a run of an hour should not end in this.
    let file = args.summary.as_deref().map(create).transpose()?;
    let ExecDriver::Vm = args.driver;
    let server = match (args.server, args.answer_after) {
        (Some(command), _) => Server::Command(command),
        (None, time) => Server::AnswerAfter(time.unwrap_or_default()),
    };
    let request = Request {
        command: args.command,
        server,
        profile: args.profile,
        idle_timeout: args.idle_timeout,
        ipv6: args.ipv6,
    };
    let longest = args.longest.unwrap_or(LONGEST);
    let asked = exec_vm::Asked { kernel: args.kernel, include: args.include, longest };
    let summary = exec_vm::run(&request, asked, say)?;
    say(&summary.text());
    if let (Some(file), Some(path)) = (file, &args.summary) {
        write(file, &summary).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(summary.status.code())
}

fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("write {}", path.display()))
}

fn write(mut file: File, summary: &Summary) -> io::Result<()> {
    serde_json::to_writer(&file, summary)?;
    writeln!(file)
}

/// Standard error is where this program speaks; standard output is the client's.
fn say(what: &str) {
    // Nobody may read it.
    let _ = writeln!(io::stderr(), "stillopen: {}", printable(what));
}
