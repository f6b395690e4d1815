//! What stands in the queue as it comes out.

use super::{Output, Turn};
use crate::conversation::Outcome;
use crate::event::Event;
use crate::orchestrator::draft::{Action, CallState, Draft, EventDraft};

impl Turn {
    pub(super) fn event(&mut self, event: EventDraft) -> Event<'_> {
        // A message that the event borrows has to live somewhere.
        if let EventDraft::Feedback { message, .. }
        | EventDraft::Status(message)
        | EventDraft::Failed { message, .. } = &event
        {
            self.draft.said.clone_from(message);
        }
        let draft = &self.draft;
        let id_of = |call: usize| draft.calls[call].call_id.as_str();
        match event {
            EventDraft::TurnStarted => Event::TurnStarted {
                session_id: &self.request.session_id,
                turn_id: &self.request.turn_id,
                model: &self.request.model,
                max_tool_loops: self.max_tool_loops,
            },
            EventDraft::Acknowledgement => {
                let heard = self.acknowledged.as_ref().expect("it was said when this was queued");
                Event::Acknowledgement { text: &heard.text, source: heard.source }
            }
            EventDraft::Clarification => {
                let asked = self.record.questions.first().expect("the turn ends with a question");
                Event::ClarificationNeeded {
                    clarification_id: &asked.clarification_id,
                    call_id: &asked.call_id,
                    tool_name: &asked.tool_name,
                    clarification: &asked.clarification,
                }
            }
            EventDraft::Text(range) => Event::TextDelta { text: &draft.text[range] },
            EventDraft::Reasoning(range) => Event::ReasoningDelta { text: &draft.reasoning[range] },
            EventDraft::MarkerDetected { call } => {
                Event::ToolMarkerDetected { call_id: id_of(call), r#loop: draft.calls[call].round }
            }
            EventDraft::ArgumentsDelta { call, delta } => {
                Event::ToolArgumentsDelta { call_id: id_of(call), delta: &draft.arguments[delta] }
            }
            EventDraft::ToolStarted { call } => draft.tool_started(call),
            EventDraft::ToolCompleted { call, duration_ms, attempts } => {
                draft.tool_completed(call, duration_ms, attempts)
            }
            EventDraft::Feedback { call, reason, attempt, .. } => {
                Event::Feedback { call_id: call.map(id_of), reason, message: &draft.said, attempt }
            }
            EventDraft::Status(_) => Event::Status { message: &draft.said },
            EventDraft::LoopLimitReached => {
                Event::LoopLimitReached { max_tool_loops: self.max_tool_loops }
            }
            EventDraft::Completed(finish_reason) => {
                Event::TurnCompleted { finish_reason, summary: self.summary() }
            }
            EventDraft::Failed { code, retryable, .. } => {
                Event::TurnFailed { code, message: &draft.said, retryable, summary: self.summary() }
            }
        }
    }

    pub(super) fn action(&mut self, action: Action) -> Output<'_> {
        let draft = &self.draft;
        match action {
            Action::StartRound(request) => {
                self.between_rounds = false;
                Output::StartRound(request)
            }
            Action::StopRound => Output::StopRound,
            Action::StartTool { call, arguments } => {
                let (call_id, name, position) = draft.place_of(call);
                let tool = self.request.briefing.tools.get(name).expect("the call was checked");
                Output::StartTool { call, call_id, tool, name, position, arguments }
            }
            Action::StopTools => Output::StopTools,
            Action::SaidNothing => Output::SaidNothing,
            Action::NotRun { call, why } => {
                let (call_id, name, position) = draft.place_of(call);
                Output::NotRun { call_id, name, position, why }
            }
            Action::StartTimer(duration) => Output::StartTimer(duration),
        }
    }
}

impl Draft {
    /// A call's id, its tool, and its place in its message, from 1.
    fn place_of(&self, at: usize) -> (&str, &str, usize) {
        let (call, before) = (&self.calls[at], self.calls[..at].iter().rev());
        let position = 1 + before.take_while(|before| before.round == call.round).count();
        (&call.call_id, self.name_of(at), position)
    }

    fn tool_started(&self, at: usize) -> Event<'_> {
        let draft = &self.calls[at];
        let (tool_name, arguments) = draft.whole().expect("a call that was started is whole");
        Event::ToolStarted {
            call_id: &draft.call_id,
            tool_name,
            tool_args: arguments.as_raw(),
            r#loop: draft.round,
        }
    }

    fn tool_completed(&self, at: usize, duration_ms: u64, attempts: u32) -> Event<'_> {
        let draft = &self.calls[at];
        let CallState::Ended(call) = &draft.state else {
            unreachable!("only an ended call is queued as completed");
        };
        let Outcome::Ended(tool_result) = &call.outcome else {
            unreachable!("a tool that ran left a result");
        };
        Event::ToolCompleted {
            call_id: &draft.call_id,
            tool_name: &call.name,
            tool_result,
            duration_ms,
            attempts,
        }
    }
}
