//! `stillopen lab vm`, and the guest's side of `lab run --driver vm`.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::{Context, Result};
use stillopen_lab::{
    descriptor,
    vm::{
        self, Kernel,
        parity::{self, Model},
    },
};

use super::progress::Progress;
use crate::{
    cli::lab::{ParityArgs, VmArgs, VmCommand},
    output,
};

/// Status as each command has it.
pub(crate) fn run(args: &VmArgs) -> Result<ExitCode> {
    match &args.command {
        VmCommand::Prepare => prepare(),
        VmCommand::Parity(args) => parity(args),
    }
}

fn prepare() -> Result<ExitCode> {
    let kernel = vm::prepare(|what| {
        // Progress; nobody may read it.
        let _ = writeln!(io::stderr(), "stillopen: {what}");
    })
    .context("prepare a kernel for --driver vm")?;
    writeln!(
        output::stdout(),
        "{} {}\nRun on it:  stillopen lab run --driver vm",
        kernel.version,
        kernel.image.display()
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Status 0: model and kernel agree; 1: they differ.
fn parity(args: &ParityArgs) -> Result<ExitCode> {
    let kernel = Kernel::find(args.kernel.as_deref()).context("find a kernel")?;
    let progress = Progress::new("running the set on the kernel, in two guests");
    let on_kernel = parity::on_kernel(&kernel, args.seed).context("run the set on the kernel")?;
    drop(progress);
    if let Some(file) = &args.record {
        let json = serde_json::to_string(&on_kernel.recorded)?;
        descriptor::create(file)
            .and_then(|mut to| to.write_all(json.as_bytes()))
            .with_context(|| format!("write {}", file.display()))?;
    }
    let comparison = parity::compare(&on_kernel.recorded, Model::Right)?;
    let differences = comparison.differences.len();
    let mut stdout = output::stdout();
    let verdict = match differences {
        0 => "Model and kernel agree".to_owned(),
        1 => "Model and kernel DIFFER on 1 connection".to_owned(),
        more => format!("Model and kernel DIFFER on {more} connections"),
    };
    writeln!(
        stdout,
        "{verdict}: {} connections, Linux {}, seed {}.\n\n{}",
        comparison.connections, kernel.version, args.seed, comparison.table
    )?;
    for difference in &comparison.differences {
        writeln!(
            stdout,
            "{}, connection {}\n{}",
            difference.lane, difference.connection, difference.text
        )?;
    }
    for (virtual_time, wall) in on_kernel.virtual_time.iter().zip(on_kernel.walls) {
        let (virtual_s, wall_s) = (virtual_time.as_secs(), wall.as_secs_f64());
        writeln!(stdout, "One boot: {virtual_s} s of virtual time in {wall_s:.1} s.")?;
    }
    if let Some(folder) = args.out.as_deref().filter(|_| differences > 0) {
        let files = parity::keep(&on_kernel, &comparison.differences, folder)?;
        writeln!(stdout, "{} files of evidence in {}", files.len(), folder.display())?;
    }
    Ok(ExitCode::from(u8::from(differences > 0)))
}

/// Does not return where it is process 1.
pub(crate) fn guest() -> Result<ExitCode> {
    vm::guest::main()?;
    Ok(ExitCode::SUCCESS)
}
