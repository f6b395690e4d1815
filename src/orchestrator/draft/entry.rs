//! The queue of what a turn is to say and to do.

use std::ops::Range;
use std::time::Duration;

use serde_json::Value;

use crate::event::{FailureCode, FeedbackReason, TurnFinish};
use crate::orchestrator::turn::NotRun;
use crate::upstream::RoundRequest;

/// One of the queue, in the order in which they are to come out.
#[derive(Debug)]
pub(in crate::orchestrator) enum Entry {
    Say(EventDraft),
    Do(Action),
}

/// An event, with what it speaks of left where it lies.
#[derive(Debug)]
pub(in crate::orchestrator) enum EventDraft {
    TurnStarted,
    Acknowledgement,
    Clarification,
    Text(Range<usize>),
    Reasoning(Range<usize>),
    MarkerDetected { call: usize },
    ArgumentsDelta { call: usize, delta: Range<usize> },
    ToolStarted { call: usize },
    ToolCompleted { call: usize, duration_ms: u64, attempts: u32 },
    Feedback { call: Option<usize>, reason: FeedbackReason, message: String, attempt: u32 },
    Status(String),
    LoopLimitReached,
    Completed(TurnFinish),
    Failed { code: FailureCode, message: String, retryable: bool },
}

/// What is to be done.
#[derive(Debug)]
pub(in crate::orchestrator) enum Action {
    StartRound(Box<RoundRequest>),
    StopRound,
    StartTool { call: usize, arguments: Value },
    StopTools,
    SaidNothing,
    NotRun { call: usize, why: NotRun },
    StartTimer(Duration),
}
