//! The acknowledgement: before tools run, the user hears that work has begun.
//!
//! The model's own words do for it. Where it said none, one sentence is made of the
//! hints of all the calls in its message, and so it waits for the message's end, for
//! more words of the model, or for [`ACKNOWLEDGEMENT_WAIT`], whichever is first. The
//! tools do not wait for it, only what is said of them does.

use super::Turn;
use crate::conversation::{Utterance, UtteranceKind};
use crate::event::AcknowledgementSource;
use crate::limits::turn::ACKNOWLEDGEMENT_WAIT;
use crate::orchestrator::draft::{Acknowledged, Action, EventDraft};
use crate::orchestrator::hints;

impl Turn {
    /// Says that a tool runs, once the user has heard that work has begun.
    pub(super) fn say_started(&mut self, at: usize) {
        // Words behind a call that runs already come too late.
        if self.acknowledged.is_none() && self.held.is_empty() {
            let text = self.draft.words_before(at).to_owned();
            if !text.is_empty() {
                self.acknowledge(Acknowledged { text, source: AcknowledgementSource::Model });
            }
        }
        if self.acknowledged.is_some() {
            self.draft.say(EventDraft::ToolStarted { call: at });
        } else {
            if self.held.is_empty() {
                self.draft.act(Action::StartTimer(ACKNOWLEDGEMENT_WAIT));
            }
            self.held.push(EventDraft::ToolStarted { call: at });
        }
    }

    /// Says something of a tool, behind what is held back.
    pub(super) fn say_of_tool(&mut self, event: EventDraft) {
        if self.held.is_empty() {
            self.draft.say(event);
        } else {
            self.held.push(event);
        }
    }

    /// Says what becomes of a call, behind what is held back.
    pub(super) fn say_of_call(&mut self, status: String) {
        self.draft.keep_status(status.clone(), self.now_ms);
        self.say_of_tool(EventDraft::Status(status));
    }

    /// Says what was held back for the acknowledgement.
    pub(super) fn acknowledge_if_held(&mut self) {
        if self.held.is_empty() {
            return;
        }
        // It comes first, also where more words have come before it was polled.
        let words = self.draft.take_back_words();
        let hints: Vec<String> = self.hints();
        if let Some(text) = hints::sentence(hints.iter().map(String::as_str)) {
            self.acknowledge(Acknowledged { text, source: AcknowledgementSource::Hints });
        }
        for event in std::mem::take(&mut self.held) {
            self.draft.say(event);
        }
        self.draft.queue.extend(words);
    }

    /// The waiting hints of the message's calls.
    fn hints(&self) -> Vec<String> {
        let tools = &self.request.briefing.tools;
        self.taken_calls()
            .filter_map(|at| tools.get(self.draft.name_of(at)))
            .map(|tool| tool.spec().waiting_hint.clone())
            .collect()
    }

    /// The message's calls that run, could, or did while the acknowledgement waited. What
    /// waits for others may never run, and is not promised.
    fn taken_calls(&self) -> impl Iterator<Item = usize> {
        let ran = |at: usize| {
            let is_its = |event: &EventDraft| matches!(event, EventDraft::ToolStarted { call } if *call == at);
            self.held.iter().any(is_its)
        };
        let chain = self.chain();
        self.draft.round_calls().filter(move |at| {
            let call = &self.draft.calls[*at];
            call.is_running() || ran(*at) || (call.is_waiting() && chain.is_ready(*at))
        })
    }

    fn acknowledge(&mut self, acknowledged: Acknowledged) {
        let Acknowledged { text, source } = acknowledged.clone();
        let names = self.taken_calls().map(|at| self.draft.name_of(at).to_owned());
        let mut tools: Vec<String> = names.collect();
        tools.dedup();
        let kind = UtteranceKind::Acknowledgement(source);
        self.draft.say_before_calls(Utterance { kind, text, tools, at_ms: self.now_ms });
        self.draft.say(EventDraft::Acknowledgement);
        self.acknowledged = Some(acknowledged);
    }
}
