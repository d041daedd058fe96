//! Commands of this program that are run on a lane's node while its scenario goes on: what is asked of the
//! guest, and what came of it.

use std::time::Duration;

use stillopen_model::human;

use super::{
    VmError,
    image::PROGRAM,
    millis,
    protocol::{Bytes, Line, Place, Process, Stream},
};
use crate::result::OnNodeResult;

/// A command of this program, and when it runs on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnNode {
    /// Since the scenario's start.
    pub at: Duration,
    /// Its words, without the program's name.
    pub words: Vec<String>,
}

/// What a command finds in its environment: no colours, no folder of a user.
const ENVIRONMENT: [(&str, &str); 4] =
    [("PATH", "/"), ("HOME", "/"), ("NO_COLOR", "1"), ("COLUMNS", "100")];

/// What the guest is asked.
pub(super) fn processes(
    asked: &[OnNode],
    lane: u8,
    watch_ms: u64,
) -> Result<Vec<Process>, VmError> {
    let bytes = |text: &str| Bytes(text.as_bytes().to_vec());
    let process = |command: &OnNode| {
        let at_ms = millis(command.at);
        if at_ms >= watch_ms {
            return Err(VmError::AfterTheEnd {
                command: command.words.join(" "),
                after: human(command.at),
                end: human(Duration::from_millis(watch_ms)),
            });
        }
        Ok(Process {
            lane,
            place: Place::Node,
            at_ms,
            when_served: false,
            words: std::iter::once(PROGRAM)
                .chain(command.words.iter().map(String::as_str))
                .map(bytes)
                .collect(),
            environment: ENVIRONMENT.map(|(name, value)| (bytes(name), bytes(value))).into(),
            folder: bytes("/"),
            awaited_ms: None,
        })
    };
    asked.iter().map(process).collect()
}

/// What came of each.
pub(super) fn results(asked: &[OnNode], lines: &[Line]) -> Vec<OnNodeResult> {
    let result = |(number, command): (usize, &OnNode)| {
        let (mut status, mut out, mut err) = (None, Vec::new(), Vec::new());
        for line in lines {
            match line {
                Line::Said { process, to, text } if *process == number => {
                    let into = if *to == Stream::Out { &mut out } else { &mut err };
                    into.extend(&text.0);
                }
                Line::Exited { process, status: code, .. } if *process == number => status = *code,
                Line::NotStarted { process, error } if *process == number => {
                    err.extend(error.as_bytes());
                }
                _ => {}
            }
        }
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        OnNodeResult {
            at_s: command.at.as_secs_f64(),
            command: command.words.clone(),
            status,
            stdout: text(out),
            stderr: text(err),
        }
    };
    asked.iter().enumerate().map(result).collect()
}
