//! The tools that run for a turn: started, listened to, stopped. What follows from what they
//! report is the turn's to decide.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use serde_json::Value;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tracing::{Instrument as _, Span, debug};

use super::call::CallAt;
use crate::telemetry::millis;
use crate::tools::report::{Report, Reporter, Reports};
use crate::tools::run::{self, Run};
use crate::tools::{Clarification, Progress, Registry};

/// See the module.
pub(super) struct RunningTools {
    /// The tools that the turn's briefing is on.
    tools: Arc<Registry>,
    /// Longest run of a tool that has no limit of its own.
    timeout: Duration,
    /// Names the turn's calls to the tools: unique, as the turn is.
    turn_id: String,
    tasks: JoinSet<Ended>,
    running: Vec<Running>,
    /// What has happened and was not told yet.
    untold: VecDeque<News>,
}

/// A tool that runs.
struct Running {
    call: CallAt,
    name: String,
    begun: Instant,
    reports: Reports,
    task: AbortHandle,
}

/// A tool that has ended.
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
        Self { tools, timeout, turn_id, tasks, running: Vec::new(), untold: VecDeque::new() }
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
        let tool = tool.expect("a turn's briefing is on the tools that it is driven with");
        let key = Arc::from(format!("{}/{call_id}", self.turn_id));
        let (reporter, reports) = Reporter::new();
        let run = run::run(Arc::clone(tool), arguments, key, reporter, self.timeout);
        let task = self.tasks.spawn(ended(call, run).instrument(span));
        let (name, begun) = (name.to_owned(), Instant::now());
        self.running.push(Running { call, name, begun, reports, task });
    }

    /// Drops a tool that runs.
    pub(super) fn stop(&mut self, call: CallAt) {
        if let Some(stopped) = self.remove(call) {
            stopped.task.abort();
        }
    }

    /// Drops all tools that run.
    pub(super) fn stop_all(&mut self) {
        self.tasks.abort_all();
        self.running.clear();
        self.untold.clear();
    }

    /// What happened next. Wakes the task when something does.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<News> {
        if let Some(news) = self.untold.pop_front() {
            return Poll::Ready(news);
        }
        while let Poll::Ready(Some(ended)) = self.tasks.poll_join_next(cx) {
            // Of what was stopped there is nothing to tell.
            let Ok(Ended { call, run, duration }) = ended else { continue };
            let Some(mut ran) = self.remove(call) else { continue };
            // A question that the tool did not wait for is none.
            if let Some(report @ Report::Progress { .. }) = ran.reports.take() {
                let news = ran.news(report);
                self.untold.push_back(news);
            }
            self.untold.push_back(News::Ended { call, name: ran.name, run, duration });
            return self.untold.pop_front().map_or(Poll::Pending, Poll::Ready);
        }
        self.poll_reports(cx)
    }

    /// What a tool has reported. The one that was heard last comes last, so that none drowns
    /// the others.
    fn poll_reports(&mut self, cx: &mut Context<'_>) -> Poll<News> {
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
