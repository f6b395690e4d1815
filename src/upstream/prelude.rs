//! The start of an answer, buffered until the model has said something: up to that point,
//! another upstream can still be asked.

use super::{Delta, RoundFailure, RoundFinish};
use crate::event::Usage;

/// The deltas of a round, buffered until it is handed on.
#[derive(Debug, Default)]
pub(super) struct Prelude {
    deltas: Vec<Kept>,
    has_begun: bool,
    end: Option<Result<(), RoundFailure>>,
}

/// An owned delta.
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
    /// Whether the model has said anything: text, reasoning or a call.
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
                // Some servers send usage with every frame, even those without text.
                self.deltas.retain(|kept| !matches!(kept, Kept::Usage(_)));
                Kept::Usage(usage)
            }
        };
        self.has_begun |= !matches!(kept, Kept::Finish(_) | Kept::Usage(_));
        self.deltas.push(kept);
    }

    /// Records how the round ended after the buffered deltas.
    pub(super) fn end(&mut self, end: Result<(), RoundFailure>) {
        self.end = Some(end);
    }

    /// Passes on the buffered deltas. Returns how the round ended, if it has ended.
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
