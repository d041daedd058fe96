//! `stillopen run`: starts a program with keepalive on for every TCP connection that it makes or accepts.
//!
//! What does it is in the crate `stillopen-remedy`; here the values are decided, and a refusal is worded.

use std::{ffi::OsStr, io::Write as _, process::ExitCode, time::Duration};

use anyhow::{Result, anyhow, bail};
use stillopen_model::{IdleLimit, Judgement, KeepaliveValues, KernelHz, judge, keepalive_under};
use stillopen_remedy::run::{NotExecuted, arm_inherited, become_program, supervise};

use crate::{
    cli::run::RunArgs,
    config,
    input::quoted,
    report::{table::printable, words::limit_time},
};

/// The values may be the advice that was made for any host, so its kernel's timers are taken to be the latest of
/// the usual ones here, too.
const HZ: KernelHz = KernelHz::Foreign;

/// Becomes the program; comes back only where it can't.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode> {
    let limits = limits(args)?;
    let values = values(&limits, args.keepalive)?;
    for warning in warnings(&limits, values) {
        say(&warning);
    }
    start(args, values)
}

/// Those of the command line, else those that are configured.
fn limits(args: &RunArgs) -> Result<Vec<IdleLimit>> {
    if !args.limits.is_empty() {
        return Ok(args.limits.iter().map(|arg| arg.limit.clone()).collect());
    }
    let configured = config::read()?;
    for gap in configured.gaps {
        say(&format!("{}: {}; {}", gap.source, gap.reason, gap.how));
    }
    Ok(configured.limits)
}

/// The values to set.
fn values(limits: &[IdleLimit], given: Option<KeepaliveValues>) -> Result<KeepaliveValues> {
    let advised = keepalive_under(limits, HZ);
    let late = |values| limits.iter().find(|limit| judge(values, limit, HZ) == Judgement::TooLate);
    match (given, advised) {
        (Some(given), advised) => match (late(given), advised) {
            (None, _) => Ok(given),
            (Some(limit), Some(better)) => bail!(
                "{given} comes too late under {}: its next probe is up to {} after the last packet. Give \
                 --keepalive {better}",
                named(limit),
                limit_time(Duration::from_secs(given.latest_refresh(HZ).as_secs() + 1))
            ),
            (Some(limit), None) => bail!("{given} comes too late under {}", named(limit)),
        },
        (None, Some(advised)) => Ok(advised),
        (None, None) => {
            let limit = limits.iter().min_by_key(|limit| limit.idle_timeout);
            bail!(
                "no keepalive is short enough for {}: the kernel counts in whole seconds. To start it all the \
                 same, name another --limit",
                limit.map_or_else(String::new, named)
            )
        }
    }
}

/// What keepalive will not do, or not surely.
fn warnings(limits: &[IdleLimit], values: KeepaliveValues) -> Vec<String> {
    let warning = |limit: &IdleLimit| {
        let named = named(limit);
        match judge(values, limit, HZ) {
            Judgement::Useless => Some(format!(
                "keepalive does not help under {named}: it counts payload only. What does: stillopen \
                 advise --limit {}",
                quoted(given_as(limit))
            )),
            Judgement::Disputed => {
                Some(format!("it is not known whether keepalive's probes count under {named}"))
            }
            Judgement::ThinMargin => {
                Some(format!("with {values} one lost probe loses a connection under {named}"))
            }
            Judgement::Fine | Judgement::TooLate => None,
        }
    };
    limits.iter().filter_map(warning).collect()
}

/// `350s (aws-nat-gateway)`
fn named(limit: &IdleLimit) -> String {
    let time = limit_time(limit.idle_timeout);
    match given_as(limit) {
        id if id == time => time,
        id => format!("{time} ({id})"),
    }
}

/// As `--limit` takes it.
fn given_as(limit: &IdleLimit) -> &str {
    limit.id.strip_prefix("user-").unwrap_or(&limit.id)
}

fn say(line: &str) {
    // Whoever can't be told starts a program all the same.
    let _ = writeln!(std::io::stderr(), "stillopen: {}", printable(line));
}

/// Status 126 or 127, after it has said why.
fn not_executed(program: &OsStr, found: bool, error: &dyn std::fmt::Display) -> ExitCode {
    say(&format!("can't run {}: {error}", program.display()));
    ExitCode::from(if found { 126 } else { 127 })
}

fn start(args: &RunArgs, values: KeepaliveValues) -> Result<ExitCode> {
    let report = args.report.then(|| report::report(values));
    let supervised = match supervise(values, report) {
        Ok(supervised) => Some(supervised),
        Err(refused) if args.best_effort && refused.leaves_as_it_was() => {
            let _ = arm_inherited(values);
            say(&format!("started without keepalive: {refused}"));
            None
        }
        Err(refused) => return Err(not_started(&refused)),
    };
    let Some(program) = args.command.first() else { bail!("no program is given") };
    let error = become_program(args.command.clone(), supervised);
    let found = !matches!(error, NotExecuted::NotFound(_));
    Ok(not_executed(program, found, &error))
}

fn not_started(why: &dyn std::fmt::Display) -> anyhow::Error {
    anyhow!(
        "not started, as keepalive can't be had: {why}. To start it without: --best-effort. To set \
         keepalive in the program: stillopen advise --client list"
    )
}

/// What is said at the end.
mod report {
    use std::io::Error;

    use stillopen_model::KeepaliveValues;
    use stillopen_remedy::run::{Counts, Report, Why};

    pub(super) fn report(values: KeepaliveValues) -> Report {
        Box::new(move |counts| format!("stillopen: {}\n", words(counts, values)))
    }

    fn words(counts: &Counts, values: KeepaliveValues) -> String {
        let sockets = |n: u64| format!("{n} socket{}", if n == 1 { "" } else { "s" });
        let armed = format!("gave keepalive {values} to {} when made", sockets(counts.armed));
        let inherited = match counts.inherited {
            0 => String::new(),
            n => format!(", and to {n} that it inherited"),
        };
        let left_alone = match counts.left_alone.values().sum() {
            0 => String::new(),
            total => format!("; {} left alone: {}", sockets(total), reasons(counts)),
        };
        let later = match counts.armed + counts.inherited {
            0 => "",
            _ => LATER,
        };
        format!("{armed}{inherited}{left_alone}{later}")
    }

    /// The supervisor does not see it.
    const LATER: &str = ". What the program set on them later is not known here: `stillopen check` shows \
                         it while they are open";

    fn reasons(counts: &Counts) -> String {
        let reasons = counts.left_alone.iter().map(|(&why, n)| format!("{n} {}", reason(why)));
        reasons.collect::<Vec<_>>().join(", ")
    }

    fn reason(why: Why) -> String {
        match why {
            Why::Namespace => "in another network namespace".into(),
            Why::User => "of another user or group".into(),
            Why::Cgroup => "in another cgroup".into(),
            Why::NotReadable => "of a process that may not be looked at".into(),
            Why::Refused(operation, errno) => {
                format!("refused by the kernel ({operation}: {})", Error::from_raw_os_error(errno))
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use stillopen_model::DEFAULT_KEEPALIVE;

        use super::*;

        #[test]
        fn each_reason_is_counted() {
            let mut counts = Counts::default();
            let said = |counts: &Counts| words(counts, DEFAULT_KEEPALIVE);
            assert_eq!(said(&counts), "gave keepalive 60/30/3 to 0 sockets when made");
            counts.armed = 1;
            counts.inherited = 2;
            counts.left_alone.insert(Why::User, 3);
            counts.left_alone.insert(Why::Refused("socket", 97), 1);
            assert_eq!(
                said(&counts),
                "gave keepalive 60/30/3 to 1 socket when made, and to 2 that it inherited; 4 sockets left \
                 alone: 3 of another user or group, 1 refused by the kernel (socket: Address family not \
                 supported by protocol (os error 97)). What the program set on them later is not known \
                 here: `stillopen check` shows it while they are open"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use stillopen_model::DEFAULT_KEEPALIVE;

    use super::*;
    use crate::input::limit_arg;

    fn limits(texts: &[&str]) -> Vec<IdleLimit> {
        texts.iter().map(|text| limit_arg(text).unwrap().limit).collect()
    }

    fn decided(texts: &[&str], given: Option<&str>) -> String {
        let given = given.map(|text| text.parse().unwrap());
        values(&limits(texts), given).map_or_else(|e| e.to_string(), |values| values.to_string())
    }

    #[test]
    fn the_tightest_limit_decides_and_what_is_too_late_is_refused() {
        assert_eq!(decided(&[], None), DEFAULT_KEEPALIVE.to_string());
        assert_eq!(decided(&["900s", "100s"], None), "40/20/3");
        assert_eq!(decided(&[], Some("7200/75/9")), "7200/75/9");
        let refused = decided(&["aws-nat-gateway", "900s"], Some("400/30/3"));
        assert!(
            refused.starts_with("400/30/3 comes too late under 350s (aws-nat-gateway)"),
            "{refused}"
        );
        assert!(refused.ends_with("Give --keepalive 60/30/3"), "{refused}");
        let none = decided(&["1s"], None);
        assert!(none.starts_with("no keepalive is short enough for 1s:"), "{none}");
    }

    #[test]
    fn what_keepalive_does_not_do_is_said() {
        let payload = IdleLimit {
            refreshed_by: stillopen_model::Refresh::PayloadOnly,
            ..limits(&["60s"]).remove(0)
        };
        let said = warnings(&[payload], DEFAULT_KEEPALIVE);
        assert!(said[0].contains("counts payload only"), "{said:?}");
        assert!(warnings(&limits(&["900s"]), DEFAULT_KEEPALIVE).is_empty());
        assert_eq!(warnings(&limits(&["80s"]), DEFAULT_KEEPALIVE).len(), 1);
    }
}
