//! Two logs of unknown origin: an error, or counts that add up.

use stillopen_logs::{Class, Overrides, Source, analyse, candidates};

/// What stands between the client's log and the server's.
const BETWEEN: &[u8] = b"\n--\n";

/// Takes `data` for the logs of both sides, and of either alone.
pub(crate) fn run(data: &[u8]) {
    let at = data.windows(BETWEEN.len()).position(|window| window == BETWEEN);
    let (client, server) = match at {
        Some(at) => (&data[..at], &data[at + BETWEEN.len()..]),
        None => (data, data),
    };
    let source = |name: &str, bytes: &[u8]| [Source::Bytes(name.to_owned(), bytes.to_vec())];
    let (client, server) = (source("client", client), source("server", server));
    check(&client, &server);
    check(&client, &[]);
    check(&[], &server);
}

fn check(client: &[Source], server: &[Source]) {
    let Ok(analysis) = analyse(client, server, &Overrides::default(), &|_| ()) else { return };
    let counts = &analysis.counts;
    assert_eq!(counts.sent, counts.received + counts.lost + counts.unseen);
    let unsent = counts.no_answer + counts.open + counts.answered_by_other;
    assert_eq!(counts.matched, counts.sent + unsent);
    assert_eq!(analysis.lost.len() as u64, counts.lost);
    assert!(counts.too_late <= counts.lost);
    assert_eq!(analysis.limit.is_some(), analysis.class == Class::IdleLimit);
    if let Some(limit) = analysis.limit {
        assert!(limit.low <= limit.best && limit.best <= limit.high);
    }
    for log in &analysis.logs {
        assert!(log.events + log.unreadable <= log.lines + 2, "a line is one thing: {log:?}");
    }
    let shown: u64 = analysis.histogram.iter().map(|bin| bin.received + bin.lost).sum();
    assert!(shown <= counts.received + counts.lost);
    let _ = candidates(&analysis);
}
