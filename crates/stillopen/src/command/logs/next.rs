//! What could have done it, and what to do next; the last line is a command.

use stillopen_logs::{Analysis, Class, Side, candidates};
use stillopen_model::{KernelHz, Kind, recommended_keepalive};

use super::text::row;
use crate::report::words::limit_time;

/// Candidates that are named; there are many at the usual numbers.
const NAMED: usize = 12;

pub(super) fn steps(analysis: &Analysis) -> String {
    let mut text = named(analysis);
    if let Some(line) = advice(analysis) {
        text += &row("what helps", &line);
    }
    text + &last_line(analysis)
}

/// The candidates of the catalogue. The number alone names none of them.
fn named(analysis: &Analysis) -> String {
    let rows = candidates(analysis);
    if rows.is_empty() {
        return String::new();
    }
    let ids: Vec<&str> = rows.iter().take(NAMED).map(|row| row.id.as_str()).collect();
    let more = match rows.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let all_programs = rows.iter().all(|row| row.kind == Kind::ProgramTimer);
    let decides = if all_programs {
        "by their default; the client's own code and settings decide"
    } else {
        "by their default; the number names none of them. Which it is, a probe of the path or the signal that \
         ended the connections decides"
    };
    row("candidates", &format!("{}{more}: {decides}", ids.join(", ")))
}

fn advice(analysis: &Analysis) -> Option<String> {
    let line = match (analysis.class, analysis.limit) {
        (Class::IdleLimit, Some(limit)) => {
            let values = recommended_keepalive(limit.low, KernelHz::Foreign)?;
            format!(
                "TCP keepalive {values} (idle/interval/count) on the client's connections, if what forgets them \
                 counts every packet; a proxy that counts payload only is not helped"
            )
        }
        (Class::ClientTimer, _) => {
            "a longer timeout in the client, or an answer that is sent in parts; TCP keepalive does not help".into()
        }
        (Class::DurationCap, _) => {
            "what ended them told the client, so this is no silent cut: a longer timeout there, or an answer that \
             is sent in parts; TCP keepalive helps only where an idle timer counts every packet"
                .into()
        }
        (Class::Random, _) => {
            "losses without a limit are lost packets, restarts, or clients that went away: look at what happened \
             at their times (--csv has them); TCP keepalive makes a dead peer known, and does not prevent this"
                .into()
        }
        (Class::NotEnoughData, _) => match analysis.one_sided.map(|one| one.side) {
            Some(Side::Client) => "the server's log of the same time: --server".into(),
            Some(Side::Server) => "the client's log of the same time: --client".into(),
            None => "logs of a longer time, with more requests of every length".into(),
        },
        _ => return None,
    };
    Some(line)
}

fn last_line(analysis: &Analysis) -> String {
    match (analysis.class, analysis.limit) {
        (Class::IdleLimit, Some(limit)) => {
            let limit = limit_time(limit.best);
            format!(
                "Who else is in danger:        stillopen check --limit {limit}\n\
                 How to set it in the client:  stillopen advise --limit {limit}\n"
            )
        }
        (Class::ClientTimer | Class::DurationCap, _) => {
            "What known components do:  stillopen limits --catalogue\n".to_owned()
        }
        _ => "What waits on this host:  stillopen check\n".to_owned(),
    }
}
