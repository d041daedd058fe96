//! `--csv`: a line for each answer that was sent and never arrived.

use std::{
    io::{self, Write},
    time::Duration,
};

use stillopen_logs::{Analysis, stamp};

pub(super) fn write(analysis: &Analysis, to: &mut impl Write) -> io::Result<()> {
    writeln!(to, "id,attempt,sent_at,silent_at_least_s,silent_s,server_took_s,too_late")?;
    let seconds = |time: Option<Duration>| {
        time.map(|time| format!("{:.3}", time.as_secs_f64())).unwrap_or_default()
    };
    for lost in &analysis.lost {
        writeln!(
            to,
            "{},{},{},{},{},{},{}",
            quoted(&lost.id),
            lost.attempt,
            stamp(lost.sent_at),
            seconds(lost.silent.map(|silent| silent.low)),
            seconds(lost.silent.map(|silent| silent.high)),
            seconds(lost.server_took),
            lost.too_late,
        )?;
    }
    Ok(())
}

/// RFC 4180; and what a spreadsheet would take for a formula is text.
fn quoted(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if formula {
        return format!("\"'{}\"", text.replace('"', "\"\""));
    }
    if text.contains(['"', ',', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_quoted_where_they_have_to_be() {
        for (id, cell) in
            [("extract-017", "extract-017"), ("a,\"b\"", "\"a,\"\"b\"\"\""), ("=1+1", "\"'=1+1\"")]
        {
            assert_eq!(quoted(id), cell);
        }
    }
}
