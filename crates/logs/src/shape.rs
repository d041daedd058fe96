//! The fast way to read JSON lines: most lines of a log have one of a few shapes.
//!
//! A shape is the bytes that all its lines share (punctuation, names, and values of few kinds such as the event)
//! and the values between them. Shapes are learnt from the sample that the layout was detected from, with what a
//! line of each says. A line that fits one exactly is valid JSON, and says what [`Layout::read`] would say of it;
//! any other line goes the general way.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use crate::{
    bytes::{begin_with, count_digits, small_number},
    event::{Event, Kind, Millis},
    format::Format,
    layout::{FIRST_ATTEMPT, LONGEST_ID, Layout, Said},
    source::lines_of,
    time::TimeFormat,
    words,
    wrapper::{Parts, Unwrapped},
};

/// Lines of the sample that are learnt from.
const SAMPLE: usize = 4000;
/// Values of a field that stay literal: more make more shapes than are worth it.
const FEW: usize = 12;
/// Lines of more fields have no shape: what is learnt is as deep as a line has values, and a line may be long.
const MOST_FIELDS: usize = 256;
/// A number of more digits may lose some in the general way.
const MOST_DIGITS: usize = 15;

/// The bytes up to the next value, and that value; or to the line's end.
#[derive(Debug)]
struct Step {
    literal: Vec<u8>,
    then: Then,
    /// How often the sample has it.
    count: usize,
}

#[derive(Debug)]
enum Then {
    /// What such a line says, its status apart.
    End(Says),
    Value {
        text: bool,
        role: Role,
        next: Vec<Step>,
    },
}

/// What a value is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Time,
    Id,
    Attempt,
    Status,
    Took,
    Other,
}

/// The shapes of a log.
#[derive(Debug)]
pub(crate) struct Shapes<'a> {
    layout: &'a Layout,
    first: Vec<Step>,
    minute: Minute,
}

/// What the lines of a shape say; `None`: nothing of a request.
#[derive(Debug, Clone, Copy)]
struct Says(Option<Kind>);

/// The values of a line.
#[derive(Default)]
struct Values {
    at: Option<Millis>,
    id: Range<usize>,
    attempt: Option<u32>,
    status: Option<u16>,
    took: Option<Millis>,
}

impl<'a> Shapes<'a> {
    /// Learns from whole lines at the start of the log.
    pub(crate) fn learn(layout: &'a Layout, block: &[u8]) -> Self {
        let mut shapes = Self { layout, first: Vec::new(), minute: Minute::default() };
        if !matches!(layout.format, Format::Json) {
            return shapes;
        }
        let mut parts = Parts::default();
        let inner: Vec<Vec<u8>> = lines_of(block)
            .take(SAMPLE)
            .filter_map(|line| match layout.wrapper.unwrap(line, &mut parts) {
                Unwrapped::Whole(inner) => Some(inner.line.into_owned()),
                Unwrapped::Part | Unwrapped::Bad => None,
            })
            .collect();
        let split: Vec<(&[u8], Vec<Field<'_>>)> =
            inner.iter().filter_map(|line| Some((line.as_slice(), fields(line)?))).collect();
        let few = of_few_kinds(layout, &split);
        for (line, fields) in &split {
            if let Some(says) = shapes.says(line, fields, &few) {
                let known = Known { line, says, layout, few: &few };
                insert(&mut shapes.first, &known, 0, fields);
            }
        }
        sort(&mut shapes.first);
        shapes
    }

    /// Reads the line at the start of `bytes`, and says where the next one starts; `None`: it has no known shape.
    #[inline]
    pub(crate) fn read<'l>(
        &mut self,
        bytes: &'l [u8],
        at: Option<Millis>,
    ) -> Option<(Said<Event<'l>>, usize)> {
        let mut values = Values::default();
        let (mut steps, mut pos) = (&self.first, 0);
        let kind = loop {
            let rest = &bytes[pos..];
            let step = steps.iter().find(|step| begin_with(rest, &step.literal))?;
            pos += step.literal.len();
            match &step.then {
                Then::End(says) => break says.0,
                Then::Value { text, role, next } => {
                    let rest = &bytes[pos..];
                    if *role == Role::Time
                        && *text
                        && let Some(at) = self.minute.quick(rest)
                    {
                        values.at = Some(at);
                        pos += USUAL;
                        steps = next;
                        continue;
                    }
                    let length = if *text { text_length(rest)? } else { number_length(rest)? };
                    let value = &rest[..length];
                    match role {
                        Role::Other => {}
                        Role::Time => values.at = Some(self.minute.read(value, self.layout)?),
                        // The general way writes a number its own way.
                        Role::Id if !text && !value.iter().all(u8::is_ascii_digit) => return None,
                        Role::Id => values.id = pos..pos + length,
                        Role::Attempt => values.attempt = Some(small_number(value)?),
                        Role::Status => values.status = status(value),
                        Role::Took => values.took = self.took(value),
                    }
                    pos += length;
                    steps = next;
                }
            }
        };
        let end = match &bytes[pos..] {
            [] => 0,
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            _ => return None,
        };
        let said = match kind {
            None => Said::Nothing,
            Some(kind) => {
                let id = &bytes[values.id];
                if self.layout.id.is_some() && (id.is_empty() || id.len() > LONGEST_ID) {
                    return None;
                }
                let attempt = if self.layout.attempt.is_some() {
                    values.attempt.unwrap_or(FIRST_ATTEMPT)
                } else {
                    0
                };
                let at = if self.layout.time.is_some() { values.at? } else { at? };
                let kind = words::refined(kind, values.status, std::iter::empty());
                Said::Event(Event { at, id, attempt, kind, took: values.took })
            }
        };
        Some((said, pos + end))
    }

    fn took(&self, value: &[u8]) -> Option<Millis> {
        self.layout.took.as_ref().and_then(|(_, unit)| unit.read(value))
    }

    /// What a line of the sample says, where its literal parts alone decide that.
    fn says(&self, line: &[u8], fields: &[Field<'_>], few: &BTreeSet<String>) -> Option<Says> {
        let layout = self.layout;
        let read = layout.format.read(line)?;
        // A status that varies is looked at in each line.
        let of_shape = |field: &&Field<'_>| {
            layout.status.as_deref() == Some(field.name) && is_literal(field, few)
        };
        let status = fields.iter().find(of_shape).and_then(|field| read.get(field.name));
        let kind = layout.kind_with(&read, status.and_then(|status| status.parse().ok()));
        let decided = fields.iter().all(|f| !layout.decides(f.name, kind) || is_literal(f, few));
        let has =
            |name: Option<&str>| name.is_none_or(|name| fields.iter().any(|f| f.name == name));
        let time = layout.time.as_ref().map(|(name, _)| name.as_str());
        let complete = kind.is_none() || (has(time) && has(layout.id.as_deref()));
        (decided && complete).then_some(Says(kind))
    }
}

impl Layout {
    /// Whether a field of that name decides what a line says, its status apart.
    fn decides(&self, name: &str, kind: Option<Kind>) -> bool {
        let reason = matches!(kind, None | Some(Kind::Broken | Kind::TimedOut))
            && self.reasons.iter().any(|reason| reason == name);
        let given = self.words.iter().any(|word| word.field.as_deref() == Some(name));
        reason || given || self.event.as_deref() == Some(name)
    }

    fn role(&self, field: &Field<'_>) -> Role {
        let is = |name: Option<&str>| name == Some(field.name);
        if is(self.time.as_ref().map(|(name, _)| name.as_str())) {
            Role::Time
        } else if is(self.id.as_deref()) {
            Role::Id
        } else if is(self.attempt.as_deref()) {
            Role::Attempt
        } else if is(self.status.as_deref()) {
            Role::Status
        } else if is(self.took.as_ref().map(|(name, _)| name.as_str())) {
            Role::Took
        } else {
            Role::Other
        }
    }
}

/// A field of a flat object, and where in its line the value is.
struct Field<'l> {
    name: &'l str,
    value: Range<usize>,
    of: Of,
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Of {
    Text,
    Number,
    /// `true`, `false`, `null`.
    Word,
}

/// Whether all lines of a shape share the value.
fn is_literal(field: &Field<'_>, few: &BTreeSet<String>) -> bool {
    field.of == Of::Word || (field.of == Of::Text && few.contains(field.name))
}

/// The fields of an object without objects or lists in it, without escapes, and with each name once.
fn fields(line: &[u8]) -> Option<Vec<Field<'_>>> {
    let blank = |mut pos: usize| {
        while line.get(pos).is_some_and(|b| matches!(b, b' ' | b'\t')) {
            pos += 1;
        }
        pos
    };
    let mut all: Vec<Field<'_>> = Vec::new();
    let mut pos = blank(0);
    (line.get(pos) == Some(&b'{')).then_some(())?;
    loop {
        pos = blank(pos + 1);
        (line.get(pos) == Some(&b'"')).then_some(())?;
        let length = text_length(&line[pos + 1..])?;
        let name = std::str::from_utf8(&line[pos + 1..pos + 1 + length]).ok()?;
        pos = blank(pos + length + 2);
        (line.get(pos) == Some(&b':')).then_some(())?;
        pos = blank(pos + 1);
        let (value, of) = match line.get(pos)? {
            b'"' => (pos + 1..pos + 1 + text_length(&line[pos + 1..])?, Of::Text),
            b'-' | b'0'..=b'9' => (pos..pos + number_length(&line[pos..])?, Of::Number),
            _ => {
                let word = ["true", "false", "null"]
                    .into_iter()
                    .find(|w| line[pos..].starts_with(w.as_bytes()))?;
                (pos..pos + word.len(), Of::Word)
            }
        };
        if all.len() == MOST_FIELDS || all.iter().any(|field| field.name == name) {
            return None;
        }
        pos = blank(value.end + usize::from(of == Of::Text));
        all.push(Field { name, value, of });
        match line.get(pos)? {
            b',' => {}
            b'}' => return (blank(pos + 1) == line.len()).then_some(all),
            _ => return None,
        }
    }
}

/// The names of fields whose texts are few, and so stay literal.
fn of_few_kinds(layout: &Layout, lines: &[(&[u8], Vec<Field<'_>>)]) -> BTreeSet<String> {
    let mut kinds: BTreeMap<&str, BTreeSet<&[u8]>> = BTreeMap::new();
    for (line, fields) in lines {
        for field in fields.iter().filter(|field| field.of == Of::Text) {
            let seen = kinds.entry(field.name).or_default();
            if seen.len() <= FEW {
                seen.insert(&line[field.value.clone()]);
            }
        }
    }
    let varies = [
        layout.time.as_ref().map(|(name, _)| name.as_str()),
        layout.id.as_deref(),
        layout.attempt.as_deref(),
        layout.took.as_ref().map(|(name, _)| name.as_str()),
    ];
    kinds
        .into_iter()
        .filter(|(name, seen)| seen.len() <= FEW && !varies.contains(&Some(name)))
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// A line of the sample, and what it says.
struct Known<'k> {
    line: &'k [u8],
    says: Says,
    layout: &'k Layout,
    few: &'k BTreeSet<String>,
}

/// Adds a line's shape below `steps`; `from` is where its literal begins, before the first of `fields`.
fn insert(steps: &mut Vec<Step>, known: &Known<'_>, from: usize, fields: &[Field<'_>]) {
    let value = fields.iter().position(|field| !is_literal(field, known.few));
    let end = value.map_or(known.line.len(), |at| fields[at].value.start);
    let literal = &known.line[from..end];
    let same = steps.iter().position(|step| step.literal == literal);
    let same = same.unwrap_or_else(|| {
        let then = match value {
            Some(at) => Then::Value {
                text: fields[at].of == Of::Text,
                role: known.layout.role(&fields[at]),
                next: Vec::new(),
            },
            None => Then::End(known.says),
        };
        steps.push(Step { literal: literal.to_vec(), then, count: 0 });
        steps.len() - 1
    });
    let step = &mut steps[same];
    step.count += 1;
    if let (Some(at), Then::Value { next, .. }) = (value, &mut step.then) {
        insert(next, known, fields[at].value.end, &fields[at + 1..]);
    }
}

/// The most frequent first.
fn sort(steps: &mut [Step]) {
    steps.sort_by_key(|step| std::cmp::Reverse(step.count));
    for step in steps {
        if let Then::Value { next, .. } = &mut step.then {
            sort(next);
        }
    }
}

/// The length of a JSON text without escapes, in ASCII, up to its quote; `None`: it is another.
#[inline]
fn text_length(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let ends = ends_of_text(u64::from_le_bytes(*word));
        if ends != 0 {
            let at = i * 8 + (ends.trailing_zeros() / 8) as usize;
            return (bytes[at] == b'"').then_some(at);
        }
    }
    let plain = |&b: &u8| (0x20..0x80).contains(&b) && b != b'"' && b != b'\\';
    let at = rest.iter().position(|b| !plain(b))?;
    (rest[at] == b'"').then_some(words.len() * 8 + at)
}

/// The high bit of each byte that is a quote, a backslash, a control character or not ASCII. Above the lowest such
/// byte there may be wrong ones.
#[inline]
fn ends_of_text(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH: u64 = ONES * 0x80;
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let quote = zero(word ^ (ONES * u64::from(b'"')));
    let backslash = zero(word ^ (ONES * u64::from(b'\\')));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (quote | backslash | control | word) & HIGH
}

/// The length of a JSON number without an exponent, of no more digits than are read exactly.
#[inline]
fn number_length(bytes: &[u8]) -> Option<usize> {
    // Most are of one digit, such as an attempt's.
    if let [b'0'..=b'9', b',' | b'}', ..] = bytes {
        return Some(1);
    }
    let sign = usize::from(bytes.first() == Some(&b'-'));
    let mut count = count_digits(&bytes[sign..]);
    if count == 0 || (count > 1 && bytes[sign] == b'0') {
        return None;
    }
    let mut end = sign + count;
    if bytes.get(end) == Some(&b'.') {
        let part = count_digits(&bytes[end + 1..]);
        if part == 0 {
            return None;
        }
        count += part;
        end += 1 + part;
    }
    let exponent = bytes.get(end).is_some_and(|b| matches!(b, b'e' | b'E'));
    (count <= MOST_DIGITS && !exponent).then_some(end)
}

/// As the general way reads one: what is none says nothing.
#[inline]
fn status(text: &[u8]) -> Option<u16> {
    match small_number(text) {
        Some(number) => u16::try_from(number).ok(),
        None => std::str::from_utf8(text).ok()?.parse().ok(),
    }
}

/// Times of one minute share most of their digits.
#[derive(Debug, Default)]
struct Minute {
    /// `2026-03-02T09:00`, and when that is.
    known: Option<([u8; 16], Millis)>,
}

/// The length of `2026-03-02T09:00:00.120Z`.
const USUAL: usize = 24;

impl Minute {
    /// Reads a time of [`USUAL`] length, and of the same minute as the last, at the start of `bytes` and before a quote.
    #[inline]
    fn quick(&self, bytes: &[u8]) -> Option<Millis> {
        let (minute, rest) = bytes.split_first_chunk::<16>()?;
        let (rest, after) = rest.split_first_chunk::<8>()?;
        let (known, at) = self.known.as_ref()?;
        let same = minute == known && after.first() == Some(&b'"');
        if same { within_minute(*rest).map(|within| at + within) } else { None }
    }

    #[inline]
    fn read(&mut self, text: &[u8], layout: &Layout) -> Option<Millis> {
        let (_, format) = layout.time.as_ref()?;
        let at = format.read(text)?;
        // What is written otherwise is read anew each time.
        if *format == TimeFormat::Rfc3339
            && let (Some((minute, rest)), USUAL) = (text.split_first_chunk::<16>(), text.len())
            && let Some(within) = rest.first_chunk::<8>().and_then(|rest| within_minute(*rest))
        {
            self.known = Some((*minute, at - within));
        }
        Some(at)
    }
}

/// The milliseconds of `:00.120Z`; `None`: it is written otherwise. All eight bytes at once, the first the lowest.
#[inline]
fn within_minute(text: [u8; 8]) -> Option<Millis> {
    const ZEROES: u64 = u64::from_le_bytes(*b":00.000Z");
    const SIXES: u64 = 0x0006_0606_0006_0600;
    const SEPARATORS: u64 = 0xff00_0000_ff00_00ff;
    const UPPER: u64 = u64::MAX / 0xff * 0xf0;
    let digits = u64::from_le_bytes(text) ^ ZEROES;
    // A digit above 9 gets an upper half with 6 more.
    if digits & (SEPARATORS | UPPER) != 0 || (digits + SIXES) & UPPER != 0 {
        return None;
    }
    let [_, tens, ones, _, tenths, hundredths, thousandths, _] =
        digits.to_le_bytes().map(i64::from);
    let within = (tens * 10 + ones) * 1000 + tenths * 100 + hundredths * 10 + thousandths;
    (within < 60_000).then_some(within)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{detect::detect, event::Side, layout::Overrides};

    /// Logs of several ways to write them.
    const SAMPLES: [(Side, &str); 5] = [
        (
            Side::Client,
            r#"{"ts":"2026-03-02T09:00:00.120Z","service":"job","event":"sent","id":"extract-001","attempt":1}
{"ts":"2026-03-02T09:00:00.820Z","service":"job","event":"sent","id":"extract-002","attempt":1}
{"ts":"2026-03-02T09:03:00.120Z","service":"job","event":"received","id":"extract-001","attempt":1,"silent_s":180.2,"status":200,"client_saw":"answer"}
{"ts":"2026-03-02T09:03:01.120Z","service":"job","event":"received","id":"extract-003","attempt":1,"silent_s":180.2,"status":504,"client_saw":"answer"}
{"ts":"2026-03-02T10:00:00.120Z","service":"job","event":"lost","id":"extract-002","attempt":1,"silent_s":3600,"client_saw":"own_timer"}
{"ts":"2026-03-02T10:00:00.120Z","service":"job","event":"retry","id":"extract-002","attempt":2}"#,
        ),
        (
            Side::Server,
            r#"{"ts":"2026-03-02T09:00:00.120Z","service":"agent","event":"received","id":"extract-001","attempt":1}
{"ts":"2026-03-02T09:00:00.120Z","service":"agent","event":"started","id":"extract-001","attempt":1,"queued_s":0.0}
{"ts":"2026-03-02T09:01:00.120Z","service":"agent","event":"round","id":"extract-001","attempt":1,"round":0,"took_s":60.1}
{"ts":"2026-03-02T09:03:00.120Z","service":"agent","event":"sent","id":"extract-001","attempt":1,"queued_s":0.0,"took_s":180.1,"status":200}
{"ts":"2026-03-02T09:03:00.120Z","service":"agent","event":"failed","id":"extract-002","attempt":1,"error":"the model says \"no\""}"#,
        ),
        (
            Side::Server,
            r#"{"time": 1772442000.120, "message": "request received", "request_id": 7, "ok": true}
{"time": 1772442060.5, "message": "response sent", "request_id": 7, "ok": true, "status": "200"}
{"time": 1772442060.5, "message": "response sent", "request_id": 8, "ok": false, "status": "503"}"#,
        ),
        (
            Side::Server,
            r#"{"timestamp":"2026-03-02T09:00:08.100+01:00","requestId":"inv-0","status":"success","latency_ms":8000}
{"timestamp":"2026-03-02T09:00:09.100+01:00","requestId":"inv-1","status":"success","latency_ms":9000.5}"#,
        ),
        (
            Side::Client,
            r#"{"at":"2026-03-02 09:00:00","msg":"sending a","uuid":"0b9c2f6e-8d1a-4c3b-9e7f-00112233aabb"}
{"at":"2026-03-02 09:00:01","msg":"failed with code 7","error":"ReadTimeout","uuid":"0b9c2f6e-8d1a-4c3b-9e7f-00112233aabb"}
{"at":"2026-03-02 09:00:02","msg":"failed with code 8","error":"eof","uuid":"1b9c2f6e-8d1a-4c3b-9e7f-00112233aabb"}"#,
        ),
    ];

    /// What makes a difference in JSON, in a time, in a number.
    const BYTES: &[u8] = b"\"\\{}[]:,09.-+eEtfnZTu \t\r\n\0\x1f\x7f\xc3\xbc\xff";

    fn layout(side: Side, sample: &str) -> Layout {
        detect("sample", side, sample.as_bytes(), &Overrides::default()).unwrap()
    }

    fn assert_alike(layout: &Layout, shapes: &mut Shapes<'_>, line: &[u8]) -> bool {
        let Some((fast, next)) = shapes.read(line, None) else { return false };
        let own = &line[..next];
        let own = own.strip_suffix(b"\n").unwrap_or(own);
        let own = own.strip_suffix(b"\r").unwrap_or(own);
        let mut id = Vec::new();
        let general = layout.read(own, None, &mut id);
        assert_eq!(fast, general, "{}", String::from_utf8_lossy(line));
        true
    }

    #[test]
    fn the_lines_that_were_learnt_from_are_read_the_fast_way() {
        for (side, sample) in SAMPLES {
            let layout = layout(side, sample);
            let mut shapes = Shapes::learn(&layout, sample.as_bytes());
            let fast =
                sample.lines().filter(|line| assert_alike(&layout, &mut shapes, line.as_bytes()));
            let (fast, all) = (fast.count(), sample.lines().count());
            // One has an escape; a reason that varies is not learnt.
            assert!(fast * 2 > all, "{fast} of {all}: {sample}");
        }
    }

    #[test]
    fn a_line_of_very_many_fields_is_not_learnt() {
        let (side, sample) = SAMPLES[0];
        let layout = layout(side, sample);
        let first = sample.lines().next().unwrap();
        for (more, learnt) in [(MOST_FIELDS - 5, true), (MOST_FIELDS - 4, false), (30_000, false)] {
            let more: String = (0..more).map(|i| format!(",\"f{i}\":{i}")).collect();
            let line = first.replace('}', &format!("{more}}}"));
            let mut shapes = Shapes::learn(&layout, line.as_bytes());
            assert_eq!(assert_alike(&layout, &mut shapes, line.as_bytes()), learnt);
        }
    }

    #[test]
    fn a_text_ends_at_its_quote_only() {
        for at in 0..40 {
            for (end, found) in
                [(b'"', true), (b'\\', false), (b'\n', false), (0xc3, false), (0x7f, false)]
            {
                let mut text = vec![b'a'; at];
                text.push(end);
                assert_eq!(text_length(&text), found.then_some(at), "{end} at {at}");
                text.extend(b"bcdefgh\"");
                let whole = if end == 0x7f { Some(text.len() - 1) } else { found.then_some(at) };
                assert_eq!(text_length(&text), whole, "{end} at {at}");
            }
        }
    }

    /// Lines that are almost `line`.
    fn almost(line: &str) -> Vec<Vec<u8>> {
        let inner = line.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
        let (first, rest) = inner.split_once(',').unwrap();
        let mut all = vec![
            // In another order, said twice, missing, in an object, in a text.
            format!("{{{rest},{first}}}"),
            format!("{{{inner},{first}}}"),
            format!("{{{inner},{rest}}}"),
            format!("{{{inner},\"ts\":\"2026-03-02T09:00:07.120Z\"}}"),
            format!("{{{first}}}"),
            format!("{{{rest}}}"),
            format!("{{{first},\"in\":{line},{rest}}}"),
            format!("{{\"in\":{line},{inner}}}"),
            format!("{{{inner},\"text\":{line:?}}}"),
            format!("{{\"text\":{line:?},{inner}}}"),
            // Blanks elsewhere, and what follows.
            line.replace("\":", "\": "),
            line.replace(',', " ,\t"),
            format!(" {line} "),
            format!("{line}x"),
            format!("{line}}}"),
            format!("{line}{line}"),
            format!("{line}\r\n{line}"),
            format!("{line}\n{line}"),
            format!("{line}\r"),
        ];
        for (from, to) in [
            (":00.", ":60."),
            (":00.", ":61."),
            (":00.120Z", ":00.12Z"),
            (":00.120Z", ":00.1200Z"),
            (":00.120Z", ":00.120z"),
            (":00.120Z", ":00,120Z"),
            (":00.120Z", ":00Z"),
            (":00.120Z", ":00.120+01:00"),
            (":00.120Z", ":00.120"),
            ("T09:", " 09:"),
            ("T09:", "T24:"),
            ("-03-", "-02-"),
            ("-02T", "-31T"),
            ("extract-", "extract\\u002d"),
            ("extract-", "extract-\\\""),
            ("extract-", "\u{e4}xtract-"),
            ("extract-001", ""),
            ("extract-001", "\",\"attempt\":2,\"x\":\""),
            ("\"attempt\":1", "\"attempt\":01"),
            ("\"attempt\":1", "\"attempt\":10"),
            ("\"attempt\":1", "\"attempt\":1.0"),
            ("\"attempt\":1", "\"attempt\":1e1"),
            ("\"attempt\":1", "\"attempt\":-1"),
            ("\"attempt\":1", "\"attempt\":\"1\""),
            ("\"attempt\":1", "\"attempt\":null"),
            ("\"attempt\":1", "\"attempt\":4294967296"),
            ("\"attempt\":1", "\"attempt\":1,\"attempt\":2"),
            ("\"attempt\":1", "\"attempt\":{\"attempt\":1}"),
            ("200", "504"),
            ("200", "\"200\""),
            ("180.2", "180.200000000000000001"),
            ("180.2", "0180.2"),
            ("180.2", "-0.2"),
            ("sent", "SENT"),
            ("sent", "se\\u006et"),
        ] {
            if line.contains(from) {
                all.push(line.replacen(from, to, 1));
            }
        }
        let mut all: Vec<Vec<u8>> = all.into_iter().map(String::into_bytes).collect();
        for at in 0..line.len() {
            all.push(line.as_bytes()[..at].to_vec());
            for &byte in BYTES {
                let mut other = line.as_bytes().to_vec();
                other[at] = byte;
                all.push(other);
            }
        }
        all
    }

    #[test]
    fn what_is_almost_a_known_line_is_read_as_the_general_way_reads_it() {
        for (side, sample) in SAMPLES {
            let layout = layout(side, sample);
            let mut shapes = Shapes::learn(&layout, sample.as_bytes());
            for line in sample.lines() {
                for other in almost(line) {
                    // What is remembered of the line before must not be taken for this one's.
                    assert_alike(&layout, &mut shapes, line.as_bytes());
                    assert_alike(&layout, &mut shapes, &other);
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn whatever_is_read_the_fast_way_is_what_the_general_way_reads(
            which in 0..SAMPLES.len(),
            line in any::<prop::sample::Index>(),
            edits in prop::collection::vec(
                (any::<prop::sample::Index>(), 0..4_u8, prop::sample::select(BYTES)), 0..4),
        ) {
            let (side, sample) = SAMPLES[which];
            let layout = layout(side, sample);
            let mut shapes = Shapes::learn(&layout, sample.as_bytes());
            let lines: Vec<&str> = sample.lines().collect();
            let mut line = line.get(&lines).as_bytes().to_vec();
            for (at, how, byte) in edits {
                let at = at.index(line.len().max(1));
                match how {
                    0 if at < line.len() => line[at] = byte,
                    1 => line.insert(at.min(line.len()), byte),
                    2 if at < line.len() => drop(line.remove(at)),
                    // A part of it twice.
                    _ => line.extend_from_within(at.min(line.len())..),
                }
            }
            assert_alike(&layout, &mut shapes, &line);
        }
    }
}
