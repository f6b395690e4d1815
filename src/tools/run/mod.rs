//! Runs one call. Its time is bounded, its panics are caught, transient faults are retried, and
//! its result is checked and capped.
//!
//! What runs when, and what the model is told to repeat, is decided elsewhere.

mod integers;
mod retry;

use std::any::Any;
use std::future;
use std::hash::{BuildHasher as _, RandomState};
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};
use tracing::{debug, error};

use super::{
    CallContext, Delivery, NextAction, Reporter, Resumption, Tool, ToolFault, ToolResult, ToolSpec,
};
use crate::limits::tools::{ATTEMPTS_MAX, OUTPUT_BYTES_MAX};
use crate::trace_context::TraceContext;

/// A call to run.
#[derive(Debug)]
pub(crate) struct ToolCall {
    /// Its tool.
    pub(crate) tool: Arc<dyn Tool>,
    /// The arguments, which the tool's schema has accepted.
    pub(crate) arguments: Value,
    /// The same in all attempts; belongs to this call alone.
    pub(crate) idempotency_key: Arc<str>,
    /// The answer, if the tool asked to be called again with it.
    pub(crate) resumption: Option<Resumption>,
    pub(crate) session: Arc<str>,
    /// See [`CallContext::words_only`].
    pub(crate) words_only: bool,
    /// The trace that it belongs to.
    pub(crate) trace: Option<TraceContext>,
}

/// How often and for how long a call may be attempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLimits {
    /// The most attempts, the first included.
    pub attempts_max: u32,
    /// The longest time of all attempts together, with the waits between them, if that is limited.
    /// Each attempt has its own limit as well. The time spent waiting for the user does not count.
    pub total_max: Option<Duration>,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { attempts_max: ATTEMPTS_MAX, total_max: None }
    }
}

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The result in the standard shape, at most [`OUTPUT_BYTES_MAX`] long.
    pub(crate) result: ToolResult,
    /// How the run ended.
    pub(crate) end: RunEnd,
    /// How many times the tool was called; at least once.
    pub(crate) attempts: u32,
}

/// How the run of a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunEnd {
    /// With a result, which may be a question to the user.
    Done,
    /// With the tool's own error, a permanent fault, or a result that breaks the standard shape.
    Failed,
    /// With a transient fault in the last attempt.
    Unavailable,
    /// The last attempt ran out of time.
    TimedOut,
    /// It panicked.
    Panicked,
}

impl Run {
    /// The outcome of a call that had stopped waiting for the user's answer.
    pub(crate) fn expired() -> Self {
        let error = "the answer came too late: the call had already been given up; make it again \
                     if it is still needed";
        Self { result: ToolResult::error(error), end: RunEnd::Unavailable, attempts: 1 }
    }

    /// The outcome of a call whose task panicked outside the tool's own code, such as when what
    /// the tool awaited was dropped.
    pub(crate) fn crashed(is_repeatable: bool) -> Self {
        let (mut result, end) = crash(is_repeatable);
        result.uncertain = !is_repeatable;
        Self { result, end, attempts: 1 }
    }
}

impl RunEnd {
    /// The name used in logs and metrics.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Unavailable => "unavailable",
            Self::TimedOut => "timed_out",
            Self::Panicked => "panicked",
        }
    }
}

/// Runs a call. Each attempt is limited by the tool's own timeout, or else `timeout_default`. The
/// time spent waiting for the user does not count.
///
/// An attempt that hits a transient fault or runs out of time is retried within the tool's
/// [`RunLimits`], but only if the tool changes nothing or is idempotent, or the attempt cannot have
/// had an effect.
///
/// **Dropping the future abandons the call**, whether it is running or waiting for its next
/// attempt. Running out of time has the same effect: whatever the tool awaits is dropped. A tool
/// that computes without awaiting cannot be interrupted and must limit itself. Nothing of a call that changes something
/// goes on when the next attempt or the next such call begins; see [`Tool::settled`].
pub(crate) async fn run(call: ToolCall, reporter: Reporter, timeout_default: Duration) -> Run {
    run_with(&call, reporter, timeout_default, random).await
}

/// Like [`run`], with jitter that returns numbers from 0 to 1.
async fn run_with(
    call: &ToolCall,
    reporter: Reporter,
    timeout_default: Duration,
    mut jitter: impl FnMut() -> f64,
) -> Run {
    let tool = &*call.tool;
    let ToolSpec { name, policy, .. } = &**tool.spec();
    let timeout = policy.timeout.unwrap_or(timeout_default);
    let is_repeatable = policy.may_run_again();
    let RunLimits { attempts_max, total_max } = tool.run_limits();
    let mut left = total_max.unwrap_or(Duration::MAX);
    let mut attempts = 0;
    // An earlier turn may have been cancelled.
    settled(call).await;
    loop {
        attempts += 1;
        let (reporter, begun) = (reporter.begin(attempts), Instant::now());
        let context = CallContext {
            idempotency_key: Arc::clone(&call.idempotency_key),
            attempt: attempts,
            reporter: reporter.clone(),
            resumption: call.resumption.clone(),
            session: Arc::clone(&call.session),
            words_only: call.words_only,
            trace: call.trace.clone(),
        };
        let time = timeout.min(left);
        let arguments = integers::written(call.arguments.clone());
        let ended = attempt(tool, arguments, context, time).await;
        let asked_for = reporter.asked_for().unwrap_or_default();
        left = left.saturating_sub(begun.elapsed().saturating_sub(asked_for));
        if matches!(ended, Attempt::TimedOut | Attempt::Panicked(_)) {
            settled(call).await;
        }
        let is_worth_it = |fault: &ToolFault| {
            fault.transient
                && !fault.has_waited
                && (is_repeatable || fault.delivery == Delivery::Unsent)
        };
        let wait = match &ended {
            _ if attempts >= attempts_max => None,
            Attempt::Fault(fault) if is_worth_it(fault) => {
                retry::wait(attempts, fault.retry_after, &mut jitter)
            }
            Attempt::TimedOut if is_repeatable => retry::wait(attempts, None, &mut jitter),
            _ => None,
        };
        let Some(wait) = wait.filter(|wait| *wait < left) else {
            if let Attempt::Panicked(panic) = &ended {
                error!(tool = name, panic = panic_message(&**panic), "tool panicked");
            }
            let may_be_called_again = !policy.mutates || policy.idempotent && !tool.needs_own_key();
            return concluded(ended, attempts, may_be_called_again, time);
        };
        debug!(
            tool = name,
            attempt = attempts,
            wait_ms = crate::telemetry::millis(wait),
            "retrying tool"
        );
        sleep(wait).await;
        left = left.saturating_sub(wait);
    }
}

/// Waits for what earlier attempts and calls have started, if this call changes something.
async fn settled(call: &ToolCall) {
    if call.tool.spec().policy.mutates {
        call.tool.settled(&call.session).await;
    }
}

/// How one attempt ended.
enum Attempt {
    Result(Box<ToolResult>),
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
    let reporter = context.reporter.clone();
    let call = catch_panics(tool, arguments, context);
    match timeout_between_questions(time, &reporter, call).await {
        Some(Ok(Ok(result))) => Attempt::Result(Box::new(result)),
        Some(Ok(Err(fault))) => Attempt::Fault(fault),
        Some(Err(panic)) => Attempt::Panicked(panic),
        None => Attempt::TimedOut,
    }
}

/// Limits the time of a call; `None` if it runs out. The clock stops while the user is asked.
async fn timeout_between_questions<T>(
    time: Duration,
    reporter: &Reporter,
    call: impl Future<Output = T>,
) -> Option<T> {
    let (mut call, begun) = (pin!(call), Instant::now());
    let mut deadline = pin!(sleep(time));
    future::poll_fn(|cx| {
        if let Poll::Ready(done) = call.as_mut().poll(cx) {
            return Poll::Ready(Some(done));
        }
        // A tool that waits for its answer is woken by it, and so is this.
        let Some(asked) = reporter.asked_for() else { return Poll::Pending };
        let end = begun.checked_add(time).and_then(|end| end.checked_add(asked));
        if let Some(end) = end.filter(|end| *end != deadline.deadline()) {
            deadline.as_mut().reset(end);
        }
        deadline.as_mut().poll(cx).map(|()| None)
    })
    .await
}

/// The tool's answer or its panic, whether before the first await or after it.
async fn catch_panics(
    tool: &dyn Tool,
    arguments: Value,
    context: CallContext,
) -> Result<Result<ToolResult, ToolFault>, Box<dyn Any + Send>> {
    // Nothing of a call that panicked is used again: its future is dropped.
    let mut call = panic::catch_unwind(AssertUnwindSafe(|| tool.call(arguments, context)))?;
    future::poll_fn(|context| {
        match panic::catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await
}

/// Turns the last attempt into the outcome of the call. `time` is what the attempt was given.
fn concluded(last: Attempt, attempts: u32, is_repeatable: bool, time: Duration) -> Run {
    let is_repeatable = is_repeatable
        || matches!(&last, Attempt::Fault(ToolFault { delivery: Delivery::Unsent, .. }));
    let (result, end) = match last {
        Attempt::Result(result) => {
            let mut result = result.checked();
            if result.uncertain && !is_repeatable {
                let error = result.error.unwrap_or_default();
                result = ToolResult::unread(format!("{error}; {MAY_HAVE_WORKED}"));
            }
            let failed = result.next_action == NextAction::Error;
            (result, if failed { RunEnd::Failed } else { RunEnd::Done })
        }
        Attempt::Fault(fault) if fault.transient => {
            let message = passing(&fault.message, attempts, is_repeatable);
            (ToolResult::error(message), RunEnd::Unavailable)
        }
        Attempt::Fault(ToolFault { message, delivery: Delivery::Received, .. })
            if !is_repeatable =>
        {
            let message = format!("{message}; {MAY_HAVE_WORKED}");
            (ToolResult::error(message).but_uncertain(), RunEnd::Failed)
        }
        Attempt::Fault(ToolFault { message, .. }) => {
            let message = format!("{message}; calling it again will not help");
            (ToolResult::error(message), RunEnd::Failed)
        }
        Attempt::TimedOut => {
            let waited = seconds(time);
            let message = format!("the tool did not answer within {waited} and was stopped");
            let message = passing(&message, attempts, is_repeatable);
            (ToolResult::error(message), RunEnd::TimedOut)
        }
        Attempt::Panicked(_) => crash(is_repeatable),
    };
    let is_broken_off = matches!(end, RunEnd::Unavailable | RunEnd::TimedOut | RunEnd::Panicked);
    let mut result = result.capped(OUTPUT_BYTES_MAX);
    result.uncertain = (result.uncertain || is_broken_off) && !is_repeatable;
    Run { result, end, attempts }
}

/// `1 second`, `0.5 seconds`: milliseconds are exact enough.
fn seconds(time: Duration) -> String {
    let time = Duration::from_millis(crate::telemetry::millis(time));
    let unit = if time == Duration::from_secs(1) { "second" } else { "seconds" };
    format!("{} {unit}", time.as_secs_f64())
}

fn crash(is_repeatable: bool) -> (ToolResult, RunEnd) {
    let advice = if is_repeatable { "calling it again will not help" } else { MAY_HAVE_WORKED };
    (ToolResult::error(format!("the tool crashed; {advice}")), RunEnd::Panicked)
}

/// Advice on a call that must not be made twice.
const MAY_HAVE_WORKED: &str =
    "it may or may not have taken effect, so do not call it again; tell the user";

/// Describes a transient failure: what, how often, and whether to call again.
fn passing(message: &str, attempts: u32, is_repeatable: bool) -> String {
    let times = if attempts > 1 { format!(" ({attempts} attempts)") } else { String::new() };
    let advice = if is_repeatable { "calling it again later may help" } else { MAY_HAVE_WORKED };
    format!("{message}{times}; {advice}")
}

/// A random number from 0 to 1.
fn random() -> f64 {
    // Each `RandomState` has new keys.
    let bits = RandomState::new().hash_one(());
    f64::from(u32::try_from(bits >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests;
