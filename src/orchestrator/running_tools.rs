//! A turn's running tools: starts them, passes on their reports, stops them. The turn decides
//! what follows from a report.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tracing::Span;

use super::call::{CallAt, CalledTool};
use super::parked_calls::ParkedCall;
use super::tool_task::ToolTask;
use super::turn_trace::TracedTool;
use crate::session::{Artifacts, Barrier};
use crate::tools::question::{Awaits, SentQuestion};
use crate::tools::report::Report;
use crate::tools::run::{Run, ToolCall};
use crate::tools::{Clarification, Continuation, Given, Progress, Registry, Resumption, Source};
use crate::trace_context::TraceContext;

/// A turn's running tools. Dropping this stops them. What every token needs comes last: see [`Driver`](super::driver::Driver).
#[repr(C)]
pub(super) struct RunningTools {
    /// The tools that the turn's briefing lists.
    tools: Arc<Registry>,
    artifacts: Artifacts,
    /// The longest run of a tool without a limit of its own.
    timeout: Duration,
    /// Makes the calls' idempotency keys unique.
    session: Arc<str>,
    turn_id: String,
    words_only: bool,
    /// Those that wait for the user's answer, and no longer belong to this turn.
    parked: Vec<ParkedCall>,
    // Each token needs the fields below.
    running: Vec<Running>,
    /// The end of a tool whose last progress was returned first.
    next: Option<Box<News>>,
}

/// Whose calls they are.
#[derive(Debug)]
pub(super) struct Caller<'c> {
    /// The session, as it is stored.
    pub(super) session: Arc<str>,
    pub(super) turn_id: &'c str,
    /// Whether the user can answer questions only in words.
    pub(super) words_only: bool,
}

/// A running tool.
struct Running {
    call: CallAt,
    call_id: String,
    tool: ToolTask,
    /// Takes the answer to the question that the tool waits with.
    answer: Option<oneshot::Sender<Given>>,
}

/// What a tool starts with.
pub(super) struct ToolStart {
    pub(super) arguments: Value,
    /// The answer that the tool asked to be called with.
    pub(super) resumption: Option<Resumption>,
    /// Opens once it is stored that the tool runs.
    pub(super) stored: Barrier,
    pub(super) span: Span,
    pub(super) trace: Option<TraceContext>,
}

/// What happened to a call.
pub(super) enum News {
    Progressed {
        call: CallAt,
        progress: Progress,
        attempt: u32,
    },
    Asked {
        call: CallAt,
        name: String,
        question: Clarification,
        continuation: Continuation,
        duration: Duration,
        attempts: u32,
    },
    Ended {
        call: CallAt,
        name: String,
        run: Run,
        duration: Duration,
    },
}

impl fmt::Debug for RunningTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningTools").field("running", &self.running.len()).finish_non_exhaustive()
    }
}

impl RunningTools {
    pub(super) fn new(
        tools: Arc<Registry>,
        artifacts: Artifacts,
        timeout: Duration,
        Caller { session, turn_id, words_only }: Caller<'_>,
    ) -> Self {
        let (running, parked) = (Vec::new(), Vec::new());
        Self {
            tools,
            artifacts,
            timeout,
            session,
            turn_id: turn_id.to_owned(),
            words_only,
            running,
            parked,
            next: None,
        }
    }

    /// The files that tools return.
    pub(super) const fn artifacts(&self) -> &Artifacts {
        &self.artifacts
    }

    /// Where the tool of this name comes from.
    pub(super) fn source(&self, name: &str) -> Source {
        self.tools.get(name).map(|tool| tool.spec().source.clone()).unwrap_or_default()
    }

    /// The same, and what traces show of its calls.
    pub(super) fn traced(&self, name: &str) -> TracedTool {
        let attributes = self.tools.get(name).map(|tool| tool.trace_attributes());
        TracedTool { source: self.source(name), attributes: attributes.unwrap_or_default() }
    }

    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    /// Starts the tool of this name for a call. It runs once it is stored that it does.
    pub(super) fn start(
        &mut self,
        CalledTool { call, call_id, name }: CalledTool<'_>,
        ToolStart { arguments, resumption, stored, span, trace }: ToolStart,
    ) {
        let tool = self.tools.get(name);
        let tool = Arc::clone(tool.expect("a turn's briefing lists the tools it runs with"));
        let idempotency_key = Arc::from(format!("{}/{call_id}", self.turn_id));
        let tool_call = ToolCall {
            tool,
            arguments,
            idempotency_key,
            resumption,
            session: Arc::clone(&self.session),
            words_only: self.words_only,
            trace,
        };
        let tool = ToolTask::start(tool_call, self.artifacts.clone(), self.timeout, stored, span);
        self.running.push(Running { call, call_id: call_id.to_owned(), tool, answer: None });
    }

    /// Continues a call of an earlier turn with the user's answer. A call that has just been given
    /// up ends as expired.
    pub(super) fn resume(
        &mut self,
        CalledTool { call, call_id, name }: CalledTool<'_>,
        parked: Option<ParkedCall>,
        given: Given,
    ) {
        let Some(ParkedCall { mut tool, answer, .. }) = parked else {
            let (name, run, duration) = (name.to_owned(), Run::expired(), Duration::ZERO);
            self.next = Some(Box::new(News::Ended { call, name, run, duration }));
            return;
        };
        tool.resume();
        // If the tool no longer waits, it has ended, and its end is the next news.
        let _ = answer.send(given);
        self.running.push(Running { call, call_id: call_id.to_owned(), tool, answer: None });
    }

    /// Sets aside a tool that waits for the user's answer.
    pub(super) fn park(&mut self, call: CallAt) {
        if let Some(Running { call_id, tool, answer: Some(answer), .. }) = self.remove(call) {
            self.parked.push(ParkedCall { call_id, tool, answer });
        }
    }

    /// The tools that wait for the user's answer.
    pub(super) fn take_parked(&mut self) -> Vec<ParkedCall> {
        std::mem::take(&mut self.parked)
    }

    /// Drops a running tool.
    pub(super) fn stop(&mut self, call: CallAt) {
        drop(self.remove(call));
    }

    /// Drops all running tools, waiting ones included.
    pub(super) fn stop_all(&mut self) {
        self.running.clear();
        self.parked.clear();
        self.next = None;
    }

    /// The next news. Wakes the task when there is some.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<News> {
        if let Some(news) = self.next.take() {
            return Poll::Ready(*news);
        }
        for at in 0..self.running.len() {
            let Poll::Ready(run) = self.running[at].tool.poll(cx) else { continue };
            let Running { call, tool, .. } = self.running.swap_remove(at);
            // A question that the tool did not wait for does not count.
            let last = tool.reports.take();
            let last = last.filter(|report| matches!(report, Report::Progress { .. }));
            let duration = tool.elapsed();
            let end = News::Ended { call, name: tool.name, run, duration };
            return Poll::Ready(match last {
                Some(Report::Progress { progress, attempt }) => {
                    self.next = Some(Box::new(end));
                    News::Progressed { call, progress, attempt }
                }
                _ => end,
            });
        }
        self.poll_reports(cx)
    }

    /// A tool's report. The tool then goes to the end of the list, so that none drowns out the
    /// others.
    fn poll_reports(&mut self, cx: &Context<'_>) -> Poll<News> {
        for at in 0..self.running.len() {
            if let Poll::Ready(report) = self.running[at].tool.reports.poll(cx) {
                let news = self.running[at].news(report);
                self.running[at..].rotate_left(1);
                return Poll::Ready(news);
            }
        }
        Poll::Pending
    }

    fn remove(&mut self, call: CallAt) -> Option<Running> {
        let at = self.running.iter().position(|running| running.call == call)?;
        Some(self.running.swap_remove(at))
    }
}

impl Running {
    fn news(&mut self, report: Report) -> News {
        let call = self.call;
        match report {
            Report::Progress { progress, attempt } => News::Progressed { call, progress, attempt },
            Report::Question { question, attempt } => {
                let SentQuestion { clarification: question, awaits } = *question;
                let continuation = match awaits {
                    Awaits::Model => Continuation::Model,
                    Awaits::Again(state) => Continuation::Again { state },
                    Awaits::Open(answer) => {
                        self.answer = Some(answer);
                        Continuation::Open
                    }
                };
                let (name, duration) = (self.tool.name.clone(), self.tool.elapsed());
                News::Asked { call, name, question, continuation, duration, attempts: attempt }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use serde_json::json;

    use super::*;
    use crate::session::store::MemoryStore;
    use crate::tools::run::RunEnd;
    use crate::tools::{CallContext, Policy, Tool, ToolFuture, ToolSpec};

    /// A tool that waits forever for something that panics when it is dropped.
    #[derive(Debug)]
    struct Brittle(Arc<ToolSpec>);

    impl Tool for Brittle {
        fn spec(&self) -> &Arc<ToolSpec> {
            &self.0
        }

        fn call(&self, _: Value, _: CallContext) -> ToolFuture {
            Box::pin(async {
                let _awaited = PanicsOnDrop;
                std::future::pending().await
            })
        }
    }

    struct PanicsOnDrop;

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    fn tools() -> RunningTools {
        let spec = ToolSpec {
            name: "brittle".to_owned(),
            description: String::new(),
            parameters: json!({ "type": "object" }),
            waiting_hint: String::new(),
            policy: Policy::default(),
            ..ToolSpec::default()
        };
        let mut tools = Registry::default();
        tools.add(Arc::new(Brittle(Arc::new(spec)))).unwrap();
        let artifacts = Artifacts::new(Arc::new(MemoryStore::new(Duration::MAX)), "");
        let caller = Caller { session: "s".into(), turn_id: "t", words_only: false };
        RunningTools::new(Arc::new(tools), artifacts, Duration::from_secs(1), caller)
    }

    fn start(tools: &mut RunningTools, call: CallAt, call_id: &str) {
        let start = ToolStart {
            arguments: json!({}),
            resumption: None,
            stored: Barrier::OPEN,
            span: Span::none(),
            trace: None,
        };
        tools.start(CalledTool { call, call_id, name: "brittle" }, start);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_even_if_what_it_waits_for_panics_when_it_is_dropped() {
        let mut tools = tools();
        start(&mut tools, CallAt::new(3), "call_4");
        let news = poll_fn(|cx| tools.poll(cx)).await;
        let News::Ended { call, name, run, .. } = news else { panic!("it ended") };
        assert_eq!((call, &*name, run.end), (CallAt::new(3), "brittle", RunEnd::Panicked));
        assert_eq!(tools.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stopped_call_has_no_news_even_if_it_panics() {
        let mut tools = tools();
        start(&mut tools, CallAt::new(0), "call_1");
        tokio::task::yield_now().await;
        tools.stop(CallAt::new(0));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(poll_fn(|cx| Poll::Ready(tools.poll(cx).is_pending())).await);
    }
}
