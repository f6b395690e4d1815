//! Answers in a client's own form, stored with their turns.
//!
//! A session stores them as JSON. Only the API that wrote them knows what they mean.

use std::fmt;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::TurnLog;
use crate::conversation::claimed::PrefixHash;

/// Makes the answer of a turn.
pub trait AnswerSerializer: fmt::Debug + Send + Sync {
    /// The head, stored when the turn begins; `None` if neither answer nor session is stored.
    fn head(&self) -> Option<Arc<RawValue>>;

    /// The answer, stored when the turn ends. The log is sealed.
    fn end(&self, log: &TurnLog) -> FinishedAnswer;
}

/// Makes the serializers of turns that another gateway has begun.
pub trait AnswerSerializers: fmt::Debug + Send + Sync {
    /// The serializer of a turn whose answer has this head.
    fn of_head(&self, head: &RawValue) -> Option<Arc<dyn AnswerSerializer>>;
}

/// What is known at the end of a turn.
#[derive(Debug, Default)]
pub struct FinishedAnswer {
    /// The answer.
    pub answer: Option<Arc<RawValue>>,
    /// Everything that the client has seen, in each form in which it may send it back.
    pub prefixes: Vec<PrefixHash>,
}
