//! A turn's running tools: starts them, passes on their reports, stops them. The turn decides
//! what follows from a report.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use serde_json::Value;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::Instant;
use tracing::{Instrument as _, Span, debug, error};

use super::call::CallAt;
use crate::telemetry::millis;
use crate::tools::report::{Report, Reporter, Reports};
use crate::tools::run::{self, Run};
use crate::tools::{Clarification, Progress, Registry};

/// A turn's running tools.
pub(super) struct RunningTools {
    /// The tools that the turn's briefing lists.
    tools: Arc<Registry>,
    /// The longest run of a tool without a limit of its own.
    timeout: Duration,
    /// Makes the calls' idempotency keys unique.
    turn_id: String,
    tasks: JoinSet<Ended>,
    running: Vec<Running>,
    /// The end of a tool whose last progress was returned first.
    next: Option<News>,
}

/// A running tool.
struct Running {
    call: CallAt,
    name: String,
    begun: Instant,
    reports: Reports,
    task: AbortHandle,
}

/// A tool that ended.
struct Ended {
    call: CallAt,
    run: Run,
    duration: Duration,
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
        question: Box<Clarification>,
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
    pub(super) fn new(tools: Arc<Registry>, timeout: Duration, turn_id: &str) -> Self {
        let (turn_id, tasks) = (turn_id.to_owned(), JoinSet::new());
        Self { tools, timeout, turn_id, tasks, running: Vec::new(), next: None }
    }

    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    /// Starts the tool of this name for a call.
    pub(super) fn start(
        &mut self,
        call: CallAt,
        (call_id, name): (&str, &str),
        arguments: Value,
        span: Span,
    ) {
        let tool = self.tools.get(name);
        let tool = tool.expect("a turn's briefing lists the tools it runs with");
        let key = Arc::from(format!("{}/{call_id}", self.turn_id));
        let (reporter, reports) = Reporter::new();
        let run = run::run(Arc::clone(tool), arguments, key, reporter, self.timeout);
        let task = self.tasks.spawn(ended(call, run).instrument(span));
        let (name, begun) = (name.to_owned(), Instant::now());
        self.running.push(Running { call, name, begun, reports, task });
    }

    /// Drops a running tool.
    pub(super) fn stop(&mut self, call: CallAt) {
        if let Some(stopped) = self.remove(call) {
            stopped.task.abort();
        }
    }

    /// Drops all running tools.
    pub(super) fn stop_all(&mut self) {
        self.tasks.abort_all();
        self.running.clear();
        self.next = None;
    }

    /// The next news. Wakes the task when there is some.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<News> {
        if let Some(news) = self.next.take() {
            return Poll::Ready(news);
        }
        while let Poll::Ready(Some(ended)) = self.tasks.poll_join_next(cx) {
            // A stopped tool has no news.
            let ended = match ended {
                Ok(ended) => Some(ended),
                Err(error) => self.crashed(&error),
            };
            let Some(Ended { call, run, duration }) = ended else { continue };
            let Some(ran) = self.remove(call) else { continue };
            // A question that the tool did not wait for does not count.
            let last = ran.reports.take();
            let last = last.filter(|report| matches!(report, Report::Progress { .. }));
            let progress = last.map(|report| ran.news(report));
            let end = News::Ended { call, name: ran.name, run, duration };
            return Poll::Ready(match progress {
                Some(progress) => {
                    self.next = Some(end);
                    progress
                }
                None => end,
            });
        }
        self.poll_reports(cx)
    }

    /// The end of a call whose task panicked. The tool's own panics are caught before, but what it
    /// awaits may panic when it is dropped.
    fn crashed(&self, error: &JoinError) -> Option<Ended> {
        let crashed = self.running.iter().find(|running| running.task.id() == error.id())?;
        error!(tool = crashed.name, %error, "tool panicked");
        let (call, duration) = (crashed.call, crashed.begun.elapsed());
        Some(Ended { call, run: Run::crashed(), duration })
    }

    /// A tool's report. The tool then goes to the end of the list, so that none drowns out the
    /// others.
    fn poll_reports(&mut self, cx: &Context<'_>) -> Poll<News> {
        for at in 0..self.running.len() {
            if let Poll::Ready(report) = self.running[at].reports.poll(cx) {
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
    fn news(&self, report: Report) -> News {
        let call = self.call;
        match report {
            Report::Progress { progress, attempt } => News::Progressed { call, progress, attempt },
            Report::Question { question, attempt } => {
                let (name, duration) = (self.name.clone(), self.begun.elapsed());
                News::Asked { call, name, question, duration, attempts: attempt }
            }
        }
    }
}

/// Waits for a tool's end.
async fn ended(call: CallAt, run: impl Future<Output = Run>) -> Ended {
    let begun = Instant::now();
    let run = run.await;
    let duration = begun.elapsed();
    let (outcome, attempts) = (run.end.name(), run.attempts);
    debug!(outcome, attempts, duration_ms = millis(duration), "tool ended");
    Ended { call, run, duration }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use serde_json::json;

    use super::*;
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
        RunningTools::new(Arc::new(tools), Duration::from_secs(1), "t")
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_even_if_what_it_waits_for_panics_when_it_is_dropped() {
        let mut tools = tools();
        tools.start(CallAt::new(3), ("call_4", "brittle"), json!({}), Span::none());
        let news = poll_fn(|cx| tools.poll(cx)).await;
        let News::Ended { call, name, run, .. } = news else { panic!("it ended") };
        assert_eq!((call, &*name, run.end), (CallAt::new(3), "brittle", RunEnd::Panicked));
        assert_eq!(tools.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stopped_call_has_no_news_even_if_it_panics() {
        let mut tools = tools();
        tools.start(CallAt::new(0), ("call_1", "brittle"), json!({}), Span::none());
        tokio::task::yield_now().await;
        tools.stop(CallAt::new(0));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(poll_fn(|cx| Poll::Ready(tools.poll(cx).is_pending())).await);
    }
}
