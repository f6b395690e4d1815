//! Calls: checked, started, ended, fed back.

use super::{State, Turn};
use crate::conversation::{Note, Outcome};
use crate::event::{FeedbackReason, TurnFinish};
use crate::orchestrator::draft::{CallDraft, CallState, Entry};
use crate::orchestrator::{chain, feedback};
use crate::tools::{CallRefusal, ToolResult};
use crate::upstream::RoundFinish;

/// How often each kind of mistake was made in the turn.
#[derive(Debug, Default)]
pub(super) struct MistakeCounts(Vec<(FeedbackReason, u32)>);

impl MistakeCounts {
    pub(super) fn count(&mut self, reason: FeedbackReason) -> u32 {
        for (counted, attempts) in &mut self.0 {
            if *counted == reason {
                *attempts += 1;
                return *attempts;
            }
        }
        self.0.push((reason, 1));
        1
    }

    pub(super) fn total(&self) -> u32 {
        self.0.iter().map(|(_, attempts)| attempts).sum()
    }
}

impl Turn {
    /// Reads the calls that have become whole; whether there were any.
    pub(super) fn check_new_calls(&mut self) -> bool {
        let mut found = false;
        // Calls become whole in their order, so none is looked at twice.
        while let Some(call) = self.draft.calls.get(self.checked) {
            match call.state {
                CallState::Arriving => break,
                CallState::Complete => {
                    self.check_call(self.checked);
                    found = true;
                }
                _ => {}
            }
            self.checked += 1;
        }
        found
    }

    pub(super) fn check_call(&mut self, at: usize) {
        if self.finish == Some(RoundFinish::Length) && self.draft.mended_ends.contains(&at) {
            // What the token limit cut is not for us to complete.
            self.draft.calls[at].state = CallState::Malformed;
            let message = feedback::CUT_CALL.to_owned();
            self.cut_calls
                .push(Note { reason: FeedbackReason::IncompleteCall, message: message.clone() });
            self.feed_back(Some(at), FeedbackReason::IncompleteCall, message);
            return;
        }
        if at >= self.rules.max_calls as usize {
            let cap = self.rules.max_calls;
            let reason = format!("this turn may make {cap} calls and has made them");
            let status = format!(
                "the model has made {cap} calls, as many as limits.max_calls_per_turn allows; a \
                 last answer without tools follows"
            );
            self.draft.queue.push_back(Entry::Status(status));
            self.draft.end_call(at, Outcome::Skipped(reason), 0, 0);
            self.synthesis.get_or_insert(TurnFinish::Stop);
            return;
        }
        let Some((name, arguments)) = self.draft.calls[at].whole() else { return };
        match self.request.briefing.tools.check(name, arguments.as_str()) {
            Ok(checked) => self.draft.calls[at].state = CallState::Waiting(checked),
            Err(refusal) => {
                let (reason, message) = match &refusal {
                    CallRefusal::NotFound { .. } => {
                        (FeedbackReason::ToolNotFound, feedback::tool_not_found(&refusal))
                    }
                    CallRefusal::Invalid { .. } => (
                        FeedbackReason::InvalidArguments,
                        feedback::invalid_arguments(name, &refusal),
                    ),
                };
                let result = ToolResult::error(message.clone());
                self.draft.end_call(at, Outcome::Ended(result), 0, 0);
                self.refused = true;
                self.feed_back(Some(at), reason, message);
            }
        }
    }

    pub(super) fn start_waiting_calls(&mut self, round_over: bool) {
        loop {
            let calls = self.draft.round_calls();
            let Some(at) = chain::next_to_start(
                &self.draft.calls[calls.clone()],
                calls.start,
                self.rules.execution,
                round_over,
                self.rules.max_parallel,
            ) else {
                return;
            };
            let Some(arguments) = self.draft.calls[at].start() else { return };
            self.draft.queue.push_back(Entry::ToolStarted { call: at });
            self.draft.queue.push_back(Entry::StartTool { call: at, arguments });
        }
    }

    pub(super) fn end_tool(
        &mut self,
        at: usize,
        result: ToolResult,
        duration_ms: u64,
        attempts: u32,
    ) {
        let running = |call: &CallDraft| matches!(call.state, CallState::Running);
        if !self.draft.calls.get(at).is_some_and(running) {
            return;
        }
        let failure = result.error.clone();
        self.draft.end_call(at, Outcome::Ended(result), duration_ms, attempts);
        self.draft.queue.push_back(Entry::ToolCompleted { call: at });
        if let Some(error) = failure {
            let message = feedback::tool_failed(self.draft.name_of(at), &error);
            self.feed_back(Some(at), FeedbackReason::ToolFailed, message);
        }
        self.start_waiting_calls(self.state == State::Executing);
        self.end_step_if_done();
    }

    /// Counts a mistake and says so; too many of one kind, and the model is asked
    /// for an answer without tools.
    pub(super) fn feed_back(
        &mut self,
        call: Option<usize>,
        reason: FeedbackReason,
        message: String,
    ) {
        let attempt = self.mistakes.count(reason);
        if attempt >= self.rules.feedback_attempts {
            self.synthesis.get_or_insert(TurnFinish::Stop);
        }
        self.draft.queue.push_back(Entry::Feedback { call, reason, message, attempt });
    }
}
