//! Running one call: its time is bounded, its panics are caught, its result is
//! checked and capped.
//!
//! What runs when, and what is tried again, is decided elsewhere.

use std::any::Any;
use std::future;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;
use tracing::error;

use super::{NextAction, Tool, ToolResult};
use crate::limits::tools::OUTPUT_BYTES_MAX;

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// In the standard shape, at most
    /// [`OUTPUT_BYTES_MAX`] long.
    pub result: ToolResult,
    /// How the run ended.
    pub end: RunEnd,
}

/// How the run of a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunEnd {
    /// With a result, which may ask the user.
    Done,
    /// With an error of the tool's own, or a result that breaks the shape.
    Failed,
    /// It was still running when its time was over.
    TimedOut,
    /// It panicked.
    Panicked,
}

impl RunEnd {
    /// The end as logs and metrics spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Panicked => "panicked",
        }
    }
}

/// Runs `tool` with arguments that its schema has accepted, for at most the
/// tool's own timeout or `timeout_default`.
///
/// **Dropping the future abandons the call.** So does running out of time: what
/// the tool awaits is dropped. A tool that computes without awaiting cannot be
/// interrupted and must bound itself.
pub async fn run(tool: Arc<dyn Tool>, arguments: Value, timeout_default: Duration) -> Run {
    let timeout = tool.spec().policy.timeout.unwrap_or(timeout_default);
    match tokio::time::timeout(timeout, catch_panics(&*tool, arguments)).await {
        Ok(Ok(result)) => {
            let result = result.checked().capped(OUTPUT_BYTES_MAX);
            let failed = result.next_action == NextAction::Error;
            Run { result, end: if failed { RunEnd::Failed } else { RunEnd::Done } }
        }
        Ok(Err(panic)) => {
            let tool = &tool.spec().name;
            error!(tool, panic = panic_message(&*panic), "a tool panicked");
            let result = ToolResult::error("the tool crashed; calling it again will not help");
            Run { result, end: RunEnd::Panicked }
        }
        Err(_) => Run {
            result: ToolResult::error(format!(
                "the tool did not answer within {} seconds and was stopped",
                timeout.as_secs_f64()
            )),
            end: RunEnd::TimedOut,
        },
    }
}

/// The tool's result, or what it panicked with, be it before the first await or
/// behind it.
async fn catch_panics(
    tool: &dyn Tool,
    arguments: Value,
) -> Result<ToolResult, Box<dyn Any + Send>> {
    // Nothing of a call that panicked is looked at again: its future is dropped.
    let mut call = panic::catch_unwind(AssertUnwindSafe(|| tool.call(arguments)))?;
    future::poll_fn(|context| {
        match panic::catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use serde_json::json;

    use super::*;
    use crate::tools::{Policy, ToolFuture, ToolSpec};

    const TIMEOUT: Duration = Duration::from_secs(15);

    /// A tool that is one function.
    struct Fake<F> {
        spec: ToolSpec,
        call: F,
    }

    impl<F> std::fmt::Debug for Fake<F> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Fake")
        }
    }

    impl<F: Fn(Value) -> ToolFuture + Send + Sync> Tool for Fake<F> {
        fn spec(&self) -> &ToolSpec {
            &self.spec
        }

        fn call(&self, arguments: Value) -> ToolFuture {
            (self.call)(arguments)
        }
    }

    fn fake(
        timeout: Option<Duration>,
        call: impl Fn(Value) -> ToolFuture + Send + Sync + 'static,
    ) -> Arc<dyn Tool> {
        let spec = ToolSpec {
            name: "fake".into(),
            description: String::new(),
            parameters: json!({"type": "object"}),
            waiting_hint: String::new(),
            examples: Vec::new(),
            policy: Policy { timeout, ..Policy::default() },
        };
        Arc::new(Fake { spec, call })
    }

    #[tokio::test]
    async fn a_tool_that_answers_is_done() {
        let tool = fake(None, |arguments| Box::pin(async { ToolResult::data(arguments) }));
        let run = run(tool, json!({"a": 1}), TIMEOUT).await;
        assert_eq!(run, Run { result: ToolResult::data(json!({"a": 1})), end: RunEnd::Done });
    }

    #[tokio::test]
    async fn an_error_of_the_tool_is_passed_on() {
        let tool = fake(None, |_| Box::pin(async { ToolResult::error("no such order") }));
        let run = run(tool, json!({}), TIMEOUT).await;
        assert_eq!(run, Run { result: ToolResult::error("no such order"), end: RunEnd::Failed });
    }

    #[tokio::test]
    async fn a_result_that_breaks_the_shape_is_a_failure() {
        let tool = fake(None, |_| {
            Box::pin(async {
                ToolResult { next_action: NextAction::Error, ..ToolResult::data(json!(1)) }
            })
        });
        let run = run(tool, json!({}), TIMEOUT).await;
        assert_eq!(run.end, RunEnd::Failed);
        assert!(run.result.error.unwrap().contains("breaks the standard shape"));
    }

    #[tokio::test]
    async fn a_flood_is_capped() {
        let tool = fake(None, |_| Box::pin(async { ToolResult::data(json!("x".repeat(1 << 20))) }));
        let run = run(tool, json!({}), TIMEOUT).await;
        assert_eq!(serde_json::to_string(&run.result).unwrap().len(), OUTPUT_BYTES_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tool_that_hangs_is_stopped_at_its_own_timeout_first() {
        for (own, expected) in
            [(None, TIMEOUT), (Some(Duration::from_millis(1500)), Duration::from_millis(1500))]
        {
            let start = tokio::time::Instant::now();
            let run = run(fake(own, |_| Box::pin(future::pending())), json!({}), TIMEOUT).await;
            assert_eq!(run.end, RunEnd::TimedOut);
            assert_eq!(start.elapsed().as_millis(), expected.as_millis());
            let seconds = expected.as_secs_f64();
            assert_eq!(
                run.result.error.unwrap(),
                format!("the tool did not answer within {seconds} seconds and was stopped")
            );
        }
    }

    #[tokio::test]
    async fn a_panic_is_caught_wherever_it_happens() {
        let before: fn(Value) -> ToolFuture = |_| panic!("before the first await");
        let behind: fn(Value) -> ToolFuture = |_| {
            Box::pin(async {
                tokio::task::yield_now().await;
                panic!("behind {}", "it")
            })
        };
        for call in [before, behind] {
            let run = run(fake(None, call), json!({}), TIMEOUT).await;
            assert_eq!(run.end, RunEnd::Panicked);
            assert!(
                !run.result.error.unwrap().contains("await"),
                "the model is not told of our insides"
            );
        }
    }

    #[tokio::test]
    async fn dropping_the_run_drops_the_call() {
        struct SetOnDrop(Arc<AtomicBool>);
        impl Drop for SetOnDrop {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let dropped = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&dropped);
        let tool = fake(None, move |_| {
            let guard = SetOnDrop(Arc::clone(&seen));
            Box::pin(async move {
                future::pending::<()>().await;
                drop(guard);
                ToolResult::data(Value::Null)
            })
        });
        let mut run = Box::pin(run(tool, json!({}), TIMEOUT));
        future::poll_fn(|context| {
            assert!(run.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        assert!(!dropped.load(Ordering::SeqCst));
        drop(run);
        assert!(dropped.load(Ordering::SeqCst));
    }
}
