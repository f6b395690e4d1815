//! The closing answer: the model's last round, which can call no tools, and what the user
//! gets if it brings no words.
//!
//! A turn whose tools have found something does not fail for want of words: the gateway
//! then answers with what they found.

use super::{State, Turn};
use crate::conversation::render::results;
use crate::conversation::{Outcome, Step};
use crate::event::{FailureCode, TurnFinish};
use crate::limits::turn::FOUND_BYTES_MAX;
use crate::orchestrator::draft::Action;
use crate::orchestrator::prompt;
use crate::tools::ToolResult;
use crate::tools::words::cut;

/// The closing answer, which can call no tools.
#[derive(Debug, Clone, Copy)]
pub(super) struct Synthesis {
    /// How the turn completes with it.
    finish: TurnFinish,
    /// Whether it came without words and is asked for once more.
    is_repeated: bool,
}

impl Synthesis {
    /// How the turn completes if tools are taken away now.
    pub(super) const fn ending(finish: TurnFinish) -> Self {
        Self { finish, is_repeated: false }
    }

    /// The message that asks for it.
    pub(super) const fn request(self) -> &'static str {
        if self.is_repeated { prompt::SYNTHESIS_AGAIN } else { prompt::SYNTHESIS }
    }
}

impl Turn {
    /// No further round may call tools; the next one answers in words.
    pub(super) fn end_tools(&mut self) {
        self.synthesis.get_or_insert(Synthesis::ending(TurnFinish::Stop));
    }

    /// The closing round is over.
    pub(super) fn end_synthesis(&mut self) {
        let Some(Synthesis { finish, is_repeated }) = self.synthesis else {
            unreachable!("only a round that was asked for a closing answer synthesizes")
        };
        debug_assert_eq!(self.state, State::Synthesizing);
        if self.draft.round.has_stray_marker {
            let message = "the model tried to call a tool in its closing answer; it was not run";
            self.draft.say_status(message.to_owned(), self.now_ms);
        }
        if self.draft.has_answer() {
            let is_cut = self.draft.round.ran_into_token_limit();
            self.complete(if is_cut { TurnFinish::Length } else { finish });
            return;
        }
        self.draft.act(Action::SaidNothing);
        if self.answer_with_results(finish) {
            return;
        }
        if is_repeated {
            let message = "the model gave no closing answer in words; try a larger model";
            self.fail(FailureCode::EmptyResponse, message.to_owned(), true);
        } else {
            let status = "the model gave no answer in words; asking it once more";
            self.draft.say_status(status.to_owned(), self.now_ms);
            self.push_step();
            self.synthesis = Some(Synthesis { finish, is_repeated: true });
            self.start_round();
        }
    }

    /// Completes the turn with an answer made of its results. Gives whether it had any.
    pub(super) fn answer_with_results(&mut self, finish: TurnFinish) -> bool {
        let Some(found) = self.found() else { return false };
        let status = "the model gave no answer in words; here is what its tools found";
        self.draft.say_status(status.to_owned(), self.now_ms);
        self.draft.say_answer(found, self.now_ms);
        self.complete(finish);
        true
    }

    /// What the turn's tools found, for a person.
    fn found(&self) -> Option<String> {
        let found: Vec<_> = self
            .results()
            .map(|(name, result)| format!("{name}:\n{}", results::plain_lines(result)))
            .collect();
        if found.is_empty() {
            return None;
        }
        let found = cut(&found.join("\n\n"), FOUND_BYTES_MAX);
        Some(format!("Here is what I found.\n\n{found}"))
    }

    /// Whether a tool of the turn has found or done something.
    pub(super) fn has_results(&self) -> bool {
        self.results().next().is_some()
    }

    /// The tools that have done what they were asked, and their results.
    fn results(&self) -> impl Iterator<Item = (&str, &ToolResult)> {
        let calls = self.record.steps.iter().flat_map(Step::calls);
        calls.filter_map(|call| match &call.outcome {
            Outcome::Ended(result) if result.success && result.clarification.is_none() => {
                Some((&*call.name, result))
            }
            _ => None,
        })
    }
}
