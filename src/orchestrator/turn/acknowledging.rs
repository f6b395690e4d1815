//! Events about tools, in order: the acknowledgement comes first.

use super::acknowledgement::{Acknowledgement, Heard};
use super::queue::EventDraft;
use super::state::OpenRound;
use crate::conversation::{Utterance, UtteranceKind};
use crate::event::AcknowledgementSource;
use crate::limits::turn::ACKNOWLEDGEMENT_WAIT;
use crate::orchestrator::call::CallAt;
use crate::orchestrator::hints;

impl OpenRound<'_> {
    /// Reports that a tool has started, after the acknowledgement.
    pub(super) fn say_started(&mut self, at: CallAt) {
        if let Acknowledgement::Unsaid = self.core.acknowledgement {
            // Words that follow a call come too late: it is already running.
            let text = self.round.message.words_before(at, &self.core.script.text).to_owned();
            if text.is_empty() || self.core.script.withholds() {
                let until_ms = self.core.in_ms(ACKNOWLEDGEMENT_WAIT);
                self.core.acknowledgement =
                    Acknowledgement::Waiting { events: Vec::new(), until_ms };
            } else {
                let heard = Heard { text, source: AcknowledgementSource::Model };
                self.acknowledge(heard, self.taken_tools());
            }
        }
        self.say_of_tool(EventDraft::ToolStarted { call: at });
    }

    /// Sends an event about a tool, after any that are waiting.
    pub(super) fn say_of_tool(&mut self, event: EventDraft) {
        if let Some(event) = self.core.acknowledgement.defer(event) {
            self.core.script.say(event);
        }
    }

    /// Sends a status about a call, after any events that are waiting.
    pub(super) fn say_of_call(&mut self, status: String) {
        let now_ms = self.core.now_ms;
        self.round.message.push_said(UtteranceKind::Status, status.clone(), now_ms);
        self.say_of_tool(EventDraft::Status(status));
    }

    /// Sends the acknowledgement and then the events waiting for it.
    pub(super) fn acknowledge_now(&mut self) {
        if self.core.acknowledgement.waiting().is_empty() {
            return;
        }
        // It comes first, even if more words arrived before it was polled.
        let words = self.core.script.take_back_words();
        let hints = self.hints();
        let sentence = hints::sentence(hints.iter().map(String::as_str));
        let tools = self.taken_tools();
        let waiting = self.core.acknowledgement.release();
        if let Some(text) = sentence {
            self.acknowledge(Heard { text, source: AcknowledgementSource::Hints }, tools);
        }
        for event in waiting {
            self.core.script.say(event);
        }
        self.core.script.put_back(words);
    }

    /// The waiting hints of the message's calls.
    fn hints(&self) -> Vec<String> {
        let spec = |at| self.core.setup.spec(self.core.calls[at].name());
        self.taken_calls().filter_map(spec).map(|spec| spec.waiting_hint.clone()).collect()
    }

    /// The message's calls that run, may run now, or ran while the acknowledgement waited. Calls
    /// that wait for others may never run, so they are not promised.
    fn taken_calls(&self) -> impl Iterator<Item = CallAt> {
        let waiting = self.core.acknowledgement.waiting();
        let ran = |at: CallAt| {
            let is_its = |event: &EventDraft| matches!(event, EventDraft::ToolStarted { call } if *call == at);
            waiting.iter().any(is_its)
        };
        let chain = self.chain();
        let calls = &self.core.calls;
        calls.places(self.round.first_call).filter(move |at| {
            let call = &calls[*at];
            call.is_running() || ran(*at) || (call.waiting().is_some() && chain.is_ready(*at))
        })
    }

    fn taken_tools(&self) -> Vec<String> {
        let names = self.taken_calls().map(|at| self.core.calls[at].name().to_owned());
        let mut tools: Vec<String> = names.collect();
        tools.dedup();
        tools
    }

    fn acknowledge(&mut self, heard: Heard, tools: Vec<String>) {
        let Heard { text, source } = heard.clone();
        let (kind, at_ms) = (UtteranceKind::Acknowledgement(source), self.core.now_ms);
        self.round.message.say_before_calls(Utterance { kind, text, tools, at_ms });
        self.core.script.say(EventDraft::Acknowledgement);
        self.core.acknowledgement = Acknowledgement::Said(heard);
    }
}
