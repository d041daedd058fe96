//! What the job and the agent say to each other: paths, headers and bodies.

use serde::{Deserialize, Serialize};

/// Where the agent takes documents.
pub(crate) const PATH: &str = "/v1/issues";
/// The request's id, in both logs; without it the agent takes the body's `id`.
pub(crate) const REQUEST_ID: &str = "x-request-id";
/// Which attempt at this id it is, from 1.
pub(crate) const ATTEMPT: &str = "x-attempt";

/// A management issue: something that the company's management says, or shows, that it must solve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "IssueForm")]
pub struct Issue {
    /// One sentence.
    pub title: String,
    /// What the document says, quoted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

/// Models and hand-written scripts leave out what is empty: a plain text is a title.
#[derive(Deserialize)]
#[serde(untagged)]
enum IssueForm {
    Title(String),
    Whole {
        title: String,
        #[serde(default)]
        evidence: Option<String>,
    },
}

impl From<IssueForm> for Issue {
    fn from(form: IssueForm) -> Self {
        match form {
            IssueForm::Title(title) => Self { title, evidence: None },
            IssueForm::Whole { title, evidence } => Self { title, evidence },
        }
    }
}

/// A request: one document.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Question {
    pub(crate) id: String,
    pub(crate) text: String,
}

/// The agent's answer to one document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The document's id.
    pub id: String,
    /// The list after the last review.
    pub issues: Vec<Issue>,
    /// How many times the list was reviewed.
    pub rounds: u32,
    /// From the start of the work, not from the request: the time in the queue is not in it.
    pub took_s: f64,
}

/// The body of every answer that is not 200.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Problem {
    pub(crate) error: String,
}
