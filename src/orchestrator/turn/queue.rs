//! A turn's pending events and actions, in output order.

use std::ops::Range;

use serde_json::Value;

use super::NotRun;
use crate::event::{FailureCode, FeedbackReason, TurnFinish};
use crate::orchestrator::call::CallAt;
use crate::tools::Progress;
use crate::upstream::RoundRequest;

/// One entry of the queue.
#[derive(Debug)]
pub(super) enum Queued {
    Say(EventDraft),
    Do(Action),
}

/// An event that refers to text and calls instead of copying them.
#[derive(Debug)]
pub(super) enum EventDraft {
    TurnStarted,
    Acknowledgement,
    Clarification,
    // With their round, if the words begin a new message after earlier text.
    Text { r#loop: Option<u32>, words: Range<usize> },
    Reasoning(Range<usize>),
    MarkerDetected { call: CallAt },
    ArgumentsDelta { call: CallAt, delta: Range<usize> },
    ToolStarted { call: CallAt },
    ClientToolCall { call: CallAt },
    ToolProgress { call: CallAt, progress: Progress },
    ToolCompleted { call: CallAt, duration_ms: u64, attempts: u32 },
    Feedback { call: Option<CallAt>, reason: FeedbackReason, message: String, attempt: u32 },
    Status(String),
    LoopLimitReached,
    Completed(TurnFinish),
    Failed { code: FailureCode, message: String, retryable: bool },
}

/// Something to do.
#[derive(Debug)]
pub(super) enum Action {
    StartRound(Box<RoundRequest>),
    StopRound,
    // Boxed: with a value in it, each place in the queue would be half as large again.
    StartTool { call: CallAt, arguments: Box<Value> },
    ResumeTool { call: CallAt },
    ParkTool { call: CallAt },
    StopTool { call: CallAt },
    StopTools,
    Log(LogDraft),
}

/// A line of the log.
#[derive(Debug)]
pub(super) enum LogDraft {
    EmptyAnswer,
    NotRun { call: CallAt, why: NotRun },
    Abandoned,
}
