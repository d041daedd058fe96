//! How one log is written, and what each of its lines says: the general way.
//!
//! `detect.rs` finds a [`Layout`] from a sample; `shape/` is the fast way for lines of one shape.

use crate::{
    event::{Event, Kind, Side},
    format::{Fields, Format, TEXT},
    time::{TimeFormat, TookUnit},
    words::{self, Meaning},
    wrapper::Wrapper,
};

/// What the user says of a log, instead of letting it be detected.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// The field of the request's id.
    pub id: Vec<Named>,
    /// The field of the time.
    pub time: Vec<Named>,
    /// What a line says when the server has sent an answer.
    pub sent: Vec<Named>,
    /// What a line says when the client has got one.
    pub received: Vec<Named>,
    /// What a line says when a request begins: the client's send, the server's start.
    pub started: Vec<Named>,
    /// A regular expression with named groups, for free text.
    pub pattern: Vec<Named>,
}

/// A value that may be for one side only: `client:request_id`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// `None`: both.
    pub side: Option<Side>,
    /// The value.
    pub value: String,
}

impl Named {
    /// Reads `VALUE`, `client:VALUE` or `server:VALUE`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        for side in [Side::Client, Side::Server] {
            let value = text.strip_prefix(side.name()).and_then(|rest| rest.strip_prefix(':'));
            if let Some(value) = value {
                return Self { side: Some(side), value: value.to_owned() };
            }
        }
        Self { side: None, value: text.to_owned() }
    }

    /// Those of `list` that are for `side`.
    pub(crate) fn of(list: &[Self], side: Side) -> impl Iterator<Item = &str> {
        list.iter()
            .filter(move |named| named.side.is_none_or(|of| of == side))
            .map(|named| named.value.as_str())
    }
}

/// A word that the user gave a meaning, perhaps in a field of its own: `status=ok`.
#[derive(Debug, Clone)]
pub(crate) struct Word {
    pub(crate) field: Option<String>,
    pub(crate) value: String,
    pub(crate) kind: Kind,
}

impl Word {
    fn is_in(&self, fields: &Fields<'_>, event: Option<&str>) -> bool {
        let text = match &self.field {
            Some(field) => fields.get(field),
            None => event,
        };
        text.is_some_and(|text| {
            text.eq_ignore_ascii_case(&self.value)
                || (self.field.is_none() && text.contains(' ') && text.contains(&self.value))
        })
    }
}

/// How a log is written.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) side: Side,
    pub(crate) wrapper: Wrapper,
    pub(crate) format: Format,
    /// `None`: the wrapper's own time.
    pub(crate) time: Option<(String, TimeFormat)>,
    pub(crate) id: Option<String>,
    pub(crate) attempt: Option<String>,
    /// `None` where every line is the end of a request.
    pub(crate) event: Option<String>,
    pub(crate) status: Option<String>,
    /// Fields that say why a request ended.
    pub(crate) reasons: Vec<String>,
    pub(crate) took: Option<(String, TookUnit)>,
    pub(crate) words: Vec<Word>,
}

/// What a line came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said<T> {
    Event(T),
    /// It is written as the others, and says nothing of a request.
    Nothing,
    /// It is not written so, or lacks its time.
    Unreadable,
}

/// A line with a longer id, in bytes, counts as unreadable.
pub(crate) const LONGEST_ID: usize = 512;

impl Layout {
    /// What a line says; `at` is when the wrapper had it. `id` takes the id, which the event borrows.
    pub(crate) fn read<'i>(
        &self,
        line: &[u8],
        at: Option<i64>,
        id: &'i mut Vec<u8>,
    ) -> Said<Event<'i>> {
        id.clear();
        let Some(fields) = self.format.read(line) else { return Said::Unreadable };
        let Some(kind) = self.kind(&fields) else { return Said::Nothing };
        let at = match &self.time {
            Some((field, format)) => {
                fields.get(field).and_then(|text| format.read(text.as_bytes()))
            }
            None => at,
        };
        let Some(at) = at else { return Said::Unreadable };
        if let Some(field) = &self.id {
            match fields.get(field) {
                None | Some("") => return Said::Nothing,
                // Another id may read like it.
                Some(text) if text.len() > LONGEST_ID || fields.is_rounded(field) => {
                    return Said::Unreadable;
                }
                Some(text) => id.extend_from_slice(text.as_bytes()),
            }
        }
        let attempt = match &self.attempt {
            None => 0,
            Some(field) => match fields.get(field).map(str::parse) {
                None => FIRST_ATTEMPT,
                Some(Ok(number)) => number,
                Some(Err(_)) => return Said::Unreadable,
            },
        };
        let took =
            self.took.as_ref().and_then(|(field, unit)| unit.read(fields.get(field)?.as_bytes()));
        Said::Event(Event { at, id, attempt, kind, took })
    }

    /// What the fields say happened.
    pub(crate) fn kind(&self, fields: &Fields<'_>) -> Option<Kind> {
        let status = self.status.as_deref().and_then(|field| fields.get(field)?.parse().ok());
        self.kind_with(fields, status)
    }

    /// The same with another status than the fields have.
    pub(crate) fn kind_with(&self, fields: &Fields<'_>, status: Option<u16>) -> Option<Kind> {
        let event = self.event.as_deref().and_then(|field| fields.get(field));
        let reasons = self.reasons.iter().filter_map(|field| fields.get(field));
        self.kind_of(event, fields).map(|kind| words::refined(kind, status, reasons))
    }

    fn kind_of(&self, event: Option<&str>, fields: &Fields<'_>) -> Option<Kind> {
        if let Some(word) = self.words.iter().find(|word| word.is_in(fields, event)) {
            return Some(word.kind);
        }
        if self.event.is_none() {
            return Some(if self.side == Side::Client { Kind::Answered } else { Kind::Sent });
        }
        match words::meaning(self.side, event?) {
            // What the user gave words for is said by those words only.
            Some(Meaning::Says(kind)) if self.words.iter().all(|word| word.kind != kind) => {
                Some(kind)
            }
            _ => None,
        }
    }

    /// In one line for people.
    pub(crate) fn describe(&self) -> String {
        let time = match &self.time {
            Some((field, format)) => format!("time in {field} ({})", format.name()),
            None => "time of the wrapper".to_owned(),
        };
        let id = match (&self.id, &self.attempt) {
            (None, _) => "no id".to_owned(),
            (Some(id), None) => format!("id in {id}"),
            (Some(id), Some(attempt)) => format!("id in {id}, attempt in {attempt}"),
        };
        let event = match self.event.as_deref() {
            None => "each line an end".to_owned(),
            Some(TEXT) => "event in the text".to_owned(),
            Some(event) => format!("event in {event}"),
        };
        let (wrapper, format) = (self.wrapper.name(), self.format.name());
        format!("{wrapper}{format}, {time}, {id}, {event}")
    }
}

/// Where a log numbers attempts but a line does not.
pub(crate) const FIRST_ATTEMPT: u32 = 1;
