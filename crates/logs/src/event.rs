//! What one line of a log says: when, of which request, and what happened.

/// Whose log a line is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Who sends requests and waits for answers.
    Client,
    /// Who answers.
    Server,
}

impl Side {
    /// Its name, as `--id client:FIELD` has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Client: the request is on its way.
    Asked,
    /// Client: the answer is here.
    Answered,
    /// Client: its own timer ended the wait.
    TimedOut,
    /// Client: something else ended it, such as a reset or an end of the stream.
    Broken,
    /// Server: the request is here.
    Received,
    /// Server: work begins.
    Started,
    /// Server: a part of the answer is on its way.
    Part,
    /// Server: the answer is on its way, to its end.
    Sent,
    /// Server: there was no answer to send, or nobody to send it to.
    Failed,
}

impl Kind {
    pub(crate) const ALL: [Self; 9] = [
        Self::Asked,
        Self::Answered,
        Self::TimedOut,
        Self::Broken,
        Self::Received,
        Self::Started,
        Self::Part,
        Self::Sent,
        Self::Failed,
    ];

    /// Whether it begins a request on its side.
    pub(crate) fn begins(self) -> bool {
        matches!(self, Self::Asked | Self::Received | Self::Started)
    }

    /// Whether it ends a request on its side.
    pub(crate) fn ends(self) -> bool {
        !self.begins() && self != Self::Part
    }
}

/// Milliseconds since the Unix epoch, by the clock of the side that wrote it.
pub type Millis = i64;

/// A line that says something of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event<'a> {
    pub(crate) at: Millis,
    /// Empty where the log has no ids.
    pub(crate) id: &'a [u8],
    /// 0 where the log does not number attempts.
    pub(crate) attempt: u32,
    pub(crate) kind: Kind,
    /// How long it took until now, where the line says so.
    pub(crate) took: Option<Millis>,
}
