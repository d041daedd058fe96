//! `stillopen lab exec`: runs anyone's own client behind a path that forgets, and ends as the client did.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result};
use stillopen_lab::{
    exec::{Request, SERVER_VARIABLE, Server, ServerEnded, Summary},
    netns::{self, NetnsError, Options},
    vm::VmError,
};

use super::exec_vm;
use crate::{
    cli::lab::{ExecArgs, ExecDriver},
    output,
    report::table::printable,
};

/// `env`'s own status for what is not its command's.
const OWN: u8 = 125;
/// Of wrong arguments, as clap has it.
const USAGE: u8 = 2;
/// The default of `--for`.
const LONGEST: Duration = Duration::from_secs(2 * 3600);

/// The client's status, or `env`'s where there was none.
pub(crate) fn run(args: ExecArgs) -> ExitCode {
    if let Some(wrong) = wrong_driver(&args).or_else(|| one_file_for_both(&args)) {
        say(&wrong);
        return ExitCode::from(USAGE);
    }
    let status = ended(args).unwrap_or_else(|error| {
        say(&output::reasons(&error));
        let of_netns = error.downcast_ref::<NetnsError>().map(NetnsError::status);
        let of_vm = || error.downcast_ref::<VmError>().map(VmError::status);
        of_netns.or_else(of_vm).unwrap_or(OWN)
    });
    ExitCode::from(status)
}

fn ended(args: ExecArgs) -> Result<u8> {
    // Before anything runs: a run of an hour should not end in this.
    if let Some(file) = &args.summary {
        output::clear(file).with_context(|| format!("write {}", file.display()))?;
    }
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
    let mut summary = match args.driver {
        ExecDriver::Netns => {
            let options = Options {
                delay: args.delay.unwrap_or_default(),
                loss: args.loss.unwrap_or_default(),
                seed: args.seed.unwrap_or_default(),
                record: args.record,
                forward_signals: true,
            };
            netns::run(&request, &options)?
        }
        ExecDriver::Vm => {
            let longest = args.longest.unwrap_or(LONGEST);
            let asked = exec_vm::Asked { kernel: args.kernel, include: args.include, longest };
            exec_vm::run(&request, asked, say)?
        }
    };
    summary.notes.extend(unfilled(&request.command, &summary));
    // The file first: nobody may read standard error. The client has ended: its status counts, whatever fails now.
    let written = args.summary.as_deref().map(|file| write(file, &summary).map_err(|e| (file, e)));
    tell(&summary);
    if let Some(Err((file, error))) = written {
        say(&format!("write {}: {}", file.display(), output::reasons(&error)));
    }
    Ok(summary.status.code())
}

fn write(file: &Path, summary: &Summary) -> Result<()> {
    output::file(file, |out| Ok(serde_json::to_writer(out, summary)?))
}

fn tell(summary: &Summary) {
    if let Some(ServerEnded { status, said }) = &summary.server_ended {
        say(&format!("the server ended before the client: {status}"));
        for line in said {
            say(&format!("the server said: {line}"));
        }
    }
    say(&summary.text());
    for note in &summary.notes {
        say(note);
    }
}

/// What to say where the client was given the variable's name: only a shell puts the value in its place.
fn unfilled(command: &[OsString], summary: &Summary) -> Option<String> {
    (summary.counts.connections == 0 && has_unfilled(command)).then(|| {
        format!(
            "the client was given ${SERVER_VARIABLE} as it stands, since no shell runs it: sh -c '…' puts the \
             address in its place"
        )
    })
}

/// Whether a word has the variable's name and no word before it is a shell, or a program that runs one: other
/// programs (`timeout`, `env`) may start it.
fn has_unfilled(command: &[OsString]) -> bool {
    const SHELLS: [&str; 18] = [
        "sh", "ash", "bash", "dash", "ksh", "mksh", "zsh", "fish", "csh", "tcsh", "busybox",
        "flock", "parallel", "runuser", "script", "ssh", "su", "watch",
    ];
    let is_shell = |word: &OsString| {
        let name = Path::new(word).file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| SHELLS.contains(&name))
    };
    let written = [format!("${SERVER_VARIABLE}"), format!("${{{SERVER_VARIABLE}}}")];
    let has = |word: &OsString| written.iter().any(|name| word.to_string_lossy().contains(name));
    command.iter().take_while(|word| !is_shell(word)).any(has)
}

/// What is wrong with the arguments, where two files are one.
fn one_file_for_both(args: &ExecArgs) -> Option<String> {
    let (summary, record) = (args.summary.as_deref()?, args.record.as_deref()?);
    output::is_same_file(summary, record)
        .then(|| format!("--summary and --record are both {}: give each its own", record.display()))
}

/// What is wrong with the arguments, where one is of the other driver's.
fn wrong_driver(args: &ExecArgs) -> Option<String> {
    let (driver, others): (_, &[(&str, bool)]) = match args.driver {
        ExecDriver::Netns => (
            "vm",
            &[
                ("--kernel", args.kernel.is_some()),
                ("--include", !args.include.is_empty()),
                ("--for", args.longest.is_some()),
            ],
        ),
        ExecDriver::Vm => (
            "netns",
            &[
                ("--delay", args.delay.is_some()),
                ("--loss", args.loss.is_some()),
                ("--seed", args.seed.is_some()),
                ("--record", args.record.is_some()),
            ],
        ),
    };
    let (argument, _) = others.iter().find(|(_, given)| *given)?;
    Some(format!("{argument} is for --driver {driver}"))
}

/// Standard error is where this program speaks; standard output is the client's.
fn say(what: &str) {
    // Nobody may read it.
    let _ = writeln!(io::stderr(), "stillopen: {}", printable(what));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_anywhere_before_the_variable_fills_it_in() {
        for (command, unfilled) in [
            (&["curl", "http://$STILLOPEN_SERVER/"][..], true),
            (&["timeout", "3", "curl", "http://${STILLOPEN_SERVER}/"], true),
            (&["curl", "$STILLOPEN_SERVER", "sh"], true),
            (&["curl", "http://10.96.14.3/"], false),
            (&["/bin/sh", "-c", "curl $STILLOPEN_SERVER"], false),
            (&["timeout", "3", "sh", "-c", "curl $STILLOPEN_SERVER"], false),
            (&["env", "A=b", "timeout", "3", "/usr/bin/bash", "-c", "nc $STILLOPEN_SERVER"], false),
            (&["watch", "curl $STILLOPEN_SERVER"], false),
        ] {
            let command: Vec<OsString> = command.iter().map(Into::into).collect();
            assert_eq!(has_unfilled(&command), unfilled, "{command:?}");
        }
    }
}
