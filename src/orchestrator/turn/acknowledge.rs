//! The acknowledgement: before tools run, the user hears that work has begun.
//!
//! The model's own words do for it. Where it said none, a sentence is made of the
//! hints of all the calls in its message, and so it waits for the message's end, for
//! more words of the model or for the first result, whichever is first. The tools do
//! not wait for it, only their `tool_started` does.

use super::Turn;
use crate::conversation::{Utterance, UtteranceKind};
use crate::event::AcknowledgementSource;
use crate::orchestrator::acknowledgement;
use crate::orchestrator::draft::{Acknowledged, Entry};

impl Turn {
    /// Says that a tool runs, once the user has heard that work has begun.
    pub(super) fn say_started(&mut self, at: usize) {
        // Words behind a call that runs already come too late.
        if self.acknowledged.is_none() && self.unsaid.is_empty() {
            let text = self.draft.words_before(at);
            if !text.is_empty() {
                self.acknowledge(Acknowledged { text, source: AcknowledgementSource::Model });
            }
        }
        if self.acknowledged.is_some() {
            self.draft.queue.push_back(Entry::ToolStarted { call: at });
        } else {
            self.unsaid.push(at);
        }
    }

    /// Says what was held back for the acknowledgement.
    pub(super) fn acknowledge_if_held(&mut self) {
        if self.unsaid.is_empty() {
            return;
        }
        let hints: Vec<String> = self.hints();
        if let Some(text) = acknowledgement::sentence(hints.iter().map(String::as_str)) {
            self.acknowledge(Acknowledged { text, source: AcknowledgementSource::Hints });
        }
        for call in std::mem::take(&mut self.unsaid) {
            self.draft.queue.push_back(Entry::ToolStarted { call });
        }
    }

    /// The hints of the message's calls that run, or will.
    fn hints(&self) -> Vec<String> {
        let tools = &self.request.briefing.tools;
        let calls = self.draft.round_calls().filter(|at| self.draft.calls[*at].is_taken());
        calls
            .filter_map(|at| tools.get(self.draft.name_of(at)))
            .map(|tool| tool.spec().waiting_hint.clone())
            .collect()
    }

    fn acknowledge(&mut self, acknowledged: Acknowledged) {
        let Acknowledged { text, source } = acknowledged.clone();
        let calls = self.draft.round_calls().filter(|at| self.draft.calls[*at].is_taken());
        let mut tools: Vec<String> = calls.map(|at| self.draft.name_of(at).to_owned()).collect();
        tools.dedup();
        let kind = UtteranceKind::Acknowledgement(source);
        self.draft.say_before_calls(Utterance { kind, text, tools, at_ms: self.now_ms });
        self.draft.queue.push_back(Entry::Acknowledgement);
        self.acknowledged = Some(acknowledged);
    }
}
