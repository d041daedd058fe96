//! The attributes of a request. Pure.

use super::parse::align4;

/// The body of a request: a structure, then attributes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Body(Vec<u8>);

impl Body {
    /// Begins with the family's own structure.
    pub(crate) fn new(head: &[u8]) -> Self {
        Self(head.to_vec())
    }

    /// Adds one attribute.
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(align4(self.0.len()), 0);
        self
    }

    /// Adds a text with its end.
    pub(crate) fn with_text(self, kind: u16, text: &[u8]) -> Self {
        self.with(kind, &[text, b"\0"].concat())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}
