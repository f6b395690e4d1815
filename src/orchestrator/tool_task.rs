//! The task of one call: it runs the tool, and takes its reports.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument as _, Span, debug, error};

use crate::session::{Artifacts, Barrier};
use crate::telemetry::millis;
use crate::tools::report::{Reporter, Reports};
use crate::tools::run::{self, Run, ToolCall};

/// A running tool. Dropping it stops the tool.
pub(super) struct ToolTask {
    /// The tool's name.
    pub(super) name: String,
    /// What the tool reports.
    pub(super) reports: Reports,
    /// Whether the call may be made again, whatever became of it.
    may_run_again: bool,
    begun: Instant,
    task: AbortOnDropHandle<Run>,
}

impl fmt::Debug for ToolTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolTask").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ToolTask {
    /// Starts a call, once it is `stored`. `timeout` limits tools that set no limit of their own.
    pub(super) fn start(
        call: ToolCall,
        artifacts: Artifacts,
        timeout: Duration,
        stored: Barrier,
        span: Span,
    ) -> Self {
        let (spec, begun) = (call.tool.spec(), Instant::now());
        let (name, may_run_again) = (spec.name.clone(), spec.policy.may_run_again());
        let (reporter, reports) = Reporter::new();
        let run = async move {
            let session = Arc::clone(&call.session);
            stored.wait().await;
            let mut run = run::run(call, reporter, timeout).await;
            if !run.result.files.is_empty() {
                artifacts.keep(&session, &mut run.result).await;
            }
            let (outcome, attempts) = (run.end.name(), run.attempts);
            let duration_ms = millis(begun.elapsed());
            debug!(outcome, attempts, duration_ms, "tool ended");
            run
        };
        let task = AbortOnDropHandle::new(tokio::spawn(run.instrument(span)));
        Self { name, reports, may_run_again, begun, task }
    }

    /// The end of the run.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Run> {
        Pin::new(&mut self.task).poll(cx).map(|run| {
            // The tool's own panics are caught earlier, but what it awaits may panic when it is
            // dropped.
            run.unwrap_or_else(|error| {
                error!(tool = self.name, %error, "tool panicked");
                Run::crashed(self.may_run_again)
            })
        })
    }

    /// How long it has been running in the current turn.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// It continues in another turn, and its time starts again.
    pub(super) fn resume(&mut self) {
        self.begun = Instant::now();
    }

    /// Lets it continue with nobody listening.
    pub(super) fn detach(self) {
        drop(self.task.detach());
    }
}
