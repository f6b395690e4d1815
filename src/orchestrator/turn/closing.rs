//! The closing answer: the model's last round, without tools, and what the user gets if it
//! contains no words.
//!
//! If tools have found something, a turn does not fail for lack of words: the gateway answers with
//! what they found.

use super::core::Core;
use super::queue::LogDraft;
use super::round::{Flow, Message};
use super::script::{Shown, WordsEnd};
use crate::conversation::render::results;
use crate::conversation::{Outcome, Step, UtteranceKind};
use crate::event::{FailureCode, TurnFinish};
use crate::limits::turn::FOUND_BYTES_MAX;
use crate::orchestrator::{feedback, prompt};
use crate::parser::Segment;
use crate::text::{cut, quote};
use crate::tools::ToolResult;

/// What users see when the model has to answer again.
pub(super) const ASKING_FOR_FORM: &str = "the answer is not in the required form; asking again";

/// The closing round.
#[derive(Debug)]
pub(super) struct Closing {
    pub(super) message: Message,
    /// How the turn completes after it.
    pub(super) finish: TurnFinish,
    /// Whether this is the second request, after an answer without words.
    is_repeated: bool,
    /// Whether the model tried to call a tool.
    has_stray_call: bool,
    /// Why the rest of it is not shown, if it is not.
    words_end: Option<WordsEnd>,
}

/// How a turn ends.
#[derive(Debug)]
pub(super) enum Over {
    Completed(TurnFinish),
    Failed { code: FailureCode, message: String, retryable: bool },
}

impl Over {
    /// The model said nothing; a retry may help.
    pub(super) fn empty_response(message: &str) -> Self {
        let (code, message) = (FailureCode::EmptyResponse, message.to_owned());
        Self::Failed { code, message, retryable: true }
    }
}

impl Closing {
    /// Asks for the closing answer. The turn then completes with `finish`.
    pub(super) fn begin(finish: TurnFinish, core: &mut Core) -> Self {
        let closing = match core.setup.request.response_format {
            Some(_) => prompt::SYNTHESIS_IN_FORM,
            None => prompt::SYNTHESIS,
        };
        Self::of(core.ask_to_close(closing.into()), finish, false)
    }

    /// Asks again.
    fn again(&self, core: &mut Core) -> Self {
        let closing = match core.setup.request.response_format {
            Some(_) => prompt::SYNTHESIS_IN_FORM,
            None => prompt::SYNTHESIS_AGAIN,
        };
        Self::of(core.ask_to_close(closing.into()), self.finish, true)
    }

    /// Asks again for an answer that has the required form.
    fn again_in_form(&mut self, core: &mut Core, wrong: &str) -> Self {
        core.say_status(&mut self.message, ASKING_FOR_FORM);
        core.push_step(&mut self.message, core.calls.end());
        let closing = feedback::wrong_form(wrong);
        Self::of(core.ask_to_close(closing.into()), self.finish, true)
    }

    const fn of(message: Message, finish: TurnFinish, is_repeated: bool) -> Self {
        Self { message, finish, is_repeated, has_stray_call: false, words_end: None }
    }

    /// Takes a segment of the message and shows its words. Calls are not read.
    pub(super) fn take(&mut self, segment: &Segment<'_>, core: &mut Core) -> Flow {
        if !matches!(segment, Segment::Text(_)) {
            self.release_words(core);
        }
        match segment {
            _ if self.words_end.is_some() => {}
            Segment::Text(text) => {
                let shown = core.script.push_words(text);
                self.note_words(shown);
            }
            Segment::Reasoning(text) => core.script.push_reasoning(text),
            Segment::CallStarted { .. } => self.has_stray_call = true,
            _ => {}
        }
        if self.words_end.is_some() { Flow::Break(()) } else { Flow::Continue(()) }
    }

    /// Shows the words that were held back.
    pub(super) fn release_words(&mut self, core: &mut Core) {
        let shown = core.script.release_words();
        self.note_words(shown);
    }

    fn note_words(&mut self, Shown { range, end }: Shown) {
        self.words_end = self.words_end.or(end);
        self.message.push_text(range);
    }

    /// Whether its words are an answer. A lead-in to a result block or a call, which are not shown, is not.
    /// If the client has ended it, it is as long as the client wants it.
    fn has_answer(&self, text: &str) -> bool {
        let is_lead_in = text.trim_ascii_end().ends_with(':');
        match self.words_end {
            Some(WordsEnd::StopText) => true,
            Some(WordsEnd::Results) if is_lead_in => false,
            None if self.has_stray_call && is_lead_in => false,
            _ => self.message.has_words(text),
        }
    }

    /// Ends the message. Either the turn ends too, or the model is asked once again.
    pub(super) fn end(&mut self, core: &mut Core) -> Result<Over, Self> {
        if self.has_stray_call {
            let status =
                "the model tried to call a tool in its closing answer; the call was not run";
            core.say_status(&mut self.message, status);
        }
        if self.has_answer(&core.script.text) {
            let cut_by = self.message.cut_by();
            if let Err(wrong) = core.show_in_form(&self.message) {
                if cut_by.is_none() && !self.is_repeated && self.words_end.is_none() {
                    return Err(self.again_in_form(core, &wrong));
                }
                core.show_as_it_is(&self.message);
            }
            return Ok(Over::Completed(cut_by.unwrap_or(self.finish)));
        }
        // A model that was told not to call may have more to say.
        let may_say_more = self.has_stray_call && !self.is_repeated && !core.has_results();
        if let Some(cut) = self.message.cut_by()
            && !may_say_more
        {
            return Ok(core.end_without_answer(&mut self.message, cut));
        }
        core.script.log(LogDraft::EmptyAnswer);
        if core.answer_with_results(&mut self.message) {
            return Ok(Over::Completed(self.finish));
        }
        if self.is_repeated {
            return Ok(Over::empty_response(&core.why_no_answer()));
        }
        let status = "the model wrote no answer; asking again";
        core.say_status(&mut self.message, status);
        core.push_step(&mut self.message, core.calls.end());
        Err(self.again(core))
    }
}

impl Core {
    /// Shows an answer that was withheld, if it has the required form.
    pub(super) fn show_in_form(&mut self, message: &Message) -> Result<(), String> {
        let format = self.setup.request.response_format.as_ref();
        let Some(format) = format.filter(|_| self.script.withholds()) else { return Ok(()) };
        let words = message.words(&self.script.text);
        let found = format.find_in(&self.script.text[words.clone()])?;
        self.script.show(words.start + found.start..words.start + found.end);
        Ok(())
    }

    /// Shows an answer that was withheld, whatever its form.
    pub(super) fn show_as_it_is(&mut self, message: &Message) {
        self.script.show(message.words(&self.script.text));
    }

    /// Ends a turn whose model was cut off before it wrote an answer.
    pub(super) fn end_without_answer(&mut self, message: &mut Message, cut: TurnFinish) -> Over {
        if !self.answer_with_results(message) {
            let status = match cut {
                TurnFinish::ContentFilter => {
                    "a filter of the model server let nothing of the answer through"
                }
                _ => {
                    "the model used up its tokens before it wrote an answer; raise the token \
                     limit (max_tokens), or shorten the conversation"
                }
            };
            self.say_status(message, status);
        }
        Over::Completed(cut)
    }

    /// Answers with the turn's results. Returns whether there were any.
    pub(super) fn answer_with_results(&mut self, message: &mut Message) -> bool {
        let Some(found) = self.found() else { return false };
        let status = "the model wrote no answer; here is what its tools found";
        self.say_status(message, status);
        self.script.push_answer(&found);
        // It consists of tool results, so it does not go into the history as the model's words.
        message.push_said(UtteranceKind::Response, found, self.now_ms);
        true
    }

    /// What the turn's tools found, in readable form.
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

    /// What users read of a model that wrote no answer, although it was asked again. Its last call tells them what
    /// it was after.
    fn why_no_answer(&self) -> String {
        let last = self.record.steps.iter().flat_map(Step::calls).last();
        match last.filter(|call| !call.result().success) {
            None => "the model wrote no closing answer; try a larger model".to_owned(),
            Some(call) => format!(
                "the model wrote no answer, and its last call, of {}, did not succeed; try a larger model",
                quote(&call.name)
            ),
        }
    }

    /// Whether a tool of the turn has found or done something.
    pub(super) fn has_results(&self) -> bool {
        self.results().next().is_some()
    }

    /// The successful tools and their results. What a search for tools has found is for the model.
    fn results(&self) -> impl Iterator<Item = (&str, &ToolResult)> {
        let calls = self.record.steps.iter().flat_map(Step::calls);
        let calls = calls.filter(|call| !self.setup.is_finder(&call.name));
        calls.filter_map(|call| match &call.outcome {
            Outcome::Ended(result) if result.success && result.clarification.is_none() => {
                Some((&*call.name, result))
            }
            _ => None,
        })
    }
}
