//! What a container's runtime puts around each line: CRI (`/var/log/pods`), Docker's json-file, and the
//! marks of `kubectl logs`.

use std::borrow::Cow;

use serde::Deserialize;

use crate::{source::LONGEST_LINE, time};

/// Around a log's own lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrapper {
    None,
    /// `TIME stdout F LINE`; `P` for `F`: the line goes on in the next.
    Cri,
    /// `{"log":"LINE\n","stream":"stdout","time":"TIME"}`; without `\n` the line goes on.
    Docker,
    /// `TIME LINE`, of `kubectl logs --timestamps`.
    Stamped,
}

/// A log's own line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Inner<'a> {
    pub(crate) line: Cow<'a, [u8]>,
    /// When the runtime read it.
    pub(crate) at: Option<i64>,
}

/// What became of a wrapped line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unwrapped<'a> {
    Whole(Inner<'a>),
    /// The line goes on.
    Part,
    Bad,
}

/// Parts of lines that are not whole yet, one a stream.
#[derive(Debug, Default)]
pub(crate) struct Parts([Vec<u8>; 2]);

impl Parts {
    fn of(&mut self, stream: &[u8]) -> &mut Vec<u8> {
        &mut self.0[usize::from(stream == b"stderr")]
    }

    /// Whether something was left that never became whole.
    pub(crate) fn left(&self) -> u64 {
        self.0.iter().filter(|part| !part.is_empty()).count() as u64
    }
}

impl Wrapper {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Cri => "CRI, ",
            Self::Docker => "Docker json-file, ",
            Self::Stamped => "time stamps, ",
        }
    }

    /// The wrapper of most of `lines`.
    pub(crate) fn of(lines: &[&[u8]]) -> Self {
        let most = |fits: fn(&[u8]) -> bool| {
            let fitting = lines.iter().filter(|line| fits(line)).count();
            fitting > 0 && fitting * 10 >= lines.len() * 8
        };
        if most(|line| cri(line).is_some()) {
            Self::Cri
        } else if most(|line| docker(line).is_some()) {
            Self::Docker
        } else if most(|line| stamped(line).is_some_and(|(_, inner)| inner.starts_with(b"{"))) {
            Self::Stamped
        } else {
            Self::None
        }
    }

    /// The line inside `line`, once it is whole.
    pub(crate) fn unwrap<'a>(self, line: &'a [u8], parts: &mut Parts) -> Unwrapped<'a> {
        match self {
            Self::None => Unwrapped::Whole(Inner { line: Cow::Borrowed(line), at: None }),
            Self::Cri => match cri(line) {
                Some(Cri { at, stream, whole, line }) => {
                    join(parts.of(stream), Cow::Borrowed(line), whole, Some(at))
                }
                None => Unwrapped::Bad,
            },
            Self::Docker => match docker(line) {
                Some(Docker { log, stream, time }) => {
                    let at = time::rfc3339(time.as_bytes());
                    let whole = log.ends_with('\n');
                    let text = match log {
                        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
                    };
                    join(parts.of(stream.as_bytes()), without_end(text), whole, at)
                }
                None => Unwrapped::Bad,
            },
            Self::Stamped => match stamped(line) {
                Some((at, inner)) => {
                    Unwrapped::Whole(Inner { line: Cow::Borrowed(inner), at: Some(at) })
                }
                None => Unwrapped::Bad,
            },
        }
    }
}

fn without_end(text: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.strip_suffix(b"\n").unwrap_or(text)),
        Cow::Owned(mut text) => {
            if text.last() == Some(&b'\n') {
                text.pop();
            }
            Cow::Owned(text)
        }
    }
}

fn join<'a>(
    part: &mut Vec<u8>,
    line: Cow<'a, [u8]>,
    whole: bool,
    at: Option<i64>,
) -> Unwrapped<'a> {
    if whole && part.is_empty() {
        return Unwrapped::Whole(Inner { line, at });
    }
    if part.len() + line.len() > LONGEST_LINE {
        part.clear();
        return Unwrapped::Bad;
    }
    part.extend_from_slice(&line);
    if !whole {
        return Unwrapped::Part;
    }
    Unwrapped::Whole(Inner { line: Cow::Owned(std::mem::take(part)), at })
}

struct Cri<'a> {
    at: i64,
    stream: &'a [u8],
    whole: bool,
    line: &'a [u8],
}

fn cri(line: &[u8]) -> Option<Cri<'_>> {
    let (at, rest) = stamped(line)?;
    let (stream, rest) = word(rest)?;
    // Tags are a list; the first says whether the line is whole.
    let (tags, line) = word(rest).unwrap_or((rest, b""));
    let whole = match tags.first()? {
        b'F' => true,
        b'P' => false,
        _ => return None,
    };
    (stream == b"stdout" || stream == b"stderr").then_some(Cri { at, stream, whole, line })
}

fn stamped(line: &[u8]) -> Option<(i64, &[u8])> {
    let (stamp, rest) = word(line)?;
    (stamp.get(10) == Some(&b'T')).then_some(())?;
    Some((time::rfc3339(stamp)?, rest))
}

fn word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b' ', line)?;
    Some((&line[..end], &line[end + 1..]))
}

#[derive(Deserialize)]
struct Docker<'a> {
    #[serde(borrow)]
    log: Cow<'a, str>,
    #[serde(borrow)]
    stream: Cow<'a, str>,
    #[serde(borrow)]
    time: Cow<'a, str>,
}

fn docker(line: &[u8]) -> Option<Docker<'_>> {
    line.starts_with(b"{\"log\":").then(|| serde_json::from_slice(line).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(wrapper: Wrapper, lines: &[&str]) -> Vec<String> {
        let mut parts = Parts::default();
        let shown = lines.iter().map(|line| match wrapper.unwrap(line.as_bytes(), &mut parts) {
            Unwrapped::Whole(inner) => String::from_utf8_lossy(&inner.line).into_owned(),
            Unwrapped::Part => "(part)".into(),
            Unwrapped::Bad => "(bad)".into(),
        });
        shown.collect()
    }

    #[test]
    fn cri_lines_are_joined_by_stream() {
        let lines = [
            "2026-03-02T09:00:00.1Z stdout P {\"a\":",
            "2026-03-02T09:00:00.2Z stderr F oops",
            "2026-03-02T09:00:00.3Z stdout F 1}",
            "2026-03-02T09:00:00.3Z stdout F",
            "2026-03-02T09:00:00.3Z nowhere F x",
            "rubbish",
        ];
        assert_eq!(
            all(Wrapper::Cri, &lines),
            ["(part)", "oops", "{\"a\":1}", "", "(bad)", "(bad)"]
        );
        assert_eq!(Wrapper::of(&[lines[0].as_bytes(), lines[1].as_bytes()]), Wrapper::Cri);
    }

    #[test]
    fn docker_lines_are_unescaped_and_joined() {
        let lines = [
            r#"{"log":"{\"a\":","stream":"stdout","time":"2026-03-02T09:00:00Z"}"#,
            r#"{"log":"1}\n","stream":"stdout","time":"2026-03-02T09:00:00Z"}"#,
            r#"{"log":1}"#,
        ];
        assert_eq!(all(Wrapper::Docker, &lines), ["(part)", "{\"a\":1}", "(bad)"]);
    }

    #[test]
    fn a_line_with_a_time_of_its_own_is_not_wrapped() {
        let line: &[u8] = b"2026-03-02T09:00:00Z sent id=1";
        assert_eq!(Wrapper::of(&[line]), Wrapper::None);
        assert_eq!(Wrapper::of(&[b"2026-03-02T09:00:00Z {\"a\":1}"]), Wrapper::Stamped);
        assert_eq!(Wrapper::of(&[b"{\"log\":\"x\",\"a\":1}"]), Wrapper::None);
        assert_eq!(Wrapper::of(&[]), Wrapper::None);
    }
}
