//! Answers in a client's own form, kept with the turns that they belong to.
//!
//! A session knows them as JSON. What they mean is the business of the API that made them.

use std::fmt;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::TurnLog;
use crate::conversation::claimed::PrefixHash;

/// Makes the answer of a turn.
pub trait AnswerSerializer: fmt::Debug + Send + Sync {
    /// What to keep from the beginning; `None` if neither the answer nor the session is kept.
    fn begun(&self) -> Option<Arc<RawValue>>;

    /// What to keep at the end. The log is sealed.
    fn end(&self, log: &TurnLog) -> FinishedAnswer;
}

/// What is known at the end of a turn.
#[derive(Debug, Default)]
pub struct FinishedAnswer {
    /// The answer.
    pub answer: Option<Arc<RawValue>>,
    /// Everything that the client has seen, in each form in which it may send it back.
    pub prefixes: Vec<PrefixHash>,
}
