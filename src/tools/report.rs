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
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::keys::Keys;
use super::question::{Awaits, SentQuestion};
use super::{Clarification, Given, clean};
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

    /// The same with its message without these keys and characters that people cannot see, and cut at
    /// [`PROGRESS_MESSAGE_BYTES_MAX`].
    fn cleaned(self, keys: &Keys) -> Self {
        let Some(message) = self.message else { return self };
        let message = keys.hidden(message);
        // A character takes at least a byte. The rest of a huge message is never read.
        let message = clean::text(&message, PROGRESS_MESSAGE_BYTES_MAX);
        Self { message: Some(text::cut(&message, PROGRESS_MESSAGE_BYTES_MAX)), ..self }
    }

    /// Whether JSON can represent it.
    fn is_finite(&self) -> bool {
        self.progress.is_finite() && self.total.is_none_or(f64::is_finite)
    }
}

/// What a tool reported, and in which attempt.
#[derive(Debug)]
pub(crate) enum Report {
    /// The tool has made progress.
    Progress {
        /// The progress.
        progress: Progress,
        /// The attempt, from 1.
        attempt: u32,
    },
    /// The tool asks the user. No report follows this one before the answer.
    Question {
        /// The question.
        question: Box<SentQuestion>,
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
    /// Keys that the tool was given. What it reports never shows them.
    keys: Arc<Keys>,
}

/// The receiving end of a call's reports. Dropping it cancels the question that waits for an answer,
/// and all that come later.
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
    question: Option<Box<SentQuestion>>,
    waker: Option<Waker>,
    /// Set once nobody will take reports any more.
    is_closed: bool,
    /// How many of the tool's questions wait for the user's answer.
    asking: u32,
    /// Since when at least one has been waiting.
    asking_since: Option<Instant>,
    /// How long it waited for earlier answers.
    asked_for: Duration,
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
    /// Numbers that are not finite are not reported. Messages lose characters that people cannot
    /// see, and anything beyond [`PROGRESS_MESSAGE_BYTES_MAX`].
    pub fn progress(&self, progress: Progress) {
        if progress.is_finite() {
            let progress = progress.cleaned(&self.keys);
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
        self.put_question(question, Awaits::Model);
        future::pending().await
    }

    /// Asks the user something, and wants to be called again with the answer.
    ///
    /// This does not return. The turn ends with the question, and this run is dropped. The turn
    /// that the answer begins calls the tool with the same arguments, and with the answer and
    /// `state` in [`CallContext::resumption`](super::CallContext::resumption). Both survive a
    /// restart of the gateway if sessions do.
    pub async fn ask_again(&self, question: Clarification, state: Value) -> Infallible {
        self.put_question(question, Awaits::Again(state));
        future::pending().await
    }

    /// Asks the user something and waits for the answer.
    ///
    /// The turn ends with the question, but this run goes on: it belongs to the turn that the
    /// answer begins. It is given up with [`Given::Cancelled`] if the user says something else,
    /// or nothing for [`PARK_TIMEOUT`](crate::limits::tools::PARK_TIMEOUT), and at once if the call
    /// has been given up already. The time limit of the call is paused meanwhile.
    pub async fn ask_and_wait(&self, question: Clarification) -> Given {
        let Some(_asking) = Asking::begin(self) else { return Given::Cancelled };
        let (sender, answer) = oneshot::channel();
        self.put_question(question, Awaits::Open(sender));
        answer.await.unwrap_or(Given::Cancelled)
    }

    /// How long the tool has waited for answers so far; `None` while it waits.
    pub(super) fn asked_for(&self) -> Option<Duration> {
        let slot = self.slot.lock();
        slot.asking_since.is_none().then_some(slot.asked_for)
    }

    fn put_question(&self, clarification: Clarification, awaits: Awaits) {
        let clarification = self.keys.hidden_in_question(clarification);
        self.put(|slot| slot.question = Some(Box::new(SentQuestion { clarification, awaits })));
    }

    /// The same for another attempt. Earlier attempts are no longer heard.
    pub(super) fn begin(&self, attempt: u32) -> Self {
        let mut slot = self.slot.lock();
        let (waker, is_closed) = (slot.waker.take(), slot.is_closed);
        *slot = Slot { attempt, waker, is_closed, ..Slot::default() };
        drop(slot);
        Self { slot: Arc::clone(&self.slot), attempt, keys: Arc::default() }
    }

    /// The same for a tool that is given these keys: what it reports is shown without them.
    pub(super) fn hiding(self, keys: &Keys) -> Self {
        Self { keys: Arc::new(keys.clone()), ..self }
    }

    fn put(&self, put: impl FnOnce(&mut Slot)) {
        let mut slot = self.slot.lock();
        if !slot.hears(self.attempt) {
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

impl Drop for Reports {
    fn drop(&mut self) {
        let mut slot = self.slot.lock();
        slot.is_closed = true;
        // With the question, its asker's wait ends, which notes its time itself.
        let left = (slot.question.take(), slot.newest.take(), slot.waker.take());
        drop(slot);
        drop(left);
    }
}

/// A question that waits for the user, until this is dropped: also with the run that asks.
struct Asking<'a>(&'a Reporter);

impl<'a> Asking<'a> {
    /// `None` if nobody hears the question.
    fn begin(reporter: &'a Reporter) -> Option<Self> {
        let mut slot = reporter.slot.lock();
        if !slot.hears(reporter.attempt) {
            return None;
        }
        slot.asking += 1;
        slot.asking_since.get_or_insert_with(Instant::now);
        Some(Self(reporter))
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut slot = self.0.slot.lock();
        // Another attempt has begun to count anew.
        if slot.attempt != self.0.attempt {
            return;
        }
        slot.asking -= 1;
        if slot.asking == 0
            && let Some(since) = slot.asking_since.take()
        {
            slot.asked_for += since.elapsed();
        }
    }
}

impl Slot {
    /// Whether reports of this attempt are heard.
    const fn hears(&self, attempt: u32) -> bool {
        self.attempt == attempt && !self.is_closed
    }

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
        Clarification {
            r#type: "colour".into(),
            question: "Which?".into(),
            options: Vec::new(),
            ..Clarification::default()
        }
    }

    /// The progress of a report, and its attempt.
    #[track_caller]
    fn progress(report: Option<Report>) -> (f64, u32) {
        let Some(Report::Progress { progress, attempt }) = report else { panic!("no progress") };
        (progress.progress, attempt)
    }

    #[test]
    fn the_newest_report_replaces_one_that_was_not_taken() {
        let (reporter, reports) = Reporter::new();
        for done in 0..1000 {
            reporter.progress(Progress::new(f64::from(done)));
        }
        assert_eq!(progress(reports.take()), (999.0, 0));
        assert!(reports.take().is_none());
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
        assert_eq!(progress(reports.take()), (1.0, 0));
        let Poll::Ready(Report::Question { question: asked, attempt: 0 }) = reports.poll(&cx)
        else {
            panic!("no question")
        };
        assert_eq!(asked.clarification, question());
        assert!(asking.poll(&mut cx).is_pending());
    }

    #[test]
    fn a_tool_with_keys_shows_them_in_no_question() {
        let mut keys = Keys::default();
        keys.note_credential("s3cr3t-key");
        let (reporter, reports) = Reporter::new();
        let reporter = reporter.hiding(&keys);
        let asked = Clarification { question: "Is s3cr3t-key right?".into(), ..question() };
        let mut asking = pin!(reporter.ask(asked));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(asking.as_mut().poll(&mut cx).is_pending());
        let Some(Report::Question { question, .. }) = reports.take() else { panic!("no question") };
        assert_eq!(question.clarification.question, "Is [the key] right?");
    }

    #[test]
    fn an_abandoned_attempt_is_ignored() {
        let (reporter, reports) = Reporter::new();
        let first = reporter.begin(1);
        first.progress(Progress::new(8.0));
        let second = reporter.begin(2);
        assert!(reports.take().is_none(), "what the first left is gone");
        first.progress(Progress::new(9.0));
        second.progress(Progress::new(1.0));
        first.progress(Progress::new(10.0));
        assert_eq!(progress(reports.take()), (1.0, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_nobody_will_take_is_cancelled() {
        let (reporter, reports) = Reporter::new();
        let mut asking = pin!(reporter.ask_and_wait(question()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(asking.as_mut().poll(&mut cx).is_pending(), "it was put");
        assert_eq!(reporter.asked_for(), None, "its time does not count");
        drop(reports);
        assert_eq!(asking.await, Given::Cancelled);
        assert_eq!(reporter.ask_and_wait(question()).await, Given::Cancelled, "nor the next");
        assert_eq!(reporter.begin(1).ask_and_wait(question()).await, Given::Cancelled);
        assert_eq!(reporter.asked_for(), Some(Duration::ZERO), "time goes on");
    }

    #[tokio::test(start_paused = true)]
    async fn time_goes_on_once_all_questions_are_answered() {
        const SECOND: Duration = Duration::from_secs(1);
        let (reporter, _reports) = Reporter::new();
        let mut cx = Context::from_waker(Waker::noop());
        let mut first = Box::pin(reporter.ask_and_wait(question()));
        assert!(first.as_mut().poll(&mut cx).is_pending());
        tokio::time::advance(SECOND).await;
        let mut second = Box::pin(reporter.ask_and_wait(question()));
        assert!(second.as_mut().poll(&mut cx).is_pending());
        tokio::time::advance(SECOND).await;
        // The run that asked is gone, or has its answer.
        drop(first);
        assert_eq!(reporter.asked_for(), None, "the second one waits");
        tokio::time::advance(SECOND).await;
        drop(second);
        assert_eq!(reporter.asked_for(), Some(SECOND * 3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_question_of_an_abandoned_attempt_stops_no_clock() {
        let (reporter, _reports) = Reporter::new();
        let first = reporter.begin(1);
        let second = reporter.begin(2);
        assert_eq!(first.ask_and_wait(question()).await, Given::Cancelled);
        assert_eq!(second.asked_for(), Some(Duration::ZERO));
    }

    #[test]
    fn numbers_that_json_cannot_represent_are_not_reported() {
        let (reporter, reports) = Reporter::new();
        for number in [f64::NAN, f64::INFINITY] {
            reporter.progress(Progress::new(number));
            reporter.progress(Progress::new(1.0).of(number));
        }
        assert!(reports.take().is_none());
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
        assert_eq!(said("a\u{e0041}\u{202e}b\u{200b}"), "ab");
        let longest = "m".repeat(PROGRESS_MESSAGE_BYTES_MAX);
        assert_eq!(said(&longest), longest);
        assert_eq!(said(&format!("{longest}m")), format!("{longest}…"));
        assert!(said(&"ö".repeat(PROGRESS_MESSAGE_BYTES_MAX)).ends_with("ö…"));
    }
}
