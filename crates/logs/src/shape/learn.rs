//! Learns the shapes of a log from its sample.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use super::{
    literal::Literal,
    number::number_length,
    step::{Form, Next, Role, Step, Then},
    text::text_length,
};
use crate::{
    event::Kind,
    format::Format,
    layout::Layout,
    source::lines_of,
    time::TimeFormat,
    wrapper::{Parts, Unwrapped, Wrapper},
};

/// Lines of the sample that are learnt from.
const SAMPLE: usize = 4000;
/// Values of a field that stay literal: more make more shapes than are worth it.
const FEW: usize = 12;
/// Lines of more fields have no shape: what is learnt is as deep as a line has values, and a line may be long.
pub(super) const MOST_FIELDS: usize = 256;

/// Learns from whole lines at the start of the log: the steps that a line may begin with.
#[inline(never)]
pub(super) fn learn(layout: &Layout, block: &[u8]) -> Next {
    let mut first = Vec::new();
    let timeless = layout.time.is_none() && layout.wrapper == Wrapper::None;
    if matches!(layout.format, Format::Json) && !timeless {
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
            if let Some(says) = says(layout, line, fields, &few) {
                let known = Known { line, says, layout, few: &few, usual_status: false };
                let usual = Known { usual_status: true, ..known };
                // Any other status goes the longer way, which is tried last.
                let has_usual = fields.iter().any(|field| usual.has_usual_status(field));
                if has_usual {
                    insert(&mut first, &usual, 0, fields, 1);
                }
                insert(&mut first, &known, 0, fields, usize::from(!has_usual));
            }
        }
    }
    steps(first)
}

/// What the lines of a shape say; `None`: nothing of a request.
#[derive(Clone, Copy)]
struct Says(Option<Kind>);

/// What a line of the sample says, where its literal parts alone decide that.
fn says(
    layout: &Layout,
    line: &[u8],
    fields: &[Field<'_>],
    few: &BTreeSet<String>,
) -> Option<Says> {
    let read = layout.format.read(line)?;
    // A status that varies is looked at in each line.
    let of_shape =
        |field: &&Field<'_>| layout.status.as_deref() == Some(field.name) && is_literal(field, few);
    let status = fields.iter().find(of_shape).and_then(|field| read.get(field.name));
    let kind = layout.kind_with(&read, status.and_then(|status| status.parse().ok()));
    let decided = fields.iter().all(|f| !layout.decides(f.name, kind) || is_literal(f, few));
    let has = |name: Option<&str>| {
        name.is_none_or(|name| fields.iter().any(|f| f.name == name && !is_literal(f, few)))
    };
    let time = layout.time.as_ref().map(|(name, _)| name.as_str());
    let complete = kind.is_none() || (has(time) && has(layout.id.as_deref()));
    (decided && complete).then_some(Says(kind))
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
            let rfc3339 = matches!(self.time, Some((_, TimeFormat::Rfc3339)));
            if rfc3339 { Role::Time } else { Role::OtherTime }
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
    form: Form,
}

/// Whether all lines of a shape share the value.
fn is_literal(field: &Field<'_>, few: &BTreeSet<String>) -> bool {
    field.form == Form::Word || (field.form == Form::Text && few.contains(field.name))
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
        let (value, form) = match line.get(pos)? {
            b'"' => (pos + 1..pos + 1 + text_length(&line[pos + 1..])?, Form::Text),
            b'-' | b'0'..=b'9' => (pos..pos + number_length(&line[pos..])?, Form::Number),
            _ => {
                let word = ["true", "false", "null"]
                    .into_iter()
                    .find(|w| line[pos..].starts_with(w.as_bytes()))?;
                (pos..pos + word.len(), Form::Word)
            }
        };
        if all.len() == MOST_FIELDS || all.iter().any(|field| field.name == name) {
            return None;
        }
        pos = blank(value.end + usize::from(form == Form::Text));
        all.push(Field { name, value, form });
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
        for field in fields.iter().filter(|field| field.form == Form::Text) {
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
#[derive(Clone, Copy)]
struct Known<'k> {
    line: &'k [u8],
    says: Says,
    layout: &'k Layout,
    few: &'k BTreeSet<String>,
    /// All lines of its shape have its status.
    usual_status: bool,
}

impl Known<'_> {
    fn is_literal(&self, field: &Field<'_>) -> bool {
        is_literal(field, self.few) || (self.usual_status && self.has_usual_status(field))
    }

    /// Whether it is a status that most answers have, and that changes nothing of what a line says.
    fn has_usual_status(&self, field: &Field<'_>) -> bool {
        self.layout.role(field) == Role::Status
            && field.form == Form::Number
            && USUAL_STATUSES.contains(&&self.line[field.value.clone()])
    }
}

/// Of answers: RFC 9110 sections 15.3 and 15.4.
const USUAL_STATUSES: [&[u8]; 5] = [b"200", b"201", b"202", b"204", b"304"];

/// A step while more lines may be learnt from.
struct Sketch {
    literal: Vec<u8>,
    then: SketchThen,
    /// How often the sample has it.
    count: usize,
}

enum SketchThen {
    End(Says),
    Value(Role, Form, Vec<Sketch>),
}

/// Adds a line's shape to `sketches`, so many times; `from` is where its literal begins, before the first of `fields`.
fn insert(
    sketches: &mut Vec<Sketch>,
    known: &Known<'_>,
    from: usize,
    fields: &[Field<'_>],
    weight: usize,
) {
    let value = fields.iter().position(|field| !known.is_literal(field));
    let end = value.map_or(known.line.len(), |at| fields[at].value.start);
    let literal = &known.line[from..end];
    let same = sketches.iter().position(|sketch| sketch.literal == literal);
    let same = same.unwrap_or_else(|| {
        let then = match value {
            Some(at) => {
                let role = known.layout.role(&fields[at]);
                SketchThen::Value(role, fields[at].form, Vec::new())
            }
            None => SketchThen::End(known.says),
        };
        sketches.push(Sketch { literal: literal.to_vec(), then, count: 0 });
        sketches.len() - 1
    });
    let sketch = &mut sketches[same];
    sketch.count += weight;
    if let (Some(at), SketchThen::Value(.., next)) = (value, &mut sketch.then) {
        insert(next, known, fields[at].value.end, &fields[at + 1..], weight);
    }
}

fn steps(sketches: Vec<Sketch>) -> Next {
    let step = |sketch: Sketch| {
        let then = match sketch.then {
            SketchThen::End(says) => Then::End(says.0),
            SketchThen::Value(role, form, next) => Then::value(role, form, steps(next)),
        };
        (Step { literal: Literal::new(&sketch.literal), then }, sketch.count)
    };
    Next::of(sketches.into_iter().map(step).collect())
}
