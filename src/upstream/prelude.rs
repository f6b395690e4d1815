//! The beginning of an answer, kept until it is sure that it is one: before its first
//! words, another upstream can still be asked.

use super::{Delta, RoundFailure, RoundFinish};
use crate::event::Usage;

/// What a round brought before it was handed on.
#[derive(Debug, Default)]
pub(super) struct Prelude {
    deltas: Vec<Kept>,
    has_begun: bool,
    end: Option<Result<(), RoundFailure>>,
}

/// A delta of its own.
#[derive(Debug)]
enum Kept {
    Text(String),
    Reasoning(String),
    ReasoningItem(String),
    CallStarted(u32),
    CallArguments(u32, String),
    CallCompleted { index: u32, name: String, arguments: String },
    Finish(RoundFinish),
    Usage(Usage),
}

impl Prelude {
    /// Whether the model has said something: words, reasoning, a call.
    pub(super) const fn has_begun(&self) -> bool {
        self.has_begun
    }

    pub(super) fn keep(&mut self, delta: Delta<'_>) {
        let kept = match delta {
            Delta::Text("") | Delta::Reasoning("") => return,
            Delta::Text(words) => Kept::Text(words.to_owned()),
            Delta::Reasoning(words) => Kept::Reasoning(words.to_owned()),
            Delta::ReasoningItem(json) => Kept::ReasoningItem(json.to_owned()),
            Delta::CallStarted { index } => Kept::CallStarted(index),
            Delta::CallArguments { index, json } => Kept::CallArguments(index, json.to_owned()),
            Delta::CallCompleted { index, name, arguments } => Kept::CallCompleted {
                index,
                name: name.to_owned(),
                arguments: arguments.to_owned(),
            },
            Delta::Finish(finish) => Kept::Finish(finish),
            Delta::Usage(usage) => {
                // Some servers count beside each frame, those without words included.
                self.deltas.retain(|kept| !matches!(kept, Kept::Usage(_)));
                Kept::Usage(usage)
            }
        };
        self.has_begun |= !matches!(kept, Kept::Finish(_) | Kept::Usage(_));
        self.deltas.push(kept);
    }

    /// The round has ended behind what was kept.
    pub(super) fn end(&mut self, end: Result<(), RoundFailure>) {
        self.end = Some(end);
    }

    /// Hands on what was kept. Returns how the round has ended, where it has.
    pub(super) fn hand_on(
        self,
        mut sink: impl FnMut(Delta<'_>),
    ) -> Option<Result<(), RoundFailure>> {
        for kept in &self.deltas {
            sink(match kept {
                Kept::Text(words) => Delta::Text(words),
                Kept::Reasoning(words) => Delta::Reasoning(words),
                Kept::ReasoningItem(json) => Delta::ReasoningItem(json),
                Kept::CallStarted(index) => Delta::CallStarted { index: *index },
                Kept::CallArguments(index, json) => Delta::CallArguments { index: *index, json },
                Kept::CallCompleted { index, name, arguments } => {
                    Delta::CallCompleted { index: *index, name, arguments }
                }
                Kept::Finish(finish) => Delta::Finish(*finish),
                Kept::Usage(usage) => Delta::Usage(*usage),
            });
        }
        self.end
    }
}
