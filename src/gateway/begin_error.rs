//! Why a turn does not begin.

use super::shares::OverLimit;
use crate::conversation::AnswerError;
use crate::session::SessionError;
use crate::tools::RegistryError;
use crate::tools::client::ClientToolError;

/// Why a turn does not begin.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// One is already running.
    #[error("a turn is already running in session {0}; wait for it to end, or cancel it")]
    TurnInProgress(String),
    /// The answer is not accepted.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The turn that the key began is over, and its log is no longer kept.
    #[error(
        "the turn that this Idempotency-Key began is no longer kept; send a new key to begin \
         another turn"
    )]
    TurnGone,
    /// No such upstream.
    #[error("there is no model {name:?}; available: {}", known.join(", "))]
    UnknownModel {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// No such tool.
    #[error("{error}; available: {}", list(known))]
    UnknownTool {
        /// What was asked for.
        error: RegistryError,
        /// What there is.
        known: Vec<String>,
    },
    /// A call is required, but there is no tool.
    #[error(
        "a call is required, but this turn has no tools; offer some, or send \"auto\"{}",
        reasons(left_out)
    )]
    NoToolToCall {
        /// Why tools of the client were left out, the first of them.
        left_out: Vec<ClientToolError>,
    },
    /// A call is required, but this turn does not have the tool.
    #[error(
        "this turn has no tool {name:?} to call; available: {}{}",
        list(known), reasons(left_out.as_slice())
    )]
    UnknownChoice {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
        /// Why the client's tool of this name was left out, if it was.
        left_out: Option<ClientToolError>,
    },
    /// The instructions and the client's tools leave no room for a conversation.
    #[error(
        "the instructions and the client tools take about {needed} tokens, but \
         model.context_budget_tokens is {budget}; raise it (not above the model \
         server's context), or send fewer tools"
    )]
    NoRoom {
        /// About how many tokens they take.
        needed: usize,
        /// How many there are.
        budget: usize,
    },
    /// A required source of tools is not ready.
    #[error("a required source of tools is not ready: {0}")]
    ToolsUnavailable(String),
    /// The gateway is running as many turns as it may.
    #[error("{0} turns are already running (server.max_concurrent_turns); try again later")]
    Full(usize),
    /// The client may not run another turn now.
    #[error(transparent)]
    OverLimit(#[from] OverLimit),
    /// The gateway is about to stop.
    #[error("the gateway is shutting down and accepts no new turns; try again later")]
    Draining,
    /// The session cannot be used.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Tells a client which of its tools cannot be offered.
fn reasons(left_out: &[ClientToolError]) -> String {
    let reasons: Vec<String> = left_out.iter().map(ToString::to_string).collect();
    if reasons.is_empty() { String::new() } else { format!("; left out: {}", reasons.join("; ")) }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
