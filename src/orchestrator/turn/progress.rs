//! What tools send while they run: progress, and questions to the user.

use super::TurnMachine;
use super::calls::Run;
use super::queue::{Action, EventDraft};
use super::state::{OpenRound, State};
use crate::limits::tools::{PROGRESS_INTERVAL, QUESTION_BYTES_MAX, RESUMPTION_STATE_BYTES_MAX};
use crate::limits::turn::PROGRESS_SHARE;
use crate::orchestrator::call::{CallAt, CallDraft};
use crate::text::json_len;
use crate::tools::reported::Reported;
use crate::tools::{Clarification, Continuation, Progress, ToolResult};

impl TurnMachine {
    /// Takes a running tool's progress.
    pub(super) fn take_progress(&mut self, call: CallAt, progress: Progress, attempt: u32) {
        let Some(mut round) = self.state.open_round(&mut self.core) else { return };
        if let Some(reported) = round.reported_mut(call) {
            reported.take(progress, attempt);
            round.report_progress(call);
        }
    }

    /// Takes a running tool's question. Its run ends here, or continues in the turn that answers
    /// it.
    pub(super) fn take_question(
        &mut self,
        call: CallAt,
        question: Clarification,
        continuation: Continuation,
        duration_ms: u64,
        attempts: u32,
    ) {
        if !self.core.calls.get(call).is_some_and(CallDraft::is_running) {
            return;
        }
        let mut result = ToolResult::clarification(question).checked().capped(QUESTION_BYTES_MAX);
        if let Continuation::Again { state } = &continuation
            && json_len(state) > RESUMPTION_STATE_BYTES_MAX
        {
            result = ToolResult::error("the tool's question carries too much data to be asked");
        }
        let asks = result.clarification.is_some();
        let waits = asks && continuation == Continuation::Open;
        let action = if waits { Action::ParkTool { call } } else { Action::StopTool { call } };
        self.core.script.act(action);
        self.core.calls[call].continuation = continuation;
        self.end_tool(call, Run { result, duration_ms, attempts });
    }

    /// When the next progress report is due, in milliseconds since the Unix epoch.
    pub(super) fn progress_due_ms(&self) -> Option<u64> {
        let (State::Planning(round) | State::Executing { round, .. }) = &self.state else {
            return None;
        };
        let reported =
            self.core.calls.since(round.first_call).iter().filter_map(CallDraft::reported);
        reported.filter_map(Reported::due_ms).min()
    }

    /// Sends the progress that was waiting.
    pub(super) fn report_progress(&mut self) {
        let Some(mut round) = self.state.open_round(&mut self.core) else { return };
        for call in round.core.calls.places(round.round.first_call) {
            round.report_progress(call);
        }
    }
}

impl OpenRound<'_> {
    /// Sends a call's latest progress, unless it is too early.
    fn report_progress(&mut self, call: CallAt) {
        let (now_ms, next_ms) = (self.core.now_ms, self.core.in_ms(PROGRESS_INTERVAL));
        if let Some(progress) = self.reported_mut(call).and_then(|it| it.take_due(now_ms, next_ms))
        {
            self.say_progress(call, progress);
        }
    }

    /// Sends a tool's last progress, just before it is reported as ended.
    pub(super) fn report_last_progress(&mut self, call: CallAt) {
        if let Some(progress) = self.reported_mut(call).and_then(Reported::take_last) {
            self.say_progress(call, progress);
        }
    }

    fn reported_mut(&mut self, call: CallAt) -> Option<&mut Reported> {
        self.core.calls.get_mut(call)?.reported_mut()
    }

    /// Progress never ends a turn by its size: once reports take too much space, they are dropped.
    fn say_progress(&mut self, call: CallAt, progress: Progress) {
        if self.core.logged_bytes <= self.core.logged_bytes_max / PROGRESS_SHARE {
            self.say_of_tool(EventDraft::ToolProgress { call, progress });
        }
    }
}
