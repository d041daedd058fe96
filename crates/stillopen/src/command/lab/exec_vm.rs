//! `stillopen lab exec --driver vm`: the client in a guest with a real kernel, on warped time.

use std::{
    io::{self, Write},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context, Result};
use stillopen_lab::{
    exec::{Request, Summary},
    vm::{self, ExecOptions, Executed, Kernel, Wrote},
};
use stillopen_model::human;

use super::progress::Progress;

/// What only this driver takes.
pub(super) struct Asked {
    pub kernel: Option<PathBuf>,
    pub include: Vec<PathBuf>,
    pub longest: Duration,
}

/// Runs it; what there is to say beside the summary is told to `say`.
pub(super) fn run(request: &Request, asked: Asked, say: impl Fn(&str)) -> Result<Summary> {
    let Asked { kernel, include, longest } = asked;
    let kernel = Kernel::find(kernel.as_deref()).context("find a kernel")?;
    let options = ExecOptions { include, longest };
    let progress = Progress::new("packing what the client needs");
    let wrote = |wrote: Wrote<'_>| {
        let (bytes, mut to): (_, Box<dyn Write>) = match wrote {
            Wrote::Out(bytes) => (bytes, Box::new(io::stdout())),
            Wrote::Err(bytes) => (bytes, Box::new(io::stderr())),
        };
        let mut written = Ok(());
        progress.beside(bytes, || written = to.write_all(bytes).and_then(|()| to.flush()));
        // The client's own pipe would end it; nobody may read the rest.
        let is_closed = written.is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        !(is_closed && matches!(wrote, Wrote::Out(_)))
    };
    let executed = vm::exec(request, &options, &kernel, wrote, |phase| progress.show(phase))?;
    drop(progress);
    let Executed { summary, over_time, missed, kernel, image } = executed;
    if over_time {
        let waited = human(longest);
        say(&format!(
            "the client had not ended after {waited} of the guest's clock, and was killed (--for)"
        ));
    }
    for path in missed {
        let path = path.display();
        say(&format!("{path} is not in the guest; if the client needs it: --include {path}"));
    }
    let [_, _, ran] = kernel.virtual_s;
    let wall: f64 = kernel.wall_s.iter().sum();
    say(&format!(
        "{} of the guest's clock in {}, Linux {}, {} MiB of files in its memory",
        human(Duration::from_secs_f64(ran)),
        human(Duration::from_secs_f64(wall)),
        kernel.version,
        image >> 20
    ));
    Ok(summary)
}
