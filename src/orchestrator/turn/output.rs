//! Turns queue entries into outputs.

use super::acknowledgement::{Acknowledgement, Heard};
use super::core::Core;
use super::queue::{Action, EventDraft, LogDraft};
use super::{LogLine, Output, TurnMachine};
use crate::conversation::Outcome;
use crate::event::{Event, Summary, TurnFinish};
use crate::orchestrator::call::{CallAt, Origin};
use crate::tools::Progress;

impl TurnMachine {
    pub(super) fn action(&mut self, action: Action) -> Output<'_> {
        let core = &self.core;
        match action {
            Action::StartRound(request) => {
                if let Some(message) = self.state.unread() {
                    message.is_asked_for = true;
                }
                Output::StartRound(request)
            }
            Action::StopRound => Output::StopRound,
            Action::StartTool { call, arguments } => {
                let (call_id, name, position) = core.place_of(call);
                let resumption = core.calls[call].origin.resumption().cloned();
                let arguments = *arguments;
                Output::StartTool { call, call_id, name, position, arguments, resumption }
            }
            Action::ResumeTool { call } => {
                let Origin::Open { parked_as, given } = &core.calls[call].origin else {
                    unreachable!("only an open call is resumed")
                };
                let (call_id, name, _) = core.place_of(call);
                Output::ResumeTool { call, call_id, name, parked_as, given: given.clone() }
            }
            Action::ParkTool { call } => Output::ParkTool { call },
            Action::StopTool { call } => Output::StopTool { call },
            Action::StopTools => Output::StopTools,
            Action::Log(line) => Output::Log(core.log_line(&line)),
        }
    }
}

impl Core {
    pub(super) fn event<'t>(&'t self, event: &'t EventDraft) -> Event<'t> {
        let id_of = |call: CallAt| self.calls[call].call_id.as_str();
        match event {
            EventDraft::TurnStarted => {
                let request = &self.setup.request;
                Event::TurnStarted {
                    session_id: &request.session_id,
                    turn_id: &request.turn_id,
                    model: &request.model,
                    max_tool_loops: self.setup.max_tool_loops,
                }
            }
            EventDraft::Acknowledgement => {
                let Acknowledgement::Said(Heard { text, source }) = &self.acknowledgement else {
                    unreachable!("this is only queued once it was said")
                };
                Event::Acknowledgement { text, source: *source }
            }
            EventDraft::Clarification => self.clarification(),
            EventDraft::Text { r#loop, words } => {
                Event::TextDelta { r#loop: *r#loop, text: &self.script.text[words.clone()] }
            }
            EventDraft::Reasoning(range) => {
                Event::ReasoningDelta { text: self.script.reasoning(range.clone()) }
            }
            EventDraft::MarkerDetected { call } => {
                Event::ToolMarkerDetected { call_id: id_of(*call), r#loop: self.calls[*call].round }
            }
            EventDraft::ArgumentsDelta { call, delta } => Event::ToolArgumentsDelta {
                call_id: id_of(*call),
                delta: self.script.arguments(delta.clone()),
            },
            EventDraft::ToolStarted { call } => self.tool_started(*call),
            EventDraft::ClientToolCall { call } => self.client_tool_call(*call),
            EventDraft::ToolProgress { call, progress } => self.tool_progress(*call, progress),
            EventDraft::ToolCompleted { call, duration_ms, attempts } => {
                self.tool_completed(*call, *duration_ms, *attempts)
            }
            EventDraft::Feedback { call, reason, attempt, message } => Event::Feedback {
                call_id: call.map(id_of),
                reason: *reason,
                message,
                attempt: *attempt,
            },
            EventDraft::Status(message) => Event::Status { message },
            EventDraft::LoopLimitReached => {
                Event::LoopLimitReached { max_tool_loops: self.setup.max_tool_loops }
            }
            EventDraft::Completed(finish_reason) => {
                // After it, the turn may still have asked the user, or handed out calls.
                let is_answered = matches!(finish_reason, TurnFinish::Stop | TurnFinish::LoopLimit);
                Event::TurnCompleted {
                    finish_reason: *finish_reason,
                    stop_text: self.script.stop_text().filter(|_| is_answered),
                    summary: self.summary(),
                }
            }
            EventDraft::Failed { code, retryable, message } => Event::TurnFailed {
                code: *code,
                message,
                retryable: *retryable,
                summary: self.summary(),
            },
        }
    }

    fn log_line(&self, line: &LogDraft) -> LogLine<'_> {
        match line {
            LogDraft::EmptyAnswer => LogLine::EmptyAnswer,
            LogDraft::NotRun { call, why } => {
                let (call_id, name, position) = self.place_of(*call);
                LogLine::NotRun { call_id, name, position, why: *why }
            }
            LogDraft::Abandoned => LogLine::Abandoned,
        }
    }

    /// What the turn has used so far.
    pub(super) fn summary(&self) -> Summary<'_> {
        Summary {
            loops: self.rounds,
            tool_calls: self.calls.made(),
            usage: self.usage,
            text: self.script.seen(),
        }
    }

    /// A call's id, its tool, and its position in its message, from 1.
    fn place_of(&self, at: CallAt) -> (&str, &str, usize) {
        let call = &self.calls[at];
        (&call.call_id, call.name(), self.calls.position(at))
    }

    fn clarification(&self) -> Event<'_> {
        let asked = self.record.questions.first().expect("the turn ends with a question");
        Event::ClarificationNeeded {
            clarification_id: &asked.clarification_id,
            call_id: &asked.call_id,
            tool_name: &asked.tool_name,
            source: &asked.source,
            clarification: &asked.clarification,
            arguments: asked.shown_arguments(),
        }
    }

    fn tool_started(&self, at: CallAt) -> Event<'_> {
        let call = &self.calls[at];
        let (tool_name, arguments) = call.whole().expect("a call that was started is whole");
        Event::ToolStarted {
            call_id: &call.call_id,
            tool_name,
            tool_args: arguments.as_raw(),
            r#loop: call.round,
        }
    }

    fn client_tool_call(&self, at: CallAt) -> Event<'_> {
        let call = &self.calls[at];
        let (tool_name, arguments) = call.whole().expect("a call that was handed out is whole");
        Event::ClientToolCall {
            call_id: &call.call_id,
            tool_name,
            tool_args: arguments.as_raw(),
            r#loop: call.round,
        }
    }

    fn tool_progress<'t>(&'t self, at: CallAt, progress: &'t Progress) -> Event<'t> {
        let (call_id, tool_name, _) = self.place_of(at);
        let Progress { progress, total, message } = progress;
        let (progress, total, message) = (*progress, *total, message.as_deref());
        Event::ToolProgress { call_id, tool_name, progress, total, message }
    }

    fn tool_completed(&self, at: CallAt, duration_ms: u64, attempts: u32) -> Event<'_> {
        let call = self.calls[at].ended().expect("only an ended call is queued as completed");
        let Outcome::Ended(tool_result) = &call.outcome else {
            unreachable!("a tool that ran left a result");
        };
        Event::ToolCompleted {
            call_id: &call.call_id,
            tool_name: &call.name,
            tool_result,
            duration_ms,
            attempts,
        }
    }
}
