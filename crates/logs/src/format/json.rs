//! One JSON object a line. Objects in it are flattened: `request.id`; lists are left out.

use std::{borrow::Cow, fmt};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Fields;

/// Objects deeper than this say nothing of a request.
const DEEPEST: usize = 4;

pub(super) fn read(line: &[u8]) -> Option<Fields<'_>> {
    let mut fields = Fields::default();
    let mut from = serde_json::Deserializer::from_slice(line);
    let object = Object { name: "", depth: 0, fields: &mut fields };
    from.deserialize_map(object).ok()?;
    from.end().ok()?;
    Some(fields)
}

struct Object<'f, 'de> {
    name: &'f str,
    depth: usize,
    fields: &'f mut Fields<'de>,
}

impl<'de> Visitor<'de> for Object<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(name)) = map.next_key_seed(Text::default())? {
            let name =
                if self.depth == 0 { name } else { Cow::Owned(format!("{}.{name}", self.name)) };
            map.next_value_seed(Value { name, depth: self.depth, fields: self.fields })?;
        }
        Ok(())
    }
}

/// A text, borrowed where the line has it without escapes.
#[derive(Default)]
struct Text<'de>(Cow<'de, str>);

impl<'de> DeserializeSeed<'de> for Text<'de> {
    type Value = Self;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Text<'de> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self, E> {
        Ok(Self(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self, E> {
        Ok(Self(Cow::Owned(text.to_owned())))
    }
}

struct Value<'f, 'de> {
    name: Cow<'de, str>,
    depth: usize,
    fields: &'f mut Fields<'de>,
}

impl<'de> DeserializeSeed<'de> for Value<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        if self.depth > DEEPEST {
            return from.deserialize_ignored_any(IgnoredAny).map(drop);
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<(), E> {
        self.fields.push(self.name, text);
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.fields.push(self.name, text.to_owned());
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.fields.push(self.name, number.to_string());
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.fields.push(self.name, number.to_string());
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        let text = number.to_string();
        let digits = text.bytes().filter(u8::is_ascii_digit).count();
        if digits > f64::DIGITS as usize {
            self.fields.push_rounded(self.name, text);
        } else {
            self.fields.push(self.name, text);
        }
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.fields.push(self.name, if value { "true" } else { "false" });
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        Object { name: &self.name, depth: self.depth + 1, fields: self.fields }.visit_map(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_fields_and_objects_are_flattened() {
        let line =
            br#"{"ts":1.5,"request":{"id":"a\"b","n":[1,{}]},"x":null,"ok":true,"id":7,"id":8}"#;
        let fields = read(line).unwrap();
        let all: Vec<_> = fields.iter().collect();
        assert_eq!(
            all,
            [("ts", "1.5"), ("request.id", "a\"b"), ("ok", "true"), ("id", "7"), ("id", "8")]
        );
        assert_eq!(fields.get("id"), Some("8"));
    }

    #[test]
    fn what_is_no_object_is_not_read() {
        for bad in ["", "1", "[]", "{", "{}x", "{\"a\":1,}", "{\"a\":\"\u{1}\"}", "{\"a\":1e999}"] {
            assert!(read(bad.as_bytes()).is_none(), "{bad}");
        }
        assert!(read(b"{\"a\":\"\xff\"}").is_none());
        let deep = "{\"a\":".repeat(100_000);
        assert!(read(deep.as_bytes()).is_none());
    }
}
