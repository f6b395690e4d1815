//! Reports of running tools, on their way to the turn.
//!
//! ```text
//!   the tool, anywhere          a slot for each call           the turn's task
//!   Reporter::progress ──> [ the newest progress, taken ] ──> Reports::poll
//!   Reporter::ask      ──> [ or not; a question         ]
//! ```
//! A new report replaces one that has not been taken yet. A tool therefore never waits for its
//! listener, and one that reports without pause takes no more memory than one that reports once.

use std::convert::Infallible;
use std::future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::Clarification;
use crate::limits::tools::PROGRESS_MESSAGE_BYTES_MAX;
use crate::text;

/// The progress of a running tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// A number in the tool's own units. It must rise: a report that is no higher than an earlier
    /// one is dropped.
    pub progress: f64,
    /// The final number, in the same units, if known.
    pub total: Option<f64>,
    /// What the tool is doing, for people.
    pub message: Option<String>,
}

impl Progress {
    /// Progress with an unknown total.
    #[must_use]
    pub const fn new(progress: f64) -> Self {
        Self { progress, total: None, message: None }
    }

    /// The same with a known total.
    #[must_use]
    pub fn of(self, total: f64) -> Self {
        Self { total: Some(total), ..self }
    }

    /// The same with a message.
    #[must_use]
    pub fn saying(self, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..self }
    }

    /// The same with its message cleaned: without control characters other than tabs and line
    /// breaks, and cut at [`PROGRESS_MESSAGE_BYTES_MAX`].
    fn cleaned(self) -> Self {
        let Some(message) = self.message else { return self };
        let is_shown = |char: &char| !char.is_control() || matches!(char, '\n' | '\t');
        // One character more than fits, so that a cut is noticed. The rest of a huge message is
        // never read.
        let shown = message.chars().filter(is_shown).take(PROGRESS_MESSAGE_BYTES_MAX + 1);
        let message: String = shown.collect();
        Self { message: Some(text::cut(&message, PROGRESS_MESSAGE_BYTES_MAX)), ..self }
    }

    /// Whether JSON can represent it.
    fn is_finite(&self) -> bool {
        self.progress.is_finite() && self.total.is_none_or(f64::is_finite)
    }
}

/// What a tool reported, and in which attempt.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Report {
    /// The tool has made progress.
    Progress {
        /// The progress.
        progress: Progress,
        /// The attempt, from 1.
        attempt: u32,
    },
    /// The tool asks the user. No report follows this one.
    Question {
        /// The question.
        question: Box<Clarification>,
        /// The attempt, from 1.
        attempt: u32,
    },
}

/// Takes a tool's reports while it runs. Copies report to the same place.
#[derive(Debug, Clone, Default)]
pub struct Reporter {
    slot: Arc<Mutex<Slot>>,
    /// The attempt that reports.
    attempt: u32,
}

/// The receiving end of a call's reports.
#[derive(Debug)]
pub struct Reports {
    slot: Arc<Mutex<Slot>>,
}

/// The reports not taken yet.
#[derive(Debug, Default)]
struct Slot {
    /// The current attempt. Reports from earlier ones are ignored.
    attempt: u32,
    newest: Option<Progress>,
    question: Option<Box<Clarification>>,
    waker: Option<Waker>,
}

impl Reporter {
    /// A reporter, and the receiving end of its reports.
    #[must_use]
    pub fn new() -> (Self, Reports) {
        let reporter = Self::default();
        let slot = Arc::clone(&reporter.slot);
        (reporter, Reports { slot })
    }

    /// Reports progress. This never waits, and a tool may call it as often as it likes: the user
    /// sees the latest report, at most one per
    /// [`PROGRESS_INTERVAL`](crate::limits::tools::PROGRESS_INTERVAL), and always the last.
    /// Numbers that are not finite are not reported. Messages lose control characters other than
    /// tabs and line breaks, and anything beyond [`PROGRESS_MESSAGE_BYTES_MAX`].
    pub fn progress(&self, progress: Progress) {
        if progress.is_finite() {
            let progress = progress.cleaned();
            self.put(|slot| slot.newest = Some(progress));
        }
    }

    /// Asks the user something that the tool cannot decide.
    ///
    /// This does not return. The turn ends with the question, just as if the tool had returned
    /// [`ToolResult::clarification`](super::ToolResult::clarification), and this run is dropped.
    /// The model sees the answer and calls the tool again with it in the arguments. A mutating
    /// tool must therefore ask before it changes anything.
    pub async fn ask(&self, question: Clarification) -> Infallible {
        self.put(|slot| slot.question = Some(Box::new(question)));
        future::pending().await
    }

    /// The same for another attempt. Earlier attempts are no longer heard.
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
    /// Takes the next report. If there is none, wakes the task when one arrives.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Report> {
        let mut slot = self.slot.lock();
        let report = slot.take();
        if report.is_none() && slot.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker()))
        {
            slot.waker = Some(cx.waker().clone());
        }
        report.map_or(Poll::Pending, Poll::Ready)
    }

    /// Takes what is left after the tool has ended.
    pub(crate) fn take(&self) -> Option<Report> {
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
    fn the_newest_report_replaces_one_that_was_not_taken() {
        let (reporter, reports) = Reporter::new();
        for done in 0..1000 {
            reporter.progress(Progress::new(f64::from(done)));
        }
        assert_eq!(reports.take(), Some(progress(999.0, 0)));
        assert_eq!(reports.take(), None);
    }

    #[tokio::test]
    async fn a_waiting_task_is_woken() {
        let (reporter, reports) = Reporter::new();
        let told = tokio::spawn(future::poll_fn(move |cx| reports.poll(cx)));
        tokio::task::yield_now().await;
        reporter.progress(Progress::new(1.0).of(3.0).saying("one"));
        let Report::Progress { progress, .. } = told.await.unwrap() else { panic!("no progress") };
        assert_eq!(progress.message.as_deref(), Some("one"));
    }

    #[test]
    fn a_question_comes_after_the_progress_before_it_and_does_not_return() {
        let (reporter, reports) = Reporter::new();
        reporter.progress(Progress::new(1.0));
        let mut asking = pin!(reporter.ask(question()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(asking.as_mut().poll(&mut cx).is_pending());
        assert_eq!(reports.take(), Some(progress(1.0, 0)));
        let asked = Report::Question { question: Box::new(question()), attempt: 0 };
        assert_eq!(reports.poll(&cx), Poll::Ready(asked));
        assert!(asking.poll(&mut cx).is_pending());
    }

    #[test]
    fn an_abandoned_attempt_is_ignored() {
        let (reporter, reports) = Reporter::new();
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
    fn numbers_that_json_cannot_represent_are_not_reported() {
        let (reporter, reports) = Reporter::new();
        for number in [f64::NAN, f64::INFINITY] {
            reporter.progress(Progress::new(number));
            reporter.progress(Progress::new(1.0).of(number));
        }
        assert_eq!(reports.take(), None);
    }

    #[test]
    fn messages_are_cleaned_and_cut() {
        let said = |message: &str| {
            let (reporter, reports) = Reporter::new();
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
