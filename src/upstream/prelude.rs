//! The start of an answer, buffered until the model has said something: up to that point,
//! another upstream can still be asked.

use super::{Delta, RoundFailure, RoundFinish};
use crate::event::Usage;
use crate::limits::upstream as limits;

/// The deltas of a round, buffered until it is handed on.
#[derive(Debug, Default)]
pub(super) struct Prelude {
    deltas: Vec<Kept>,
    has_begun: bool,
    /// How many bytes of white space came first.
    blank: usize,
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
    /// Whether the model has said anything: text, reasoning or a call. A line break is nothing yet.
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
        self.has_begun |= match &kept {
            Kept::Text(words) | Kept::Reasoning(words) if words.trim().is_empty() => {
                self.blank += words.len();
                self.blank > limits::BLANK_BYTES_MAX
            }
            Kept::Finish(_) | Kept::Usage(_) => false,
            _ => true,
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_nothing_yet_unless_there_is_much() {
        let mut prelude = Prelude::default();
        for _ in 0..limits::BLANK_BYTES_MAX {
            prelude.keep(Delta::Text("\n"));
            assert!(!prelude.has_begun());
        }
        prelude.keep(Delta::Text(" "));
        assert!(prelude.has_begun());
    }

    #[test]
    fn what_was_kept_back_is_passed_on() {
        let mut prelude = Prelude::default();
        for words in ["\n", " ", "Well", "\n"] {
            prelude.keep(Delta::Text(words));
        }
        assert!(prelude.has_begun());
        let mut said = String::new();
        let end = prelude.hand_on(|delta| {
            let Delta::Text(words) = delta else { panic!("{delta:?}") };
            said.push_str(words);
        });
        assert_eq!((said.as_str(), end), ("\n Well\n", None));
    }
}
