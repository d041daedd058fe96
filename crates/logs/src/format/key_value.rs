//! `key=value` pairs anywhere in a line: logfmt, and text with pairs in it.

use std::borrow::Cow;

use super::{Fields, LINE_START, TEXT};
use crate::time;

/// The pairs, the time that the line starts with, and the words outside the pairs.
pub(super) fn read(line: &str) -> Option<Fields<'_>> {
    let mut fields = Fields::default();
    let mut rest = line;
    if let Some((stamp, after)) = leading_time(line) {
        fields.push(LINE_START, stamp);
        rest = after;
    }
    let mut words = String::new();
    let mut pairs = 0;
    while let Some((token, after)) = next_token(rest) {
        rest = after;
        match token {
            Token::Pair(key, value) => {
                pairs += 1;
                fields.push(key, value);
            }
            Token::Word(word) => {
                if !words.is_empty() {
                    words.push(' ');
                }
                words.push_str(word);
            }
        }
    }
    if !words.is_empty() {
        fields.push(TEXT, words);
    }
    (pairs > 0).then_some(fields)
}

/// `2026-03-02T09:00:00Z …`, `[2026-03-02 09:00:00,123] …`.
fn leading_time(line: &str) -> Option<(&str, &str)> {
    let inner = line.strip_prefix('[').unwrap_or(line);
    let bytes = inner.as_bytes();
    // Date and time: the blank between them is no end.
    let end = bytes.iter().enumerate().position(|(at, &b)| at > 10 && matches!(b, b' ' | b']'));
    let end = end.unwrap_or(bytes.len());
    let stamp = inner.get(..end)?;
    time::rfc3339(stamp.as_bytes())?;
    Some((stamp, inner.get(end..)?.trim_start_matches([']', ' '])))
}

enum Token<'a> {
    Pair(&'a str, Cow<'a, str>),
    Word(&'a str),
}

fn next_token(text: &str) -> Option<(Token<'_>, &str)> {
    let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ',');
    if text.is_empty() {
        return None;
    }
    let end = text.find(|c: char| c.is_ascii_whitespace() || c == ',' || c == '=');
    let end = end.unwrap_or(text.len());
    let (key, rest) = text.split_at(end);
    let is_key =
        !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.@".contains(&b));
    if let Some(rest) = rest.strip_prefix('=').filter(|_| is_key) {
        let (value, rest) = value(rest);
        return Some((Token::Pair(key, value), rest));
    }
    // A word with an equals sign that makes no pair is a word to its blank.
    let end = text.find(|c: char| c.is_ascii_whitespace()).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    Some((Token::Word(word.trim_end_matches(',')), rest))
}

fn value(text: &str) -> (Cow<'_, str>, &str) {
    if let Some(quoted) = text.strip_prefix('"').and_then(quoted_value) {
        return quoted;
    }
    let end = text.find(|c: char| c.is_ascii_whitespace() || c == ',').unwrap_or(text.len());
    let (value, rest) = text.split_at(end);
    (Cow::Borrowed(value), rest)
}

/// To the closing quote; a backslash takes the next character as it is.
fn quoted_value(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let end = text.find(['"', '\\'])?;
    if text.as_bytes()[end] == b'"' {
        return Some((Cow::Borrowed(&text[..end]), &text[end + 1..]));
    }
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((Cow::Owned(value), &text[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_words_and_the_leading_time() {
        for (line, expected) in [
            (
                r#"ts=2026-03-02T09:00:00Z level=info msg="request sent" id=a-1"#,
                "ts:2026-03-02T09:00:00Z level:info msg:request sent id:a-1",
            ),
            (
                "2026-03-02 09:00:00,120 INFO agent - answer sent id=7, took=1.5s",
                "(line start):2026-03-02 09:00:00,120 id:7 took:1.5s (text):INFO agent - answer sent",
            ),
            (
                "[2026-03-02T09:00:00Z] sent id=7",
                "(line start):2026-03-02T09:00:00Z id:7 (text):sent",
            ),
            (r#"a="x\"y" b="open c=1 ==d"#, "a:x\"y b:\"open c:1 (text):==d"),
        ] {
            let fields = read(line).unwrap_or_else(|| panic!("{line}"));
            let shown: Vec<_> = fields.iter().map(|(k, v)| format!("{k}:{v}")).collect();
            assert_eq!(shown.join(" "), expected, "{line}");
        }
        for bad in ["", "no pairs here", "a = b", "{\"a\":1}"] {
            assert!(read(bad).is_none(), "{bad}");
        }
    }
}
