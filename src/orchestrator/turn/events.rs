//! Entries of the queue as events.

use super::{Output, Turn};
use crate::conversation::Outcome;
use crate::event::Event;
use crate::orchestrator::draft::{CallState, Draft, Entry};

impl Turn {
    pub(super) fn poll_event(&mut self, entry: Entry) -> Output<'_> {
        // A message that the event borrows has to live somewhere.
        if let Entry::Feedback { message, .. }
        | Entry::Status(message)
        | Entry::Failed { message, .. } = &entry
        {
            self.draft.said.clone_from(message);
        }
        let draft = &self.draft;
        let id_of = |call: usize| draft.calls[call].call_id.as_str();
        Output::Event(match entry {
            Entry::TurnStarted => Event::TurnStarted {
                session_id: &self.request.session_id,
                turn_id: &self.request.turn_id,
                model: &self.request.model,
                max_tool_loops: self.max_tool_loops,
            },
            Entry::Acknowledgement => {
                let heard = self.acknowledged.as_ref().expect("it was said when this was queued");
                Event::Acknowledgement { text: &heard.text, source: heard.source }
            }
            Entry::Clarification => {
                let asked = self.record.questions.first().expect("the turn ends with a question");
                Event::ClarificationNeeded {
                    clarification_id: &asked.clarification_id,
                    call_id: &asked.call_id,
                    tool_name: &asked.tool_name,
                    clarification: &asked.clarification,
                }
            }
            Entry::Text(range) => Event::TextDelta { text: &draft.text[range] },
            Entry::Reasoning(range) => Event::ReasoningDelta { text: &draft.reasoning[range] },
            Entry::MarkerDetected { call } => {
                Event::ToolMarkerDetected { call_id: id_of(call), r#loop: draft.calls[call].round }
            }
            Entry::ArgumentsDelta { call, delta } => {
                Event::ToolArgumentsDelta { call_id: id_of(call), delta: draft.arguments(delta) }
            }
            Entry::ToolStarted { call } => draft.tool_started(call),
            Entry::ToolCompleted { call, duration_ms, attempts } => {
                draft.tool_completed(call, duration_ms, attempts)
            }
            Entry::Feedback { call, reason, attempt, .. } => {
                Event::Feedback { call_id: call.map(id_of), reason, message: &draft.said, attempt }
            }
            Entry::Status(_) => Event::Status { message: &draft.said },
            Entry::LoopLimitReached => {
                Event::LoopLimitReached { max_tool_loops: self.max_tool_loops }
            }
            Entry::Completed(finish_reason) => {
                Event::TurnCompleted { finish_reason, summary: self.summary() }
            }
            Entry::Failed { code, retryable, .. } => {
                Event::TurnFailed { code, message: &draft.said, retryable, summary: self.summary() }
            }
            Entry::StartRound(_)
            | Entry::StopRound
            | Entry::StartTool { .. }
            | Entry::NotRun { .. }
            | Entry::StartTimer(_)
            | Entry::StopTools => unreachable!("poll has returned these"),
        })
    }
}

impl Draft {
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

    /// A whole call's name.
    pub(super) fn name_of(&self, at: usize) -> &str {
        self.calls[at].whole().map_or("", |(name, _)| name)
    }
}
