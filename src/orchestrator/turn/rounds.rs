//! Rounds: asking the model, and reading what it writes.

use std::sync::Arc;

use super::{State, Turn};
use crate::conversation::render::{self, Form, RESULTS_HEADING, Rendering};
use crate::event::{FailureCode, TurnFinish};
use crate::orchestrator::draft::Entry;
use crate::orchestrator::prompt;
use crate::upstream::{Delta, RoundRequest, Sampling};

impl Turn {
    pub(super) fn start_round(&mut self) {
        let (form, closing, tools) = match self.synthesis {
            None => (self.request.form, None, Arc::clone(&self.request.briefing.offered)),
            Some(_) => (Form::Words, Some(prompt::SYNTHESIS), Arc::default()),
        };
        let rendering = Rendering {
            form,
            marker: &self.rules.parser.marker,
            budget: self.rules.context_budget_tokens,
        };
        let system = match self.synthesis {
            None => &self.request.briefing.system,
            Some(_) => &self.rules.system_prompt,
        };
        let messages =
            render::messages(system, &self.request.history, &self.record, closing, rendering);
        let request = RoundRequest { messages, sampling: self.sampling(), tools };
        self.draft.begin_round();
        self.finish = None;
        self.state = if self.synthesis.is_some() { State::Synthesizing } else { State::Planning };
        self.between_rounds = true;
        self.draft.queue.push_back(Entry::StartRound(Box::new(request)));
    }

    /// Each mistake makes the model a little warmer, so that it does not repeat
    /// itself.
    pub(super) fn sampling(&self) -> Sampling {
        /// Where a model's temperature is not known: what servers default to.
        const USUAL_TEMPERATURE: f64 = 0.7;
        /// Beyond this, small models write noise.
        const TEMPERATURE_MAX: f64 = 1.5;

        let mut sampling = self.request.sampling.clone();
        let mistakes = self.mistakes.total();
        if mistakes > 0 {
            let base = sampling.temperature.unwrap_or(USUAL_TEMPERATURE);
            let warmer = self.rules.temperature_step.mul_add(f64::from(mistakes), base);
            sampling.temperature = Some(warmer.min(TEMPERATURE_MAX).max(base));
        }
        sampling
    }

    pub(super) fn take_delta(&mut self, delta: Delta<'_>) {
        match delta {
            Delta::Text(text) => {
                let (draft, takes_calls) = (&mut self.draft, self.synthesis.is_none());
                self.parser.push_str(text, |segment| draft.take(segment, takes_calls));
                self.bytes += text.len();
                if takes_calls && !draft.round_calls().is_empty() {
                    self.after_calls();
                }
            }
            Delta::Reasoning(text) => {
                self.draft.push_reasoning(text);
                self.bytes += text.len();
            }
            Delta::Finish(finish) => self.finish = Some(finish),
            Delta::Usage(usage) => self.round_usage = usage,
        }
        if self.bytes > self.rules.max_turn_bytes {
            let message = format!(
                "the model wrote more than limits.max_turn_bytes ({}) in one turn; lower \
                 sampling.max_tokens or raise the limit",
                self.rules.max_turn_bytes
            );
            self.finish_parsing();
            self.fail(FailureCode::TurnTooLarge, message, false);
        }
    }

    /// Looks at what the round has written since calls appeared in it.
    pub(super) fn after_calls(&mut self) {
        self.check_new_calls();
        self.start_waiting_calls(false);
        let invents_results = self
            .draft
            .text_behind_call()
            .is_some_and(|text| text.trim_start().starts_with(RESULTS_HEADING));
        if invents_results {
            self.draft.queue.push_back(Entry::StopRound);
            self.end_round();
        }
    }

    /// Hands out what the parser still holds.
    pub(super) fn finish_parsing(&mut self) {
        if matches!(self.state, State::Planning | State::Synthesizing) {
            let (draft, takes_calls) = (&mut self.draft, self.synthesis.is_none());
            self.parser.finish(|segment| draft.take(segment, takes_calls));
        }
    }

    pub(super) fn end_round(&mut self) {
        self.finish_parsing();
        self.usage += std::mem::take(&mut self.round_usage);
        if self.state == State::Synthesizing {
            self.end_synthesis();
            return;
        }
        self.state = State::Executing;
        self.check_new_calls();
        self.start_waiting_calls(true);
        self.end_step_if_done();
    }

    pub(super) fn end_synthesis(&mut self) {
        if self.draft.stray_marker {
            let message = "the model tried to call a tool in its closing answer; it was not run";
            self.draft.queue.push_back(Entry::Status(message.to_owned()));
        }
        if self.draft.has_words() {
            self.complete(self.synthesis.unwrap_or(TurnFinish::Stop));
        } else {
            self.fail_empty();
        }
    }
}
