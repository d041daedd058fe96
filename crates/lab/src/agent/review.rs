//! The work on one document: a list, then reviews of that list by the same model.

use super::{
    openai::{CallError, OpenAi},
    prompt,
    script::{NotOnTheList, Script},
};
use crate::http::Issue;

/// Who thinks.
#[derive(Debug)]
pub(super) enum Model {
    OpenAi(Box<OpenAi>),
    Script(Script),
}

/// A model that gave no list.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The endpoint.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The script.
    #[error("the script's edit failed: {0}")]
    Script(#[from] NotOnTheList),
}

impl Model {
    /// The first list of a document's issues.
    pub(super) async fn extract(
        &self,
        (id, attempt): (&str, u32),
        text: &str,
    ) -> Result<Vec<Issue>, ModelError> {
        match self {
            Self::OpenAi(endpoint) => Ok(endpoint.ask(&prompt::extract(text)).await?),
            Self::Script(script) => Ok(script.extract(id, attempt).await),
        }
    }

    /// The list after one more review, `round` of `rounds` from 1.
    pub(super) async fn review(
        &self,
        (id, attempt): (&str, u32),
        text: &str,
        list: Vec<Issue>,
        (round, rounds): (u32, u32),
    ) -> Result<Vec<Issue>, ModelError> {
        match self {
            Self::OpenAi(endpoint) => {
                Ok(endpoint.ask(&prompt::review(text, &list, round, rounds)).await?)
            }
            Self::Script(script) => Ok(script.review((id, attempt), list, round).await?),
        }
    }
}
