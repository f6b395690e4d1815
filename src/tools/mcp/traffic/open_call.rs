//! A call that the server has not answered.

use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::ProgressNotificationParam;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::{Instant, sleep_until};

use super::budget::Budget;
use crate::limits::tools::QUESTIONS_PER_CALL_MAX;
use crate::tools::{CallContext, Progress, Reporter, ToolFault};

/// A call that the server has not answered.
#[derive(Debug)]
pub(in crate::tools::mcp) struct OpenCall {
    /// Whose call it is.
    pub(in crate::tools::mcp) session: std::sync::Arc<str>,
    pub(in crate::tools::mcp) reporter: Reporter,
    /// Whether its user can answer questions only in words.
    pub(in crate::tools::mcp) words_only: bool,
    state: Mutex<State>,
    heard: Notify,
    /// Its place among the open calls of its connection.
    _slot: OwnedSemaphorePermit,
}

#[derive(Debug)]
struct State {
    heard_at: Instant,
    /// How many of its questions wait for the user.
    waiting: u32,
    /// How many questions it has had.
    questions: u32,
    /// Why one of its questions was not put to the user.
    not_asked: Option<String>,
    reports: Budget,
    /// The newest report of more than are looked at.
    withheld: Option<Progress>,
}

impl OpenCall {
    pub(in crate::tools::mcp) fn new(context: &CallContext, slot: OwnedSemaphorePermit) -> Self {
        let state = State {
            heard_at: Instant::now(),
            waiting: 0,
            questions: 0,
            not_asked: None,
            reports: Budget::default(),
            withheld: None,
        };
        Self {
            session: context.session.clone(),
            reporter: context.reporter.clone(),
            words_only: context.words_only,
            state: Mutex::new(state),
            heard: Notify::new(),
            _slot: slot,
        }
    }

    /// The server has said something about it.
    fn hear(&self) {
        self.state.lock().heard_at = Instant::now();
        self.heard.notify_one();
    }

    /// Hands a report on. In a flood, which also shows that the call is alive, the newest one waits for its turn.
    pub(super) fn progress(&self, params: &ProgressNotificationParam) {
        self.hear();
        let ProgressNotificationParam { progress, total, message, .. } = params;
        let report = Progress { progress: *progress, total: *total, message: message.clone() };
        let mut state = self.state.lock();
        state.withheld = Some(report);
        if state.reports.spend() {
            self.hand_on(&mut state);
        }
    }

    /// The server has answered it. Its last report comes before that.
    pub(super) fn end(&self) {
        self.hand_on(&mut self.state.lock());
    }

    fn hand_on(&self, state: &mut State) {
        if let Some(report) = state.withheld.take() {
            self.reporter.progress(report);
        }
    }

    /// Waits until nothing has been heard of it for this long. Time spent waiting for the user
    /// does not count.
    pub(in crate::tools::mcp) async fn silence(&self, most: Duration) {
        loop {
            let (is_asking, deadline, report_at) = {
                let mut state = self.state.lock();
                let report_at = state.reports.renewed_at();
                if report_at <= Instant::now() {
                    self.hand_on(&mut state);
                }
                let report_at = state.withheld.is_some().then_some(report_at);
                (state.waiting > 0, state.heard_at + most, report_at)
            };
            if !is_asking && deadline <= Instant::now() {
                return;
            }
            tokio::select! {
                () = self.heard.notified() => {}
                () = sleep_until(deadline), if !is_asking => {}
                () = sleep_until(report_at.unwrap_or(deadline)), if report_at.is_some() => {}
            }
        }
    }

    /// Counts a question.
    ///
    /// # Errors
    /// If it is one too many.
    pub(in crate::tools::mcp) fn count_question(&self) -> Result<(), String> {
        let mut state = self.state.lock();
        state.questions = state.questions.saturating_add(1);
        if state.questions > QUESTIONS_PER_CALL_MAX {
            return Err(format!("it asked more than {QUESTIONS_PER_CALL_MAX} times in one call"));
        }
        Ok(())
    }

    /// The user is being asked, until the result is dropped.
    pub(in crate::tools::mcp) fn asking(&self) -> Asking<'_> {
        self.state.lock().waiting += 1;
        self.heard.notify_one();
        Asking(self)
    }

    /// Notes why a question was not put to the user.
    pub(in crate::tools::mcp) fn note_not_asked(&self, reason: String) {
        self.state.lock().not_asked = Some(reason);
    }

    /// A fault of the call, which also says why a question was not put to the user.
    pub(in crate::tools::mcp) fn explain(&self, fault: ToolFault) -> ToolFault {
        match self.not_asked() {
            Some(reason) => ToolFault { message: format!("{} ({reason})", fault.message), ..fault },
            None => fault,
        }
    }

    /// Why a question was not put to the user, if there was one.
    pub(in crate::tools::mcp) fn not_asked(&self) -> Option<String> {
        self.state.lock().not_asked.clone()
    }
}

/// A question that waits for the user.
pub(in crate::tools::mcp) struct Asking<'c>(&'c OpenCall);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.state.lock().waiting -= 1;
        self.0.hear();
    }
}
