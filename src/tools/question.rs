//! Questions of tools to the user, and what happens once they are answered.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;

use super::{Clarification, ClarificationOption};

/// A user's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Given {
    /// One of the options, as the tool offered it.
    Option(ClarificationOption),
    /// The user's own words.
    Text(String),
    /// A form, filled in: an object that the question's schema accepts, defaults included.
    Content(Value),
    /// The call may run.
    Approved {
        /// So may all further calls of its tool in this session.
        for_session: bool,
    },
    /// The call may not run; possibly with a reason in words.
    Refused(Option<String>),
    /// The user does not want to answer.
    Declined,
    /// The user has put the question aside without a decision.
    Cancelled,
}

impl Given {
    /// Whether the user gave no answer, or said no.
    #[must_use]
    pub(crate) const fn is_no(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Declined | Self::Cancelled)
    }
}

/// What happens once a question is answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Continuation {
    /// The model is told, and goes on from there.
    #[default]
    Model,
    /// The call that the user has seen runs, if the user approves it.
    Approval {
        /// The [digest](super::ToolSpec::digest) of the tool that the user was asked about.
        definition: String,
    },
    /// The tool is called again with the same arguments, and gets the answer.
    Again {
        /// Whatever the tool wants back.
        state: Value,
    },
    /// The call is still open on the node that asked, and gets the answer.
    Open,
}

/// What a tool gets when it is called again with an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Resumption {
    /// What it wanted back when it asked.
    pub state: Value,
    /// The answer.
    pub given: Given,
}

/// A question, on its way from a tool to the turn.
#[derive(Debug)]
pub(crate) struct SentQuestion {
    pub(crate) clarification: Clarification,
    pub(crate) awaits: Awaits,
}

/// What the tool does until it has the answer.
#[derive(Debug)]
pub(crate) enum Awaits {
    /// It ends, and the model calls it again.
    Model,
    /// It ends, and wants to be called again with this state.
    Again(Value),
    /// It waits for the answer.
    Open(oneshot::Sender<Given>),
}
