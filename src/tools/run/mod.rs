//! Running one call: its time is bounded, its panics are caught, what fails for a
//! passing reason is tried again, its result is checked and capped.
//!
//! What runs when, and what the model is told to do again, is decided elsewhere.

mod retry;

use std::any::Any;
use std::future;
use std::hash::{BuildHasher as _, RandomState};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{sleep, timeout};
use tracing::{debug, error};

use super::{CallContext, NextAction, Reporter, Tool, ToolFault, ToolResult, ToolSpec};
use crate::limits::tools::OUTPUT_BYTES_MAX;

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// In the standard shape, at most
    /// [`OUTPUT_BYTES_MAX`] long.
    pub result: ToolResult,
    /// How the run ended.
    pub end: RunEnd,
    /// How often the tool was called; at least once.
    pub attempts: u32,
    /// Whether the same call, made again by the model, may end otherwise and can do
    /// no harm. The result's error says so in words.
    pub retry_may_help: bool,
}

/// How the run of a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunEnd {
    /// With a result, which may ask the user.
    Done,
    /// With an error of the tool's own, a fault that will not pass, or a result that
    /// breaks the shape.
    Failed,
    /// With a fault that may pass, but has not in all attempts.
    Unavailable,
    /// Its last attempt was still running when its time was over.
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
            Self::Unavailable => "unavailable",
            Self::TimedOut => "timed_out",
            Self::Panicked => "panicked",
        }
    }
}

/// Runs `tool` with arguments that its schema has accepted. Each attempt has the
/// tool's own timeout or `timeout_default`.
///
/// An attempt that fails for a passing reason or runs out of time is followed by
/// another, at most [`ATTEMPTS_MAX`](crate::limits::tools::ATTEMPTS_MAX) in all and
/// only where the tool changes nothing or is idempotent. `idempotency_key` names the
/// call, in all attempts and nowhere else.
///
/// **Dropping the future abandons the call**, be it running or waiting for its next
/// attempt. So does running out of time: what the tool awaits is dropped. A tool
/// that computes without awaiting cannot be interrupted and must bound itself.
pub async fn run(
    tool: Arc<dyn Tool>,
    arguments: Value,
    idempotency_key: Arc<str>,
    reporter: Reporter,
    timeout_default: Duration,
) -> Run {
    run_with(&*tool, arguments, idempotency_key, reporter, timeout_default, random).await
}

/// As [`run`]; `jitter` gives numbers from 0 to 1.
async fn run_with(
    tool: &dyn Tool,
    arguments: Value,
    idempotency_key: Arc<str>,
    reporter: Reporter,
    timeout_default: Duration,
    mut jitter: impl FnMut() -> f64,
) -> Run {
    let ToolSpec { name, policy, .. } = tool.spec();
    let timeout = policy.timeout.unwrap_or(timeout_default);
    let is_repeatable = retry::is_repeatable(policy);
    let mut attempts = 0;
    loop {
        attempts += 1;
        let context = CallContext {
            idempotency_key: Arc::clone(&idempotency_key),
            attempt: attempts,
            reporter: reporter.begin(attempts),
        };
        let ended = attempt(tool, arguments.clone(), context, timeout).await;
        let wait = match &ended {
            Attempt::Fault(fault) if fault.transient && is_repeatable => {
                retry::wait(attempts, fault.retry_after, &mut jitter)
            }
            Attempt::TimedOut if is_repeatable => retry::wait(attempts, None, &mut jitter),
            _ => None,
        };
        let Some(wait) = wait else {
            if let Attempt::Panicked(panic) = &ended {
                error!(tool = name, panic = panic_message(&**panic), "a tool panicked");
            }
            return concluded(ended, attempts, is_repeatable, timeout);
        };
        debug!(
            tool = name,
            attempt = attempts,
            wait_ms = crate::telemetry::millis(wait),
            "tool is tried again"
        );
        sleep(wait).await;
    }
}

/// How one attempt ended.
enum Attempt {
    Result(ToolResult),
    Fault(ToolFault),
    TimedOut,
    Panicked(Box<dyn Any + Send>),
}

async fn attempt(
    tool: &dyn Tool,
    arguments: Value,
    context: CallContext,
    time: Duration,
) -> Attempt {
    match timeout(time, catch_panics(tool, arguments, context)).await {
        Ok(Ok(Ok(result))) => Attempt::Result(result),
        Ok(Ok(Err(fault))) => Attempt::Fault(fault),
        Ok(Err(panic)) => Attempt::Panicked(panic),
        Err(_) => Attempt::TimedOut,
    }
}

/// The tool's answer, or what it panicked with, be it before the first await or
/// behind it.
async fn catch_panics(
    tool: &dyn Tool,
    arguments: Value,
    context: CallContext,
) -> Result<Result<ToolResult, ToolFault>, Box<dyn Any + Send>> {
    // Nothing of a call that panicked is looked at again: its future is dropped.
    let mut call = panic::catch_unwind(AssertUnwindSafe(|| tool.call(arguments, context)))?;
    future::poll_fn(|context| {
        match panic::catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await
}

/// The last attempt as what came of the call.
fn concluded(last: Attempt, attempts: u32, is_repeatable: bool, timeout: Duration) -> Run {
    let (result, end) = match last {
        Attempt::Result(result) => {
            let result = result.checked();
            let failed = result.next_action == NextAction::Error;
            (result, if failed { RunEnd::Failed } else { RunEnd::Done })
        }
        Attempt::Fault(fault) if fault.transient => {
            let message = passing(&fault.message, attempts, is_repeatable);
            (ToolResult::error(message), RunEnd::Unavailable)
        }
        Attempt::Fault(ToolFault { message, .. }) => {
            let message = format!("{message}; calling it again will not help");
            (ToolResult::error(message), RunEnd::Failed)
        }
        Attempt::TimedOut => {
            let seconds = timeout.as_secs_f64();
            let message =
                format!("the tool did not answer within {seconds} seconds and was stopped");
            let message = passing(&message, attempts, is_repeatable);
            (ToolResult::error(message), RunEnd::TimedOut)
        }
        Attempt::Panicked(_) => {
            let message = "the tool crashed; calling it again will not help";
            (ToolResult::error(message), RunEnd::Panicked)
        }
    };
    let retry_may_help = is_repeatable && matches!(end, RunEnd::Unavailable | RunEnd::TimedOut);
    Run { result: result.capped(OUTPUT_BYTES_MAX), end, attempts, retry_may_help }
}

/// A passing failure in words: what, how often, and what it means for a next time.
fn passing(message: &str, attempts: u32, is_repeatable: bool) -> String {
    let times = if attempts > 1 { format!(" ({attempts} attempts)") } else { String::new() };
    let advice = if is_repeatable {
        "calling it again later may help"
    } else {
        "whether it took effect is not known, so do not call it again but tell the user"
    };
    format!("{message}{times}; {advice}")
}

/// Anything from 0 to 1, another one each time.
fn random() -> f64 {
    // Every state of this kind has keys of its own.
    let bits = RandomState::new().hash_one(());
    f64::from(u32::try_from(bits >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests;
