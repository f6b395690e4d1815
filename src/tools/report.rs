//! What a running tool reports, on its way to its turn.
//!
//! ```text
//!   the tool, anywhere          a slot for each call           the turn's task
//!   Reporter::progress ──> [ the newest progress, taken ] ──> Reports::poll
//!   Reporter::ask      ──> [ or not; a question         ]
//! ```
//! A report that has not been taken yet is replaced by the next: a tool never waits for
//! whoever listens, and one that reports without pause takes no more memory than one that
//! reports once.

use std::convert::Infallible;
use std::future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::Clarification;
use crate::limits::tools::PROGRESS_MESSAGE_BYTES_MAX;
use crate::text;

/// How far a running tool is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// In units of the tool's own. It rises: a report that is not above the one before it is
    /// dropped.
    pub progress: f64,
    /// Where it ends, in the same units, if the tool knows.
    pub total: Option<f64>,
    /// What the tool is doing, for a person.
    pub message: Option<String>,
}

impl Progress {
    /// So far, of an unknown total.
    #[must_use]
    pub const fn new(progress: f64) -> Self {
        Self { progress, total: None, message: None }
    }

    /// The same of a known total.
    #[must_use]
    pub fn of(self, total: f64) -> Self {
        Self { total: Some(total), ..self }
    }

    /// The same with what the tool is doing.
    #[must_use]
    pub fn saying(self, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..self }
    }

    /// The same with a message for people: without control characters, but for tabs and line
    /// breaks, and cut at [`PROGRESS_MESSAGE_BYTES_MAX`].
    fn cleaned(self) -> Self {
        let Some(message) = self.message else { return self };
        let is_shown = |char: &char| !char.is_control() || matches!(char, '\n' | '\t');
        // One character more than there is room for, so that a cut is seen. The rest of a giant
        // is not looked at.
        let shown = message.chars().filter(is_shown).take(PROGRESS_MESSAGE_BYTES_MAX + 1);
        let message: String = shown.collect();
        Self { message: Some(text::cut(&message, PROGRESS_MESSAGE_BYTES_MAX)), ..self }
    }

    /// Whether JSON can say it.
    fn is_finite(&self) -> bool {
        self.progress.is_finite() && self.total.is_none_or(f64::is_finite)
    }
}

/// What a tool reported, and in which of its attempts.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// It has come this far.
    Progress {
        /// How far.
        progress: Progress,
        /// The attempt, from 1.
        attempt: u32,
    },
    /// It asks the user. Nothing is reported after this.
    Question {
        /// What it asks.
        question: Box<Clarification>,
        /// The attempt, from 1.
        attempt: u32,
    },
}

/// Where a tool reports while it runs. Copies report to the same place.
#[derive(Debug, Clone, Default)]
pub struct Reporter {
    slot: Arc<Mutex<Slot>>,
    /// The attempt that reports.
    attempt: u32,
}

/// Where the reports of a call arrive.
#[derive(Debug)]
pub struct Reports {
    slot: Arc<Mutex<Slot>>,
}

/// What has been reported and not taken yet.
#[derive(Debug, Default)]
struct Slot {
    /// The last attempt that has begun. What is left of those before it is not listened to.
    attempt: u32,
    newest: Option<Progress>,
    question: Option<Box<Clarification>>,
    waker: Option<Waker>,
}

impl Reporter {
    /// A place to report to, and the place where the reports arrive.
    #[must_use]
    pub fn new() -> (Self, Reports) {
        let reporter = Self::default();
        let slot = Arc::clone(&reporter.slot);
        (reporter, Reports { slot })
    }

    /// Reports how far the tool is. It never waits, and may be called as often as the tool
    /// likes; the user sees the newest, at most one in
    /// [`PROGRESS_INTERVAL`](crate::limits::tools::PROGRESS_INTERVAL), and always the last.
    /// Numbers that are not finite are not reported. A message loses its control characters, but
    /// for tabs and line breaks, and all beyond [`PROGRESS_MESSAGE_BYTES_MAX`].
    pub fn progress(&self, progress: Progress) {
        if progress.is_finite() {
            let progress = progress.cleaned();
            self.put(|slot| slot.newest = Some(progress));
        }
    }

    /// Asks the user something that the tool cannot decide.
    ///
    /// It does not return: the turn ends with the question, as it does when a tool ends with
    /// [`ToolResult::clarification`](super::ToolResult::clarification), and this run of the tool
    /// is dropped. The answer reaches the model, which calls the tool again with what was
    /// answered in its arguments. So a tool that changes the world asks before it does.
    pub async fn ask(&self, question: Clarification) -> Infallible {
        self.put(|slot| slot.question = Some(Box::new(question)));
        future::pending().await
    }

    /// The same for another attempt. Attempts before it are no longer heard.
    pub(super) fn begin(&self, attempt: u32) -> Self {
        let mut slot = self.slot.lock();
        (slot.attempt, slot.newest, slot.question) = (attempt, None, None);
        drop(slot);
        Self { slot: Arc::clone(&self.slot), attempt }
    }

    fn put(&self, put: impl FnOnce(&mut Slot)) {
        let mut slot = self.slot.lock();
        if slot.attempt != self.attempt {
            return;
        }
        put(&mut slot);
        let waker = slot.waker.take();
        drop(slot);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Reports {
    /// Takes the next report. Wakes the task when there is one, until then or until the next
    /// call.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Report> {
        let mut slot = self.slot.lock();
        let report = slot.take();
        if report.is_none() && slot.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker()))
        {
            slot.waker = Some(cx.waker().clone());
        }
        report.map_or(Poll::Pending, Poll::Ready)
    }

    /// Takes what is left once the tool has ended.
    pub fn take(&mut self) -> Option<Report> {
        self.slot.lock().take()
    }
}

impl Slot {
    fn take(&mut self) -> Option<Report> {
        let attempt = self.attempt;
        if let Some(progress) = self.newest.take() {
            return Some(Report::Progress { progress, attempt });
        }
        let question = self.question.take()?;
        Some(Report::Question { question, attempt })
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn question() -> Clarification {
        Clarification { r#type: "colour".into(), question: "Which?".into(), options: Vec::new() }
    }

    fn progress(progress: f64, attempt: u32) -> Report {
        Report::Progress { progress: Progress::new(progress), attempt }
    }

    #[test]
    fn the_newest_replaces_what_was_not_taken() {
        let (reporter, mut reports) = Reporter::new();
        for done in 0..1000 {
            reporter.progress(Progress::new(f64::from(done)));
        }
        assert_eq!(reports.take(), Some(progress(999.0, 0)));
        assert_eq!(reports.take(), None);
    }

    #[tokio::test]
    async fn whoever_waits_is_woken() {
        let (reporter, mut reports) = Reporter::new();
        let told = tokio::spawn(future::poll_fn(move |cx| reports.poll(cx)));
        tokio::task::yield_now().await;
        reporter.progress(Progress::new(1.0).of(3.0).saying("one"));
        let Report::Progress { progress, .. } = told.await.unwrap() else { panic!("no progress") };
        assert_eq!(progress.message.as_deref(), Some("one"));
    }

    #[test]
    fn a_question_comes_after_the_progress_before_it_and_does_not_return() {
        let (reporter, mut reports) = Reporter::new();
        reporter.progress(Progress::new(1.0));
        let mut asking = pin!(reporter.ask(question()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(asking.as_mut().poll(&mut cx).is_pending());
        assert_eq!(reports.take(), Some(progress(1.0, 0)));
        let asked = Report::Question { question: Box::new(question()), attempt: 0 };
        assert_eq!(reports.poll(&mut cx), Poll::Ready(asked));
        assert!(asking.poll(&mut cx).is_pending());
    }

    #[test]
    fn an_attempt_that_was_given_up_is_not_heard() {
        let (reporter, mut reports) = Reporter::new();
        let first = reporter.begin(1);
        first.progress(Progress::new(8.0));
        let second = reporter.begin(2);
        assert_eq!(reports.take(), None, "what the first left is gone");
        first.progress(Progress::new(9.0));
        second.progress(Progress::new(1.0));
        first.progress(Progress::new(10.0));
        assert_eq!(reports.take(), Some(progress(1.0, 2)));
    }

    #[test]
    fn numbers_that_json_cannot_say_are_not_reported() {
        let (reporter, mut reports) = Reporter::new();
        for number in [f64::NAN, f64::INFINITY] {
            reporter.progress(Progress::new(number));
            reporter.progress(Progress::new(1.0).of(number));
        }
        assert_eq!(reports.take(), None);
    }

    #[test]
    fn messages_are_cleaned_and_cut() {
        let said = |message: &str| {
            let (reporter, mut reports) = Reporter::new();
            reporter.progress(Progress { message: Some(message.to_owned()), ..Progress::new(1.0) });
            let Some(Report::Progress { progress, .. }) = reports.take() else {
                panic!("no report")
            };
            progress.message.unwrap()
        };
        assert_eq!(said("\u{1b}[31mred\u{7}\n\tnext\u{9b}"), "[31mred\n\tnext");
        let longest = "m".repeat(PROGRESS_MESSAGE_BYTES_MAX);
        assert_eq!(said(&longest), longest);
        assert_eq!(said(&format!("{longest}m")), format!("{longest}…"));
        assert!(said(&"ö".repeat(PROGRESS_MESSAGE_BYTES_MAX)).ends_with("ö…"));
    }
}
