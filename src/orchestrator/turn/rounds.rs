//! Rounds: asking the model, and reading what it writes.

use std::sync::Arc;

use super::{State, Turn};
use crate::conversation::render::Context;
use crate::event::FailureCode;
use crate::limits;
use crate::limits::turn::EVENTS_FACTOR;
use crate::orchestrator::CallContract;
use crate::orchestrator::draft::{Action, Surplus};
use crate::parser::{self, Segment};
use crate::upstream::{Delta, PassedOver, ReasoningItem, RoundRequest, Sampling, ToolChoice};

impl Turn {
    pub(super) fn start_round(&mut self) {
        let (closing, tools) = match self.synthesis {
            None => (None, Arc::clone(&self.request.briefing.offered)),
            Some(closing) => (Some(closing.request()), Arc::default()),
        };
        let system = match self.synthesis {
            None => &self.request.briefing.system,
            Some(_) => &self.rules.system_prompt,
        };
        let offer_tokens = if tools.is_empty() { 0 } else { self.request.briefing.offer_tokens };
        let context = Context {
            system: system.clone(),
            examples: Arc::clone(&self.request.briefing.examples),
            history: self.request.history.clone(),
            current: self.record.clone(),
            closing,
            marker: self.marker().to_owned(),
            budget: self.rules.context_budget_tokens.saturating_sub(offer_tokens),
        };
        let marker = Arc::clone(&self.request.briefing.marker);
        let sampling = self.sampling();
        let tool_choice = if tools.is_empty() { ToolChoice::Auto } else { self.tool_choice() };
        let prompt = Arc::new(context);
        let request = RoundRequest { prompt, sampling, tools, tool_choice, marker };
        self.draft.begin_round(self.now_ms);
        self.state = if self.synthesis.is_some() { State::Synthesizing } else { State::Planning };
        self.between_rounds = true;
        self.draft.act(Action::StartRound(Box::new(request)));
    }

    /// Whether the next round has to call a tool. Once the model has, it does as it sees fit:
    /// nothing would ever be answered otherwise.
    fn tool_choice(&self) -> ToolChoice {
        if self.has_called_as_asked() { ToolChoice::Auto } else { self.request.tool_choice.clone() }
    }

    /// Whether the model has called what it had to. A call that was refused does not count.
    pub(super) fn has_called_as_asked(&self) -> bool {
        let allows = |(name, _): (&str, _)| self.request.tool_choice.allows(name);
        let calls = &self.draft.calls;
        calls.iter().any(|call| {
            // Lookups that had waited for the user's answer are of an earlier turn.
            call.round > 0 && call.is_taken() && call.whole().is_some_and(allows)
        })
    }

    /// What opens a call of the model.
    pub(super) fn marker(&self) -> &str {
        super::marker(&self.rules, &self.request.briefing)
    }

    /// Each mistake makes the model a little warmer, so that it does not repeat
    /// itself.
    fn sampling(&self) -> Sampling {
        let mut sampling = self.request.sampling.clone();
        let mistakes = self.mistakes.rounds();
        if mistakes > 0 {
            let base = sampling.temperature.unwrap_or(limits::turn::USUAL_TEMPERATURE);
            let warmer = self.rules.temperature_step.mul_add(f64::from(mistakes), base);
            // In hundredths, as people write them.
            let warmer = (warmer * 100.0).round() / 100.0;
            sampling.temperature = Some(warmer.min(limits::turn::WARMED_TEMPERATURE_MAX).max(base));
        }
        sampling
    }

    pub(super) fn take_delta(&mut self, delta: Delta<'_>) {
        match delta {
            Delta::Text(text) => {
                self.parse(text);
                self.count(text.len());
            }
            Delta::Reasoning(text) => {
                self.draft.push_reasoning(text);
                self.count(text.len());
            }
            Delta::ReasoningItem(json) => {
                let (upstream, json) = (self.answering.clone(), json.to_owned());
                let bytes = json.len();
                self.draft.keep_reasoning(ReasoningItem { upstream, json });
                self.count(bytes);
            }
            Delta::CallStarted { index } => {
                self.take_call(Segment::CallStarted { index, offset: 0 }, 0);
            }
            Delta::CallArguments { index, json } => {
                self.take_call(Segment::ArgumentsDelta { index, json }, json.len());
            }
            Delta::CallCompleted { index, name, arguments } => {
                let call = parser::read_call(index, name, arguments, &self.rules.parser);
                self.take_call(call.map_or_else(Segment::Error, Segment::CallCompleted), 0);
            }
            Delta::Finish(finish) => self.draft.round.finish = Some(finish),
            Delta::Usage(usage) => self.draft.round.usage = usage.with_total(),
        }
    }

    /// Another upstream answers than the one that was asked.
    pub(super) fn reroute(&mut self, answering: String, why: PassedOver) {
        let why = why.told();
        let status = format!("{} {why}; {answering} answers instead", self.answering);
        self.draft.say_status(status, self.now_ms);
        self.answering = answering;
    }

    /// Takes what the server tells of a call: the same as what the parser finds, from
    /// here on. Servers that were told of no tools have none to tell of.
    fn take_call(&mut self, segment: Segment<'_>, bytes: usize) {
        if self.rules.call_contract != CallContract::Native {
            return;
        }
        let is_unwanted =
            matches!(segment, Segment::ArgumentsDelta { .. }) && !self.rules.parser.argument_deltas;
        if !is_unwanted {
            self.take_segment(segment);
        }
        self.count(bytes);
    }

    /// Reads the model's words. What they decide is decided at the byte that decides it:
    /// nothing behind a stop is read, though it came in the same delta.
    fn parse(&mut self, text: &str) {
        let Some(mut parser) = self.parser.take() else { return };
        let (round, state) = (self.draft.round.number, self.state);
        let mut is_running = true;
        parser.push_str(text, |segment| {
            if is_running {
                self.take_segment(segment);
                is_running = self.draft.round.number == round && self.state == state;
            }
        });
        if !is_running {
            parser.abandon();
        }
        self.parser = Some(parser);
    }

    /// Takes a piece of the model's message. Starts the calls that have become whole with
    /// it, and stops a round that can bring nothing more: one that has used up its calls
    /// or its mistakes, that repeats a call, or that invents results.
    fn take_segment(&mut self, segment: Segment<'_>) {
        let takes_calls = self.state == State::Planning;
        self.draft.take(segment, takes_calls);
        if takes_calls && self.check_new_calls() {
            self.move_calls();
        }
        if self.draft.has_words_after_call() {
            self.acknowledge_if_held();
        }
        let has_lost_tools = takes_calls && self.synthesis.is_some();
        if has_lost_tools || self.draft.round.surplus.is_some() {
            self.stop_round();
        }
    }

    /// Counts what the model has written; over the limit, the turn fails.
    fn count(&mut self, bytes: usize) {
        self.bytes += bytes;
        let max = self.rules.max_turn_bytes;
        if self.bytes > max && !self.is_over() {
            self.fail_too_large(format!(
                "the model wrote more than limits.max_turn_bytes ({max}) in one turn; lower \
                 sampling.max_tokens or raise the limit"
            ));
        }
    }

    /// Fails the turn whose events take too much, tools' results included.
    pub(super) fn check_logged(&mut self, bytes: usize) {
        let max = self.rules.max_turn_bytes.saturating_mul(EVENTS_FACTOR);
        if bytes > max {
            self.fail_too_large(format!(
                "the events of this turn take more than {max} bytes, {EVENTS_FACTOR} times \
                 limits.max_turn_bytes; ask for less at a time or raise the limit"
            ));
        }
    }

    fn fail_too_large(&mut self, message: String) {
        self.finish_parsing();
        self.fail(FailureCode::TurnTooLarge, message, false);
    }

    /// Stops the model: what it would still say is not wanted, nor is the half of a
    /// call or of a marker that it has just begun.
    pub(super) fn stop_round(&mut self) {
        self.draft.act(Action::StopRound);
        if let Some(parser) = &mut self.parser {
            parser.abandon();
        }
        if self.draft.round.surplus == Some(Surplus::Excess) {
            // Native calls may all be unfinished; the model has to hear of them.
            self.draft.fail_unfinished();
        }
        self.draft.discard_unchecked();
        self.draft.round.was_stopped = true;
        self.close_round();
    }

    /// Hands out what the parser still holds.
    pub(super) fn finish_parsing(&mut self) {
        if matches!(self.state, State::Planning | State::Synthesizing) {
            let (draft, takes_calls) = (&mut self.draft, self.state == State::Planning);
            if let Some(parser) = &mut self.parser {
                parser.finish(|segment| draft.take(segment, takes_calls));
            }
            draft.release_words();
            draft.fail_unfinished();
        }
    }

    pub(super) fn end_round(&mut self) {
        self.finish_parsing();
        self.close_round();
    }

    fn close_round(&mut self) {
        self.usage += std::mem::take(&mut self.draft.round.usage);
        if self.state == State::Synthesizing {
            self.end_synthesis();
            return;
        }
        self.run_calls();
    }

    /// The message is over: what it called is run, and looked at when it has ended.
    pub(super) fn run_calls(&mut self) {
        self.state = State::Executing;
        self.check_new_calls();
        self.move_calls();
        self.acknowledge_if_held();
        self.end_step_if_done();
    }
}
