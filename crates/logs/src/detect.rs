//! How a log is written, from a sample of its lines; refused, with what was tried, where it fits badly.

use regex::bytes::Regex;

use crate::{
    error::LogsError,
    event::{Kind, Side},
    format::{Fields, Format, LINE_START, TEXT},
    layout::{Layout, Named, Overrides, Word},
    source::lines_of,
    time::{TimeFormat, TookUnit},
    words::{self, Meaning},
    wrapper::{Parts, Unwrapped, Wrapper},
};

/// Lines of a sample that are looked at.
const SAMPLE: usize = 4000;
/// Less than this part of the lines in one format is no format. Start-up banners and stack traces are lines too.
const LEAST_IN_FORMAT: usize = 60;
/// A field that fewer than this part of the events have is not their id.
const LEAST_WITH_ID: usize = 60;

/// Names that fields are known by; the first that is there is taken.
const IDS: &[&str] = &[
    "request_id",
    "requestId",
    "requestID",
    "request-id",
    "req_id",
    "reqId",
    "x_request_id",
    "x-request-id",
    "request.id",
    "req.id",
    "RequestId",
    "correlation_id",
    "correlationId",
    "correlation-id",
    "id",
    "call_id",
    "callId",
    "task_id",
    "taskId",
    "job_id",
    "jobId",
    "message_id",
    "messageId",
    "rid",
    "trace_id",
    "traceId",
    "trace.id",
    "uuid",
    "key",
];
const ATTEMPTS: &[&str] =
    &["attempt", "attempt_number", "attemptNumber", "try", "retry_attempt", "tries"];
const TIMES: &[&str] = &[
    "ts",
    "time",
    "timestamp",
    "@timestamp",
    "Timestamp",
    "datetime",
    "date",
    "asctime",
    "eventTime",
    "event_time",
    "t",
    "at",
    LINE_START,
];
const EVENTS: &[&str] = &[
    "event",
    "event.name",
    "event_name",
    "eventName",
    "evt",
    "action",
    "phase",
    "stage",
    "msg",
    "message",
    "MESSAGE",
    "type",
    "kind",
    "what",
    "state",
    "status",
    "outcome",
    "result",
    TEXT,
];
const STATUSES: &[&str] = &[
    "status",
    "status_code",
    "statusCode",
    "http_status",
    "code",
    "response.status",
    "http.status_code",
];
const REASONS: &[&str] = &[
    "client_saw",
    "error",
    "err",
    "reason",
    "exception",
    "exc",
    "error.type",
    "error_type",
    "error.message",
    "cause",
    "exc_info",
];
const TOOKS: &[&str] = &[
    "took_s",
    "took_ms",
    "took",
    "duration_s",
    "duration_ms",
    "duration",
    "durationMs",
    "elapsed_s",
    "elapsed_ms",
    "elapsed",
    "latency_ms",
    "latency",
    "silent_s",
    "request_time",
    "response_time",
    "processing_ms",
    "ms",
];

/// Detects, from whole lines at the start of a log.
pub(crate) fn detect(
    name: &str,
    side: Side,
    block: &[u8],
    overrides: &Overrides,
) -> Result<Layout, LogsError> {
    let lines: Vec<&[u8]> =
        lines_of(block).filter(|line| !line.trim_ascii().is_empty()).take(SAMPLE).collect();
    let refused = |why: String, tried: &str, hint: &str| LogsError::Undetected {
        name: name.to_owned(),
        side: side.name(),
        why,
        tried: tried.to_owned(),
        hint: hint.to_owned(),
    };
    if lines.is_empty() {
        return Err(refused("it has no whole line".into(), "every line", "name a log with lines"));
    }
    let wrapper = Wrapper::of(&lines);
    let inner = unwrapped(wrapper, &lines);
    let (format, sample) = format(side, &inner, overrides)?.ok_or_else(|| {
        refused(
            format!("{} of {} lines are in no known format", inner.len(), inner.len()),
            "JSON lines, key=value text, each also inside CRI or Docker lines",
            "--pattern REGEX with the groups time, id, event reads free text",
        )
    })?;
    if sample.len() * 100 < inner.len() * LEAST_IN_FORMAT {
        let why = format!("only {} of {} lines are {}", sample.len(), inner.len(), format.name());
        let tried = "JSON lines, key=value text, each also inside CRI or Docker lines";
        return Err(refused(
            why,
            tried,
            "--pattern REGEX with the groups time, id, event reads free text",
        ));
    }

    let words = given_words(side, overrides);
    let (event, events) = event_field(side, &sample, &words);
    let took = named(&sample, TOOKS).map(|field| (field.to_owned(), TookUnit::of_field(field)));
    if events.is_empty() && took.is_none() {
        return Err(refused(
            "no line says that a request began or ended".into(),
            &format!("the fields {}", known(&sample, EVENTS)),
            "--started, --sent and --received name the words that say so",
        ));
    }
    let of_requests: Vec<&Fields<'_>> =
        if events.is_empty() { sample.iter().collect() } else { events };

    let given_time = Named::of(&overrides.time, side).last();
    let time = time_field(&of_requests, given_time);
    if time.is_none() && (wrapper == Wrapper::None || given_time.is_some()) {
        let tried = match given_time {
            Some(field) => format!("the field {field}"),
            None => format!("the fields {}", known(&sample, TIMES)),
        };
        return Err(refused("no field holds a time".into(), &tried, "--time FIELD names it"));
    }
    let given_id = Named::of(&overrides.id, side).last();
    let id = id_field(&of_requests, given_id);
    if let (None, Some(field)) = (&id, given_id) {
        let why = "hardly any line of a request has that id".to_owned();
        return Err(refused(
            why,
            &format!("the field {field}"),
            "--id FIELD names one that is there",
        ));
    }
    let reasons = REASONS.iter().filter(|field| Some(**field) != event.as_deref());
    let mut layout = Layout {
        side,
        wrapper,
        time,
        id,
        attempt: attempt_field(&of_requests),
        status: named(&sample, STATUSES).filter(|f| Some(*f) != event.as_deref()).map(Into::into),
        reasons: reasons.map(|&field| field.to_owned()).collect(),
        took,
        event,
        words,
        format,
    };
    // A log that says when a request began knows it better than its end does.
    if of_requests.iter().filter_map(|fields| layout.kind(fields)).any(Kind::begins) {
        layout.took = None;
    }
    Ok(layout)
}

fn unwrapped(wrapper: Wrapper, lines: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut parts = Parts::default();
    let whole = lines.iter().filter_map(|line| match wrapper.unwrap(line, &mut parts) {
        Unwrapped::Whole(inner) => Some(inner.line.into_owned()),
        Unwrapped::Part | Unwrapped::Bad => None,
    });
    whole.collect()
}

/// The format that most lines have, and those lines.
fn format<'a>(
    side: Side,
    lines: &'a [Vec<u8>],
    overrides: &Overrides,
) -> Result<Option<(Format, Vec<Fields<'a>>)>, LogsError> {
    let read = |format: &Format| -> Vec<Fields<'a>> {
        lines.iter().filter_map(|line| format.read(line)).collect()
    };
    if let Some(pattern) = Named::of(&overrides.pattern, side).last() {
        let pattern = Regex::new(pattern).map_err(|error| LogsError::Pattern(error.to_string()))?;
        if pattern.capture_names().flatten().next().is_none() {
            let why = "it has no named group such as (?<id>[^ ]+)";
            return Err(LogsError::Pattern(why.to_owned()));
        }
        let format = Format::Pattern(pattern);
        let sample = read(&format);
        return Ok(Some((format, sample)));
    }
    let best = [Format::Json, Format::KeyValue].into_iter().map(|format| {
        let sample = read(&format);
        (format, sample)
    });
    // The first of two that are alike: JSON.
    let best = best.reduce(|best, other| if other.1.len() > best.1.len() { other } else { best });
    Ok(best.filter(|(_, sample)| !sample.is_empty()))
}

/// The words of `--sent`, `--received` and `--started` for this side.
fn given_words(side: Side, overrides: &Overrides) -> Vec<Word> {
    let lists = match side {
        Side::Client => [(&overrides.started, Kind::Asked), (&overrides.received, Kind::Answered)],
        Side::Server => [(&overrides.started, Kind::Started), (&overrides.sent, Kind::Sent)],
    };
    let words = lists.into_iter().flat_map(|(list, kind)| {
        Named::of(list, side).map(move |text| {
            let (field, value) = match text.split_once('=') {
                Some((field, value)) => (Some(field.to_owned()), value),
                None => (None, text),
            };
            Word { field, value: value.to_owned(), kind }
        })
    });
    words.collect()
}

/// The field that says most often what happened, and the lines where it does.
fn event_field<'s, 'a>(
    side: Side,
    sample: &'s [Fields<'a>],
    words: &[Word],
) -> (Option<String>, Vec<&'s Fields<'a>>) {
    let says = |text: &str| {
        let given = |word: &Word| {
            text.eq_ignore_ascii_case(&word.value)
                || (text.contains(' ') && text.contains(&word.value))
        };
        words.iter().any(given) || matches!(words::meaning(side, text), Some(Meaning::Says(_)))
    };
    let of_field = |field: &str| -> Vec<&'s Fields<'a>> {
        sample.iter().filter(|fields| fields.get(field).is_some_and(says)).collect()
    };
    let by_own_field = words.iter().filter_map(|word| word.field.as_deref());
    let candidates = EVENTS.iter().copied().chain(by_own_field);
    let best = candidates
        .map(|field| (field, of_field(field)))
        .filter(|(_, events)| !events.is_empty())
        .reduce(|best, other| if other.1.len() > best.1.len() { other } else { best });
    match best {
        Some((field, events)) => (Some(field.to_owned()), events),
        None => (None, Vec::new()),
    }
}

/// The first of `names` that a line has.
fn named(sample: &[Fields<'_>], names: &[&'static str]) -> Option<&'static str> {
    names.iter().copied().find(|name| sample.iter().any(|fields| fields.get(name).is_some()))
}

/// Those of `names` that are there, else all of them.
fn known(sample: &[Fields<'_>], names: &[&str]) -> String {
    let there = |name: &&&str| sample.iter().any(|fields| fields.get(name).is_some());
    let found: Vec<&str> = names.iter().filter(there).copied().collect();
    if found.is_empty() { names.join(", ") } else { found.join(", ") }
}

fn time_field(events: &[&Fields<'_>], given: Option<&str>) -> Option<(String, TimeFormat)> {
    let names = given.map_or_else(|| TIMES.to_vec(), |field| vec![field]);
    names.into_iter().find_map(|name| {
        let mut values = events.iter().filter_map(|fields| fields.get(name));
        let format = TimeFormat::of(values.next()?.as_bytes())?;
        let read = values.filter(|text| format.read(text.as_bytes()).is_some()).count() + 1;
        (read * 100 >= events.len() * LEAST_IN_FORMAT).then(|| (name.to_owned(), format))
    })
}

/// A field that most events have and that tells requests apart.
fn id_field(events: &[&Fields<'_>], given: Option<&str>) -> Option<String> {
    let names = given.map_or_else(|| IDS.to_vec(), |field| vec![field]);
    let fits = |name: &&str| {
        let mut values: Vec<&str> = events.iter().filter_map(|fields| fields.get(name)).collect();
        if values.is_empty() || values.len() * 100 < events.len() * LEAST_WITH_ID {
            return false;
        }
        let count = values.len();
        values.sort_unstable();
        values.dedup();
        // A request has a handful of lines; a constant of many lines is no request's id.
        given.is_some() || values.len() * 50 >= count || count < 10
    };
    names.into_iter().find(fits).map(str::to_owned)
}

fn attempt_field(events: &[&Fields<'_>]) -> Option<String> {
    let fits = |name: &&&str| {
        let mut values = events.iter().filter_map(|fields| fields.get(name)).peekable();
        values.peek().is_some() && values.all(|text| text.parse::<u32>().is_ok())
    };
    ATTEMPTS.iter().find(fits).map(|&name| name.to_owned())
}
