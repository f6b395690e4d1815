//! A call that the server has not answered.

use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::ProgressNotificationParam;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::tools::{Progress, Reporter};

/// A call that the server has not answered.
#[derive(Debug)]
pub(super) struct OpenCall {
    /// Whose call it is.
    pub(super) session: std::sync::Arc<str>,
    pub(super) reporter: Reporter,
    state: Mutex<State>,
    heard: Notify,
}

#[derive(Debug)]
struct State {
    heard_at: Instant,
    /// How many of its questions wait for the user.
    questions: u32,
    /// Why one of its questions was not put to the user.
    not_asked: Option<String>,
}

impl OpenCall {
    pub(super) fn new(session: std::sync::Arc<str>, reporter: Reporter) -> Self {
        let state = State { heard_at: Instant::now(), questions: 0, not_asked: None };
        Self { session, reporter, state: Mutex::new(state), heard: Notify::new() }
    }

    /// The server has said something about it.
    pub(super) fn hear(&self) {
        self.state.lock().heard_at = Instant::now();
        self.heard.notify_one();
    }

    pub(super) fn progress(&self, params: &ProgressNotificationParam) {
        self.hear();
        let ProgressNotificationParam { progress, total, message, .. } = params;
        let message = message.clone();
        self.reporter.progress(Progress { progress: *progress, total: *total, message });
    }

    /// Waits until nothing has been heard of it for this long. Time spent waiting for the user
    /// does not count.
    pub(super) async fn silence(&self, most: Duration) {
        loop {
            let (is_asking, deadline) = {
                let state = self.state.lock();
                (state.questions > 0, state.heard_at + most)
            };
            if !is_asking && deadline <= Instant::now() {
                return;
            }
            tokio::select! {
                () = self.heard.notified() => {}
                () = sleep_until(deadline), if !is_asking => {}
            }
        }
    }

    /// The user is being asked, until the result is dropped.
    pub(super) fn asking(&self) -> Asking<'_> {
        self.state.lock().questions += 1;
        self.heard.notify_one();
        Asking(self)
    }

    /// Notes why a question was not put to the user.
    pub(super) fn note_not_asked(&self, reason: String) {
        self.state.lock().not_asked = Some(reason);
    }

    /// Why a question was not put to the user, if there was one.
    pub(super) fn not_asked(&self) -> Option<String> {
        self.state.lock().not_asked.clone()
    }
}

/// A question that waits for the user.
pub(super) struct Asking<'c>(&'c OpenCall);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.state.lock().questions -= 1;
        self.0.hear();
    }
}
